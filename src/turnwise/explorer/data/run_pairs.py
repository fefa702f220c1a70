"""Two arms side by side as the page shows them: their verdicts, kept, and their rates at any thresholds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from turnwise.explorer.data.arm_scores import ArmScores
from turnwise.runs.flips import ArmVerdicts, Compared, Thresholds, arm_verdicts, compare_arms

if TYPE_CHECKING:
    from turnwise.explorer.data.record import Record
    from turnwise.rates import Rate

_KEPT: Final = 8
"""Arms whose verdicts are kept."""


@dataclass(frozen=True, slots=True)
class AtThresholds:
    """What two arms flag at some thresholds: how many each alone, and of each recall and false alarms."""

    a_alone: int
    b_alone: int
    rates: tuple[tuple[Rate, Rate], tuple[Rate, Rate]]


class RunPair:
    """Two compared arms, with the scores of labelled conversations ready for any threshold."""

    def __init__(self, compared: Compared) -> None:
        import numpy as np

        self.compared = compared
        labels = compared.facts["label"]
        known = (labels == "attack") | (labels == "benign")
        self.labelled = int(known.sum())

        def scores(arm: ArmVerdicts) -> ArmScores:
            mine = arm.only(known)
            rows = {
                "sequence": compared.facts["sequence_id"][known],
                "source": compared.facts["source"][known],
                "attack": labels[known] == "attack",
                "score": mine.scores,
                "threshold": np.full(len(mine.scores), arm.detector.threshold),
                "fired": mine.fired,
                "turn": np.full(len(mine.scores), np.nan),
            }
            return ArmScores(arm.name, rows)

        self.scores = scores(compared.a), scores(compared.b)

    def at(self, thresholds: Thresholds) -> AtThresholds:
        """What both flag; a threshold of None is an arm's own."""
        a, b = self.compared.flagged(thresholds)
        first, second = (
            one.rates(one.own if threshold is None else threshold)
            for one, threshold in zip(self.scores, thresholds, strict=True)
        )
        return AtThresholds(int((a & ~b).sum()), int((b & ~a).sum()), (first, second))


class RunPairs:
    """Lays arms beside each other, and keeps the verdicts of an arm as long as the record does not grow."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._kept: OrderedDict[tuple[object, ...], ArmVerdicts] = OrderedDict()
        self._lock = Lock()

    def arm(self, run: str, detector: str) -> ArmVerdicts:
        """The verdicts of a detector on a run; where it is not named, of the first that judges the run."""
        key = run, detector, self._record.store.source.newest()
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = arm_verdicts(self._record.store, run, detector or None, self._record.library())
        with self._lock:
            self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def pair(self, a: tuple[str, str], b: tuple[str, str], corrected: bool) -> RunPair:
        """Two arms, each a run and a detector, by the labels of the data sets or as people corrected them."""
        people = self._record.store.people.authors() if corrected else ()
        return RunPair(compare_arms(self._record.store, self.arm(*a), self.arm(*b), people))
