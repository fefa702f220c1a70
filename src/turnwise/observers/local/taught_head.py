"""A head that was taught for a user's own principle: from the states of the embedded model to T, I and F."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import ObserverError, PrincipleError
from turnwise.observers.local.scores import sigmoid
from turnwise.principles import HeadFile
from turnwise.principles.head_file import read_head
from turnwise.scoring import Score

UNSURE = ("offset", "undecided", "doubt")
"""What indeterminacy is made of: 1; how near F is to one half, 4 F (1 - F); and the annotators' own I."""


@dataclass(frozen=True, slots=True)
class Head:
    """Linear outputs of a state, and how they become T, I and F.

    `weights` has a row for F, and for T and I where annotations have them, shape (outputs, width), with an
    `offset` each; `slope` and `intercept` are of the logits of F and T. `unsure` has the weights of `UNSURE`.
    """

    weights: NDArray[np.float64]
    offset: NDArray[np.float64]
    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]
    unsure: NDArray[np.float64]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Head:
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
    """What indeterminacy is made of, in the order of `UNSURE`; shape (rows, 3)."""
    return np.stack((np.ones_like(falsity), 4 * falsity * (1 - falsity), doubt), axis=1)


def load_head(file: HeadFile, base: str) -> Head:
    """The head of a file; `ObserverError` where it changed since the principle was read, or has another base."""
    try:
        content = read_head(file.path)
        head = Head.read(content.head)
    except (PrincipleError, ValueError) as error:
        raise ObserverError(f"{file.path}: {error}") from error
    if content.file.sha256 != file.sha256:
        raise ObserverError(f"{file.path} was taught anew meanwhile; start again")
    if file.base != base:
        raise ObserverError(
            f"{file.path} was taught on weights {file.base[:12]}, these are {base[:12]}: teach it again"
        )
    return head
