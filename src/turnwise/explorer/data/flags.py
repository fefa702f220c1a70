"""Which sequences a rule flags, and at which turn: a pattern of the language, or detectors by their names.

A pattern is asked of the mirror. What detectors flag is kept from one start to the next. Where scores were added
they judge in a thread of their own, whose progress can be asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.detectors import NamedDetector, load_detector
from turnwise.errors import DetectorError, PatternError, TurnwiseError, UnknownNameError
from turnwise.explorer.data.record import ViewedStore
from turnwise.runs import Flagged, flagged, judges_of

_OR = " or "
"""Between the detectors of a rule."""

_Key = tuple[str, str, str, int]
"""Run, rule, when it has to hold, and row number of the last score."""

_KEPT = 8
"""Answers that are kept for the next page of a table."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What a rule flags, `done` of `of` being judged: row numbers of sequences, their first flagged turns."""

    sequences: NDArray[np.int64]
    turns: NDArray[np.int64]
    done: int = 1
    of: int = 1

    @property
    def complete(self) -> bool:
        """Whether all were judged."""
        return self.done >= self.of


class Flagging:
    """Answers which sequences rules flag, and keeps the answers as long as the record does not grow."""

    def __init__(self, record: ViewedStore) -> None:
        self._record = record
        self._kept: OrderedDict[_Key, Flags] = OrderedDict()
        self._lock = threading.Lock()
        self._judging: dict[tuple[str, str], _DetectorRun] = {}

    def flags(self, run: str, rule: str, when: str = "ever") -> Flags:
        """What a rule flags in a run; of detectors that have not judged all yet, what they have found so far.

        A pattern has to hold at some turn ("ever") or at the last evaluated one ("final"). The error for what is
        neither pattern nor detector is about the pattern, and points at the place.
        """
        key = run, rule, when, self._record.newest().evaluations
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if not is_detector(rule):
            result = self._record.query(rule, run, when)
            return self._keep(key, Flags(*result.first_turns()))
        found = self._judged(run, rule)
        if not found.complete:
            with self._lock:
                judging = self._judging.get((run, rule)) or _DetectorRun(self._record, run, rule)
                self._judging[run, rule] = judging
            judging.join(0.2)  # a small store is judged before anybody has to wait
            if not judging.is_alive():
                with self._lock:
                    self._judging.pop((run, rule), None)
                if judging.error is not None:
                    raise judging.error
            found = self._judged(run, rule)
        return self._keep(key, found) if found.complete else found

    def _judged(self, run: str, rule: str) -> Flags:
        """What is known so far of what the detectors of a rule flag."""
        judged, of = judge(self._record, run, rule, 0.0), self._record.scored_sequences(run)
        first = judged.first()
        turns = np.fromiter((flag.turn for _, flag in first.values()), np.int64, len(first))
        return Flags(np.fromiter(first, np.int64, len(first)), turns, of - judged.pending, of)

    def _keep(self, key: _Key, found: Flags) -> Flags:
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


class _DetectorRun(threading.Thread):
    """Detectors at work on what they have not judged of a run."""

    def __init__(self, record: ViewedStore, run: str, rule: str) -> None:
        super().__init__(name=f"turnwise {rule}", daemon=True)
        self._job = record, run, rule
        self.error: TurnwiseError | None = None
        self.start()

    def run(self) -> None:
        """Judge until all is judged."""
        try:
            judge(*self._job)
        except TurnwiseError as error:
            self.error = error


def judge(record: ViewedStore, run: str, rule: str, seconds: float | None = None) -> Flagged:
    """What the detectors of a rule flag in a run."""
    return flagged(record.store, run, _named(record, run, rule), seconds=seconds)


def _named(record: ViewedStore, run: str, rule: str) -> list[str]:
    """The detectors of a rule; none for the run's own, whose thresholds a scan may have set."""
    return [] if rule == rule_of(record, run) else rule.split(_OR)


def rule_judges(record: ViewedStore, run: str, rule: str) -> list[NamedDetector]:
    """The detectors of a rule with their thresholds in a run."""
    return judges_of(record.store, run, _named(record, run, rule))


def rule_of(record: ViewedStore, run: str) -> str:
    """The rule that flags a sequence of a run by default: the detectors that judge the run everywhere."""
    return _OR.join(one.spec for one in judges_of(record.store, run))


def is_detector(rule: str) -> bool:
    """Whether a rule names detectors that there are, rather than a pattern.

    >>> is_detector("cusum"), is_detector("any_turn or cusum:drift=0.05"), is_detector("F > 0.5 or gradual_drift")
    (True, True, False)
    """
    return all(map(_is_detector, rule.split(_OR)))


def _is_detector(spec: str) -> bool:
    name = spec.partition(":")[0].strip()
    if not name.replace("_", "").isalnum():
        return False
    try:
        load_detector(spec)
    except (UnknownNameError, PatternError):
        return False
    except DetectorError:
        return True  # a detector with a value that does not fit: its error is the one to tell
    return True
