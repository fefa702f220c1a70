"""Guardrails that judge a text by one score of an observer: that score, and where they warn and block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Action, Check, Finding
from turnwise.guard.scorer import Scorer, SideScores, shared_observer

LEVELS_FILE = "levels.yaml"


@dataclass(frozen=True, slots=True)
class Levels:
    """Where a guardrail warns and where it blocks: above these F, in [0, 1], `warn` the lower one.

    >>> Levels(0.5, 0.4)
    Traceback (most recent call last):
        ...
    turnwise.errors.GuardError: warn_above is 0.5 and block_above 0.4; both are in [0, 1], warn_above the lower one
    """

    warn: float
    block: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.warn <= self.block <= 1.0:
            raise GuardError(
                f"warn_above is {self.warn:g} and block_above {self.block:g}; both are in [0, 1], warn_above the "
                "lower one"
            )


@cache
def shipped_levels() -> Mapping[str, Any]:
    """The levels that ship, by guardrail and by the side as which texts are read, and what they were set for.

    Written by ``benchmarks/guard_models.py --calibrate --write``.
    """
    import yaml

    text = resources.files("turnwise.guard.guardrails").joinpath(LEVELS_FILE).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.safe_load(text)
    return data


def levels_of(
    name: str, observer: str, warn_above: float | None, block_above: float | None, side: Side = Side.PROMPT
) -> Levels:
    """The levels that were set, and the shipped ones for those that were not; these fit one observer only."""
    known = shipped_levels()
    if (warn_above is None or block_above is None) and observer != known["observer"]:
        raise GuardError(
            f"{name}: the shipped levels were set for observer {known['observer']}, not for {observer}; give "
            "warn_above and block_above, set on your own traffic"
        )
    shipped = known["levels"][name][str(side)] if observer == known["observer"] else {}
    return Levels(
        warn=shipped["warn"] if warn_above is None else warn_above,
        block=shipped["block"] if block_above is None else block_above,
    )


def single_turn_scorer(observer: str, principle: str) -> Scorer:
    """A scorer of single texts."""
    # One with principles of its own gives all their scores at once, so that guardrails can share them.
    own = shared_observer(observer).info.principles
    return Scorer(observer, "turn", own or [principle])


def read_text(check: Check, scorer: Scorer, side: Side = Side.PROMPT) -> SideScores:
    """The scores of the text under check without the turns before, asked for once in a check.

    It is read as a prompt by itself, whoever wrote it, or as the reply to its turn's prompt.
    """
    prompt = check.turn.prompt if side is Side.RESPONSE else check.text
    # The texts are in the key: a guardrail in between may have redacted one.
    key = ("scores", scorer.spec, scorer.context, scorer.principles, side, prompt, check.text)
    scores: SideScores | None = check.shared.get(key)
    if scores is None:
        turn = Turn(1, prompt, check.text if side is Side.RESPONSE else None)
        scores = check.shared[key] = scorer.score_after((), turn, side, check.session_id)
    return scores


def judge(value: float, levels: Levels, what: str, of: str = "F") -> Finding:
    """The finding that a falsity or a probability, in [0, 1], deserves; `what` and `of` are for its reason.

    >>> judge(0.7, Levels(0.5, 0.9), "harm to others").action.value
    'warn'
    """
    if value > levels.block:
        return Finding(True, f"{what}: {of} {value:.2f} above {levels.block:.2f}", value)
    if value > levels.warn:
        reason = f"perhaps {what}: {of} {value:.2f} above {levels.warn:.2f}"
        return Finding(True, reason, value, action=Action.WARN)
    return Finding(False, confidence=value) if value else CLEAN
