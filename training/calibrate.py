"""Calibration of the reader on judged conversations that it was not trained on, and operating points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from training.conversations import Example, Triples
from turnwise.conversation import Conversation, Side
from turnwise.datasets import BadRecord, open_dataset
from turnwise.detectors import build_detector, run_detector
from turnwise.observers.reader.protocol import Reader, Reading
from turnwise.observers.reader.scores import FEATURES, Calibration, features
from turnwise.observers.reader.weights import PRINCIPLES
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.study.calibrate import threshold_for

DETECTORS = ("any_turn", "trust_ema", "slope", "cusum")
"""The detectors that get an operating point."""

RATE = 0.01
SERVICE = "mtbench101"
"""Source of the operating points; nothing is trained on it."""

FIXED = {"hidden": 1.0, "unread": 5.0}
"""Weights in indeterminacy that no held-out conversation can teach, since too few hide words or are in other
tongues: of hidden text (the odds times 2.7), and of text that the vocabulary does not fit at all."""

FAR = 0.5
"""Difference from the readers' F that counts as a whole error."""

RIDGE = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """A judged text and what the network makes of it.

    Args:
        id: the conversation.
        turn: the turn's number.
        reading: the network's.
        target: T, I and F of each principle, by readers.
    """

    id: str
    turn: int
    reading: Reading
    target: Triples


def read_turns(
    reader: Reader, turns: Iterable[tuple[str, str | None]], *, alone: bool = False, replies: bool = False
) -> Iterator[tuple[int, Side, Reading]]:
    """Yield what the network makes of every text of a conversation, in order.

    Args:
        reader: the reader.
        turns: prompt and reply of each turn.
        alone: whether each turn is read without the others.
        replies: whether replies are read too; without, prompts follow each other.
    """
    place = reader.start()
    for number, (prompt, reply) in enumerate(turns, start=1):
        if alone:
            place = reader.start()
        for side, said in ((Side.PROMPT, prompt), (Side.RESPONSE, reply if replies else None)):
            if said and said.strip():
                yield number, side, reader.read(place, said, side, lasts=True)
                place = reader.after(place, said, side)


def rows_of(reader: Reader, examples: Iterable[Example], mode: str) -> Iterator[Row]:
    """Yield the judged texts of some conversations with what the network makes of them.

    Args:
        reader: the reader.
        examples: judged conversations.
        mode: ``history``, ``turn`` or ``replies``: what was judged, and so what is read.
    """
    side = Side.RESPONSE if mode == "replies" else Side.PROMPT
    for one in examples:
        judged = one.judged.get(mode, {})
        if not judged:
            continue
        for number, which, reading in read_turns(
            reader, one.turns, alone=mode == "turn", replies=mode == "replies"
        ):
            if which is side and number in judged:
                yield Row(one.id, number, reading, judged[number])


def fit_calibration(rows: Sequence[Row]) -> Calibration:
    """Fit slopes and offsets (Platt 1999, with the readers' values as soft labels), and what foretells errors.

    Indeterminacy is fitted to half the readers' own I and half the distance of F from theirs.

    Args:
        rows: judged texts of conversations that nothing was fitted on.
    """
    count = len(PRINCIPLES)
    raw = np.array([_loudest(row.reading) for row in rows])  # (rows, principles, 3)
    targets = np.array([row.target for row in rows])
    slope, offset = np.ones((2, count)), np.zeros((2, count))
    for place in range(count):
        for which, component in ((0, 0), (1, 2)):
            fitted = _logistic(raw[:, place, component, None], targets[:, place, component], 1e-3)
            slope[which, place], offset[which, place] = fitted
    unsure = np.zeros((count, len(FEATURES)))
    free = [place for place, name in enumerate(FEATURES) if name not in FIXED]
    for place in range(count):
        falsity = raw[:, place, 2] * slope[1, place] + offset[1, place]
        given = np.array(
            [
                features(raw[n, place, None, None, 1], falsity[n, None, None], row.reading)[0, 0, 0]
                for n, row in enumerate(rows)
            ]
        )
        wrong = np.minimum(np.abs(1 / (1 + np.exp(-falsity)) - targets[:, place, 2]) / FAR, 1)
        fitted = _logistic(given[:, free[:-1]], 0.5 * wrong + 0.5 * targets[:, place, 1], RIDGE)
        unsure[place, free] = fitted
        for name, value in FIXED.items():
            unsure[place, FEATURES.index(name)] = value
    return Calibration(slope, offset, unsure)


def _loudest(reading: Reading) -> NDArray[np.float64]:
    """Return T, I and F of the piece with the highest F, for each principle, as logits."""
    count = len(PRINCIPLES)
    triples = reading.logits[:, : 3 * count].reshape(-1, count, 3).astype(np.float64)
    return triples[triples[:, :, 2].argmax(axis=0), np.arange(count)]


def _logistic(design: NDArray[np.float64], targets: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Fit a logistic regression to soft targets; return weights, the offset last."""
    model = LogisticRegression(C=1 / ridge, max_iter=1000)
    labels = np.repeat([1, 0], len(targets))
    model.fit(np.concatenate((design, design)), labels, np.concatenate((targets, 1 - targets)))
    return np.append(model.coef_[0], model.intercept_)


def service(data: Path) -> list[Conversation]:
    """Return the conversations that set operating points: the train part of one service.

    Its dev part is left for benchmarks, so that no rate is measured on what set the threshold.

    Args:
        data: the data folder.
    """
    sequences = open_dataset(data / "train" / f"{SERVICE}.jsonl")
    return [one.conversation for one in sequences if not isinstance(one, BadRecord)]


def operating_points(
    reader: Reader, calibration: Calibration, conversations: Sequence[Conversation]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return threshold and false-positive rate of each detector on benign conversations, by context.

    Args:
        reader: the reader.
        calibration: how its logits become scores.
        conversations: benign conversations that nothing was fitted on.
    """
    points: dict[str, dict[str, dict[str, Any]]] = {}
    for context in ("history", "turn"):
        told = []
        for one in conversations:
            turns = [(turn.prompt, None) for turn in one]
            told.append(
                [
                    TurnScores(number, calibration.strongest(reading), len(turns[number - 1][0]))
                    for number, _, reading in read_turns(reader, turns, alone=context == "turn")
                ]
            )
        points[context] = {}
        for name in DETECTORS:
            detector: Any = build_detector(name)
            highest = [run_detector(detector, turns).score for turns in told]
            calibrated = detector.with_threshold(threshold_for(highest, RATE))
            rate = Rate(sum(run_detector(calibrated, turns).fired for turns in told), len(told))
            points[context][name] = {
                "threshold": calibrated.threshold,
                "fpr": rate.count / rate.of,
                "false_positives": rate.count,
                "n": rate.of,
                "interval": list(rate.interval),
            }
    return points
