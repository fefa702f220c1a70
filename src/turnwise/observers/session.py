"""Drives an observer: through one conversation turn by turn, or through many at once, with scores in columns.

Runs, single conversations and the guard all go through here, so a fault of an observer means the same in each.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise._support.secret import told
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, UsageError
from turnwise.observers.protocol import (
    CanPark,
    Context,
    ContextMode,
    Given,
    HasStages,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObserverInfo,
    ObservesMany,
    Request,
    Stage,
)
from turnwise.principles import Principle
from turnwise.scoring import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ObservedTurn:
    """What an observer gave for one turn.

    Args:
        turn: number of the turn.
        given: scores, failures and texts that were not read, in the observer's order.
        gaps: what was wanted and the observer had nothing to say about.
    """

    turn: int
    given: tuple[Given, ...] = ()
    gaps: tuple[Request, ...] = ()


class ObserverSession:
    """One observer in one conversation, turn by turn.

    An exception that the observer raises counts as a failure of what was wanted of the turn, and the message names
    the observer. Later turns fail too: the observer's state has not seen the turn, so a later score would rest on
    a history that never was. A live conversation may go on all the same.

    Args:
        observer: what scores.
        context: what it may see.
        conversation_id: id of the conversation.
        goes_on: whether turns after one that raised are scored.

    Raises:
        ObserverError: the observer can't go on at all.

    >>> from turnwise.observers.scripted import ScriptedObserver
    >>> from turnwise.conversation import Side
    >>> from turnwise.principles import load_principle
    >>> session = ObserverSession(ScriptedObserver("0.1,0.9"), Context.parse("history"), "chat")
    >>> session.observe(Turn(1, "Hello")).given
    ()
    >>> wanted = [Request(load_principle("reciprocity"), Side.PROMPT)]
    >>> [one.score.F for one in session.observe(Turn(2, "Now do it"), wanted).given]
    [0.9]
    """

    __slots__ = ("_broken", "_context", "_goes_on", "_observer", "_state")

    def __init__(
        self, observer: Observer, context: Context, conversation_id: str, *, goes_on: bool = False
    ) -> None:
        self._observer = observer
        self._context = context
        self._goes_on = goes_on
        self._broken: str | None = None
        self._state: Any = None
        try:
            self._state = observer.start(conversation_id, context)
        except ObserverError:
            raise
        except Exception as error:  # noqa: BLE001 - an observer is foreign code: what it raises is a failure
            self._broken = f"before turn 1: {told(error)}"
            self._goes_on = False

    def observe(self, turn: Turn, wanted: Collection[Request] = ()) -> ObservedTurn:
        """Take the next turn in, and return the scores that are asked for.

        Raises:
            ObserverError: the observer can't go on, or gave what was not asked for.
        """
        if self._broken is None:
            try:
                # A generator raises in here, not later.
                given = tuple(self._observer.observe(self._state, turn, wanted))
            except ObserverError:
                raise
            except Exception as error:  # noqa: BLE001 - as when it starts
                self._broken = f"at turn {turn.number}: {told(error)}"
            else:
                return ObservedTurn(turn.number, given, self._gaps(turn, wanted, given))
        message = f"{self._named()} failed {self._broken}"
        if self._goes_on:
            self._broken = None
        failures = (
            ObservationFailure(request.principle.name, request.side, "error", message) for request in wanted
        )
        return ObservedTurn(turn.number, tuple(failures))

    def observe_all(
        self, turns: Iterable[Turn], wanted: Mapping[int, Sequence[Request]]
    ) -> tuple[ObservedTurn, ...]:
        """Take turns in up to the last one that is wanted, and return what was given for each wanted one.

        Args:
            turns: the turns, in order.
            wanted: what is wanted, by number of the turn.

        Raises:
            ObserverError: as for `observe`.
        """
        last = max(wanted, default=0)
        observed = (self.observe(turn, wanted.get(turn.number, ())) for turn in turns if turn.number <= last)
        return tuple(one for one in observed if one.turn in wanted)

    def copy(self) -> ObserverSession:
        """Return an independent copy of the session at this turn."""
        other = ObserverSession.__new__(ObserverSession)
        other._observer, other._context = self._observer, self._context
        other._goes_on, other._broken = self._goes_on, self._broken
        own_copy = getattr(self._state, "__deepcopy__", None)
        other._state = copy.deepcopy(self._state) if own_copy is None else own_copy({})
        return other

    def park(self) -> bytes | None:
        """Return the state of the session as bytes, for `resumed`.

        None where the observer's state can't become bytes: then the turns have to be read again to get there.
        """
        if self._broken is not None:
            return None
        if isinstance(self._state, str):
            return b"j" + json.dumps(self._state).encode("ascii")
        to_bytes = getattr(self._state, "to_bytes", None)
        return b"b" + to_bytes() if to_bytes is not None and isinstance(self._observer, CanPark) else None

    @classmethod
    def resumed(
        cls, observer: Observer, context: Context, conversation_id: str, parked: bytes, *, goes_on: bool = False
    ) -> ObserverSession:
        """Return the session whose state `park` gave, maybe in another process.

        Args:
            observer: the same observer, in the same version.
            context: the same context.
            conversation_id: id of the conversation.
            parked: what `park` gave.
            goes_on: as for the constructor.

        Raises:
            ObserverError: the bytes are no such state.
        """
        session = cls(observer, context, conversation_id, goes_on=goes_on)
        kind, data = parked[:1], parked[1:]
        if kind == b"b" and isinstance(observer, CanPark):
            session._state = observer.restore(data)
        elif kind == b"j" and isinstance(session._state, str):
            try:
                session._state = json.loads(data)
            except ValueError as error:
                raise ObserverError(f"no state of observer {observer.info.name!r}: {error}") from error
        else:
            raise ObserverError(f"no state of observer {observer.info.name!r}; start the conversation anew")
        return session

    def _named(self) -> str:
        return f"observer {self._observer.info.name!r}"

    def _gaps(self, turn: Turn, wanted: Collection[Request], given: Sequence[Given]) -> tuple[Request, ...]:
        """What was wanted and not given; raises where anything else was given."""
        missing = {(request.principle.name, request.side): request for request in wanted}
        for item in given:
            if not isinstance(item, Observation | ObservationFailure | NotRead):
                raise ObserverError(f"{self._named()} gave {item!r} at turn {turn.number}, not a score")
            if missing.pop((item.principle, item.side), None) is None:
                raise ObserverError(
                    f"{self._named()} gave a score for {item.principle}, {item.side} at turn {turn.number} "
                    "that was not asked for, or gave it twice; it must give each once"
                )
        return tuple(missing.values())


def check_asked(principles: Iterable[Principle], sides: Collection[Side]) -> None:
    """Check that there is something to score, and that no two scores of a turn would have the same name.

    Args:
        principles: what turns are to be judged against.
        sides: halves of a turn that are to be judged.

    Raises:
        UsageError: no principle, two of the same name, or no side.
    """
    names = [principle.name for principle in principles]
    if not names:
        raise UsageError("no principle to judge against: name at least one")
    if len(set(names)) < len(names):
        raise UsageError(f"two principles have one name: {', '.join(names)}; rename one")
    if not sides:
        raise UsageError("no side to judge: name prompt, response or both")


def check_supported(
    info: ObserverInfo, context: Context, principles: Iterable[Principle], sides: Iterable[Side] = ()
) -> None:
    """Check that an observer can do what is to be asked of it, before anything is scored.

    Args:
        info: what is known of the observer.
        context: what it is to see.
        principles: what turns are to be judged against.
        sides: halves of a turn that are to be judged, all of them.

    Raises:
        UsageError: it does not support the context, or can't score one of the principles.
    """
    if context.mode not in info.contexts:
        known = ", ".join(info.contexts)
        raise UsageError(f"observer {info.name!r} can't score in context {str(context)!r}; use one of {known}")
    for principle in principles:
        if info.principles is not None and principle.name not in info.principles:
            _check_taught(info, info.principles, principle, sides)


def _check_taught(info: ObserverInfo, known: Sequence[str], principle: Principle, sides: Iterable[Side]) -> None:
    """Check that a principle that an observer does not know was taught, on its weights and for these sides."""
    name = principle.name
    teach = "turnwise teach FOLDER --annotations FILE"
    if info.base is None:
        raise UsageError(
            f"observer {info.name!r} can't score principle {name!r}; it scores only {', '.join(known)}"
        )
    if not principle.heads:
        raise UsageError(
            f"observer {info.name!r} can't score principle {name!r}; it scores only {', '.join(known)}, and "
            f"principles of your own once they are taught: {teach}"
        )
    for head in principle.heads:
        if head.base != info.base:
            raise UsageError(
                f"{head.path} was taught on weights {head.base[:12]}, and observer {info.name!r} has "
                f"{info.base[:12]}: teach it again, {teach}"
            )
    for side in sides:
        if principle.head(side) is None:
            raise UsageError(
                f"principle {name!r} was not taught for the side {side}, only for "
                f"{', '.join(one.side for one in principle.heads)}: {teach} --side {side}"
            )


_log = logging.getLogger("turnwise.observers")


class TwoStageReading(NamedTuple):
    """What screen and judge gave for a text, why the judge was asked, and why it gave no score all the same."""

    asked: str | None
    unanswered: str | None
    screen: Score | None
    judge: Score | None

    @classmethod
    def of(cls, stages: Sequence[Stage]) -> TwoStageReading:
        asked = next((stage.asked for stage in stages), "")
        given = {stage.name: stage.given for stage in stages}
        screen, judge = (_score(given.get(name)) for name in ("screen", "judge"))
        unanswered = None if judge is not None or not asked else "no_answer"
        if isinstance(failed := given.get("judge"), ObservationFailure):
            unanswered = failed.reason
        elif isinstance(failed, NotRead):
            unanswered = "not_read"
        return cls(asked or None, unanswered, screen, judge)


def _score(given: object) -> Score | None:
    return given.score if isinstance(given, Observation) else None


@dataclass(frozen=True, slots=True)
class ObservedMany:
    """Scores of several conversations in columns, sorted by conversation, turn and request.

    Args:
        conversation: which conversation a row belongs to, from 0; shape (rows,), int32.
        turn: number of the turn; likewise.
        request: which of the requests it answers, from 0; likewise.
        scores: T, I and F, each in [0, 1]; shape (rows, 3), float64.
        failures: conversation, number of the turn, and what could not be scored.
        unread: likewise what was not read. What is in none of them nor in a row is a gap: there was nothing to
            score.
        looks: what screen and judge made of each row, where the observer has these stages; else None.
    """

    conversation: NDArray[np.int32]
    turn: NDArray[np.int32]
    request: NDArray[np.int32]
    scores: NDArray[np.float64]
    failures: tuple[tuple[int, int, ObservationFailure], ...] = ()
    unread: tuple[tuple[int, int, NotRead], ...] = ()
    looks: tuple[TwoStageReading, ...] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[int, int, int]],
        scores: Sequence[Sequence[float]] | NDArray[np.float64],
        failures: Iterable[tuple[int, int, ObservationFailure]] = (),
        unread: Iterable[tuple[int, int, NotRead]] = (),
        looks: Sequence[TwoStageReading] | None = None,
    ) -> ObservedMany:
        """Bring rows into order.

        Args:
            rows: conversation, turn and request of each score; no two alike.
            scores: T, I and F of each.
            failures: conversation, turn, and what could not be scored.
            unread: conversation, turn, and what was not read.
            looks: what screen and judge made of each.
        """
        import numpy as np

        places = np.array(rows, np.int32).reshape(-1, 3)
        order = np.lexsort((places[:, 2], places[:, 1], places[:, 0]))
        places = places[order]
        values = np.array(scores, np.float64).reshape(-1, 3)[order]
        looked = None if looks is None else tuple(looks[place] for place in order.tolist())
        return cls(places[:, 0], places[:, 1], places[:, 2], values, tuple(failures), tuple(unread), looked)


def observe_conversations(
    observer: Observer,
    conversations: Sequence[Sequence[Turn]],
    context: Context,
    wanted: Sequence[Request],
    *,
    ids: Sequence[str] | None = None,
    threads: int = 1,
) -> ObservedMany:
    """Score many conversations with an observer: at once where it can, else one after the other.

    A conversation on which the observer raises fails alone. The scores depend on what is given here, not on the
    order in which the work is done.

    Args:
        observer: what scores.
        conversations: turns of each, in order.
        context: what the observer may see.
        wanted: what is wanted of every turn, in the context ``transcript`` of the last; a side that is None is
            left out.
        ids: names of the conversations; their places where None.
        threads: conversations at a time, for an observer that waits for answers.

    Raises:
        ObserverError: the observer can't go on at all, or gave what was not asked for.
    """
    names = ids if ids is not None else [str(place) for place in range(len(conversations))]
    if isinstance(observer, ObservesMany) and context.mode is not ContextMode.TRANSCRIPT:
        try:
            return observer.observe_many(conversations, context, wanted)
        except ObserverError:
            raise
        except Exception as error:  # noqa: BLE001 - foreign code; one by one it is told which conversation fails
            _log.warning(
                "observer %r failed on %d conversations at once (%s); they are scored one by one",
                observer.info.name,
                len(conversations),
                told(error),
            )

    def one(place: int) -> list[ObservedTurn]:
        session = ObserverSession(observer, context, names[place])
        turns = conversations[place]
        return [session.observe(turn, asked_of(turn, turns, context, wanted)) for turn in turns]

    places = range(len(conversations))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            return _in_columns(pool.map(one, places), wanted, isinstance(observer, HasStages))
    return _in_columns(map(one, places), wanted, isinstance(observer, HasStages))


def asked_of(turn: Turn, turns: Sequence[Turn], context: Context, wanted: Sequence[Request]) -> Sequence[Request]:
    """What is asked of a turn: of a transcript only its last turn, and no side that is None."""
    if context.mode is ContextMode.TRANSCRIPT and turn is not turns[-1]:
        return ()
    return wanted if turn.response is not None else [one for one in wanted if turn.text(one.side) is not None]


def _in_columns(
    observed: Iterable[list[ObservedTurn]], wanted: Sequence[Request], has_stages: bool
) -> ObservedMany:
    places = {(one.principle.name, one.side): place for place, one in enumerate(wanted)}
    rows: list[tuple[int, int, int]] = []
    scores: list[tuple[float, float, float]] = []
    failures: list[tuple[int, int, ObservationFailure]] = []
    unread: list[tuple[int, int, NotRead]] = []
    looks: list[TwoStageReading] = []
    for conversation, turns in enumerate(observed):
        for turn in turns:
            for given in turn.given:
                if isinstance(given, Observation):
                    rows.append((conversation, turn.turn, places[given.principle, given.side]))
                    scores.append((given.score.T, given.score.I, given.score.F))
                    if has_stages:
                        looks.append(TwoStageReading.of(given.stages))
                elif isinstance(given, NotRead):
                    unread.append((conversation, turn.turn, given))
                else:
                    failures.append((conversation, turn.turn, given))
    return ObservedMany.of(rows, scores, failures, unread, looks if has_stages else None)
