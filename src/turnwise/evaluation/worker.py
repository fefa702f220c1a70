"""Scoring one sequence: the part of an evaluation that runs in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from turnwise.conversation import Turn
from turnwise.errors import ObserverError
from turnwise.evaluation.plan import Work
from turnwise.observers import Context, Observation, ObservationFailure, Observer, Request


class Outcome(NamedTuple):
    """What an observer gave for one request.

    Args:
        turn: number of the turn.
        given: the score, or why there is none.
    """

    turn: int
    given: Observation | ObservationFailure


class Scored(NamedTuple):
    """A sequence with all that came of its work.

    Args:
        sequence_id: id of the sequence.
        outcomes: scores and failures, in turn order; what was wanted but is absent is a gap.
        wanted: how many scores were asked for.
    """

    sequence_id: str
    outcomes: tuple[Outcome, ...]
    wanted: int


def score_sequence(observer: Observer, context: Context, work: Work) -> Scored:
    """Score what is wanted of a sequence.

    An exception while a turn is observed makes that turn's requests failures, and those of later turns too: the
    observer's state has not seen the turn, so a later score would stand on a history that never was. One before
    the first turn does so to all of them.

    Raises:
        ObserverError: the observer can't go on at all, or gave what was not asked for.
    """
    outcomes: list[Outcome] = []
    last = max(work.wanted, default=0)
    state, broken = _started(observer, context, work) if last else (None, None)
    for turn in work.turns[:last]:
        wanted = work.wanted.get(turn.number, ())
        if broken is None:
            try:
                given = tuple(observer.observe(state, turn, wanted))  # a generator raises in here, not later
            except ObserverError:
                raise
            except Exception as error:  # noqa: BLE001 - an observer is foreign code: what it raises is a failure
                broken = f"turn {turn.number}: {type(error).__name__}: {error}"
            else:
                outcomes += _checked(observer, turn, wanted, given)
                continue
        outcomes += [
            Outcome(turn.number, ObservationFailure(request.principle.name, request.side, "error", broken))
            for request in wanted
        ]
    return Scored(work.scene.sequence_id, tuple(outcomes), work.missing)


def _started(observer: Observer, context: Context, work: Work) -> tuple[Any, str | None]:
    try:
        return observer.start(work.scene, context), None
    except ObserverError:
        raise
    except Exception as error:  # noqa: BLE001 - as in score_sequence
        return None, f"before turn 1: {type(error).__name__}: {error}"


def _checked(
    observer: Observer,
    turn: Turn,
    wanted: Sequence[Request],
    given: Sequence[Observation | ObservationFailure],
) -> list[Outcome]:
    open_requests = {(request.principle.name, request.side) for request in wanted}
    for item in given:
        if not isinstance(item, Observation | ObservationFailure):
            raise ObserverError(
                f"observer {observer.info.name!r} gave {item!r} at turn {turn.number}, not a score"
            )
        if (item.principle, item.side) not in open_requests:
            raise ObserverError(
                f"observer {observer.info.name!r} gave a score for {item.principle}, {item.side} at turn "
                f"{turn.number} that was not asked for, or gave it twice"
            )
        open_requests.remove((item.principle, item.side))
    return [Outcome(turn.number, item) for item in given]
