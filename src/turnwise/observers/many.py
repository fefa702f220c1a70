"""Many conversations at once: their scores in columns, whatever the observer is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise._support.secret import told
from turnwise.conversation import Turn
from turnwise.errors import ObserverError
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObservesMany,
    Request,
)
from turnwise.observers.session import ObservedTurn, ObserverSession

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("turnwise.observers")


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
    """

    conversation: NDArray[np.int32]
    turn: NDArray[np.int32]
    request: NDArray[np.int32]
    scores: NDArray[np.float64]
    failures: tuple[tuple[int, int, ObservationFailure], ...] = ()
    unread: tuple[tuple[int, int, NotRead], ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[int, int, int]],
        scores: Sequence[Sequence[float]] | NDArray[np.float64],
        failures: Iterable[tuple[int, int, ObservationFailure]] = (),
        unread: Iterable[tuple[int, int, NotRead]] = (),
    ) -> ObservedMany:
        """Bring rows into order.

        Args:
            rows: conversation, turn and request of each score; no two alike.
            scores: T, I and F of each.
            failures: conversation, turn, and what could not be scored.
            unread: conversation, turn, and what was not read.
        """
        import numpy as np

        places = np.array(rows, np.int32).reshape(-1, 3)
        order = np.lexsort((places[:, 2], places[:, 1], places[:, 0]))
        places = places[order]
        values = np.array(scores, np.float64).reshape(-1, 3)[order]
        return cls(places[:, 0], places[:, 1], places[:, 2], values, tuple(failures), tuple(unread))


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
            return _in_columns(pool.map(one, places), wanted)
    return _in_columns(map(one, places), wanted)


def asked_of(turn: Turn, turns: Sequence[Turn], context: Context, wanted: Sequence[Request]) -> Sequence[Request]:
    """What is asked of a turn: of a transcript only its last turn, and no side that is None."""
    if context.mode is ContextMode.TRANSCRIPT and turn is not turns[-1]:
        return ()
    return wanted if turn.response is not None else [one for one in wanted if turn.text(one.side) is not None]


def _in_columns(observed: Iterable[list[ObservedTurn]], wanted: Sequence[Request]) -> ObservedMany:
    places = {(one.principle.name, one.side): place for place, one in enumerate(wanted)}
    rows: list[tuple[int, int, int]] = []
    scores: list[tuple[float, float, float]] = []
    failures: list[tuple[int, int, ObservationFailure]] = []
    unread: list[tuple[int, int, NotRead]] = []
    for conversation, turns in enumerate(observed):
        for turn in turns:
            for given in turn.given:
                if isinstance(given, Observation):
                    rows.append((conversation, turn.turn, places[given.principle, given.side]))
                    scores.append((given.score.T, given.score.I, given.score.F))
                elif isinstance(given, NotRead):
                    unread.append((conversation, turn.turn, given))
                else:
                    failures.append((conversation, turn.turn, given))
    return ObservedMany.of(rows, scores, failures, unread)
