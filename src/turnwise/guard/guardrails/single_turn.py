"""One text by itself, as an observer sees it."""

from __future__ import annotations

from turnwise.conversation import Side, Turn
from turnwise.guard.guardrail import CLEAN, Action, Check, Finding
from turnwise.guard.guardrails.levels import Levels
from turnwise.guard.observing import Scorer, SideScores, shared_observer


def single_turn_scorer(observer: str, principle: str) -> Scorer:
    """Return a scorer of single texts.

    Args:
        observer: specification of the observer.
        principle: what the text is judged against.

    Raises:
        TurnwiseError: as for `Scorer`.
    """
    # One with principles of its own gives all their scores at once, so that guardrails can share them.
    own = shared_observer(observer).info.principles
    return Scorer(observer, "turn", own or [principle])


def read_text(check: Check, scorer: Scorer, side: Side = Side.PROMPT) -> SideScores:
    """Return the scores of the text under check without the turns before, asked for once in a check.

    Args:
        check: the text.
        scorer: a scorer in context ``turn``.
        side: as what the text is read: a prompt by itself, whoever wrote it, or the reply to its turn's prompt.

    Raises:
        ObserverError: nothing could be scored.
    """
    prompt = check.turn.prompt if side is Side.RESPONSE else check.text
    turn = Turn(1, prompt, check.text if side is Side.RESPONSE else None)

    def compute() -> SideScores:
        return scorer.score_after((), turn, side, check.session_id)

    # The texts are in the key: a guardrail in between may have redacted one.
    return check.once(
        ("scores", scorer.spec, scorer.context, scorer.principles, side, turn.prompt, check.text), compute
    )


def judge(falsity: float, levels: Levels, what: str) -> Finding:
    """Return the finding that a falsity deserves.

    Args:
        falsity: F, in [0, 1].
        levels: where to warn and where to find in full.
        what: what an F above the level speaks for, for the reason.

    >>> judge(0.7, Levels(0.5, 0.9), "harm to others").action.value
    'warn'
    """
    if falsity > levels.block:
        return Finding(True, f"{what}: F {falsity:.2f} above {levels.block:.2f}", falsity)
    if falsity > levels.warn:
        return Finding(
            True, f"perhaps {what}: F {falsity:.2f} above {levels.warn:.2f}", falsity, action=Action.WARN
        )
    return Finding(False, confidence=falsity) if falsity else CLEAN
