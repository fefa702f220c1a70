from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.study.stats import Judged, confusion, missing_bounds, paired_bounds


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
    assert paired_bounds(first, second, attack=False).complete.pairs == 0


def test_bounds_need_the_missing_ones_to_be_listed():
    with pytest.raises(UsageError, match="missing ones included"):
        paired_bounds(judged([True, False]), judged([True]))
