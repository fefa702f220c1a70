"""A study judged on many splits: each is the study that its seed gives, and what is said of all of them."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from tests.support.studies import Chat, run_of, study_data, turns_of, with_runs, with_turns

from turnwise.errors import UsageError
from turnwise.scoring import Score, TurnScores
from turnwise.study import Settings, Study, StudyData, all_tables, compare_data, record, verdict


def conversations(
    effect: float = 0.25,
    attacks: int = 90,
    benign: int = 180,
    seed: int = 1,
    missing: int = 0,
    first: str = "turn",
) -> StudyData:
    """Return two runs; in both, attacks are a little raised in every turn."""
    generator = random.Random(seed)
    chats = []
    for number in range(attacks + benign):
        attack, length, turns = number < attacks, generator.randint(4, 7), {}
        for run in ("t", "h"):
            F = [0.5 * generator.random() + (effect if attack else 0.0) for _ in range(length)]
            if number % 10 == 0:  # what a single turn shows happens to benign conversations as well
                F[generator.randrange(length)] = 0.9 + 0.1 * generator.random()
            scored = turns_of(F, gone=run == "h" and number < missing)
            turns[run] = also(scored, "q", lambda F: F**2)
        chats.append(Chat(f"c{number}", f"g{number // 2}", attack, turns, f"source {number % 3 % 2}"))
    return study_data(chats, [run_of("t", first), run_of("h", "history")])


def also(turns: Iterable[TurnScores], principle: str, F: Callable[[float], float]) -> tuple[TurnScores, ...]:
    """Return turns with a second principle, whose F follows from that of `p`."""
    return tuple(
        dataclasses.replace(one, scores=one.scores | {principle: Score(0.5, 0.2, F(one.scores["p"].F))})
        if one.scores
        else one
        for one in turns
    )


def study(data: StudyData, *detectors: str, **settings: Any) -> Study:
    given = {"runs": ("t", "h"), "target_fpr": 0.05, "replicates": 60, "splits": 4, "seeds": 1} | settings
    return compare_data(data, Settings(detectors=detectors, **given))


@pytest.fixture(scope="module")
def usual() -> Study:
    return study(conversations(), "cusum:drift=0.3", "slope", replicates=200, seeds=2)


@pytest.mark.parametrize("guarantee", ["expectation", "confidence"])
def test_every_split_is_the_study_that_its_seed_gives(guarantee):
    """Of two runs of one context, with detectors that are fitted anew in each split and one that is not."""
    data, asked = conversations(attacks=40, benign=70, first="history"), ("cusum:drift=0.3", "learned", "hmm")
    settings = {"guarantee": guarantee, "target_fpr": 0.15, "replicates": 5, "seeds": 1}
    compared = study(data, *asked, splits=2, **settings).between_runs
    assert [one.detector for one in compared] == list(asked)
    for split in range(2):
        alone = study(data, *asked, splits=1, seed=split, **settings)
        results = {arm.name: place for place, arm in enumerate(alone.arms)}
        for found in (one.gain for one in compared):
            for place, name in enumerate(found.arms):
                judgement, result = alone.judgements[results[name]], alone.results[results[name]]
                assert found.thresholds[split, place] == pytest.approx(judgement.threshold, abs=1e-8)
                recall, rate = result.counts.recall, result.counts.fpr
                assert found.recall[split, place] == recall.count / recall.of
                assert found.fpr[split, place] == rate.count / rate.of


def test_the_report_says_what_takes_thresholds_as_given(usual):
    text = " ".join(verdict(usual))
    for words in ("In the split of seed 0, which the tables below show", "for these thresholds alone"):
        assert words in text
    tables = {table.name: table for table in all_tables(usual)}
    for name in ("detectors", "tests", "differences", "final", "by_source", "matched"):
        assert "these thresholds as given" in tables[name].note
    for name in ("detectors", "tests", "differences", "final", "by_source", "further", "delay"):
        assert tables[name].title.endswith(", for these thresholds alone")


def test_a_single_split_says_that_it_is_one():
    found = study(conversations(first="history"), "cusum:drift=0.3", splits=1, seeds=1)
    assert "On a single split of the conversations" in " ".join(verdict(found))
    assert any(warning.startswith("a single split was asked for") for warning in found.warnings)
    assert any(warning.startswith("a single seed was asked for") for warning in found.warnings)
    assert found.between_runs[0].gain.splits == 1


def test_seeds_out_of_range_are_refused():
    with pytest.raises(UsageError, match="seeds must be at least 1 and at most 100, not 0"):
        Settings(runs=("h",), seeds=0)


def intervals(values: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a record that has an interval."""
    if isinstance(values, dict):
        if "ci" in values:
            yield values
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from intervals(value)


def test_every_interval_of_the_record_says_whether_it_takes_the_threshold_as_given(usual):
    found = record(usual)
    told = list(intervals(found))
    assert len(told) > 100
    assert all(isinstance(one["conditions_on_threshold"], bool) for one in told)
    assert not any(one["conditions_on_threshold"] for one in intervals(found["two_by_two"]))
    assert all(row["conditions_on_threshold"] == ["recall_ci", "fpr_ci"] for row in found["detectors"])
    assert all(
        one["differences"]["recall"]["conditions_on_threshold"] for one in found["tests"] if one["differences"]
    )
    for row in found["matched_rates"]:
        assert list(row["recall"]) == list(row["partial_auc"]) == ["0.01", "0.03", "0.05"]
        assert not any(one["conditions_on_threshold"] for one in row["recall"].values())
        assert row["thresholds_used"]["conditions_on_threshold"]


def test_arms_are_compared_at_the_rates_that_came_out_and_at_equal_ones(usual):
    assert set(usual.matched_rates) == {test.b for test in usual.tests if test.family == "reference"}
    for place, (arm, result) in enumerate(zip(usual.arms, usual.results, strict=True)):
        if arm.name not in usual.matched_rates:
            continue
        found = usual.matched_rates[arm.name]
        reference = usual.results[usual.reference].counts
        assert found.fpr == (reference.fpr, result.counts.fpr)
        gain = result.counts.recall.count / result.counts.recall.of - reference.recall.count / reference.recall.of
        assert found.thresholds_used.value == pytest.approx(gain), place
    better = usual.matched_rates["cusum:drift=0.3@h"]
    assert all(one.low > 0 for one in better.partial_auc.values())


def test_the_order_of_import_and_a_second_run_change_no_byte():
    def told(data: StudyData) -> str:
        found = study(data, "cusum:drift=0.3", "learned", splits=2, runs=("h",), replicates=20)
        return json.dumps(record(found), allow_nan=False)

    data = conversations(attacks=60, benign=100)
    order = list(range(len(data.known)))
    random.Random(9).shuffle(order)
    runs = (dataclasses.replace(run, examples=tuple(run.examples[n] for n in order)) for run in data.runs)
    moved = dataclasses.replace(data, known=tuple(data.known[n] for n in order), runs=tuple(runs))
    first = told(data)
    assert first == told(data)
    assert first == told(moved)


def test_what_an_arm_did_not_evaluate_is_left_out_and_told():
    found = study(conversations(missing=6), "cusum:drift=0.3", splits=1, replicates=10)
    [one] = found.two_by_two
    assert (one.attacks, one.benign, one.left_out) == (84, 180, 6)
    assert "6 conversations that not all of these runs evaluated are left out" in " ".join(verdict(found))
    [between] = study(
        conversations(missing=6, first="history"), "cusum:drift=0.3", splits=1, replicates=10
    ).between_runs
    assert (between.gain.conversations, between.gain.left_out) == (264, 6)


def test_with_folds_no_threshold_is_carried_over():
    found = study(conversations(), "cusum:drift=0.3", folds=3, replicates=10)
    assert all(one.thresholds_used is None for one in found.matched_rates.values())


def test_with_folds_the_text_names_folds_and_the_table_their_thresholds():
    found = study(conversations(), "cusum:drift=0.3", folds=3, replicates=10)
    text = " ".join(verdict(found))
    assert "In the 3 folds of seed 0, which the tables below show" in text
    assert "In the split of seed" not in text and "of this split alone" not in text
    [table] = [table for table in all_tables(found) if table.name == "detectors"]
    assert "in each fold anew: lowest to highest" in table.note
    several = 0
    for judgement, row in zip(found.judgements, table.rows, strict=True):
        limits = [fold.threshold for fold in judgement.folds]
        least, most = f"{min(limits):.4g}", f"{max(limits):.4g}"
        assert row[2] == (least if least == most else f"{least} to {most}")
        several += least != most
    assert several
    assert re.search(r"The threshold of any_turn@t in fold [123] of 3 ", " ".join(found.warnings))


def test_too_few_conversations_for_a_split_leave_a_warning():
    data = conversations(attacks=40, benign=40, first="history")
    found = study(data, "cusum", folds=4, target_fpr=0.07)
    assert found.between_runs[0].gain is None
    assert any("not be compared on 4 splits (split 0 has 12 benign" in warning for warning in found.warnings)


def test_the_cautions_are_among_the_warnings(usual):
    warnings = " ".join(usual.warnings)
    assert "The threshold of any_turn@t rests on 1 of 54 benign calibration conversations" in warnings
    assert "further arms have fewer than 10" in warnings
    assert "Run h, conversations that train and calibrate: The principles p and q are copies" in warnings
    data = conversations()
    turned = with_turns(data.runs[1], [also(one.turns, "r", lambda F: 1 - F) for one in data.runs[1].examples])
    told = study(with_runs(data, data.runs[0], turned), "cusum", splits=1).warnings
    assert any("The principle r is worse than chance" in warning for warning in told)


def test_compared_arms_that_flag_at_different_rates_are_told():
    data = conversations()
    tested = study(data, "cusum", splits=1).folds[0].test
    loud = {o.sequence_id: turns_of([0.9] * 3) for o in data.known if o.sequence_id in tested and not o.attack}
    told = study(with_runs(data, data.runs[0], with_turns(data.runs[1], loud)), "cusum", splits=1).warnings
    assert any("flag benign test conversations at different rates" in warning for warning in told)


def test_splits_out_of_range_are_refused():
    for count in (0, 1001):
        with pytest.raises(UsageError, match="splits must be at least 1 and at most 1000"):
            Settings(("t",), splits=count)
