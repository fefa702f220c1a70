"""The second look of ``drift``: a judge is asked about texts that the observer, as a screen, points at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from turnwise.conversation import Side, Turn
from turnwise.deadline import current_deadline
from turnwise.errors import GuardError, ObserverError
from turnwise.guard.scorer import Scorer, SideScores
from turnwise.guard.threads import TookTooLongError, Workers
from turnwise.observers.second_look import ASK_ABOVE, ask_above
from turnwise.patterns import Evaluator, parse
from turnwise.scoring import TurnScores

Unanswered = Literal["screen", "hold", "block"]
"""What becomes of a text that the judge was to be asked about and gave no score of."""

_WORKERS: Final = Workers[SideScores]()


@dataclass(frozen=True, slots=True)
class Look:
    """What a second look came to.

    Args:
        judge: specification of the judge.
        why: why it was asked.
        path: what counts: ``judge`` where it answered, else what is done about its silence.
        trouble: why it gave no score; empty where it did.
        screen: T, I and F of each principle by the screen.
    """

    judge: str
    why: str
    path: str
    trouble: str = ""
    screen: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "judge": self.judge,
            "why": self.why,
            "path": self.path,
            "trouble": self.trouble,
            "screen": {name: dict(zip("TIF", triple, strict=True)) for name, triple in self.screen.items()},
        }

    def __str__(self) -> str:
        told = (
            f"no second look of {self.judge} ({self.trouble})" if self.trouble else f"second look of {self.judge}"
        )
        return f"{told}: {self.why}"


@dataclass(frozen=True, slots=True)
class SecondLook:
    """Asks a judge where a pattern over the screen's trajectory holds.

    Args:
        screen: what reads every text.
        judge: what is asked.
        rule: the pattern.
        wait: seconds that an answer may take.
        unanswered: what counts without one.
        most: texts of a speaker that are asked about; None for no limit.
    """

    screen: Scorer
    judge: Scorer
    rule: Evaluator
    wait: float
    unanswered: Unanswered
    most: int | None

    @classmethod
    def of(
        cls, screen: Scorer, judge: str, ask: str | None, wait: float, unanswered: Unanswered, most: int | None
    ) -> SecondLook:
        """Make one of the settings of the guardrail; `GuardError` for a value that does not fit."""
        name = screen.info.name
        if ask is None and name not in ASK_ABOVE:
            raise GuardError(f"say where the judge is asked, such as ask: {ask_above(0.2)}; {name} has no default")
        if not wait > 0:
            raise GuardError(f"second_look_wait is {wait:g}; use a number of seconds above 0")
        if most is not None and most < 0:
            raise GuardError(f"second_looks is {most}; use a number of texts, or null for no limit")
        rule = Evaluator(parse(ask or ask_above(ASK_ABOVE[name]), principles=screen.principles))
        if rule.other_runs:
            raise GuardError(f"ask: {ask}: the judge is asked by the screen's own scores, not by those of runs")
        return cls(screen, Scorer(judge, screen.context, screen.principles), rule, wait, unanswered, most)

    def start(self) -> dict[str, Any]:
        """What is kept of a speaker before its first text."""
        return {"rule": self.rule.start(), "asked": 0}

    def listen(self, kept: dict[str, Any], told: TurnScores) -> bool:
        """Take the screen's scores of a text in, and say whether the rule holds there."""
        return self.rule.update(kept["rule"], told).holds

    def look(
        self,
        kept: dict[str, Any],
        told: TurnScores,
        given: SideScores,
        earlier: Sequence[Turn],
        turn: Turn,
        side: Side,
    ) -> tuple[SideScores, Look | None]:
        """Ask the judge where the screen points at a text, and return the scores that count.

        Args:
            kept: what is kept of the speaker; changed in place.
            told: the screen's scores, as patterns read them.
            given: the same, with what could not be scored.
            earlier: the turns before, as the judge hears them.
            turn: the turn, as it is judged.
            side: the half of it that is judged.

        Raises:
            ObserverError: the judge gave no score, and the text is to be held.
        """
        held = self.listen(kept, told)
        if not (held or given.unread or given.failures):
            return given, None
        why = self._why(given, held=held)
        before = {name: (score.T, score.I, score.F) for name, score in given.scores.items()}
        look = Look(self.judge.spec, why, "judge", screen=before)
        if self.most is not None and kept["asked"] >= self.most:
            return self._silent(given, look, f"its {self.most} second looks are used up")
        kept["asked"] += 1
        try:
            answer = _WORKERS.run(
                lambda: self.judge.score_after(earlier, turn, side), self.wait, current_deadline()
            )
        except (TookTooLongError, ObserverError) as error:
            return self._silent(given, look, str(error))
        if answer.unread is not None or not answer.scores:
            return self._silent(given, look, "it has nothing to say of the text")
        if answer.failures:  # of some principles; those keep the screen's score
            answer = replace(answer, scores={**given.scores, **answer.scores})
        return answer, look

    def _why(self, given: SideScores, *, held: bool) -> str:
        if held:
            highest = max((score.F for score in given.scores.values()), default=0.0)
            return f"{self.screen.spec} F {highest:.2f}, asked where {self.rule.expression}"
        return f"{self.screen.spec} does not read {given.unread}" if given.unread else f"{self.screen.spec} failed"

    def _silent(self, given: SideScores, look: Look, trouble: str) -> tuple[SideScores, Look]:
        """What counts where the judge was to be asked and said nothing."""
        if self.unanswered == "hold":
            raise ObserverError(f"no second look of {self.judge.spec}: {trouble}")
        return given, replace(look, path=self.unanswered, trouble=trouble)
