"""What a second look came to in a scan: whom the judge confirmed, whom the screen alone flags, and its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from turnwise.findings import SCORES, Findings
from turnwise.observers.second_look import SAMPLED
from turnwise.store.findings.files import FoundFiles

_FLAGGED = """
    SELECT any_value(sequence), any_value(flag_turn), max(F) FILTER (judged), max(F) FILTER (NOT judged),
        arg_max(coalesce(unanswered, 'not asked'), F) FILTER (NOT judged)
    FROM (SELECT *, judge_F IS NOT NULL AND asked <> '{sampled}' AS judged FROM {scores})
    WHERE fired AND turn <= flag_turn GROUP BY key ORDER BY key
"""
"""Of each flagged conversation: its id, where, and the highest F until then, the judge's and, where no score of
the judge decides, the screen's, with the reason why."""


@dataclass(frozen=True, slots=True)
class Flagged:
    """A conversation that a detector flagged.

    Args:
        sequence: its id.
        turn: the turn at which it was flagged.
        F: the highest F up to that turn.
        why: why it is the screen's: ``not asked``, ``budget``, or another reason of a failure; None where it is
            the judge's.
    """

    sequence: str
    turn: int
    F: float
    why: str | None = None


@dataclass(frozen=True, slots=True)
class SecondLooks:
    """What a second look came to.

    Args:
        turns: turns that the screen read.
        asked: those that the judge was asked about.
        unanswered: those of them without a score of it, by the reason.
        confirmed: flagged conversations whose highest F up to the flag is the judge's; the highest first.
        screen_alone: the other flagged ones, whose highest F is the screen's; likewise.
        replies: what was paid for, as in the manifest.
    """

    turns: int
    asked: int
    unanswered: Mapping[str, int]
    confirmed: tuple[Flagged, ...] = field(repr=False)
    screen_alone: tuple[Flagged, ...] = field(repr=False)
    replies: Mapping[str, float]

    @property
    def answered(self) -> int:
        """Turns of which the judge gave every score that was wanted."""
        return self.asked - sum(self.unanswered.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "answered": self.answered}


def second_looks(findings: Findings) -> SecondLooks | None:
    """Return what a second look came to; None where the scan had none.

    Args:
        findings: of the scan; where it is not complete, the parts that are done count.

    Raises:
        StoreCorruptError: the findings are damaged.
    """
    manifest = findings.manifest
    if not manifest.has_stages:
        return None
    files = FoundFiles(str(findings.folder))
    confirmed, alone = [], []
    for name, turn, judge, screen, why in files.read(_FLAGGED.format(sampled=SAMPLED, scores=files.table(SCORES))):
        if judge is not None and (screen is None or judge >= screen):
            confirmed.append(Flagged(name, turn, judge))
        else:
            alone.append(Flagged(name, turn, screen, why))
    totals = manifest.totals
    return SecondLooks(
        totals.turns,
        totals.asked,
        totals.unanswered,
        tuple(sorted(confirmed, key=lambda one: -one.F)),
        tuple(sorted(alone, key=lambda one: -one.F)),
        manifest.replies,
    )
