"""Prevalence from flags that are wrong at times, and from labels of a stratified sample."""

from __future__ import annotations

import math

import numpy as np
import pytest

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats import (
    FEWER,
    MORE,
    UNCLEAR,
    Stratum,
    corrected_prevalence,
    estimate_strata,
    expected_by_chance,
)

LEAST_COVERED = 0.93
"""Of 300 simulated studies; with a true coverage of .95 fewer are seen in one of twenty simulations."""


class TestCorrected:
    def test_is_the_estimator_of_rogan_and_gladen(self) -> None:
        found = corrected_prevalence(Rate(250, 10_000), Rate(62, 84), Rate(14, 1515))
        share, recall, wrong = 250 / 10_000, 62 / 84, 14 / 1515
        assert found.value == pytest.approx((share - wrong) / (recall - wrong))
        assert found.low < found.value < found.high

    def test_with_a_detector_that_is_never_wrong_it_is_the_share_of_flags_with_its_exact_interval(self) -> None:
        found = corrected_prevalence(Rate(30, 1_000), Rate(10**9, 10**9), Rate(0, 10**9))
        assert (found.low, found.high) == pytest.approx(Rate(30, 1_000).interval, abs=2e-4)

    def test_the_interval_carries_what_is_not_known_of_recall(self) -> None:
        few, many = (
            corrected_prevalence(Rate(3_000, 10_000), Rate(6 * n, 10 * n), Rate(1, 1000)) for n in (3, 300)
        )
        assert few.value == pytest.approx(many.value)
        assert few.high - few.low > 3 * (many.high - many.low)

    def test_and_what_is_not_known_of_the_false_positive_rate(self) -> None:
        few, many = (corrected_prevalence(Rate(150, 10_000), Rate(62, 84), Rate(n, 100 * n)) for n in (5, 500))
        assert few.low == 0 < many.low

    def test_the_same_seed_gives_the_same_interval_and_another_nearly_so(self) -> None:
        one, again, other = (corrected_prevalence(Rate(250, 10_000), Rate(62, 84), Rate(14, 1515), seed=seed)
                             for seed in (0, 0, 1))  # fmt: skip
        assert one == again
        assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=0.01 * (one.high - one.low))

    def test_without_a_flag_the_estimate_is_zero_and_says_that_it_was_cut_off(self) -> None:
        found = corrected_prevalence(Rate(0, 200), Rate(62, 84), Rate(2, 400))
        assert (found.value, found.low) == (0, 0)
        assert 0 < found.high < 0.03
        assert found.note == FEWER

    def test_with_everything_flagged_it_is_one(self) -> None:
        found = corrected_prevalence(Rate(8, 8), Rate(62, 84), Rate(2, 400))
        assert (found.value, found.high) == (1, 1)
        assert found.low < 1
        assert found.note == MORE

    def test_a_recall_that_is_hardly_above_chance_says_so(self) -> None:
        found = corrected_prevalence(Rate(30, 300), Rate(3, 10), Rate(1, 12))
        assert UNCLEAR in found.note
        assert (found.low, found.high) == (0, 1)

    @pytest.mark.parametrize("recall", [Rate(1, 100), Rate(0, 50)])
    def test_a_recall_that_is_not_above_the_false_positive_rate_tells_nothing(self, recall: Rate) -> None:
        with pytest.raises(UsageError, match="tell nothing about prevalence"):
            corrected_prevalence(Rate(10, 100), recall, Rate(1, 100))

    def test_far_fewer_flags_than_false_positives_give_belie_the_false_positive_rate(self) -> None:
        with pytest.raises(UsageError, match="13 of 6,000 conversations are flagged, fewer than a false-positive"):
            corrected_prevalence(Rate(13, 6_000), Rate(62, 84), Rate(14, 1515))

    def test_far_more_flags_than_recall_gives_belie_the_recall(self) -> None:
        with pytest.raises(UsageError, match="more than a recall of 62/84"):
            corrected_prevalence(Rate(5_990, 6_000), Rate(62, 84), Rate(14, 1515))

    def test_a_rate_that_nobody_measured_is_refused(self) -> None:
        with pytest.raises(UsageError, match="recall: it must be measured on at least one conversation"):
            corrected_prevalence(Rate(1, 100), Rate(0, 0), Rate(1, 100))

    @pytest.mark.parametrize(
        ("scanned", "attacks", "benign", "recall", "wrong", "prevalence"),
        [
            (1_000_000, 84, 1515, 0.74, 0.009, 0.0),
            (1_000_000, 84, 1515, 0.74, 0.009, 0.01),
            (1_000_000, 84, 1515, 0.74, 0.009, 0.3),
            (5_000, 84, 970, 0.3, 0.008, 0.05),
            (100_000, 84, 970, 0.5, 0.002, 0.001),
            (200, 30, 50, 0.9, 0.1, 0.3),
        ],
    )
    def test_the_interval_holds_the_truth(
        self, scanned: int, attacks: int, benign: int, recall: float, wrong: float, prevalence: float
    ) -> None:
        random, held, studies = np.random.default_rng(20), 0, 300
        for seed in range(studies):
            try:
                found = corrected_prevalence(
                    Rate(int(random.binomial(scanned, prevalence * recall + (1 - prevalence) * wrong)), scanned),
                    Rate(int(random.binomial(attacks, recall)), attacks),
                    Rate(int(random.binomial(benign, wrong)), benign),
                    seed=seed,
                    draws=2_000,
                )
            except UsageError:
                continue  # it says that it can't tell, which is no interval that holds
            held += found.low <= prevalence <= found.high
        assert held / studies >= LEAST_COVERED


class TestByChance:
    def test_is_the_false_positive_rate_with_its_exact_interval(self) -> None:
        expected, low, high = expected_by_chance(1_000_000, Rate(14, 1515))
        assert expected == pytest.approx(1_000_000 * 14 / 1515)
        assert (low, high) == pytest.approx(tuple(1_000_000 * end for end in Rate(14, 1515).interval))

    def test_no_false_positive_in_some_hundreds_still_allows_thousands_in_a_million(self) -> None:
        expected, _, high = expected_by_chance(1_000_000, Rate(0, 970))
        assert expected == 0
        assert high > 3_000


class TestStrata:
    def test_each_stratum_counts_by_its_conversations(self) -> None:
        found = estimate_strata([
            Stratum("flagged", 100, True, 9, 10),
            Stratum("near", 100, False, 2, 10),
            Stratum("far", 9_800, False, 1, 100),
        ])  # fmt: skip
        attacks = 90 + 20 + 98
        assert found.prevalence.value == pytest.approx(attacks / 10_000)
        assert found.recall.value == pytest.approx(90 / attacks)
        assert found.precision.value == pytest.approx(0.9)
        assert found.false_positive_rate.value == pytest.approx(10 / (10_000 - attacks))

    def test_what_is_labelled_whole_is_known(self) -> None:
        found = estimate_strata([Stratum("flagged", 10, True, 8, 10), Stratum("rest", 30, False, 2, 30)])
        for one, value in ((found.prevalence, 10 / 40), (found.recall, 8 / 10), (found.precision, 8 / 10)):
            assert (one.low, one.value, one.high) == pytest.approx((value, value, value))

    def test_of_a_single_stratum_it_is_the_exact_interval(self) -> None:
        found = estimate_strata([Stratum("all", 10**9, False, 7, 200)])
        assert (found.prevalence.low, found.prevalence.high) == pytest.approx(Rate(7, 200).interval, abs=1e-3)

    def test_no_attack_among_the_labels_of_the_many_does_not_mean_that_there_is_none(self) -> None:
        found = estimate_strata([Stratum("flagged", 100, True, 18, 20), Stratum("rest", 9_900, False, 0, 80)])
        assert found.recall.value == 1
        assert found.recall.low < 0.3
        assert found.prevalence.high > 0.04

    def test_a_stratum_without_a_label_leaves_no_estimate_and_an_interval_that_says_so(self) -> None:
        found = estimate_strata([Stratum("flagged", 100, True, 18, 20), Stratum("rest", 900, False, 0, 0)])
        assert math.isnan(found.prevalence.value)
        assert found.prevalence.high > 0.98
        assert found.precision.value == pytest.approx(0.9)

    def test_without_any_attack_there_is_no_recall(self) -> None:
        found = estimate_strata([Stratum("flagged", 10, True, 0, 10), Stratum("rest", 90, False, 0, 40)])
        assert math.isnan(found.recall.value)
        assert found.prevalence.value == 0
        assert found.false_positive_rate.value == pytest.approx(0.1)

    def test_counts_that_cant_be_are_refused(self) -> None:
        with pytest.raises(UsageError, match="stratum 'flagged'"):
            Stratum("flagged", 5, True, 3, 6)

    @pytest.mark.parametrize(
        "strata",
        [
            ((100, True, 0.9, 40), (300, False, 0.3, 40), (9_600, False, 0.005, 120)),
            ((2_000, True, 0.5, 50), (2_000, False, 0.1, 50), (96_000, False, 0.01, 100)),
            ((30, True, 0.6, 30), (60, False, 0.1, 20), (3_000, False, 0.0, 50)),
        ],
    )
    def test_the_intervals_hold_the_truth(self, strata: tuple[tuple[int, bool, float, int], ...]) -> None:
        random, studies = np.random.default_rng(21), 300
        attacks = [round(size * share) for size, _, share, _ in strata]
        found = sum(some for some, (_, flagged, _, _) in zip(attacks, strata, strict=True) if flagged)
        alarms = sum(size for size, flagged, _, _ in strata if flagged)
        size = sum(one[0] for one in strata)
        truth = {
            "prevalence": sum(attacks) / size,
            "recall": found / sum(attacks),
            "precision": found / alarms,
            "false_positive_rate": (alarms - found) / (size - sum(attacks)),
        }
        held = dict.fromkeys(truth, 0)
        for seed in range(studies):
            drawn = [
                Stratum(str(place), n, flagged, int(random.hypergeometric(some, n - some, labelled)), labelled)
                for place, (some, (n, flagged, _, labelled)) in enumerate(zip(attacks, strata, strict=True))
            ]
            made = estimate_strata(drawn, seed=seed, draws=2_000)
            for name, value in truth.items():
                one = getattr(made, name)
                held[name] += one.low - 1e-9 <= value <= one.high + 1e-9
        assert all(count / studies >= LEAST_COVERED for count in held.values()), held
