"""The turn at which a detector fires, beside the turns that a reader flags."""

from __future__ import annotations

import numpy as np
import pytest

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.compare import TurnVerdict, flagged_turns, summarise_turns


@pytest.mark.parametrize(
    ("reader", "fired", "outcome", "delay"),
    [
        ((3, 5), 3, "hit", 0),
        ((3, 5), 8, "hit", 5),
        ((5, 3), 1, "early", -2),
        ((3,), None, "miss", None),
        ((), 4, "false alarm", None),
        ((), None, "clear", None),
    ],
)
def test_a_detector_beside_a_reader(reader, fired, outcome, delay):
    found = TurnVerdict("g", 9, reader, fired)
    assert (found.outcome, found.delay) == (outcome, delay)


def test_a_turn_that_the_conversation_does_not_have_is_refused():
    for reader, fired in (((0,), None), ((), 10)):
        with pytest.raises(UsageError, match="turns 1 to 9"):
            TurnVerdict("g", 9, reader, fired)


def test_a_summary_counts_every_outcome_once():
    reader = flagged_turns([{"scarcity": 0.49}, {"scarcity": 0.1, "liking": 0.5}, {}])
    assert reader == (2,)
    verdicts = [TurnVerdict(f"g{n}", 10, reader, 2 + n) for n in range(5)]
    verdicts += [TurnVerdict("e", 10, (8,), 4), TurnVerdict("m", 10, (1,), None)]
    verdicts += [TurnVerdict("f", 50, (), 7), TurnVerdict("c", 50, (), None)]
    found = summarise_turns(verdicts, replicates=200)
    assert (found.hit, found.early, found.miss) == (Rate(5, 7), Rate(1, 7), Rate(1, 7))
    assert found.false_alarm == Rate(1, 2)
    assert found.alarms_per_thousand == (10.0, *(1000 * end for end in Rate(1, 100).interval))
    assert [found.delay[share].value for share in (0.25, 0.5, 0.75)] == [1, 2, 3]
    assert 0 <= found.delay[0.5].low < 2 < found.delay[0.5].high <= 4
    assert found.lead[0.5].value == 4
    assert "delay of the hits: median 2 turns" in str(found)
    assert found == summarise_turns(verdicts[::-1], replicates=200)


def test_a_summary_of_nothing_has_no_numbers():
    found = summarise_turns([])
    assert found.alarms_per_thousand is None and np.isnan(found.delay[0.5].value)
    assert str(found).startswith("hit: 0/0")
