"""``learned``: a regularised logistic model over what a trajectory looks like so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.base import ByPrinciple, check_number, number
from turnwise.detectors.trends import NO_POINTS, added
from turnwise.errors import DetectorError, UnknownNameError
from turnwise.scoring import Score, TurnScores

FEATURES = ("peak", "mean", "last", "slope", "streak", "cusum", "volatility", "divergence")
"""What the model looks at by default; see `features_by_turn`."""

OPTIONAL_FEATURES = ("turns",)
"""What it looks at only where a weight is given: it tells attacks of a data set by their length."""

DIGITS = 9
"""Decimals that are kept of F and its sums between turns, so that the state stays small."""

STREAK_F = 0.5
"""F from which a turn belongs to a streak."""

CUSUM_DRIFT = 0.25
"""F that a turn may have before it adds to the CUSUM."""


@dataclass(frozen=True, slots=True)
class Learned(ByPrinciple):
    """Fires where a logistic model takes a trajectory for that of an attack.

    score = max over principles of intercept + Σ weight · feature, the log odds of an attack; the features describe
    the F of one principle over its evaluated turns so far (see `features_by_turn`). The weights are fitted by
    ``turnwise study tune`` with an L2 penalty, which writes a YAML file that builds this detector; there is no
    default that would fit every observer. Source: ridge logistic regression, S. le Cessie and J. C. van
    Houwelingen, Applied Statistics 41 (1992).

    Args:
        weights: weight by name of the feature; a feature without one has no part.
        intercept: log odds where all features are 0.
        limit: log odds from which it fires; infinity never fires.

    Raises:
        UnknownNameError: there is no feature of a name.
        DetectorError: a number is not finite, or no weight is given.

    >>> detector = Learned(weights={"peak": 4.0, "slope": 10.0}, intercept=-2.0)
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.0, 0.25, 0.5), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity log odds of an attack 2.500 ≥ 0.000 at turn 3'
    """

    name = "learned"
    label: ClassVar[str] = "log odds of an attack"

    weights: Mapping[str, float]
    intercept: float = 0.0
    limit: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise DetectorError(
                f"{self.name}: weights must name a weight by feature, not {self.weights!r}; "
                "turnwise study tune writes a file with them"
            )
        for feature in self.weights:
            if feature not in (*FEATURES, *OPTIONAL_FEATURES):
                raise UnknownNameError(f"feature of {self.name}", str(feature), (*FEATURES, *OPTIONAL_FEATURES))
        checked = {name: number(self.name, f"weight of {name}", value) for name, value in self.weights.items()}
        object.__setattr__(self, "weights", checked)
        check_number(self, "intercept")
        check_number(self, "limit", never=True)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        remembered, features = _follow_features(memory, scores, score)
        odds = self.intercept + math.fsum(weight * features[name] for name, weight in self.weights.items())
        return remembered, round(odds, DIGITS)


def features_by_turn(turns: Iterable[TurnScores]) -> Iterator[dict[str, dict[str, float]]]:
    """The features, after each turn, of the principles that were evaluated at it.

    Over the F of a principle's evaluated turns: ``peak``, ``mean``, ``last``; ``slope`` over turn numbers (0
    before the third); ``streak``, the longest run of turns in a row with F of at least 0.5, as log(1 + length);
    ``cusum`` with drift 0.25; ``volatility``, the mean absolute change; ``divergence``, the most that F exceeded
    the lowest F of the same turn; ``turns``, log(1 + evaluated turns).

    >>> turns = [TurnScores(n, {"reciprocity": Score(0.5, 0.2, F)}) for n, F in ((1, 0.1), (2, 0.6), (3, 0.8))]
    >>> *_, last = features_by_turn(turns)
    >>> {name: round(value, 3) for name, value in last["reciprocity"].items()}
    {'peak': 0.8, 'mean': 0.5, 'last': 0.8, 'slope': 0.35, 'streak': 1.099, 'cusum': 0.9, 'volatility': 0.35, \
'divergence': 0.0, 'turns': 1.386}
    """
    memories: dict[str, Any] = {}
    for scores in turns:
        features: dict[str, dict[str, float]] = {}
        for principle, score in scores.scores.items():
            memories[principle], features[principle] = _follow_features(memories.get(principle), scores, score)
        yield features


def _follow_features(memory: Any, scores: TurnScores, score: Score) -> tuple[list[Any], dict[str, float]]:
    """Take in one more F; return the next `memory`, which is None before the first, and the features now."""
    F, turn = score.F, scores.turn
    sums: Sequence[float] = NO_POINTS
    peak, last, cusum, moved, divergence, streak, longest, last_turn = 0.0, F, 0.0, 0.0, 0.0, 0, 0, turn - 1
    if memory is not None:
        sums = memory[:5]
        peak, last, cusum, moved, divergence, streak, longest, last_turn = memory[5:]
    sums = added(sums, turn, F)
    n = sums[0]
    peak = max(peak, F)
    moved += abs(F - last)
    run_on = streak if turn == last_turn + 1 else 0
    streak = run_on + 1 if F >= STREAK_F else 0
    longest = max(longest, streak)
    cusum = max(0.0, cusum + F - CUSUM_DRIFT)
    divergence = max(divergence, F - min(other.F for other in scores.scores.values()))
    features = {
        "peak": peak,
        "mean": sums[2],
        "last": F,
        "slope": sums[4] / sums[3] if n > 2 and sums[3] > 0.0 else 0.0,
        "streak": math.log1p(longest),
        "cusum": cusum,
        "volatility": moved / (n - 1) if n > 1 else 0.0,
        "divergence": divergence,
        "turns": math.log1p(n),
    }
    n, mean_t, mean_F, tt, tF = sums
    kept = [n, mean_t, round(mean_F, DIGITS + 3), tt, round(tF, DIGITS)]
    rounded = (round(value, DIGITS) for value in (peak, F, cusum, moved, divergence))
    return [*kept, *rounded, streak, longest, turn], features
