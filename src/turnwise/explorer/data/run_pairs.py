"""Two runs side by side as the page asks for them: verdicts are kept as long as the record does not grow."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from turnwise.runs.flips import ArmVerdicts, Compared, arm_verdicts, compare_arms

if TYPE_CHECKING:
    from turnwise.explorer.data.record import Record

_KEPT: Final = 8
"""Arms whose verdicts are kept."""


class RunPairs:
    """Lays arms beside each other."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._kept: OrderedDict[tuple[object, ...], ArmVerdicts] = OrderedDict()
        self._lock = Lock()

    def pair(self, a: tuple[str, str], b: tuple[str, str], corrected: bool) -> Compared:
        """Two arms, each a run and a detector, by the labels of the data sets or as people corrected them.

        Where a detector is not named, it is the first that judges the run.
        """
        people = self._record.store.people.authors() if corrected else ()
        return compare_arms(self._record.store, self._arm(*a), self._arm(*b), people)

    def _arm(self, run: str, detector: str) -> ArmVerdicts:
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
