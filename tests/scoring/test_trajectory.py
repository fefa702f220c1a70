from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.conversation import Side
from turnwise.errors import ScoreError
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score, Trajectory

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
PROVENANCE = Provenance("scripted", "1", "1", "turn", {}, "0.1")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def evaluation(turn, principle="reciprocity", side=Side.PROMPT, F=0.5, run="run", sequence="s1"):
    return Evaluation(EvaluationKey(run, sequence, turn, side, principle), Score(0.5, 0.2, F), PROVENANCE, NOON)


keys = st.tuples(st.integers(1, 9), st.sampled_from(PRINCIPLES), st.sampled_from(Side))
tables = st.dictionaries(keys, st.floats(0, 1), max_size=40)


@given(table=tables, data=st.data())
def test_it_gives_back_what_it_was_given_whatever_the_order(table, data):
    evaluations = [evaluation(turn, principle, side, F) for (turn, principle, side), F in table.items()]
    trajectory = Trajectory("run", "s1", 9, data.draw(st.permutations(evaluations)))

    assert len(trajectory) == len(table)
    assert trajectory.evaluations == tuple(
        sorted(evaluations, key=lambda e: (e.key.turn, e.key.side, e.key.principle))
    )
    turns = list(trajectory)
    assert [scores.turn for scores in turns] == list(range(1, 10))
    seen = {
        (scores.turn, principle, side): score.F
        for scores in turns
        for side, row in ((Side.PROMPT, scores.scores), (Side.RESPONSE, scores.response_scores))
        for principle, score in row.items()
    }
    assert seen == table
    assert trajectory.principles == tuple(sorted({principle for _, principle, _ in table}))


@pytest.mark.shows("FR-006")
@given(table=tables)
def test_a_series_has_the_evaluated_turns_of_one_principle_and_side_in_order(table):
    trajectory = Trajectory("run", "s1", 9, [evaluation(*key, F) for key, F in table.items()])
    for principle in PRINCIPLES:
        for side in Side:
            expected = sorted(
                (turn, F) for (turn, name, of), F in table.items() if (name, of) == (principle, side)
            )
            assert [(turn, score.F) for turn, score in trajectory.series(principle, side)] == expected


@pytest.mark.shows("FR-008")
def test_gaps_stay_gaps():
    trajectory = Trajectory("run", "s1", 4, [evaluation(2, F=0.0), evaluation(4, "context_integrity")])
    assert [dict(scores.scores) for scores in trajectory] == [
        {},
        {"reciprocity": Score(0.5, 0.2, 0.0)},
        {},
        {"context_integrity": Score(0.5, 0.2, 0.5)},
    ]
    assert trajectory.series("reciprocity") == ((2, Score(0.5, 0.2, 0.0)),)
    assert trajectory.series("third_party_harm") == ()


def test_a_trajectory_without_evaluations_still_has_its_turns():
    trajectory = Trajectory("run", "s1", 3, [])
    assert (len(trajectory), trajectory.principles, trajectory.evaluations) == (0, (), ())
    assert [(scores.turn, dict(scores.scores)) for scores in trajectory] == [(1, {}), (2, {}), (3, {})]


def test_it_can_be_read_more_than_once_and_readers_can_t_change_it():
    trajectory = Trajectory("run", "s1", 2, [evaluation(1), evaluation(2)])
    for scores in trajectory:
        scores.scores.clear()
    assert [len(scores.scores) for scores in trajectory] == [1, 1]


def test_prompt_and_response_stay_apart():
    trajectory = Trajectory("run", "s1", 1, [evaluation(1, side=Side.RESPONSE, F=0.9), evaluation(1, F=0.1)])
    (scores,) = trajectory
    assert (scores.scores["reciprocity"].F, scores.response_scores["reciprocity"].F) == (0.1, 0.9)


def test_lengths_are_handed_on_and_are_zero_where_they_are_not_known():
    lengths = {1: (120, 340), 3: (7, 0)}
    trajectory = Trajectory("run", "s1", 3, [evaluation(1)], lengths)
    lengths[1] = (0, 0)
    assert [(scores.length, scores.response_length) for scores in trajectory] == [(120, 340), (0, 0), (7, 0)]


@pytest.mark.parametrize("other", [{"run": "other"}, {"sequence": "s2"}])
def test_runs_and_sequences_never_mix(other):
    with pytest.raises(ScoreError, match="give evaluations of 'run'/'s1' only"):
        Trajectory("run", "s1", 3, [evaluation(1), evaluation(2, **other)])


def test_two_evaluations_for_one_key_are_an_error_even_if_they_agree():
    with pytest.raises(ScoreError, match=r"two evaluations for .*turn=2.*reciprocity"):
        Trajectory("run", "s1", 3, [evaluation(2), evaluation(1), evaluation(2)])


@pytest.mark.parametrize("turn", [0, -1, 4])
def test_a_turn_outside_the_sequence_is_an_error(turn):
    with pytest.raises(ScoreError, match=f"turn {turn} must be from 1 to 3, turns of sequence 's1'"):
        Trajectory("run", "s1", 3, [evaluation(turn)])


def test_keys_sort_by_run_sequence_turn_side_and_principle():
    rows = [
        EvaluationKey("a", "s1", 2, Side.RESPONSE, "a"),
        EvaluationKey("a", "s1", 2, Side.PROMPT, "b"),
        EvaluationKey("a", "s1", 10, Side.PROMPT, "a"),
        EvaluationKey("a", "s1", 2, Side.PROMPT, "a"),
        EvaluationKey("a", "s0", 99, Side.RESPONSE, "z"),
    ]
    assert sorted(rows) == [rows[4], rows[3], rows[1], rows[0], rows[2]]
