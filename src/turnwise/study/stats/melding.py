"""Melding: an interval of a quantity that is made of several proportions, each known from counts of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from turnwise.errors import UsageError
from turnwise.study.stats.bootstrap import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.rates import Rate

    Floats = NDArray[np.float64]

# An exact interval of a proportion comes from two distributions: its lower ends are quantiles of one, its upper
# ends of the other. The lower end of a quantity that rises with some proportions and falls with others is a
# quantile of what it is where the rising ones are drawn from their lower and the falling ones from their upper
# distribution; the upper end likewise. The distributions are those of the exact interval of a proportion
# (Clopper and Pearson 1934): one proportion alone has just that interval. Source: M. P. Fay, M. A. Proschan and
# E. Brittain, "Combining one-sample confidence procedures for inference in the two-sample case", Biometrics 71
# (2015); for prevalences, D. Bayer, M. P. Fay and B. I. Graubard, "Confidence intervals for prevalence estimates
# from complex surveys with imperfect assays", Statistics in Medicine 42 (2023).

DRAWS: Final = 100_000
"""Draws of an interval: its ends move by less than a hundredth of its width from seed to seed."""

METHOD: Final = "melding of exact intervals"

MID_P: Final = "melding of mid-P intervals"

End = Literal["low", "high", "middle"]
"""Which distribution: of the lower ends, of the upper ends, or half of either, which gives the mid-P interval."""


def drawn(
    rate: Rate, end: End, random: np.random.Generator, draws: int = DRAWS, design_effect: float = 1.0
) -> Floats:
    """Draws of a proportion from the distribution of the lower or upper ends of its exact interval.

    A rate of none at all is 0 at the lower end and 1 at the upper. A `design_effect` says how many trials know as
    much as one independent trial (E. L. Korn and B. I. Graubard, Survey Methodology 24, 1998). The mid-P interval
    counts only half of what is as likely as what was seen: it is shorter, and holds the truth nearer to as often
    as it says (G. Berry and P. Armitage, "Mid-P confidence intervals: a brief review", The Statistician 44, 1995).

    >>> import numpy as np
    >>> from turnwise.rates import Rate
    >>> low = np.quantile(drawn(Rate(3, 50), "low", np.random.default_rng(1)), 0.025)
    >>> bool(abs(low - Rate(3, 50).interval[0]) < 0.001)
    True
    """
    import numpy as np

    if end == "middle":
        low, high = (drawn(rate, one, random, draws, design_effect) for one in _ENDS)
        return np.where(random.random(draws) < 0.5, low, high)
    count, rest = rate.count / design_effect, (rate.of - rate.count) / design_effect
    if end == "low":
        return random.beta(count, rest + 1, draws) if count else np.zeros(draws)
    return random.beta(count + 1, rest, draws) if rest else np.ones(draws)


_ENDS: Final[tuple[End, End]] = ("low", "high")


def melded(
    value: float, low: Floats, high: Floats, confidence: float, note: str = "", method: str = METHOD
) -> Interval:
    """A number in [0, 1] with the interval that draws of its ends give."""
    import numpy as np

    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie in (0, 1), not {confidence}")
    tail = (1 - confidence) / 2
    ends = np.clip([np.quantile(low, tail), np.quantile(high, 1 - tail)], 0.0, 1.0)
    return Interval(value, min(float(ends[0]), value), max(float(ends[1]), value), confidence, method, 0, note)
