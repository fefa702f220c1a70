"""``harm``: requests for what hurts others, by the embedded observer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from turnwise.guard.guardrail import CLEAN, Check, Cost, Finding, Guardrail, On
from turnwise.guard.guardrails.levels import Levels, levels_of
from turnwise.guard.guardrails.single_turn import judge, read_text, single_turn_scorer
from turnwise.guard.observing import Scorer

PRINCIPLE = "third_party_harm"


@dataclass(frozen=True)
class Harm(Guardrail):
    """Requests for what hurts others: F of third_party_harm of the text alone, from the embedded observer.

    It reads texts as prompts. On what models answer it cries wolf about ten times as often, so it looks at inputs
    unless it is told otherwise; docs/guardrails.md has the figures.

    Args:
        observer: ``"local"``, or another observer; then both levels must be given.
        warn_above: F above which it warns, in [0, 1]; None for the level set for the shipped weights.
        block_above: F above which it finds in full; None likewise.

    Raises:
        GuardError: a level that can't be.
        ObserverError: the observer can't be built.
    """

    observer: str = "local"
    warn_above: float | None = None
    block_above: float | None = None
    _levels: Levels = field(init=False, repr=False, compare=False)
    _scorer: Scorer = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.MODEL
    default_on: ClassVar[On] = On.INPUT
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scorer", single_turn_scorer(self.observer, PRINCIPLE))
        levels = levels_of("harm", self.observer, self.warn_above, self.block_above)
        object.__setattr__(self, "_levels", levels)

    @property
    def waits(self) -> bool:
        """Whether the observer asks a language model."""
        return self._scorer.waits

    def check(self, check: Check) -> Finding:
        """Return what F of the text says."""
        score = read_text(check, self._scorer).scores.get(PRINCIPLE)
        return CLEAN if score is None else judge(score.F, self._levels, "harm to others")
