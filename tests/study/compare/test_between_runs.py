"""Two observers of the same conversations: which finds more, at the same rate of false positives."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from tests.support.studies import Chat, run_of, study_data, turns_of, with_runs

from turnwise.study import (
    Settings,
    Study,
    StudyData,
    all_tables,
    as_text,
    compare_data,
    holm,
    mcnemar,
    record,
    summary,
    verdict,
)

ATTACKS, BENIGN = 80, 140


def conversations(raised: dict[str, float], *, seed: int = 1, missing: int = 0, **contexts: str) -> StudyData:
    """Return conversations whose attacks lie higher by so much on each run; noise is drawn for each run anew.

    Args:
        raised: by name of the run, what the F of its attacks is raised by.
        seed: of the noise.
        missing: attacks that the first run has no score of.
        contexts: of runs that did not see the history.
    """
    generator = random.Random(seed)
    chats = []
    for number in range(ATTACKS + BENIGN):
        attack, turns = number < ATTACKS, {}
        for place, (run, more) in enumerate(raised.items()):
            F = [0.5 * generator.random() + (more if attack else 0.0) for _ in range(4)]
            turns[run] = turns_of(F, gone=place == 0 and number < missing)
        chats.append(Chat(f"c{number:03}", f"g{number // 2}", attack, turns, f"set {number % 2}"))
    runs = (run_of(run, contexts.get(run, "history"), f"observer of {run}") for run in raised)
    return study_data(chats, runs)


def study(data: StudyData, *detectors: str, **settings: object) -> Study:
    given = {"target_fpr": 0.05, "replicates": 100, "splits": 4, "seeds": 1, **settings}
    runs = tuple(one.run.name for one in data.runs)
    return compare_data(data, Settings(runs, detectors or ("cusum:drift=0.3",), **given))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def planted() -> Study:
    """Return a study of two observers, the second of which sees more of the attacks."""
    return study(conversations({"few": 0.05, "many": 0.25}), "cusum:drift=0.3", "f_ema")


def test_the_observer_that_finds_more_is_named_with_numbers(planted):
    assert [one.detector for one in planted.between_runs] == ["cusum:drift=0.3", "f_ema"]
    for one in planted.between_runs:
        assert (planted.arms[one.first].run, planted.arms[one.second].run) == ("few", "many")
        assert one.test.won
        assert one.test.b_alone - one.test.a_alone == pytest.approx(one.differences.recall.value * one.test.pairs)
        assert 0 < one.differences.recall.low <= one.differences.recall.value <= one.differences.recall.high
        assert one.gain.overall.expected.low > 0
        assert not one.gain.overall.expected.conditions_on_threshold
        assert one.at_rate.recall[0.05].low > 0
        assert one.differences.auc.low > 0
        assert one.differences.delong.p <= one.auc_p_holm < 0.01


def test_the_test_is_of_the_verdicts_at_thresholds_that_others_set(planted):
    [fold] = planted.folds
    for one in planted.between_runs:
        first, second = (planted.judgements[place] for place in (one.first, one.second))
        assert {name.sequence_id for name in first.judged} == fold.test
        for judgement in (first, second):
            [known] = judgement.folds
            assert (known.flagged + 1) / (len(known.benign) + 1) <= 0.05
        assert not one.test.tightened
        attacks = [(a, b) for a, b in zip(first.judged, second.judged, strict=True) if a.attack]
        again = mcnemar(
            [a.fired for a, _ in attacks], [b.fired for _, b in attacks], [a.group for a, _ in attacks]
        )
        assert (again.a_alone, again.b_alone, again.p) == (one.test.a_alone, one.test.b_alone, one.test.p)


def test_all_of_them_are_corrected_together(planted):
    tests = [one.test for one in planted.between_runs]
    assert [test.p_holm for test in tests] == list(holm([max(test.p, test.p_group) for test in tests]))
    areas = [one.differences.delong.p for one in planted.between_runs]
    assert [one.auc_p_holm for one in planted.between_runs] == list(holm(areas))


def test_the_other_way_round_the_signs_turn():
    data = conversations({"few": 0.05, "many": 0.25})
    [one] = study(data).between_runs
    [other] = study(with_runs(data, *data.runs[::-1])).between_runs
    assert (one.test.a_alone, one.test.b_alone) == (other.test.b_alone, other.test.a_alone)
    assert one.test.p_holm == other.test.p_holm
    assert one.test.won
    assert other.test.lost
    assert one.differences.recall.value == -other.differences.recall.value
    assert one.differences.auc.value == pytest.approx(-other.differences.auc.value)
    ends = one.gain.overall.expected, other.gain.overall.expected
    assert ends[0].value == pytest.approx(-ends[1].value)
    assert ends[0].low == pytest.approx(-ends[1].high)


def test_equal_scores_are_no_difference():
    data = conversations({"one": 0.2})
    [run] = data.runs
    other = dataclasses.replace(run, run=run_of("two", "history", "other"))
    [found] = study(with_runs(data, run, other)).between_runs
    assert (found.test.a_alone, found.test.b_alone, found.test.p_holm) == (0, 0, 1.0)
    assert not (found.test.won or found.test.lost)
    expected = found.gain.overall.expected
    assert (expected.value, expected.low, expected.high) == (0.0, 0.0, 0.0)
    assert (found.differences.auc.value, found.auc_p_holm) == (0.0, 1.0)


@pytest.mark.integration
def test_the_expected_gain_tells_equal_observers_apart_no_more_often_than_its_level_allows():
    """The tests at one split's thresholds may: by chance these differ in strictness, which is not in their p."""
    shown = 0
    for seed in range(20):
        [found] = study(conversations({"a": 0.15, "b": 0.15}, seed=seed), splits=10).between_runs
        expected = found.gain.overall.expected
        shown += expected.low > 0 or expected.high < 0
    assert shown <= 4  # at 5 % there are more in 0.3 % of such series


def test_each_run_stands_against_the_first():
    data = conversations({"a": 0.1, "b": 0.1, "c": 0.1})
    found = study(data, "any_turn", "cusum", splits=1, replicates=10)
    names = [(one.detector, one.test.a, one.test.b) for one in found.between_runs]
    assert names == [
        ("any_turn", "any_turn@a", "any_turn@b"),
        ("any_turn", "any_turn@a", "any_turn@c"),
        ("cusum", "cusum@a", "cusum@b"),
        ("cusum", "cusum@a", "cusum@c"),
    ]


def test_without_a_detector_that_was_asked_for_it_is_any_turn():
    found = compare_data(
        conversations({"a": 0.1, "b": 0.1}),
        Settings(("a", "b"), target_fpr=0.05, splits=1, seeds=1, replicates=10),
    )
    assert [one.detector for one in found.between_runs] == ["any_turn"]


def test_a_run_that_is_named_twice_is_one():
    data = conversations({"a": 0.1})
    found = compare_data(data, Settings(("a", "a"), ("cusum",), target_fpr=0.05, splits=1, seeds=1, replicates=10))
    assert found.between_runs == ()
    assert [arm.name for arm in found.arms].count("cusum@a") == 1


def test_runs_of_different_contexts_ask_about_time():
    found = study(conversations({"t": 0.1, "h": 0.2, "other": 0.2}, t="turn"), splits=1, replicates=10)
    assert found.between_runs == ()
    assert {"runs", "runs_further"}.isdisjoint(table.name for table in all_tables(found))
    assert as_text(found).startswith("# What finds more: reading the history, or watching over time?")


@pytest.mark.parametrize("detector", ["cusum:drift=0.3", "learned"])
def test_with_folds_every_attack_is_tested_once(detector):
    found = study(conversations({"few": 0.05, "many": 0.25}), detector, folds=3, splits=1, replicates=10)
    [one] = found.between_runs
    assert one.test.pairs == ATTACKS
    assert one.test.won
    assert "At the thresholds of the 3 folds alone" in " ".join(verdict(found))


def test_what_one_run_lacks_is_left_out_of_both():
    found = study(conversations({"few": 0.05, "many": 0.25}, missing=20), folds=3, splits=1, replicates=20)
    [one] = found.between_runs
    assert one.test.pairs == ATTACKS - 20
    assert one.differences.left_out == 20
    [row] = next(table.rows for table in all_tables(found) if table.name == "runs_further")
    assert row[-1] == "20"


def test_given_thresholds_are_compared_with_a_caution():
    found = study(conversations({"few": 0.05, "many": 0.25}), thresholds="given")
    [one] = found.between_runs
    assert one.gain is None
    text = " ".join(verdict(found))
    assert "At the thresholds that were given, many alone caught" in text
    assert "These rates are not matched" in text
    assert summary(found)["between_runs"][0]["expected"] is None


def test_the_report_opens_with_it(planted):
    text = as_text(planted)
    assert text.startswith("# Which run finds more?")
    opening = verdict(planted)[1]
    assert opening.startswith("cusum:drift=0.3 on many against few. Over 4 splits of the conversations, with ")
    assert "in expectation: many finds more." in opening
    assert "after Holm's correction over 2 comparisons" in opening
    names = [table.name for table in all_tables(planted)]
    assert names[:3] == ["two_by_two", "gains", "runs"]
    first = all_tables(planted)[2]
    assert first.title == "The same detector on two runs"
    assert [row[:3] for row in first.rows] == [("cusum:drift=0.3", "few", "many"), ("f_ema", "few", "many")]
    assert {row[-1] for row in first.rows} == {"b finds more"}


def test_all_of_it_is_in_the_numbers(planted):
    numbers = json.loads(json.dumps(record(planted), allow_nan=False))["between_runs"]
    short = summary(planted)["between_runs"]
    for one, row, found in zip(short, numbers, planted.between_runs, strict=True):
        assert row.items() >= one.items()
        assert (row["a"], row["b"], row["a_alone"], row["b_alone"]) == (
            "few", "many", found.test.a_alone, found.test.b_alone
        )  # fmt: skip
        for name in ("expected", "recall", "auc"):
            assert row[name]["ci"][0] <= row[name]["value"] <= row[name]["ci"][1]
        assert not row["expected"]["conditions_on_threshold"]
        assert row["recall"]["conditions_on_threshold"]
        assert row["at_rate"]["recall"]["0.05"]["value"] == found.at_rate.recall[0.05].value
        assert set(row["by_source"]) == {"set 0", "set 1"}
