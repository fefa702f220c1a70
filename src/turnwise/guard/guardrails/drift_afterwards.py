"""The second look of ``drift`` afterwards: a check ends at once, and the judge's answer corrects it later.

What a question keeps with its speaker is JSON, under ``later`` of `Speaker.asking`: ``from`` is the detector's
state before the first open turn; ``turns`` has number, length, scores and whether the detector fired, of that turn
and those after it; ``open`` has the open turns, each with the turn at whose check it was last asked about.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any, Final
from weakref import WeakKeyDictionary

from turnwise.conversation import Conversation
from turnwise.conversation.turn import GUARD_KEY
from turnwise.detectors import Detector, Signal, State
from turnwise.errors import TurnwiseError
from turnwise.guard.scorer import SideScores
from turnwise.guard.threads import TookTooLongError, Workers
from turnwise.guard.turn_checks import drift_in, readable_checks
from turnwise.guard.validation import INITIATOR
from turnwise.scoring import Score, TurnScores, from_triples, to_triples

LATER: Final = "later"
"""The path of a second look that was not waited for, and the key under which its speaker keeps it."""

AFTERWARDS: Final = "afterwards"
"""The path of a second look that came after its check had ended."""

KEPT: Final = 16
"""Turns of a speaker over which an answer may be late; then the question is given up."""

_WORKERS: Final = Workers[None]()
_LOG = logging.getLogger("turnwise.guard")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the judge said of a turn; `trouble` is why it said nothing."""

    scores: Mapping[str, Score] = field(default_factory=dict)
    trouble: str = ""

    @classmethod
    def of(cls, call: Callable[[], SideScores]) -> Answer:
        """Ask, and take whatever goes wrong for an answer."""
        try:
            said = call()
        except Exception as error:  # noqa: BLE001 - a judge may be foreign code, and nobody waits for it here
            trouble = str(error) if isinstance(error, TurnwiseError) else f"{type(error).__name__}: {error}"
            return cls(trouble=trouble)
        if said.unread is not None or not said.scores:
            return cls(trouble="it has nothing to say of the text")
        return cls(dict(said.scores))

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return to_triples(self.scores)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """Read what `to_dict` gave."""
        return cls(from_triples(data))


Arrived = Callable[[Answer, float], None]
"""Takes an answer, and the seconds that it took."""


class Answers:
    """Questions under way in this process, and their answers until the speaker's next check takes them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known = WeakKeyDictionary[Conversation, dict[str, Answer | None]]()
        self._open: dict[object, Callable[[Answer], None]] = {}

    def ask(self, conversation: Conversation, key: str, call: Callable[[], SideScores], arrived: Arrived) -> None:
        """Ask in a thread of its own; a question that is under way is not asked twice.

        `arrived` is called in that thread, or by `close`, but once.
        """
        ticket, told = object(), partial(self._arrive, conversation, key, arrived, perf_counter())
        with self._lock:
            known = self._known.setdefault(conversation, {})
            if key in known:
                return
            known[key] = None
            self._open[ticket] = told
        try:
            _WORKERS.begin(lambda: self._end(ticket, Answer.of(call)))
        except TookTooLongError as error:
            self._end(ticket, Answer(trouble=str(error)))

    def asked(self, conversation: Conversation, key: str) -> bool:
        """Whether a question is under way here, or answered."""
        return key in self._known.get(conversation, {})

    def take(self, conversation: Conversation, key: str) -> Answer | None:
        """The answer to a question, which is then let go of; None where there is none yet."""
        with self._lock:
            known = self._known.get(conversation, {})
            answer = known.get(key)
            if answer is not None:
                del known[key]
            return answer

    def drop(self, conversation: Conversation, key: str) -> None:
        """Let go of a question; its answer still arrives."""
        with self._lock:
            self._known.get(conversation, {}).pop(key, None)

    def close(self) -> None:
        """Take every question that is under way for unanswered."""
        with self._lock:
            tickets = [*self._open]
        for ticket in tickets:
            self._end(ticket, Answer(trouble="the guard was closed before it answered"))

    def _end(self, ticket: object, answer: Answer) -> None:
        with self._lock:
            arrived = self._open.pop(ticket, None)
        if arrived is not None:
            arrived(answer)

    def _arrive(
        self, conversation: Conversation, key: str, arrived: Arrived, start: float, answer: Answer
    ) -> None:
        try:
            arrived(answer, perf_counter() - start)
        except Exception:  # noqa: BLE001 - an audit, a state store, or a callback that is foreign code
            # The next check corrects what it can.
            _LOG.exception("a second look was answered, and could not be told")
        with self._lock:
            known = self._known.get(conversation, {})
            if key in known:
                known[key] = answer


def opened(asking: dict[str, Any], number: int, detected: State) -> None:
    """Keep a turn open, which the detector has not seen yet."""
    trail = asking.setdefault(LATER, {"from": copy.deepcopy(detected), "turns": [], "open": {}})
    trail["open"][str(number)] = number


def noted(asking: dict[str, Any], told: TurnScores, *, fired: bool) -> None:
    """Note what the detector was told of a turn, while any is open."""
    if (trail := asking.get(LATER)) is not None:
        trail["turns"].append([told.turn, told.length, to_triples(told.scores), fired])


@dataclass(frozen=True, slots=True)
class Late:
    """An answer that came after the check of its turn; `fires` says whether the turn would have been blocked."""

    number: int
    answer: Answer
    fires: bool


class Trail:
    """The turns of a speaker from the first open one on."""

    def __init__(self, asking: dict[str, Any], detector: Detector) -> None:
        self._asking = asking
        self._detector = detector
        self._kept: dict[str, Any] = asking.get(LATER) or {"from": {}, "turns": [], "open": {}}

    @property
    def open(self) -> dict[int, int]:
        """The open turns, oldest first, and the turn at whose check each was last asked about."""
        return {int(number): asked for number, asked in self._kept["open"].items()}

    @property
    def overdue(self) -> list[int]:
        """Open turns that are too far back by now."""
        numbers = [turn[0] for turn in self._kept["turns"]]
        return [number for number in self.open if number in numbers[: max(0, len(numbers) + 1 - KEPT)]]

    def ask_again(self, number: int, at: int) -> None:
        """Note that a turn is asked about once more."""
        self._kept["open"][str(number)] = at

    def told(self, number: int) -> TurnScores:
        """What the detector was told of a turn."""
        return next(_told(turn) for turn in self._kept["turns"] if turn[0] == number)

    def before(self, number: int) -> State:
        """The detector's state before a turn."""
        state: State = copy.deepcopy(self._kept["from"])
        for turn in self._kept["turns"]:
            if turn[0] == number:
                break
            state, _ = advanced(self._detector, state, _told(turn))
        return state

    def close(self, number: int) -> None:
        """Leave a turn as it is."""
        self._kept["open"].pop(str(number), None)

    def correct(self, number: int, answer: Answer) -> None:
        """Give a turn the judge's scores; a principle of which the judge says nothing keeps the screen's."""
        for turn in self._kept["turns"]:
            if turn[0] == number:
                turn[2] = {**turn[2], **answer.to_dict()}
        self.close(number)

    def replayed(self, corrected: Mapping[int, Answer]) -> tuple[State, list[Late]]:
        """The detector's state after all turns as they stand now, and what became of those just corrected."""
        state, late = copy.deepcopy(self._kept["from"]), []
        for turn in self._kept["turns"]:
            state, signal = advanced(self._detector, state, _told(turn))
            if turn[0] in corrected:
                late.append(Late(turn[0], corrected[turn[0]], signal.active and not turn[3]))
            turn[3] = signal.active
        return state, late

    def shorten(self) -> None:
        """Let go of the turns before the first open one."""
        if not self._kept["open"]:
            self._asking.pop(LATER, None)
            return
        first = min(self.open)
        while self._kept["turns"] and self._kept["turns"][0][0] < first:
            turn = self._kept["turns"].pop(0)
            self._kept["from"], _ = advanced(self._detector, self._kept["from"], _told(turn))


def advanced(detector: Detector, state: State, told: TurnScores) -> tuple[State, Signal]:
    """The detector's state after one more turn, and what it says there; it starts afresh after it fired."""
    signal = detector.update(state, told)
    return detector.start() if signal.active else state, signal


def _told(turn: list[Any]) -> TurnScores:
    number, length, triples, _ = turn
    return TurnScores(number, from_triples(triples), length)


def correct_turn(conversation: Conversation, name: str, trajectory: str, late: Late) -> None:
    """Let a turn keep the judge's scores in place of the screen's, where it still has its check."""
    conversation.history.annotate(late.number, GUARD_KEY, partial(_with_answer, late, name, trajectory))


def _with_answer(late: Late, name: str, trajectory: str, before: object) -> object:
    checks = readable_checks(before, late.number)
    if checks is None:
        return before
    side = "input" if trajectory == INITIATOR else "output"
    record = checks.input if side == "input" else checks.output
    if record is None or name not in record.names:
        return before
    at = record.names.index(name)
    data = drift_in(record.verdicts[at], f"turn {late.number}: {GUARD_KEY}.{side}.details.{name}.data")
    if data is None or data.second_look is None:
        return before
    scores = {principle: Score(**triple) for principle, triple in data.scores.items()} | dict(late.answer.scores)
    path = LATER if late.answer.trouble else AFTERWARDS
    look = {**data.second_look, "path": path, "trouble": late.answer.trouble}
    data = replace(data, active=data.active or late.fires, second_look=look).with_scores(scores)
    verdicts = [*record.verdicts]
    verdicts[at] = replace(verdicts[at], data=data)
    changed: dict[str, Any] = {side: replace(record, verdicts=tuple(verdicts))}
    return replace(checks, **changed)
