"""``harm``: requests and replies that would hurt others, by the embedded observer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from turnwise.conversation import Side
from turnwise.guard.finding import CLEAN, Cost, Finding, IfUnread, On, not_read
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.scorer import Levels, Scorer, judge, levels_of, read_text, single_turn_scorer

PRINCIPLE = "third_party_harm"


@dataclass(frozen=True)
class Harm(Guardrail):
    """What hurts others: F of third_party_harm, from the embedded observer, without the turns before.

    A prompt is read by itself, a reply after its prompt: what counts there is whether it carries the harm on. Each
    side has levels of its own; docs/guardrails.md has the figures.

    Args:
        observer: ``"local"``, or another observer; then both levels must be given.
        warn_above: F above which it warns, in [0, 1], on either side; None for the levels of the shipped weights.
        block_above: F above which it finds in full; None likewise.
        unread: what becomes of a text in a language that the observer does not read: ``allow``, ``block`` or
            ``warn``.

    Raises:
        GuardError: a level that can't be.
        ObserverError: the observer can't be built.
    """

    observer: str = "local"
    warn_above: float | None = None
    block_above: float | None = None
    unread: IfUnread = "allow"
    _levels: Mapping[Side, Levels] = field(init=False, repr=False, compare=False)
    _scorer: Scorer = field(init=False, repr=False, compare=False)

    counts_against: ClassVar[bool] = True
    cost: ClassVar[Cost] = Cost.MODEL
    default_on: ClassVar[On | tuple[On, ...]] = On.INPUT
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scorer", single_turn_scorer(self.observer, PRINCIPLE))
        given = self.observer, self.warn_above, self.block_above
        object.__setattr__(self, "_levels", {side: levels_of("harm", *given, side) for side in Side})

    @property
    def waits(self) -> bool:
        return self._scorer.waits

    def check(self, check: Check) -> Finding:
        read = read_text(check, self._scorer, check.side)
        if read.unread is not None:
            return not_read(read.unread, self.unread)
        score = read.score(PRINCIPLE)
        return CLEAN if score is None else judge(score.F, self._levels[check.side], "harm to others")
