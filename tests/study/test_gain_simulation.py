"""The map of what following a conversation over time gains."""

from __future__ import annotations

import json

import numpy as np
import pytest

from turnwise.errors import UsageError
from turnwise.study import ConversationKind, GainMap, gain_map, kind_of
from turnwise.study.gain_simulation import decided, recall_at, simulated

THIN = ConversationKind(1.0, "spread thin", 12, 0.3)
SUDDEN = ConversationKind(0.5, "sudden", 12, 0.3)


def test_all_shapes_carry_the_same_and_spread_it_as_they_say() -> None:
    kinds = {
        shape: ConversationKind(1.0, shape, 20, 0.2).bad
        for shape in ("sudden", "slow rise", "spread thin", "periodic")
    }
    assert {round(float(bad.sum()), 6) for bad in kinds.values()} == {14.0}
    assert np.count_nonzero(kinds["sudden"]) == np.count_nonzero(kinds["periodic"]) == 4
    assert np.all(np.diff(kinds["slow rise"]) > 0)
    assert np.ptp(kinds["spread thin"]) == 0


@pytest.fixture(scope="module")
def found() -> GainMap:
    return gain_map(kinds=[THIN, SUDDEN], conversations=200)


def test_what_is_spread_thin_is_gained_by_accumulating_and_what_is_sudden_is_not(found: GainMap) -> None:
    thin, sudden = found.gains
    assert (thin.shown, sudden.shown) == ("gain", "nothing")
    assert thin.low <= thin.gain <= thin.high
    assert sudden.highest > 0.95


def test_a_map_is_the_same_by_seed_and_on_any_number_of_processes() -> None:
    once, again, other = (
        gain_map(kinds=[THIN, SUDDEN], conversations=50, seed=seed, jobs=jobs).to_dict()
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    )
    assert json.dumps(once) == json.dumps(again) != json.dumps(other)


def test_harmless_conversations_pay_for_their_length_by_the_highest_f_alone(found: GainMap) -> None:
    rates = {(one.decision, one.turns): one.rate for one in found.lengths if one.noise == THIN.noise}
    assert rates["any_turn", 100] > 0.15
    assert rates["f_ema:alpha=0.1", 100] < 0.1


def test_a_recall_is_at_a_threshold_that_flags_no_more_than_the_rate() -> None:
    harmless = np.arange(100.0)
    assert recall_at(np.array([94.0, 95.0, 96.0]), harmless, 0.05) == pytest.approx(2 / 3)
    assert recall_at(np.full(10, 5.0), np.full(100, 5.0), 0.05) == 0.0


def test_simulated_conversations_find_their_own_place_again() -> None:
    rng, kind = np.random.default_rng(3), ConversationKind(1.0, "sudden", 10, 0.4)

    def peaks(bad: np.ndarray | None) -> list[list[float]]:
        chats = simulated(kind.noise, kind.turns, bad, 200, rng)
        return [[max(one.F for one in turn.scores.values()) for turn in chat] for chat in chats]

    truth = np.where(kind.bad > 0, 0.9, 0.0).tolist()
    read = [(truth, seen) for seen in peaks(kind.bad)] + [([0.0] * kind.turns, seen) for seen in peaks(None)]
    found = kind_of(read)
    assert (found.shape, found.turns, found.share) == ("sudden", 10, 0.4)
    assert found.noise == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("truth", "shape"),
    [
        ([0.0, 0.0, 0.8, 0.9], "sudden"),
        ([0.0, 0.3, 0.6, 0.9], "slow rise"),
        ([0.6, 0.6, 0.6, 0.6], "spread thin"),
        ([0.0, 0.8, 0.0, 0.8], "periodic"),
    ],
)
def test_a_set_has_the_shape_of_most_of_its_attacks(truth: list[float], shape: str) -> None:
    quiet = ([0.0] * 4, [0.05, 0.1, 0.05, 0.1])
    assert kind_of([(truth, [0.1, 0.2, 0.6, 0.7]), quiet]).shape == shape


def test_what_can_not_be_simulated_or_placed_is_refused() -> None:
    with pytest.raises(UsageError, match="use sudden"):
        ConversationKind(1.0, "spiral", 5, 0.5)
    with pytest.raises(UsageError, match="noise must be above 0"):
        ConversationKind(0.0, "sudden", 5, 0.5)
    with pytest.raises(UsageError, match="at least 50"):
        gain_map(kinds=[THIN], conversations=10)
    with pytest.raises(UsageError, match="some flagged and some not"):
        kind_of([([0.1, 0.1], [0.1, 0.2])])


def test_a_decision_without_evidence_flags_nothing() -> None:
    scores = decided(["slope"], simulated(1.0, 2, None, 5, np.random.default_rng(0)))["slope"]
    assert np.all(np.isneginf(scores))
