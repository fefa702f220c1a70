"""The cluster bootstrap: intervals that hold when conversations of a group resemble each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError

Floats = NDArray[np.float64]
Statistic = Callable[["ResampleWeights"], Floats]
"""Gives a number for each of several resamples; what the bootstrap puts an interval around."""


Method = Literal["percentile", "bca"]

REPLICATES = 2000
"""Resamples by default: the ends of a 95 % interval then rest on 50 of them each."""

FEW_GROUPS = 20
"""Groups of a label under which an interval of the bootstrap tends to be too narrow."""

FEW = f"fewer than {FEW_GROUPS} groups of a label: the interval is likely too narrow"
"""What a note says then."""

TAILS = (0.025, 0.975)
"""Ends of a 95 % interval."""

_ROWS = 250
"""Resamples that are worked on at once, which keeps memory small."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with its interval; NaN where either can't be computed.

    `note` says what keeps the interval from meaning what it says; it is empty where nothing does. One that
    `conditions_on_threshold` leaves out that other calibration conversations would have set other thresholds.
    """

    value: float
    low: float
    high: float
    confidence: float
    method: str
    groups: int
    note: str = ""
    conditions_on_threshold: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two arms, and what its interval covers; NaN where either can't be computed.

    Where it `conditions_on_threshold`, the interval leaves out that other calibration conversations would have set
    other thresholds, and is too narrow for the procedure. `note` says what keeps it from meaning what it says.

    >>> print(Difference("gain in recall", 0.1, 0.02, 0.18, True, "percentile", 150))
    gain in recall: +0.100 [+0.020, +0.180] for these thresholds alone: how they were chosen is not in the interval
    """

    what: str
    value: float
    low: float
    high: float
    conditions_on_threshold: bool
    method: str
    groups: int
    p: float | None = None
    confidence: float = 0.95
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.what}: {self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        if self.p is not None:
            text += f", p = {self.p:.3g}"
        if self.conditions_on_threshold:
            text += " for these thresholds alone: how they were chosen is not in the interval"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True, slots=True)
class ResampleWeights:
    """How often each conversation counts in each of several resamples.

    `counts` says how often each group was drawn, shape (resamples, groups); `place` is the group of each
    conversation.
    """

    counts: NDArray[np.float64]
    place: NDArray[np.intp]

    def each(self) -> Floats:
        """The weight of each conversation; shape (resamples, conversations)."""
        return self.counts[:, self.place]

    def sums(self, columns: Floats) -> Floats:
        """Weighted sums of columns of shape (conversations, columns); shape (resamples, columns)."""
        grouped = np.zeros((self.counts.shape[1], columns.shape[1]))
        np.add.at(grouped, self.place, columns)
        return self.counts @ grouped


@dataclass(frozen=True, slots=True)
class Resamples:
    """Draws of groups, the same for every statistic of a study, so that differences are paired.

    `counts` has shape (resamples, groups). A resample draws as many groups of each `stratum` as there are.
    """

    counts: NDArray[np.float64]
    place: NDArray[np.intp]
    stratum: NDArray[np.intp]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.stratum)

    @property
    def few(self) -> bool:
        """Whether some stratum has so few groups that intervals tend to be too narrow."""
        return bool(np.bincount(self.stratum).min() < FEW_GROUPS)

    def value(self, statistic: Statistic) -> float:
        """The statistic on the data as they are."""
        return float(statistic(ResampleWeights(np.ones((1, self.groups)), self.place))[0])

    def replicates(self, statistic: Statistic) -> Floats:
        """The statistic on every resample."""
        parts = [self.counts[rows] for rows in _slices(len(self.counts))]
        return np.concatenate([statistic(ResampleWeights(part, self.place)) for part in parts])

    def left_out(self, statistic: Statistic) -> Floats:
        """The statistic without each group in turn."""
        values = []
        for rows in _slices(self.groups):
            counts = np.ones((rows.stop - rows.start, self.groups))
            counts[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = 0.0
            values.append(statistic(ResampleWeights(counts, self.place)))
        return np.concatenate(values)


def resamples(
    groups: Sequence[str], attack: Sequence[bool], rng: np.random.Generator, replicates: int = REPLICATES
) -> Resamples:
    """Draw groups with replacement, those with attacks and those without apart.

    Whole groups are drawn because conversations of a group are alike; apart, because a study fixes how many of
    each it looks at. The same seed gives the same draws for the same conversations in any order. Sources: B. Efron
    and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 8; C. A. Field and A. H. Welsh,
    "Bootstrapping clustered data", JRSS B 69 (2007), who show that drawing whole clusters gives consistent
    variances.

    >>> import numpy as np
    >>> drawn = resamples(["a", "a", "b"], [True, True, False], np.random.default_rng(0), replicates=3)
    >>> drawn.groups, drawn.counts.tolist()
    (2, [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    """
    if not groups or len(groups) != len(attack) or replicates < 1:
        raise UsageError("a bootstrap needs at least one conversation with its group and label, and one resample")
    names = sorted(set(groups))
    index = {name: number for number, name in enumerate(names)}
    attacked = {name for name, label in zip(groups, attack, strict=True) if label}
    has_attack = [name in attacked for name in names]
    strata = sorted(set(has_attack))
    stratum = np.array([strata.index(flag) for flag in has_attack], dtype=np.intp)
    counts = np.zeros((replicates, len(names)))
    for number in range(len(strata)):
        members = np.flatnonzero(stratum == number)
        counts[:, members] = rng.multinomial(
            len(members), np.full(len(members), 1 / len(members)), size=replicates
        )
    return Resamples(counts, np.array([index[name] for name in groups], dtype=np.intp), stratum)


def interval(
    statistic: Statistic,
    drawn: Resamples,
    confidence: float = 0.95,
    method: Method = "percentile",
    *,
    conditions_on_threshold: bool = False,
) -> Interval:
    """A statistic with its bootstrap interval.

    The percentile interval is the default: the BCa one (bias-corrected and accelerated) needs the statistic
    without each group in turn, which costs as much again, and covered at most a point more in the simulations of
    `benchmarks/study_statistics.py`. Sources: B. Efron and R. J. Tibshirani, 1993, chapters 13 and 14.

    >>> import numpy as np
    >>> flagged = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> def share(weights):
    ...     sums = weights.sums(flagged)
    ...     return sums[:, 0] / sums[:, 1]
    >>> drawn = resamples(["a", "b", "c", "d"], [True] * 4, np.random.default_rng(1), replicates=400)
    >>> found = interval(share, drawn)
    >>> found.value, found.low, found.high
    (0.75, 0.25, 1.0)
    """
    value, values = drawn.value(statistic), drawn.replicates(statistic)
    return interval_of(
        value, values, statistic, drawn, confidence, method, conditions_on_threshold=conditions_on_threshold
    )


def interval_of(
    value: float,
    values: Floats,
    statistic: Statistic,
    drawn: Resamples,
    confidence: float = 0.95,
    method: Method = "percentile",
    *,
    conditions_on_threshold: bool = False,
) -> Interval:
    """The interval from `values`, the statistic on each resample; BCa asks `statistic` for further ones."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie in (0, 1), not {confidence:g}")

    def found(low: float, high: float, *notes: str) -> Interval:
        return Interval(
            value, low, high, confidence, method, drawn.groups, "; ".join(notes), conditions_on_threshold
        )

    tail = (1 - confidence) / 2
    finite = values[np.isfinite(values)]
    if math.isnan(value) or not len(finite):
        return found(math.nan, math.nan, "it can't be computed here")
    notes = []
    if len(finite) < len(values):
        notes.append(f"{len(values) - len(finite)} of {len(values)} resamples could not be used")
    if drawn.few:
        notes.append(FEW)
    if finite.min() == finite.max():
        notes.append("every resample gave the same value, so the interval has no width and understates the doubt")
        return found(value, value, *notes)
    ends = (tail, 1 - tail) if method == "percentile" else _bca(value, finite, drawn.left_out(statistic), tail)
    low, high = np.quantile(finite, ends)
    return found(float(low), float(high), *notes)


def difference(first: Statistic, second: Statistic) -> Statistic:
    """The statistic "second less first", on the same resamples."""

    def less(weights: ResampleWeights) -> Floats:
        return second(weights) - first(weights)

    return less


def _bca(value: float, values: Floats, left_out: Floats, tail: float) -> tuple[float, float]:
    """The two probabilities at which BCa reads the distribution of the resamples."""
    from scipy.stats import norm

    # Ties count half: recall is discrete, and without that its bias correction would be too large.
    below = (np.mean(values < value) + np.mean(values <= value)) / 2
    kept = left_out[np.isfinite(left_out)]
    away = kept.mean() - kept if len(kept) else np.zeros(1)
    scale = float((away**2).sum()) ** 1.5
    acceleration = float((away**3).sum()) / (6 * scale) if scale else 0.0
    bias = float(norm.ppf(min(max(below, 0.5 / len(values)), 1 - 0.5 / len(values))))
    ends = []
    for z in (float(norm.ppf(tail)), float(norm.isf(tail))):
        ends.append(float(norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))))
    return ends[0], ends[1]


def _slices(rows: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _ROWS, rows)) for begin in range(0, rows, _ROWS))
