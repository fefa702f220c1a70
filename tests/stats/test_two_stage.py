"""Estimates from a screen's choice, all of it judged, and a random sample of the rest."""

from __future__ import annotations

import pytest
from benchmarks.two_stage import SCREENS, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from turnwise.errors import UsageError
from turnwise.stats import Interval, TwoStageRates, Unit, two_stage_rates


def units(found: int, alarms: int, rest: int, sampled: int, missed: int, stratum: str = "") -> list[Unit]:
    """So many asked units that are positive and negative, and of the rest a sample with so many positives."""
    asked = [Unit("asked", True, 1.0, n < found, n < found, stratum) for n in range(found + alarms)]
    rate = sampled / rest if rest else 1.0
    verdicts = [n < missed if n < sampled else None for n in range(rest)]
    return asked + [Unit("rest", False, rate, verdict, False, stratum) for verdict in verdicts]


def ends(one: Interval | None) -> tuple[float, float, float]:
    assert one is not None
    return one.value, one.low, one.high


def test_everything_counts_by_the_inverse_of_the_rate_at_which_it_was_sampled() -> None:
    found = two_stage_rates(units(30, 20, 1_000, 500, 5))
    assert (found.units, found.asked, found.certain, found.found, found.judged, found.missed) == (
        1_050, 50, 50, 30, 500, 5,
    )  # fmt: skip
    assert ends(found.prevalence)[0] == pytest.approx(40 / 1_050)
    assert ends(found.screen.false_positive_rate)[0] == pytest.approx(20 / 1_010)
    assert ends(found.screen.precision) == pytest.approx((0.6, 0.6, 0.6))
    assert ends(found.two_stages.false_positive_rate) == pytest.approx((0, 0, 0))
    assert ends(found.screen.recall) == ends(found.two_stages.recall)


def test_strata_that_were_sampled_at_other_rates_count_by_their_own() -> None:
    found = two_stage_rates(units(10, 0, 100, 50, 5, "a") + units(10, 0, 1_000, 100, 1, "b"))
    assert ends(found.prevalence)[0] == pytest.approx((20 + 10 + 10) / 1_120)


@pytest.mark.parametrize(("rest", "sampled", "missed"), [(900, 90, 0), (900, 90, 1), (50, 25, 4), (400, 20, 20)])
def test_the_interval_is_the_hypergeometric_mid_p_one(rest: int, sampled: int, missed: int) -> None:
    def allowed(positives: int) -> bool:
        chance = hypergeom(rest, positives, sampled)
        half = chance.pmf(missed) / 2
        return bool(chance.cdf(missed) - half > 0.025 and chance.sf(missed - 1) - half > 0.025)

    exact = [positives for positives in range(rest + 1) if allowed(positives)]
    value, low, high = ends(two_stage_rates(units(40, 10, rest, sampled, missed)).screen.recall)
    off = 0.02
    assert (low, high) == pytest.approx((40 / (40 + exact[-1]), 40 / (40 + exact[0])), abs=off)
    assert low <= value <= high


def test_without_a_sample_what_was_missed_is_not_known() -> None:
    for found in (two_stage_rates(units(30, 20, 100, 0, 0)), two_stage_rates(units(0, 0, 100, 0, 0))):
        assert found.prevalence is found.screen.recall is found.two_stages.recall is None
        assert found.screen.false_positive_rate is None
    assert two_stage_rates(units(30, 20, 100, 0, 0)).screen.precision is not None


def test_a_sample_without_a_positive_does_not_say_that_none_was_missed() -> None:
    value, low, high = ends(two_stage_rates(units(30, 20, 1_000, 50, 0)).screen.recall)
    assert (value, high) == (1, 1)
    assert low < 0.5


def test_a_verdict_that_is_missing_where_the_judge_was_asked_widens_the_interval() -> None:
    asked = [Unit("a", True, 1.0, n < 5 if n < 8 else None, n < 5) for n in range(10)]
    value, low, high = ends(two_stage_rates([*asked, *units(0, 0, 10, 10, 0)]).screen.precision)
    assert value == pytest.approx(5 / 8)
    assert low < value < high


def test_turns_of_conversations_that_were_drawn_whole_know_less() -> None:
    asked = [Unit("a", True, 1.0, True, True)] * 20
    drawn = [Unit(f"c{n}", False, 0.1, n < 4, False) for n in range(40) for _ in range(5)]
    others = [Unit(f"o{n}", False, 0.1, None, False) for n in range(360) for _ in range(5)]
    alone, together = (two_stage_rates([*asked, *drawn, *others], by_conversation=by) for by in (False, True))
    assert alone.design_effect == 1
    assert together.design_effect == pytest.approx(5, rel=0.05)
    assert _width(together) > 1.5 * _width(alone)
    singles = [Unit(f"c{n}", False, 0.1, n < 20, False) for n in range(200)]
    assert two_stage_rates([*asked, *singles], by_conversation=True).design_effect == pytest.approx(1, abs=0.01)


def _width(found: TwoStageRates) -> float:
    _, low, high = ends(found.screen.recall)
    return high - low


@given(
    found=st.integers(1, 30), alarms=st.integers(0, 30), rest=st.integers(1, 60), data=st.data()
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_rates_lie_in_their_intervals_and_recall_falls_with_what_was_missed(
    found: int, alarms: int, rest: int, data: st.DataObject
) -> None:
    sampled = data.draw(st.integers(1, rest))
    missed = data.draw(st.integers(0, sampled))
    given_ = units(found, alarms, rest, sampled, missed)
    one = two_stage_rates(given_, draws=500)
    for rate in (one.prevalence, one.screen.recall, one.screen.precision, one.two_stages.recall):
        value, low, high = ends(rate)
        assert 0 <= low <= value <= high <= 1
    assert two_stage_rates(data.draw(st.permutations(given_)), draws=500) == one
    if missed:
        fewer = two_stage_rates(units(found, alarms, rest, sampled, missed - 1), draws=500)
        assert ends(fewer.screen.recall)[0] > ends(one.screen.recall)[0]
    if sampled == rest:
        assert ends(one.screen.recall) == pytest.approx((found / (found + missed),) * 3)


@pytest.mark.parametrize("kind", ["turns", "conversations", "turns of drawn conversations"])
def test_intervals_hold_the_truth_most_of_the_time(kind: str) -> None:
    for row in rows(8, [kind]):
        assert row.screen in SCREENS
        assert row.covered.count >= 5
        assert row.width > 0


def test_units_that_can_not_be_are_refused() -> None:
    with pytest.raises(UsageError, match="a known verdict has a probability"):
        Unit("a", False, 0.0, True, False)
    with pytest.raises(UsageError, match="units is empty"):
        two_stage_rates([])
