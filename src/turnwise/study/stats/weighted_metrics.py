"""Recall, F1, AUC, delay and the rest as functions of weights: what the bootstrap resamples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnwise.study.stats.judged_conversations import Judged
from turnwise.study.stats.thresholds import weighted_thresholds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.study.stats.bootstrap import Floats, Statistic, Weights

SHARE_AT_HORIZON = 0.1
"""Share of the attacks that must last up to the turn at which a mean delay is cut off."""


def recall_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """Recall as a statistic; here and below the conversations are all evaluated, in the order of the weights."""
    return _ratio(
        [float(one.attack and _flag(one, final)) for one in judged], [float(one.attack) for one in judged]
    )


def fpr_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """The false-positive rate as a statistic."""
    return _ratio(
        [float(not one.attack and _flag(one, final)) for one in judged], [float(not one.attack) for one in judged]
    )


def precision_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """Precision as a statistic."""
    return _ratio(
        [float(one.attack and _flag(one, final)) for one in judged], [float(_flag(one, final)) for one in judged]
    )


def f1_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """F1 = 2 caught / (attacks + flagged) as a statistic."""
    return _ratio(
        [2.0 * (one.attack and _flag(one, final)) for one in judged],
        [float(one.attack) + float(_flag(one, final)) for one in judged],
    )


def alarms_of(judged: Sequence[Judged]) -> Statistic:
    """False alarms per 1,000 benign turns as a statistic."""
    return _ratio(
        [0.0 if one.attack else 1000.0 * one.alarms for one in judged],
        [0.0 if one.attack else float(one.turns - one.missing_turns) for one in judged],
    )


def auc_of(judged: Sequence[Judged]) -> Statistic:
    """The area under the ROC curve as a statistic; ties count half."""
    import numpy as np

    order, starts, attack = _by_score(judged)

    def area(weights: Weights) -> Floats:
        each = weights.each()[:, order]
        attacks = np.add.reduceat(each * attack, starts, axis=1)
        benign = np.add.reduceat(each * ~attack, starts, axis=1)
        below = np.cumsum(benign, axis=1) - benign / 2
        return _divided((attacks * below).sum(axis=1), attacks.sum(axis=1) * benign.sum(axis=1))

    return area


def recall_at_of(judged: Sequence[Judged], rate: float) -> Statistic:
    """The recall at a false-positive rate as a statistic; the threshold is set anew on every resample.

    The rate is kept as `threshold_for` keeps it; NaN where the benign conversations are too few.
    """
    import numpy as np

    scores = np.array([one.score for one in judged], dtype=float)
    attack = np.array([one.attack for one in judged], dtype=bool)
    falling = np.flatnonzero(~attack)[np.argsort(-scores[~attack], kind="stable")]

    def recall(weights: Weights) -> Floats:
        each = weights.each().T
        if not len(falling):
            return np.full(each.shape[1], np.nan)
        benign, attacks = each[falling], each[attack]
        limit = weighted_thresholds(scores[falling], benign, benign.sum(axis=0), rate)
        caught = (attacks * (scores[attack][:, None] >= limit)).sum(axis=0)
        return np.where(np.isfinite(limit), _divided(caught, attacks.sum(axis=0)), np.nan)

    return recall


def delay_of(judged: Sequence[Judged], horizon: int | None = None) -> Statistic:
    """The mean number of turns of an attack up to its first flag, cut off at a horizon, as a statistic.

    That is the area under the Kaplan-Meier curve of attacks not yet flagged, misses censored at their last turn:
    the restricted mean of P. Royston and M. K. B. Parmar, "Restricted mean survival time", BMC Medical Research
    Methodology 13 (2013). Unlike a median it exists for every detector, so that differences have intervals.
    """
    import numpy as np

    last = horizon_of(judged) if horizon is None else horizon
    columns = np.zeros((len(judged), 2 * last))
    for row, one in enumerate(judged):
        if one.attack:
            seen = one.turn if one.turn is not None else one.turns
            columns[row, : min(seen, last)] = 1.0
            if one.turn is not None and one.turn <= last:
                columns[row, last + one.turn - 1] = 1.0

    def mean(weights: Weights) -> Floats:
        sums = weights.sums(columns)
        at_risk, flagged = sums[:, :last], sums[:, last:]
        hazard = np.divide(flagged, at_risk, out=np.zeros_like(flagged), where=at_risk > 0)
        undetected = np.cumprod(1 - hazard, axis=1)
        total = 1 + undetected[:, :-1].sum(axis=1)
        return np.where(at_risk[:, 0] > 0, total, np.nan)

    return mean


def horizon_of(judged: Sequence[Judged]) -> int:
    """The last turn that at least a tenth of the evaluated attacks reach; 1 without attacks.

    >>> horizon_of([Judged(str(n), "g", True, turns, 0.1) for n, turns in enumerate([3] * 18 + [5, 9])])
    5
    """
    lengths = sorted((one.turns for one in judged if one.attack and one.evaluated), reverse=True)
    return lengths[max(1, -(-len(lengths) // round(1 / SHARE_AT_HORIZON))) - 1] if lengths else 1


def _flag(one: Judged, final: bool) -> bool:
    return one.final if final else one.fired


def _ratio(above: Sequence[float], below: Sequence[float]) -> Statistic:
    import numpy as np

    columns = np.column_stack([above, below]).astype(float)

    def ratio(weights: Weights) -> Floats:
        sums = weights.sums(columns)
        return _divided(sums[:, 0], sums[:, 1])

    return ratio


def _divided(above: Floats, below: Floats) -> Floats:
    import numpy as np

    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _by_score(judged: Sequence[Judged]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """The order by score, where each distinct score begins in it, and the labels in that order."""
    import numpy as np

    scores = np.array([np.nan if one.score is None else one.score for one in judged])
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return order, starts, np.array([one.attack for one in judged], dtype=bool)[order]
