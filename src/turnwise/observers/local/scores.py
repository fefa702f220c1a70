"""From a network's outputs to T, I and F: the calibration of the weights, and heads that were taught."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.conversation import Side
from turnwise.errors import ObserverError, PrincipleError
from turnwise.observers.local.reading import SIDES, Reading
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.principles import HeadFile, read_head
from turnwise.scoring import Score

FEATURES = ("logit", "undecided", "hidden", "misfit", "offset")
"""What I is made of: its logit; how near F is to one half; `hidden` and `misfit` of the `Reading`; and 1."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Slope and offset of T and F, shape (sides, 2, principles); weights of I, (sides, principles, features)."""

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
        return {name: getattr(self, name).round(6).tolist() for name in ("slope", "offset", "indeterminacy")}

    def _calibrated(
        self,
        logits: NDArray[np.float32],
        side: Side,
        hidden: bool | NDArray[np.bool_],
        misfit: float | NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """T, I and F of rows of one side, shape (rows, principles, 3); `hidden` and `misfit` may be columns."""
        count, place = len(PRINCIPLES), SIDES.index(side)
        slope, offset = self.slope[place], self.offset[place]
        triples = logits[:, : 3 * count].reshape(-1, count, 3).astype(np.float64)
        truth = triples[:, :, 0] * slope[0] + offset[0]
        falsity = triples[:, :, 2] * slope[1] + offset[1]
        given = _features(triples[:, :, 1], falsity, hidden, misfit)
        unsure = (given @ self.indeterminacy[place][:, :, None])[:, :, 0]
        return sigmoid(np.stack((truth, unsure[:, :, 0], falsity), axis=2))

    def strongest_of_many(self, readings: Sequence[Reading]) -> NDArray[np.float64]:
        """What `strongest` gives of each reading, in one go; shape (readings, principles, 3)."""
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
        """For each principle the score of the part of a text with the highest F."""
        return {name: Score(*triple) for name, triple in zip(PRINCIPLES, self.triples(reading), strict=True)}

    def triples(self, reading: Reading) -> list[list[float]]:
        """What `strongest` gives, as plain T, I and F in the order of `PRINCIPLES`."""
        rows = self._calibrated(reading.logits, reading.side, reading.hidden, reading.misfit)
        parts = rows[:, :, 2].argmax(axis=0).tolist()
        return [rows[part, place].tolist() for place, part in enumerate(parts)]


def features(logit: NDArray[np.float64], falsity: NDArray[np.float64], reading: Reading) -> NDArray[np.float64]:
    """The `FEATURES` from the logit of I and the calibrated one of F; shape (rows, principles, 1, features)."""
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


UNSURE = ("offset", "undecided", "doubt")
"""What I of a taught head is made of: 1; how near F is to one half, 4 F (1 - F); and the annotators' own I."""


@dataclass(frozen=True, slots=True)
class TaughtHead:
    """What was taught of a user's own principle: from the states of the network to T, I and F.

    `weights` has a row for F, and for T and I where annotations have them, shape (outputs, width), with an
    `offset` each; `slope` and `intercept` are of the logits of F and T. `unsure` has the weights of `UNSURE`.
    """

    weights: NDArray[np.float64]
    offset: NDArray[np.float64]
    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]
    unsure: NDArray[np.float64]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> TaughtHead:
        """The head that `to_record` wrote; `ValueError` where a part is missing or does not fit."""
        try:
            raw = base64.b64decode(record["weights"], validate=True)
            rest = [np.array(record[name], np.float64) for name in ("offset", "slope", "intercept", "unsure")]
            count = len(rest[0])
            weights = np.frombuffer(raw, "<f4").astype(np.float64).reshape(count, -1)
        except (KeyError, TypeError) as error:
            raise ValueError(f"a part is missing or of another kind: {error!r}") from error
        shapes = [one.shape for one in rest]
        if count not in {1, 3} or shapes != [(count,), (2,), (2,), (len(UNSURE),)]:
            raise ValueError(f"its parts have the shapes {shapes}")
        if not all(np.isfinite(one).all() for one in (weights, *rest)):
            raise ValueError("a value is no finite number")
        return cls(weights, *rest)

    def to_record(self) -> dict[str, Any]:
        """The head as JSON values."""
        small = {name: getattr(self, name).tolist() for name in ("offset", "slope", "intercept", "unsure")}
        return {"weights": base64.b64encode(self.weights.astype("<f4").tobytes()).decode(), **small}

    def raw(self, states: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The linear outputs of states; shape (rows, outputs)."""
        # Row by row: a product of many rows may add in another order than one of a single row.
        return np.stack([self.weights @ row for row in states.astype(np.float64)]) + self.offset

    def calibrated(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """T, I and F of linear outputs; shape (rows, 3)."""
        falsity = sigmoid(raw[:, 0] * self.slope[0] + self.intercept[0])
        own = raw.shape[1] > 1
        truth = sigmoid(raw[:, 1] * self.slope[1] + self.intercept[1]) if own else 1 - falsity
        doubt = raw[:, 2] if own else np.zeros(len(raw))
        unsure = sigmoid(unsure_of(falsity, doubt) @ self.unsure)
        return np.stack((truth, unsure, falsity), axis=1)

    def strongest(self, states: NDArray[np.floating[Any]]) -> Score:
        """The score of the part of a text with the highest F."""
        rows = self.calibrated(self.raw(states))
        return Score(*rows[rows[:, 2].argmax()].tolist())


def unsure_of(falsity: NDArray[np.float64], doubt: NDArray[np.float64]) -> NDArray[np.float64]:
    """The features of `UNSURE`; shape (rows, 3)."""
    return np.stack((np.ones_like(falsity), 4 * falsity * (1 - falsity), doubt), axis=1)


def load_head(file: HeadFile, base: str) -> TaughtHead:
    """The head of a file; `ObserverError` where it changed since the principle was read, or has another base."""
    try:
        content = read_head(file.path)
        head = TaughtHead.read(content.head)
    except (PrincipleError, ValueError) as error:
        raise ObserverError(f"{file.path}: {error}") from error
    if content.file.sha256 != file.sha256:
        raise ObserverError(f"{file.path} was taught anew meanwhile; start again")
    if file.base != base:
        raise ObserverError(
            f"{file.path} was taught on weights {file.base[:12]}, these are {base[:12]}: teach it again"
        )
    return head
