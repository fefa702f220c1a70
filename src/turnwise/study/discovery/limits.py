"""Limits that a quantity is compared with: quantiles of the data, rounded before anything is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

USUAL = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles over benign turns that conditions within functions compare with."""

BENIGN = (0.5, 0.8, 0.9, 0.95)
"""Quantiles of the highest value of benign conversations; that of the false-positive rate comes beside them."""

ATTACK = (0.25, 0.5, 0.75)
"""Quantiles of the highest value of attacks."""

TURNS = (0.25, 0.5, 0.75)
"""Quantiles over all turns, for conditions that are the background of others."""

_STEPS = 20
"""Steps of the grid that limits are rounded to, at least, within the usual range of a quantity."""

_MOST_DECIMALS = 6


def decimals_of(values: NDArray[np.float64]) -> int | None:
    """Return the decimals that limits of a quantity need: fewest that divide its usual range into 20 steps.

    Args:
        values: its values, NaN where it is undefined.

    Returns:
        None where it has fewer than two different values.

    >>> import numpy as np
    >>> decimals_of(np.linspace(0, 1, 11)), decimals_of(np.linspace(0, 0.01, 11)), decimals_of(np.ones(3))
    (2, 4, None)
    """
    import numpy as np

    known = values[~np.isnan(values)]
    if not known.size:
        return None
    low, high = np.quantile(known, (0.05, 0.95))
    spread = float(high - low) or float(known.max() - known.min())
    if spread <= 0:
        return None
    return min(max(math.ceil(-math.log10(spread / _STEPS)), 0), _MOST_DECIMALS)


def usual_values(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the five quantiles `USUAL` of a series, rounded.

    Args:
        values: of benign turns, NaN at gaps.
    """
    import numpy as np

    decimals = decimals_of(values)
    known = values[~np.isnan(values)]
    if not known.size:
        return (0.05, 0.25, 0.5, 0.75, 0.95)
    return tuple(round(float(value), 2 if decimals is None else decimals) for value in np.quantile(known, USUAL))


def limits_above(
    values: NDArray[np.float64],
    benign_peaks: NDArray[np.float64],
    attack_peaks: NDArray[np.float64],
    max_fpr: float,
) -> tuple[float, ...]:
    """Return the limits of ``x > limit``.

    A quantile of benign conversations is rounded up, so that what it leaves out stays out; one of attacks goes to
    the step below it, so that it stays in.

    Args:
        values: x at every turn, NaN where it is undefined.
        benign_peaks: highest x of every benign conversation, NaN where there is none.
        attack_peaks: the same of every attack.
        max_fpr: false-positive rate that a pattern may have.

    >>> import numpy as np
    >>> low, high = np.linspace(0, 0.5, 101), np.linspace(0.4, 1, 101)
    >>> limits_above(np.concatenate([low, high]), low, high, 0.01)
    (0.25, 0.4, 0.45, 0.48, 0.5, 0.54, 0.69, 0.7, 0.84)
    """
    import numpy as np

    decimals = decimals_of(values)
    if decimals is None:
        return ()
    step = 10.0**-decimals
    found = {_up(value, step) for value in _quantiles(benign_peaks, (*BENIGN, 1 - max_fpr))}
    found |= {_below(value, step) for value in _quantiles(attack_peaks, ATTACK)}
    found |= set(_quantiles(values, TURNS))
    highest = float(np.nanmax(values))
    return tuple(sorted({round(value, decimals) for value in found if round(value, decimals) < highest}))


def _quantiles(values: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    import numpy as np

    known = values[~np.isnan(values)]
    return [float(value) for value in np.quantile(known, shares)] if known.size else []


def _up(value: float, step: float) -> float:
    return math.ceil(value / step - 1e-9) * step


def _below(value: float, step: float) -> float:
    return (math.ceil(value / step - 1e-9) - 1) * step
