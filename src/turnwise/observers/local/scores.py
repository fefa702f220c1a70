"""From the reader's logits to T, I and F."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.conversation import Side
from turnwise.errors import ObserverError
from turnwise.observers.local.protocol import SIDES, Reading
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.scoring import Score

FEATURES = ("logit", "undecided", "hidden", "misfit", "offset")
"""What indeterminacy is made of: the logit of I; how near F is to one half; whether the text hid words; how far
the vocabulary does not fit it; and 1."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How logits become probabilities, fitted on conversations that the network was not trained on.

    `slope` and `offset` are of the logits of T and F, shape (sides, 2, principles): those of prompts first, and T
    first. `indeterminacy` has weights of `FEATURES`, shape (sides, principles, features).
    """

    slope: NDArray[np.float64]
    offset: NDArray[np.float64]
    indeterminacy: NDArray[np.float64]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Calibration:
        """The calibration that `to_record` wrote; `ObserverError` where a part is missing or can't be."""
        sides, count = len(SIDES), len(PRINCIPLES)
        try:
            parts = [np.asarray(record[name], np.float64) for name in ("slope", "offset", "indeterminacy")]
        except (KeyError, TypeError, ValueError) as error:
            raise ObserverError(
                f"the calibration is incomplete ({error!r}); copy the weights folder again"
            ) from error
        shapes = [(sides, 2, count), (sides, 2, count), (sides, count, len(FEATURES))]
        if [part.shape for part in parts] != shapes or not all(np.isfinite(part).all() for part in parts):
            raise ObserverError("the calibration has another shape than the scores; copy the weights folder again")
        return cls(*parts)

    def to_record(self) -> dict[str, Any]:
        """The calibration as JSON values."""
        return {name: getattr(self, name).round(6).tolist() for name in ("slope", "offset", "indeterminacy")}

    def scores(self, reading: Reading) -> NDArray[np.float64]:
        """T, I and F of each row of a reading; shape (rows, principles, 3), each value in [0, 1]."""
        return self._calibrated(reading.logits, reading.side, reading.hidden, reading.misfit)

    def _calibrated(
        self,
        logits: NDArray[np.float32],
        side: Side,
        hidden: bool | NDArray[np.bool_],
        misfit: float | NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """T, I and F of rows of one side; `hidden` and `misfit` of all of them, or of shape (rows, 1)."""
        count, place = len(PRINCIPLES), SIDES.index(side)
        slope, offset = self.slope[place], self.offset[place]
        triples = logits[:, : 3 * count].reshape(-1, count, 3).astype(np.float64)
        truth = triples[:, :, 0] * slope[0] + offset[0]
        falsity = triples[:, :, 2] * slope[1] + offset[1]
        given = _features(triples[:, :, 1], falsity, hidden, misfit)
        unsure = (given @ self.indeterminacy[place][:, :, None])[:, :, 0]
        return sigmoid(np.stack((truth, unsure[:, :, 0], falsity), axis=2))

    def strongest_of_many(self, readings: Sequence[Reading]) -> NDArray[np.float64]:
        """What `strongest` gives of each of many readings, in one go; shape (readings, principles, 3)."""
        found = np.empty((len(readings), len(PRINCIPLES), 3))
        for side in SIDES:
            places = [place for place, one in enumerate(readings) if one.side is side]
            if not places:
                continue
            told = [readings[place] for place in places]
            counts = np.array([len(one.logits) for one in told])
            hidden = np.repeat([one.hidden for one in told], counts)[:, None]
            misfit = np.repeat([one.misfit for one in told], counts)[:, None]
            rows = self._calibrated(np.concatenate([one.logits for one in told]), side, hidden, misfit)
            starts = np.cumsum(counts) - counts
            found[places] = rows[starts]
            for number in np.flatnonzero(counts > 1).tolist():
                pieces = rows[starts[number] : starts[number] + counts[number]]
                found[places[number]] = pieces[pieces[:, :, 2].argmax(axis=0), np.arange(len(PRINCIPLES))]
        return found

    def strongest(self, reading: Reading) -> dict[str, Score]:
        """For each principle the score of the piece of a text with the highest F."""
        rows = self.scores(reading)
        pieces = rows[:, :, 2].argmax(axis=0).tolist()
        return {
            name: Score(*rows[piece, place].tolist())
            for place, (name, piece) in enumerate(zip(PRINCIPLES, pieces, strict=True))
        }


def features(logit: NDArray[np.float64], falsity: NDArray[np.float64], reading: Reading) -> NDArray[np.float64]:
    """What indeterminacy is made of, in the order of `FEATURES`; shape (rows, principles, 1, features).

    `logit` is that of I, `falsity` the calibrated logit of F, each of shape (rows, principles).
    """
    return _features(logit, falsity, reading.hidden, reading.misfit)


def _features(
    logit: NDArray[np.float64],
    falsity: NDArray[np.float64],
    hidden: bool | NDArray[np.bool_],
    misfit: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    probability = sigmoid(falsity)
    whole = np.ones_like(logit)
    parts = (logit, 4 * probability * (1 - probability), whole * hidden, whole * misfit, whole)
    return np.stack(parts, axis=-1)[:, :, None, :]


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logistic function, without overflow at either end."""
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1.0))
