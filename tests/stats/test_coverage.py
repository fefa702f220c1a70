from __future__ import annotations

import numpy as np
import pytest
from benchmarks.study_statistics import INTERVALS, World, exact_coverage, simulate
from statsmodels.stats.proportion import proportion_confint

from turnwise.errors import UnknownNameError, UsageError
from turnwise.stats import ResampleWeights, auc_of, confusion


def test_the_world_has_the_numbers_it_says():
    world = World(groups=6000, size=2)
    first, second = world.draw(np.random.default_rng(0))
    for judged in (first, second):
        final = confusion(judged, final=True)
        assert final.recall.count / final.recall.of == pytest.approx(world.recall, abs=0.02)
        assert final.precision.count / final.precision.of == pytest.approx(world.precision, abs=0.02)
        assert final.f1 == pytest.approx(world.f1, abs=0.02)
        area = auc_of(judged)(ResampleWeights(np.ones((1, len(judged))), np.arange(len(judged))))[0]
        assert area == pytest.approx(world.auc, abs=0.02)
        benign = [one for one in judged if not one.attack]
        rate = sum(one.alarms for one in benign) / sum(one.turns for one in benign)
        assert rate == pytest.approx(world.alarm, abs=0.003)
    scores = np.array([[one.score for one in judged if not one.attack] for judged in (first, second)])
    assert np.corrcoef(scores)[0, 1] == pytest.approx(0.707, abs=0.03)
    own, other = scores[0].reshape(6000, 2).T
    assert np.corrcoef(own, other)[0, 1] == pytest.approx(world.resemblance, abs=0.05)


@pytest.mark.parametrize("name", INTERVALS)
def test_every_interval_contains_the_truth_most_of_the_time(name):
    world = World(groups=30, size=2 if "repeats" not in name else 3)
    found = simulate(name, world, np.random.default_rng(5), repeats=20, replicates=80)
    assert found.covered.of == 20
    assert found.covered.count >= 14
    assert found.width > 0


def test_a_wrong_truth_is_not_covered(monkeypatch):
    world = World(groups=60, size=2)
    monkeypatch.setattr(World, "auc", property(lambda self: 0.6))
    assert simulate("AUC, DeLong", world, np.random.default_rng(0), 10).covered.count == 0


@pytest.mark.parametrize(("of", "share"), [(5, 0.5), (20, 0.3), (60, 0.01)])
def test_exact_intervals_cover_at_least_what_they_say(of, share):
    [found] = exact_coverage(of, [share])
    assert found >= 0.95
    rng = np.random.default_rng(0)
    counts = rng.binomial(of, share, 2000)
    low, high = proportion_confint(counts, of, 0.05, method="beta")
    assert np.mean((low <= share) & (share <= high)) == pytest.approx(found, abs=0.02)


def test_unknown_intervals_and_impossible_worlds_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'AUC, DeLong'"):
        simulate("AUC, DeLon", World(), np.random.default_rng(0), 1)
    with pytest.raises(UsageError, match="resemblance"):
        World(resemblance=1.0)
    with pytest.raises(UsageError, match="probabilities"):
        World(hazard=0.0)
