"""Context apart from trajectory: each gain is shown where it was planted, and there alone."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from tests.support.studies import Chat, run_of, study_data, turns_of

from turnwise.stats import Difference
from turnwise.study import (
    Settings,
    Study,
    StudyData,
    all_tables,
    as_markdown,
    compare_data,
    record,
    summary,
    verdict,
)
from turnwise.study.compare import ApartGain

TURNS = 6


def conversations(context: float = 0.0, steady: float = 0.0, attacks: int = 60, benign: int = 120) -> StudyData:
    """Return a run of single turns and one with the history.

    Args:
        context: what the history alone adds to one turn of an attack.
        steady: what every turn of an attack has more, in both runs; a turn of some benign ones stands out as well.
    """
    generator = random.Random(4)
    chats = []
    for number in range(attacks + benign):
        attack, turns = number < attacks, {}
        for run in ("t", "h"):
            F = [0.5 * generator.random() + (steady if attack else 0.0) for _ in range(TURNS)]
            if steady and generator.random() < 0.3:
                F[generator.randrange(TURNS)] = 0.8 + 0.2 * generator.random()
            if attack and run == "h" and generator.random() < 0.8:
                F[generator.randrange(TURNS)] += context
            turns[run] = turns_of((min(f, 1.0) for f in F), length=None)
        chats.append(Chat(f"c{number}", f"g{number // 2}", attack, turns, f"s{number % 2}"))
    return study_data(chats, [run_of("t", "turn"), run_of("h", "history")])


def study(data: StudyData, *detectors: str, runs: tuple[str, ...] = ("t", "h"), **settings: int) -> Study:
    given = {"replicates": 1000, "splits": 1, **settings}
    return compare_data(data, Settings(runs, detectors, target_fpr=0.05, **given))  # type: ignore[arg-type]


def says(found: Study) -> dict[str, str]:
    """Return what is said of both gains in the record."""
    [one] = record(found)["two_by_two"]
    return {kind: one[kind][0]["says"] for kind in ("gain of context", "gain of trajectory")}


@pytest.fixture(scope="module")
def by_history() -> Study:
    return study(conversations(context=0.45))


@pytest.mark.shows("SC-001", "SC-008")
def test_where_the_history_alone_gives_it_away_only_context_gains(by_history):
    assert says(by_history) == {"gain of context": "shown", "gain of trajectory": "not shown"}
    [one] = summary(by_history)["two_by_two"]
    assert one["says"] == (
        "Only the gain of context is shown here: reading the history finds more, watching over time adds nothing "
        "that is shown."
    )
    text = " ".join(verdict(by_history))
    assert one["says"] in text
    assert "accumulation adds nothing that is shown on s0, s1." in text


@pytest.mark.shows("SC-001", "SC-008")
def test_where_every_turn_is_a_little_raised_only_trajectory_gains():
    found = study(conversations(steady=0.3), "learned")
    assert says(found) == {"gain of context": "not shown", "gain of trajectory": "shown"}
    [one] = record(found)["two_by_two"]
    assert one["says"].startswith("Only the gain of trajectory is shown here: reading the history adds nothing")
    assert "learned" in {cell["decision"] for cell in one["recall"]}
    assert set(one["chosen"]["h"]) & {"learned", "f_ema:alpha=0.6,slope_limit=inf", "cusum:drift=0.15", "cusum"}


def test_without_either_neither_is_shown():
    found = study(conversations())
    assert set(says(found).values()) <= {"not shown", "not shown (not stable over seeds)"}
    assert "Neither gain is shown here" in " ".join(verdict(found))


def test_it_is_the_first_table_with_both_gains_and_the_sentence_beneath(by_history):
    first, second = all_tables(by_history)[:2]
    assert first.columns[2:] == ("highest F", "last F", "EMA", "CUSUM", "peak accumulation", "best accumulator")
    assert [row[:2] for row in first.rows] == [("the turn alone", "t"), ("the history", "h")]
    assert {row[0] for row in second.rows} == {"gain of context", "gain of trajectory"}
    assert {row[2] for row in second.rows} == {"all attacks", "s0", "s1"}
    assert as_markdown(second).splitlines()[-1].startswith("Only the gain of context is shown here")


def test_a_gain_is_the_difference_of_two_cells_over_six_seeds(by_history):
    [one] = record(by_history)["two_by_two"]
    assert one["seeds"] == [0, 1, 2, 3, 4, 5]
    recall = {(cell["decision"], cell["run"]): cell for cell in one["recall"]}
    for gain in one["gain of context"] + one["gain of trajectory"]:
        assert len(gain["by_seed"]) == 6
        if gain["attacks"] == "all attacks":
            a, b = (recall[tuple(gain[name])] for name in ("a", "b"))
            assert gain["by_seed"][0]["value"] == pytest.approx(b["recall"]["value"] - a["recall"]["value"])
            others = [after - before for before, after in zip(a["other_seeds"], b["other_seeds"], strict=True)]
            assert [other["value"] for other in gain["by_seed"][1:]] == pytest.approx(others)
        assert gain["p_holm"] >= max(seed["p"] for seed in gain["by_seed"])


def test_the_order_of_import_changes_no_number():
    data = conversations(steady=0.3)
    runs = (dataclasses.replace(run, examples=run.examples[::-1]) for run in data.runs)
    turned = dataclasses.replace(data, known=data.known[::-1], runs=tuple(runs))
    first, other = (json.dumps(record(study(one, replicates=20, seeds=2))["two_by_two"]) for one in (data, turned))
    assert first == other


def test_resamples_that_are_too_few_to_show_anything_leave_a_warning(by_history):
    found = study(conversations(context=0.45), replicates=20, seeds=1)
    assert any("20 resamples are too few to show a gain" in one for one in found.warnings)
    assert not any("too few to show" in one for one in by_history.warnings)


def test_runs_that_saw_the_same_have_a_gain_of_trajectory_alone():
    found = study(conversations(steady=0.3), runs=("h",), seeds=2)
    [one] = record(found)["two_by_two"]
    assert one["gain of context"] == []
    assert one["says"] == "The gain of trajectory is shown here: watching over time finds more."


def test_too_few_groups_leave_a_warning():
    data = conversations(attacks=2, benign=40)
    found = compare_data(data, Settings(("t", "h"), thresholds="given", replicates=20))
    assert found.two_by_two == ()
    assert any("folds need two groups of each label at least, not 1 with attacks" in one for one in found.warnings)


def gain(*ends: tuple[float, float, float], p: float = 0.001) -> ApartGain:
    by_seed = tuple(Difference("", value, low, high, False, "percentile", 50, p) for low, value, high in ends)
    return ApartGain("gain of context", "all attacks", ("highest F", "t"), ("highest F", "h"), by_seed, p, p)


def test_a_gain_outside_the_interval_of_another_seed_is_not_shown():
    assert gain((0.1, 0.2, 0.3), (0.15, 0.25, 0.35)).says == "shown"
    assert gain((0.1, 0.2, 0.3), (0.22, 0.29, 0.35)).says == "not shown (not stable over seeds)"
    assert gain((-0.3, -0.2, -0.1), (-0.35, -0.25, -0.1)).says == "a loss"
    assert gain((0.1, 0.2, 0.3), p=0.06).says == "not shown"
    assert gain((-0.01, 0.2, 0.3), (0.1, 0.2, 0.3)).says == "not shown"
