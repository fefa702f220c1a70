"""From logits to T, I and F: a calibration for each side, what raises I, and the card of the shipped weights."""

from __future__ import annotations

import numpy as np
import pytest

from turnwise.conversation import Side
from turnwise.errors import ObserverError
from turnwise.observers.local.reading import Reading
from turnwise.observers.local.scores import FEATURES, Calibration
from turnwise.principles import builtin_principles

COUNT = len(builtin_principles())
UNSURE = np.array([0.5, 0.5, 1.0, 3.0, -1.0])


def calibration() -> Calibration:
    """The scores of replies are twice as steep, and lower."""
    slope = np.ones((2, 2, COUNT))
    slope[1] = 2.0
    offset = np.zeros((2, 2, COUNT))
    offset[1] = -1.0
    return Calibration(slope, offset, np.tile(UNSURE, (2, COUNT, 1)))


def reading(*logits: float, side: Side = Side.PROMPT, hidden: bool = False, unread: float = 0.0) -> Reading:
    """The same logit for T, I and F of every principle, a row for each piece."""
    rows = np.array([[value] * 3 * COUNT for value in logits], np.float32)
    return Reading(side, rows, hidden, unread, "")


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def test_each_side_has_a_calibration_of_its_own() -> None:
    prompt = calibration().strongest(reading(1.0))["reciprocity"]
    reply = calibration().strongest(reading(3.0, side=Side.RESPONSE))["reciprocity"]
    found = [prompt.T, prompt.F, reply.T, reply.F]
    assert found == pytest.approx([sigmoid(1.0), sigmoid(1.0), sigmoid(5.0), sigmoid(5.0)])


def test_the_piece_with_the_highest_falsity_counts() -> None:
    scores = calibration().strongest(reading(-2.0, 2.0, 0.0))
    assert [score.F for score in scores.values()] == pytest.approx([sigmoid(2.0)] * COUNT)


def test_hidden_and_unread_text_raise_indeterminacy_and_nothing_else() -> None:
    plain, hidden, foreign = (
        calibration().strongest(one)["third_party_harm"]
        for one in (reading(0.5), reading(0.5, hidden=True), reading(0.5, unread=0.8))
    )
    assert plain.I < hidden.I < foreign.I
    assert plain.F == hidden.F == foreign.F


def test_a_calibration_survives_its_record_and_one_for_another_number_of_sides_is_refused() -> None:
    again = Calibration.read(calibration().to_record())
    assert again.strongest(reading(0.3)) == calibration().strongest(reading(0.3))
    record = calibration().to_record()
    record["slope"] = record["slope"][0]
    with pytest.raises(ObserverError, match="another shape than the scores"):
        Calibration.read(record)
    assert len(FEATURES) == len(UNSURE)
