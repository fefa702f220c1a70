"""What detectors said of conversations, the counts that follow, and bounds for what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.detectors import build_detector
from turnwise.errors import UsageError
from turnwise.scoring import Score, TurnScores
from turnwise.stats import Judged, confusion, evaluated, judge_all, matched, missing_bounds, paired_bounds
from turnwise.study import Example


def example(name, values, attack=True):
    turns = tuple(
        TurnScores(turn, {} if F is None else {"reciprocity": Score(0.5, 0.2, F)})
        for turn, F in enumerate(values, 1)
    )
    return Example(name, "goal", attack, turns)


def test_ever_and_final_verdicts_and_alarms_are_told_apart():
    detector = build_detector("any_turn:threshold=0.5")
    risen, twice, gone, quiet = judge_all(
        detector,
        [
            example("risen", [0.1, 0.2, 0.9]),
            example("twice", [0.7, 0.8, 0.1, 0.6, 0.2]),
            example("gone", [None, 0.9, 0.1, None]),
            example("quiet", [0.1, 0.2]),
        ],
        {"risen": {"source": "made"}},
    )
    assert (risen.fired, risen.turn, risen.final, risen.alarms, risen.score) == (True, 3, True, 1, 0.9)
    assert (twice.fired, twice.turn, twice.final, twice.alarms) == (True, 1, False, 2)
    assert (gone.fired, gone.turn, gone.final, gone.missing_turns, gone.turns) == (True, 2, False, 2, 4)
    assert (quiet.fired, quiet.turn, quiet.final, quiet.alarms) == (False, None, False, 0)
    assert risen.strata == {"source": "made"}
    assert quiet.strata == {}


def test_a_detector_of_the_last_turn_has_one_verdict():
    [early, late] = judge_all(
        build_detector("last_turn:threshold=0.5"), [example("a", [0.9, 0.1]), example("b", [0.1, 0.9])]
    )
    assert (early.fired, early.final, early.alarms) == (False, False, 0)
    assert (late.fired, late.final, late.alarms, late.turn) == (True, True, 1, 2)


def test_a_conversation_without_scores_is_missing_and_not_clean():
    [nothing, some] = judge_all(
        build_detector("any_turn"), [example("a", [None, None]), example("b", [0.0, None], attack=False)]
    )
    assert not nothing.evaluated
    assert nothing.missing_turns == 2
    assert evaluated([nothing, some]) == [some]
    assert evaluated([nothing, some], attack=True) == []
    assert confusion([nothing, some]).cleared == 1
    assert confusion([nothing, some]).missed == 0


def test_counts_give_the_rates():
    judged = [
        *(Judged(f"a{n}", "g", True, 3, 0.9, fired=True, turn=2, final=n < 4) for n in range(6)),
        *(Judged(f"m{n}", "g", True, 3, 0.1) for n in range(2)),
        Judged("f", "g", False, 3, 0.9, fired=True, turn=1),
        *(Judged(f"c{n}", "g", False, 3, 0.1) for n in range(7)),
    ]
    ever, final = confusion(judged), confusion(judged, final=True)
    assert (ever.recall.count, ever.recall.of) == (6, 8)
    assert (ever.fpr.count, ever.fpr.of) == (1, 8)
    assert (ever.precision.count, ever.precision.of) == (6, 7)
    assert ever.f1 == pytest.approx(2 * (6 / 7) * (6 / 8) / (6 / 7 + 6 / 8))
    assert (final.caught, final.false_alarms) == (4, 0)
    assert confusion([]).f1 is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"turns": 0}, "at least 1 is needed"),
        ({"fired": True, "turn": 9}, "turn 9 that fired is not one of its 3"),
        ({"fired": True}, "give turn where fired is true, and only there"),
        ({"turn": 2}, "give turn where fired is true, and only there"),
        ({"score": None, "fired": True, "turn": 1}, "without being evaluated"),
    ],
)
def test_a_verdict_that_contradicts_itself_is_refused(changes, message):
    given = {"sequence_id": "a", "group": "g", "attack": True, "turns": 3, "score": 0.5}
    with pytest.raises(UsageError, match=message):
        Judged(**(given | changes))


def test_a_conversation_without_turns_is_refused():
    with pytest.raises(UsageError, match="'empty' has no turn"):
        judge_all(build_detector("any_turn"), [Example("empty", "g", True, ())])


def test_only_what_both_evaluated_is_paired():
    first = [Judged("a", "g", True, 3, 0.5), Judged("b", "g", True, 3, None), Judged("c", "h", False, 3, 0.1)]
    second = [Judged("c", "h", False, 3, 0.2), Judged("a", "g", True, 3, 0.6), Judged("d", "i", True, 3, 0.6)]
    assert [(one.score, other.score) for one, other in matched(first, second)] == [(0.5, 0.6), (0.1, 0.2)]
    with pytest.raises(UsageError, match="share no evaluated conversation"):
        matched(first, [Judged("z", "g", True, 3, 0.5)])
    with pytest.raises(UsageError, match="occurs twice"):
        matched(first, [*second, second[0]])
    with pytest.raises(UsageError, match="same label and group for sequence 'a'"):
        matched(first, [Judged("a", "g", False, 3, 0.5)])


def judged(states, attack=True):
    """Return conversations that were flagged (True), not flagged (False) or not evaluated (None)."""
    return [
        Judged(
            f"{attack}{n}",
            f"g{n}",
            attack,
            4,
            None if state is None else 0.5,
            fired=bool(state),
            turn=2 if state else None,
            missing_turns=4 if state is None else 0,
        )
        for n, state in enumerate(states)
    ]


states = st.lists(st.sampled_from([True, False, None]), max_size=40)


@given(attacks=states, benign=states, guesses=st.lists(st.booleans(), min_size=80, max_size=80))
def test_whatever_the_missing_ones_would_have_been_the_rate_lies_within_the_bounds(attacks, benign, guesses):
    guess = iter(guesses)
    filled = [[next(guess) if state is None else state for state in side] for side in (attacks, benign)]
    found = missing_bounds([*judged(attacks), *judged(benign, False)])
    whole = confusion([*judged(filled[0]), *judged(filled[1], False)])
    for bounds, rate in ((found.recall, whole.recall), (found.fpr, whole.fpr)):
        assert bounds.none_flagged.of == bounds.all_flagged.of == rate.of
        assert bounds.none_flagged.count <= rate.count <= bounds.all_flagged.count
    assert found.attacks.count == attacks.count(None)
    assert found.benign.count == benign.count(None)
    absent, total = attacks.count(None) + benign.count(None), len(attacks) + len(benign)
    assert bool(found.warning) == (total > 0 and absent / total > 0.05)


def test_the_rates_of_what_was_evaluated_are_given_beside():
    found = missing_bounds(judged([True, True, False, None]))
    assert (found.recall.evaluated.count, found.recall.evaluated.of) == (2, 3)
    assert (found.turns.count, found.turns.of) == (4, 16)
    assert found.warning.startswith("1 of 4 conversations (25.0 %) were not evaluated")


def test_a_conclusion_that_missing_verdicts_could_turn_round_is_seen():
    first, second = judged([False] * 30), judged([True] * 8 + [None] * 22)
    found = paired_bounds(first, second)
    assert found.complete.pairs == 8
    assert found.complete.p == pytest.approx(2 / 2**8)
    assert found.for_second.b_alone == 30
    assert found.against_second.b_alone == 8
    assert paired_bounds(judged([None]), judged([False])).against_second.a_alone == 1


def test_bounds_need_the_missing_ones_to_be_listed():
    with pytest.raises(UsageError, match="missing ones included"):
        paired_bounds(judged([True, False]), judged([True]))
