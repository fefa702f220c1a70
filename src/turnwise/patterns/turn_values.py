"""What a turn says of itself: its scores as numbers, its number, its length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from turnwise.conversation import Side
from turnwise.patterns.tree import Length, Series
from turnwise.scoring import Score, TurnScores, balance, trust_strength

Read = Callable[[TurnScores], float | None]

_WITH_LENGTH: Mapping[str, Callable[[Score, int], float]] = {"balance": balance, "strength": trust_strength}
_WORST: Mapping[str, Callable[..., float]] = {"T": min, "I": max, "F": max, "balance": min, "strength": min}


def read_series(series: Series) -> Read:
    """Return a function from the scores of a turn to the value of a series; None at a gap.

    >>> read = read_series(Series("F"))
    >>> read(TurnScores(1, {"a": Score(0.5, 0.1, 0.3), "b": Score(0.5, 0.1, 0.8)}))
    0.8
    >>> read(TurnScores(2, {})) is None
    True
    """
    response = series.side is Side.RESPONSE
    scores_of: Callable[[TurnScores], Mapping[str, Score]]
    scores_of = attrgetter("response_scores" if response else "scores")
    length_at: Callable[[TurnScores], int] = attrgetter("response_length" if response else "length")
    if series.component in _WITH_LENGTH:
        return _with_length(series, scores_of, length_at, _WITH_LENGTH[series.component])
    component: Callable[[Score], float] = attrgetter(series.component)
    principle, worst = series.principle, _WORST[series.component]

    def over_principles(turn: TurnScores) -> float | None:
        scores = scores_of(turn)
        return worst(map(component, scores.values())) if scores else None

    def of_principle(turn: TurnScores) -> float | None:
        score = scores_of(turn).get(principle)
        return None if score is None else component(score)

    return over_principles if principle is None else of_principle


def _with_length(
    series: Series,
    scores_of: Callable[[TurnScores], Mapping[str, Score]],
    length_at: Callable[[TurnScores], int],
    component: Callable[[Score, int], float],
) -> Read:
    principle, worst = series.principle, _WORST[series.component]

    def over_principles(turn: TurnScores) -> float | None:
        length = length_at(turn)
        return worst((component(score, length) for score in scores_of(turn).values()), default=None)

    def of_principle(turn: TurnScores) -> float | None:
        score = scores_of(turn).get(principle)  # type: ignore[arg-type]
        return None if score is None else component(score, length_at(turn))

    return over_principles if principle is None else of_principle


def read_length(length: Length) -> Read:
    """Return a function from the scores of a turn to its characters; None where there is no response to judge."""
    if length.side is Side.PROMPT:
        return attrgetter("length")
    return lambda turn: turn.response_length if turn.response_scores else None
