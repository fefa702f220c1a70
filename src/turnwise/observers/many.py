"""Many conversations at once: their scores in columns, whatever the observer is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from turnwise._support.secret import told
from turnwise.conversation import Turn
from turnwise.errors import ObserverError
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    HasStages,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObservesMany,
    Request,
    Stage,
)
from turnwise.observers.session import ObservedTurn, ObserverSession
from turnwise.scoring import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("turnwise.observers")


class Look(NamedTuple):
    """What screen and judge made of a text.

    Args:
        asked: why the judge was asked, see `Stage`; None where it was not.
        unanswered: why there is no score of it all the same, such as ``budget``; None where there is.
        screen: the screen's own score; None where it has none.
        judge: the judge's; likewise.
    """

    asked: str | None
    unanswered: str | None
    screen: Score | None
    judge: Score | None

    @classmethod
    def of(cls, stages: Sequence[Stage]) -> Look:
        """What the stages of an answer say."""
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
    looks: tuple[Look, ...] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[int, int, int]],
        scores: Sequence[Sequence[float]] | NDArray[np.float64],
        failures: Iterable[tuple[int, int, ObservationFailure]] = (),
        unread: Iterable[tuple[int, int, NotRead]] = (),
        looks: Sequence[Look] | None = None,
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
    looks: list[Look] = []
    for conversation, turns in enumerate(observed):
        for turn in turns:
            for given in turn.given:
                if isinstance(given, Observation):
                    rows.append((conversation, turn.turn, places[given.principle, given.side]))
                    scores.append((given.score.T, given.score.I, given.score.F))
                    if has_stages:
                        looks.append(Look.of(given.stages))
                elif isinstance(given, NotRead):
                    unread.append((conversation, turn.turn, given))
                else:
                    failures.append((conversation, turn.turn, given))
    return ObservedMany.of(rows, scores, failures, unread, looks if has_stages else None)
