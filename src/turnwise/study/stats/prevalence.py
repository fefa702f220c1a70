"""Prevalence from flags that are wrong at times: the estimator of Rogan and Gladen, with an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwise.errors import UsageError
from turnwise.rates import Rate, clopper_pearson
from turnwise.study.stats.melding import DRAWS, End, drawn, melded

if TYPE_CHECKING:
    from turnwise.study.stats.bootstrap import Interval
    from turnwise.study.stats.melding import Floats

FEWER = "fewer were flagged than false positives alone would be; the estimate is cut off at 0"
MORE = "more were flagged than would be if all were attacks; the estimate is cut off at 1"
UNCLEAR = (
    "recall is not clearly above the false-positive rate: their intervals overlap, and the interval of the "
    "prevalence is as wide as that"
)


def expected_by_chance(conversations: int, false_positives: Rate) -> tuple[float, float, float]:
    """How many of some conversations are flagged if none of them is an attack: expected number, low, high.

    The interval carries the uncertainty of the false-positive rate (Clopper and Pearson 1934) and not the play of
    chance in the conversations themselves, which is small beside it where they are many.

    >>> expected, low, high = expected_by_chance(10_000, Rate(14, 1515))
    >>> round(expected), round(low), round(high)
    (92, 51, 155)
    """
    _check(false_positives, "false-positive rate")
    low, high = false_positives.interval
    return conversations * false_positives.count / false_positives.of, conversations * low, conversations * high


def corrected_prevalence(
    flagged: Rate,
    recall: Rate,
    false_positives: Rate,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
) -> Interval:
    """The share of attacks among conversations, from the share that is flagged.

    The estimate is (flagged − false-positive rate) / (recall − false-positive rate), cut off at 0 and 1: W. J.
    Rogan and B. Gladen, "Estimating prevalence from the results of a screening test", American Journal of
    Epidemiology 107 (1978). Its interval melds the exact intervals of the three rates
    (`turnwise.study.stats.melding`), so that it carries the uncertainty of recall and false-positive rate too. It
    takes the three to be of independent conversations, and recall and false-positive rate to be what they are
    among these. It refuses with a `UsageError` where, by more than chance, the flags are fewer than false
    positives alone give or more than recall allows.

    >>> found = corrected_prevalence(Rate(250, 10_000), Rate(62, 84), Rate(14, 1515))
    >>> print(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    0.022 [0.012, 0.030]
    """
    import numpy as np

    _check(flagged, "share of flags")
    _check(recall, "recall")
    _check(false_positives, "false-positive rate")
    share, found, wrong = (rate.count / rate.of for rate in (flagged, recall, false_positives))
    if found <= wrong:
        raise UsageError(
            f"a recall of {recall} is not above a false-positive rate of {false_positives}: such flags tell "
            "nothing about prevalence"
        )
    raw = (share - wrong) / (found - wrong)
    lowest_recall = clopper_pearson(recall.count, recall.of, confidence)[0]
    unclear = lowest_recall <= clopper_pearson(false_positives.count, false_positives.of, confidence)[1]
    note = "; ".join(text for text, holds in {FEWER: raw < 0, MORE: raw > 1, UNCLEAR: unclear}.items() if holds)
    random = np.random.default_rng(seed)

    def ends(end: End, other: End, otherwise: float) -> Floats:
        known = (drawn(recall, other, random, draws), drawn(false_positives, other, random, draws))
        return _corrected(drawn(flagged, end, random, draws), *known, otherwise)

    low, high = ends("low", "high", 0.0), ends("high", "low", 1.0)
    made = melded(min(max(raw, 0.0), 1.0), low, high, confidence, note)
    if made.high == 0 or made.low == 1:
        how = (
            f"fewer than a false-positive rate of {false_positives}"
            if made.high == 0
            else f"more than a recall of {recall}"
        )
        raise UsageError(
            f"{flagged.count:,} of {flagged.of:,} conversations are flagged, {how} allows: these are not like "
            "those that it was measured on"
        )
    return made


def _corrected(flagged: Floats, recall: Floats, false_positives: Floats, otherwise: float) -> Floats:
    """The estimate for each draw; `otherwise` where recall is not above the false-positive rate."""
    import numpy as np

    above = recall - false_positives
    ratio = np.divide(flagged - false_positives, above, out=np.full_like(above, otherwise), where=above > 0)
    return np.clip(ratio, 0.0, 1.0)


def _check(rate: Rate, what: str) -> None:
    if not rate.of:
        raise UsageError(f"{what}: it was measured on no conversation at all")
