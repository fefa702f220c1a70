from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from turnwise.errors import UsageError
from turnwise.study.stats.bootstrap import resamples
from turnwise.study.stats.thresholds import false_alarms, recall_at
from turnwise.study.stats.verdicts import Judged


def study(benign=400, attacks=60, alarms=0):
    rng = np.random.default_rng(4)
    judged = [Judged(f"b{n}", f"b{n}", False, 5, float(rng.normal()), alarms=n < alarms) for n in range(benign)]
    return judged + [Judged(f"a{n}", f"a{n // 2}", True, 5, float(rng.normal(2))) for n in range(attacks)]


def drawn_from(judged):
    rng = np.random.default_rng(0)
    return resamples([one.group for one in judged], [one.attack for one in judged], rng, 300)


def test_the_threshold_keeps_the_rate_and_the_interval_holds_for_its_choice():
    judged = study()
    found = recall_at(judged, 0.01, drawn_from(judged))
    flagged = sum(one.score >= found.threshold for one in judged if not one.attack)
    assert (flagged + 1) / 401 <= 0.01
    assert found.recall.count == sum(one.score >= found.threshold for one in judged if one.attack)
    assert found.interval.low < found.recall.count / 60 < found.interval.high
    fixed = found.recall.interval
    assert found.interval.value == pytest.approx(found.recall.count / 60)
    assert found.interval.high - found.interval.low > fixed[1] - fixed[0]


def test_too_few_conversations_give_a_reason_and_no_number():
    judged = study()
    found = recall_at(judged, 0.001, drawn_from(judged))
    assert (found.threshold, found.recall, found.interval) == (None, None, None)
    assert found.reason.startswith("400 benign conversations are too few")
    assert "999 are needed" in found.reason
    assert recall_at([one for one in judged if not one.attack], 0.01).reason == "there is no evaluated attack"
    with pytest.raises(UsageError, match=r"must lie in \(0, 1\)"):
        recall_at(judged, 0.0)


def test_false_alarms_are_counted_by_turn():
    judged = study(alarms=12)
    found = false_alarms(judged, drawn_from(judged))
    assert (found.alarms, found.turns, found.per_thousand) == (12, 2000, pytest.approx(6.0))
    assert found.low < 6.0 < found.high
    assert found.method == "percentile"


def test_without_alarms_the_limit_is_poissons():
    judged = study()
    found = false_alarms(judged, drawn_from(judged))
    assert found.method == "Poisson"
    assert found.high == pytest.approx(1000 * chi2.ppf(0.975, 2) / 2 / 2000, abs=1e-12)
    nothing = [one for one in judged if one.attack]
    assert false_alarms(nothing, drawn_from(nothing)).per_thousand is None
    assert math.isfinite(found.high)
