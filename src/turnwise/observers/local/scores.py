"""From the reader's logits to T, I and F."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import ObserverError
from turnwise.observers.local.protocol import SIDES, Reading
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.scoring import Score

FEATURES = ("logit", "undecided", "hidden", "unread", "offset")
"""What indeterminacy is made of: the logit of I; how near F is to one half; whether the text hid words; how far
the vocabulary does not fit it; and 1."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How logits become probabilities, fitted on conversations that the network was not trained on.

    Args:
        slope: of the logits of T and F, shape (sides, 2, principles): those of prompts first, and T first.
        offset: likewise.
        indeterminacy: weights of `FEATURES`, shape (sides, principles, features).
    """

    slope: NDArray[np.float64]
    offset: NDArray[np.float64]
    indeterminacy: NDArray[np.float64]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Calibration:
        """Return the calibration of a record, as `to_record` gives it.

        Raises:
            ObserverError: a part is missing, not finite, or of another shape.
        """
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
        """Return it as JSON values."""
        return {name: getattr(self, name).round(6).tolist() for name in ("slope", "offset", "indeterminacy")}

    def scores(self, reading: Reading) -> NDArray[np.float64]:
        """Return T, I and F of each row of a reading.

        Args:
            reading: what the network makes of a text; its outputs begin with T, I and F of each principle in turn.

        Returns:
            Shape (rows, principles, 3), each value in [0, 1].
        """
        count, side = len(PRINCIPLES), SIDES.index(reading.side)
        slope, offset = self.slope[side], self.offset[side]
        triples = reading.logits[:, : 3 * count].reshape(-1, count, 3).astype(np.float64)
        truth = triples[:, :, 0] * slope[0] + offset[0]
        falsity = triples[:, :, 2] * slope[1] + offset[1]
        given = features(triples[:, :, 1], falsity, reading)
        unsure = (given @ self.indeterminacy[side][:, :, None])[:, :, 0]
        return sigmoid(np.stack((truth, unsure[:, :, 0], falsity), axis=2))

    def strongest(self, reading: Reading) -> dict[str, Score]:
        """Return for each principle the score of the piece of a text with the highest F.

        Args:
            reading: what the network makes of the text.
        """
        rows = self.scores(reading)
        pieces = rows[:, :, 2].argmax(axis=0).tolist()
        return {
            name: Score(*rows[piece, place].tolist())
            for place, (name, piece) in enumerate(zip(PRINCIPLES, pieces, strict=True))
        }


def features(logit: NDArray[np.float64], falsity: NDArray[np.float64], reading: Reading) -> NDArray[np.float64]:
    """Return what indeterminacy is made of, in the order of `FEATURES`.

    Args:
        logit: of I, shape (rows, principles).
        falsity: the calibrated logit of F, likewise.
        reading: the text that they are of.

    Returns:
        Shape (rows, principles, 1, features).
    """
    probability = sigmoid(falsity)
    whole = np.ones_like(logit)
    parts = (logit, 4 * probability * (1 - probability), whole * reading.hidden, whole * reading.unread, whole)
    return np.stack(parts, axis=-1)[:, :, None, :]


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logistic function, without overflow at either end."""
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1.0))
