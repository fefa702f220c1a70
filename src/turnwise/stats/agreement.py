"""How far judges agree: Krippendorff's alpha between them, the intraclass correlation of one with itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.errors import UsageError
from turnwise.stats.bootstrap import Floats, Interval, ResampleWeights, Statistic, interval, resamples


@dataclass(frozen=True, slots=True)
class Icc:
    """An intraclass correlation with its interval; `value` is 1 where repeats never differ, and may be below 0."""

    value: float
    low: float
    high: float
    units: int
    repeats: int
    confidence: float = 0.95


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | None]],
    rng: np.random.Generator,
    groups: Sequence[str] | None = None,
    replicates: int = 2000,
) -> Interval:
    """Krippendorff's alpha for scores on an interval scale, between judges that saw the same units.

    alpha = 1 - observed / expected disagreement, disagreement being the squared difference. `ratings` has a row a
    unit, such as one turn and principle, with None where a judge gave no score; units with one rating are left
    out. The interval is a bootstrap over units, or over `groups` of them. Sources: K. Krippendorff, "Content
    Analysis", 4th ed. 2018, chapter 12; A. Zapf, S. Castell, L. Morawietz and A. Karch, "Measuring inter-rater
    reliability for nominal data", BMC Medical Research Methodology 16 (2016), for the bootstrap.

    >>> import numpy as np
    >>> ratings = [[1, 1], [2, 2], [3, 3], [3, 4], [2, None]]
    >>> round(krippendorff_alpha(ratings, np.random.default_rng(0), replicates=200).value, 4)
    0.8889
    """
    names = [str(number) for number in range(len(ratings))] if groups is None else groups
    if len(names) != len(ratings):
        raise UsageError("agreement needs one group for every unit that was rated")
    known = [
        (name, [value for value in row if value is not None and math.isfinite(value)])
        for name, row in zip(names, ratings, strict=True)
    ]
    known = [(name, row) for name, row in known if len(row) > 1]
    if len(known) < 2:
        raise UsageError(f"agreement needs at least 2 units with 2 ratings each, not {len(known)}")
    drawn = resamples([name for name, _ in known], [True] * len(known), rng, replicates)
    return interval(alpha_of([row for _, row in known]), drawn)


def alpha_of(ratings: Sequence[Sequence[float]]) -> Statistic:
    """Krippendorff's alpha as a statistic of weighted units, each with at least two ratings."""
    middle = float(np.mean([value for row in ratings for value in row]))
    columns = np.zeros((len(ratings), 4))
    for row, values in enumerate(ratings):
        shifted = np.asarray(values, dtype=float) - middle
        count, total, squares = len(shifted), shifted.sum(), (shifted**2).sum()
        columns[row] = count, total, squares, 2 * (count * squares - total**2) / (count - 1)

    def alpha(weights: ResampleWeights) -> Floats:
        count, total, squares, within = weights.sums(columns).T
        expected = 2 * (count * squares - total**2) / (count * (count - 1))
        observed = within / count
        # All ratings alike: nothing can disagree, nor can agreement be shown.
        some = expected > 1e-15
        share: Floats = np.divide(observed, expected, out=np.full_like(observed, np.nan), where=some)
        return 1 - share

    return alpha


def icc_within(ratings: Sequence[Sequence[float]]) -> Icc:
    """How well one judge repeats itself: ICC(1,1), the one-way random-effects intraclass correlation.

    Source: P. E. Shrout and J. L. Fleiss, "Intraclass correlations: uses in assessing rater reliability",
    Psychological Bulletin 86 (1979), with their F interval, which takes units for independent and normal.

    >>> found = icc_within([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
    (0.17, -0.13, 0.72)
    """
    from scipy.stats import f

    if len(ratings) < 2 or len({len(row) for row in ratings}) != 1 or len(ratings[0]) < 2:
        raise UsageError(
            "the correlation within repeats needs at least 2 units, each with the same 2 or more scores"
        )
    table = np.asarray(ratings, dtype=float)
    units, repeats = len(ratings), len(ratings[0])
    between: float = repeats * float(table.mean(axis=1).var(ddof=1))
    within = float(table.var(axis=1, ddof=1).mean())
    if within == 0:
        value = 1.0 if between else math.nan
        return Icc(value, value, value, units, repeats)
    ratio, tail = between / within, (1 - 0.95) / 2
    inside, outside = units - 1, units * (repeats - 1)
    low: float = ratio / float(f.isf(tail, inside, outside))
    high: float = ratio * float(f.isf(tail, outside, inside))

    def correlation(of: float) -> float:
        return (of - 1) / (of + repeats - 1)

    return Icc(correlation(ratio), correlation(low), correlation(high), units, repeats)
