from __future__ import annotations

import pytest

from turnwise.detectors import build_detector
from turnwise.errors import UsageError
from turnwise.scoring import Score, TurnScores
from turnwise.study import Example
from turnwise.study.stats import Judged, confusion, evaluated, judge_all, matched


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
