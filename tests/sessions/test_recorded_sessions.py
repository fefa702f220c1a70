"""The 20 recorded sessions: their trust, trajectory and mode come out again, and so does the table of rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from turnwise.errors import SessionError, UnknownNameError
from turnwise.scoring import Score, TurnScores, balance
from turnwise.sessions import SessionMemory, preset
from turnwise.sessions.recorded_sessions import (
    RULES,
    SessionRecord,
    largest_difference,
    rate_rules,
    read_records,
    record_of,
)

TABLE = {
    "trust < 0.60 at the end": (6, 0),
    "trust < 0.60 at any turn": (6, 1),
    "trust < 0.65 at the end": (9, 2),
    "degrading at the end": (6, 2),
    "mean delta < -0.3": (8, 2),
    "trust < 0.60 and (degrading or mean delta < -0.3)": (5, 0),
    "option 2 as written: three of four weak signals": (7, 1),
    "one-turn drop over 1.0": (6, 3),
    "option 3 as written: shorter windows": (9, 2),
    "hostility that stays": (6, 0),
}


@pytest.fixture
def recorded(recorded_file):
    return read_records(json.loads(recorded_file.read_text(encoding="utf-8")))


def scores_for(value: float) -> TurnScores:
    """Return scores with a given balance; records don't tell F, so it is chosen: low where the balance is good."""
    F = 0.9 if value <= -1 else 0.1 if value >= 0.65 else 0.3 if value >= 0.5 else 0.5
    T = 0.1 if value <= -1 else value + 0.5 * F
    scores = Score(T=round(T, 6), I=0.3, F=F)
    assert balance(scores, 100) == pytest.approx(value)
    return TurnScores(1, {"reciprocity": scores}, length=100)


@pytest.mark.shows("SESSION-2")
def test_trust_comes_out_after_every_turn(recorded):
    assert len(recorded) == 20
    for record in recorded:
        assert record.reproduced == pytest.approx(record.trust, abs=1e-9)
    assert largest_difference(recorded) < 1e-9


@pytest.mark.shows("SESSION-7")
def test_the_table_of_rules(recorded):
    rows = rate_rules(recorded)
    assert {row.rule.name: (row.rates["attack"].count, row.rates["benign"].count) for row in rows} == TABLE
    assert all(rate.of == 10 for row in rows for rate in row.rates.values())
    assert [row.rule for row in rows] == list(RULES)


def test_the_rows_name_what_they_flag(recorded):
    flagged = {row.rule.name: row.flagged for row in rate_rules(recorded)}
    assert flagged["trust < 0.60 at any turn"][-1] == "benign_05"
    assert flagged["option 2 as written: three of four weak signals"][-1] == "benign_04"


def test_the_session_memory_gives_the_same_trust_trajectory_and_mode(recorded):
    memory, now = SessionMemory(preset("original")), datetime(2025, 1, 1, tzinfo=UTC)
    for record in recorded:
        state = memory.start(record.scenario, now)
        for value, trust in zip(record.balances, record.trust, strict=True):
            state, stance = memory.update(state, scores_for(value), now)
            assert state.trust == pytest.approx(trust, abs=1e-9)
        assert stance.trajectory == record.trajectory, record.scenario
        assert stance.mode == record.mode, record.scenario
        assert state.balances == record.balances


@pytest.mark.shows("SESSION-7")
def test_where_the_prose_of_the_summary_differs_from_its_records(recorded):
    by_name = {record.scenario: record for record in recorded}
    benign = [record.trust for record in recorded if record.label == "benign"]
    assert min(map(min, benign)) == pytest.approx(0.545)
    assert min(trust[-1] for trust in benign) == pytest.approx(0.6185)
    assert (by_name["attack_01"].trajectory, by_name["attack_01"].mode) == ("stable", "cautious")
    assert by_name["attack_04"].trajectory == "improving"


def test_the_default_rules_read_no_hostile_opening_as_improving(recorded):
    memory, now = SessionMemory(), datetime(2025, 1, 1, tzinfo=UTC)
    modes = {}
    for record in recorded:
        state = memory.start(record.scenario, now)
        for value in record.balances:
            state, stance = memory.update(state, scores_for(value), now)
        modes[record.scenario] = (stance.trajectory, stance.mode)
    assert modes["attack_04"][0] != "improving"
    assert modes["benign_01"] == ("stable", "normal")


def test_a_record_of_scored_turns_is_that_of_the_original_rules(recorded):
    for record in recorded:
        made = record_of(record.scenario, record.label, map(scores_for, record.balances))
        assert made.balances == record.balances
        assert made.trust == pytest.approx(record.trust, abs=1e-9)
        assert made.trajectory == record.trajectory


def test_turns_without_a_score_are_left_out():
    made = record_of("a", "benign", [scores_for(0.7), TurnScores(2, {}), scores_for(0.7)])
    assert len(made.trust) == 2
    assert record_of("a", "benign", [TurnScores(1, {})]) is None


GOOD = {"scenario": "a", "label": "benign", "balances": [0.7, 0.7], "trust": [0.65, 0.755]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "records must be a JSON list"),
        ([], "not an empty list"),
        ([GOOD, 3], "record 2 is int '3', not an object"),
        ([{"scenario": "a"}], "record 1 has no key 'label'"),
        ([GOOD | {"label": "odd"}], "a: label must be attack or benign, not 'odd'"),
        ([GOOD | {"balances": [0.7]}], "a: 1 balances and 2 values of trust"),
        ([GOOD | {"balances": "high"}], "record 1: balances must be a list of numbers"),
        ([GOOD | {"balances": [0.7, 1.7]}], r"record 1: balances must be a number in \[-1, 1\], not 1.7"),
        ([GOOD | {"balances": [0.7, None]}], "not None"),
        ([GOOD | {"trust": [0.7, -0.5]}], "a: trust of turn 2 must be"),
        ([GOOD | {"balances": [], "trust": []}], "at least one turn"),
    ],
)
def test_records_that_cannot_be_are_refused(data, message):
    with pytest.raises(SessionError, match=message):
        read_records(data)


def test_an_unknown_trajectory_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'stable'"):
        read_records([GOOD | {"recorded_trajectory": "stabel"}])


def test_rules_on_degrading_need_the_trajectory():
    with pytest.raises(SessionError, match="a: no recorded_trajectory"):
        rate_rules(read_records([GOOD]))


def test_a_session_of_one_turn_has_no_mean_delta():
    record = SessionRecord("a", "attack", (-1.0,), (0.44,), "stable")
    fired = {row.rule.name for row in rate_rules([record]) if row.flagged}
    assert fired == {"trust < 0.60 at the end", "trust < 0.60 at any turn", "trust < 0.65 at the end"}
