"""Which sequences a rule flags, and at which turn: a pattern of the language, or a detector by its name.

A pattern is asked of the mirror. A detector runs over all trajectories of the run, which can take a while: in a
thread of its own, whose progress can be asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from turnwise.detectors import load_detector
from turnwise.errors import DetectorError, PatternError, TurnwiseError, UnknownNameError
from turnwise.explorer.data.record import Record
from turnwise.runs import detect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RULE: Final = "F >= 0.7"
"""What flags a sequence where nothing else is asked and the run has no threshold of its own."""

_Key = tuple[str, str, str, int]
"""Run, rule, when it has to hold, and row number of the last score."""

_KEPT = 8
"""Answers that are kept for the next page of a table."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What a rule flags in a run: row numbers of sequences, and of each the first flagged turn.

    `done` sequences of `of` are judged so far.
    """

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

    def __init__(self, record: Record) -> None:
        self._record = record
        self._kept: OrderedDict[_Key, Flags] = OrderedDict()
        self._running: dict[tuple[str, str], _Judging] = {}
        self._lock = threading.Lock()

    def flags(self, run: str, rule: str, when: str = "ever") -> Flags:
        """What a rule flags in a run; of a detector that is still at work, what it has found so far.

        A detector goes over a run once at a time: where the record grew meanwhile, it begins anew after its end.
        A pattern has to hold at some turn ("ever") or at the last evaluated one ("final"). The error for what is
        neither pattern nor detector is about the pattern, and points at the place.
        """
        newest = self._record.newest_evaluation()
        key = run, rule, when, newest
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if not is_detector(rule):
            result = self._record.store.query(rule, run, when=when, patterns=self._record.library())
            return self._keep(key, Flags(*result.first_turns()))
        with self._lock:
            self._running = {
                name: one for name, one in self._running.items() if one.newest == newest or not one.ended
            }
            judging = self._running.pop((run, rule), None) or _Judging(self._record, run, rule, newest)
            ended = judging.ended
            if not ended:
                self._running[run, rule] = judging
        found = judging.found()
        return self._keep((run, rule, when, judging.newest), found) if ended else found

    def _keep(self, key: _Key, found: Flags) -> Flags:
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


def rule_of(record: Record, run: str) -> str:
    """The rule that flags a sequence of a run by default: the run's threshold for single turns, or `RULE`."""
    threshold = record.store.run(run).operating_points.get("any_turn")
    return RULE if threshold is None else f"F >= {threshold:.4g}"


def is_detector(rule: str) -> bool:
    """Whether a rule names a detector that there is, rather than a pattern.

    >>> is_detector("cusum"), is_detector("cusum:drift=0.05"), is_detector("F > 0.5"), is_detector("gradual_drift")
    (True, True, False, False)
    """
    name = rule.partition(":")[0].strip()
    if not name.replace("_", "").isalnum():
        return False
    try:
        load_detector(rule)
    except (UnknownNameError, PatternError):
        return False
    except DetectorError:
        return True  # a detector with a value that does not fit: its error is the one to tell
    return True


class _Judging:
    """A detector at work on all trajectories of a run; `newest` is the last score when it began."""

    def __init__(self, record: Record, run: str, rule: str, newest: int) -> None:
        self._record, self._run, self._rule = record, run, rule
        self.newest = newest
        self._turns: dict[str, int] = {}
        self._done = 0
        self.ended = False
        self._error: TurnwiseError | None = None
        self._of = record.scored_sequences(run)
        self._thread = threading.Thread(target=self._judge, name=f"turnwise {rule}", daemon=True)
        self._thread.start()
        self._thread.join(0.2)  # a small store is judged before anybody has to wait

    def found(self) -> Flags:
        """What was found so far."""
        if self._error is not None:
            raise self._error
        ended, done, turns = self.ended, self._done, dict(self._turns)
        sequences, first = self._record.numbered(turns)
        return Flags(sequences, first, self._of if ended else min(done, self._of - 1), self._of)

    def _judge(self) -> None:
        try:
            for one in detect(self._record.store, self._run, [self._rule]):
                self._done += 1
                if one.verdict is not None and one.verdict.fired and one.verdict.turn is not None:
                    self._turns[one.head.sequence_id] = one.verdict.turn
        except TurnwiseError as error:
            self._error = error
        finally:
            self.ended = True
