"""Calibration of the reader on judged conversations that it was not trained on, and operating points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from training.examples import Example, Triples
from training.spread import Spread
from turnwise.conversation import Conversation, Side
from turnwise.datasets import BadRecord, open_dataset
from turnwise.detectors import build_detector, run_detector
from turnwise.observers.local.reading import Reader, Reading
from turnwise.observers.local.scores import FEATURES, Calibration, features
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.study import threshold_for

DETECTORS = ("any_turn", "trust_ema", "slope", "cusum")
"""The detectors that get an operating point."""

RATE = 0.01
LEAST = {"any_turn": 0.5, "cusum": 0.25}
"""Least threshold of a detector: what a single turn with F .5 comes to, which the guideline calls a clear sign;
for `cusum` that is .5 less its drift. On a service whose chats are easier than most, a rate alone would put the
threshold where readers find nothing, and other services would have many times its false positives."""

SERVICE = "mtbench101"
"""Source of the operating points; nothing is trained on it."""

FIXED = {"hidden": 1.0, "misfit": 5.0}
"""Weights in indeterminacy that no held-out conversation can teach, since too few hide words or are in other
tongues: of hidden text (the odds times 2.7), and of text that the vocabulary does not fit at all."""

FAR = 0.5
"""Difference from the readers' F that counts as a whole error."""

RIDGE = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """A judged text and what the network makes of it."""

    id: str  # the conversation
    turn: int  # the turn's number
    reading: Reading  # the network's
    target: Triples  # T, I and F of each principle, by readers


def read_turns(
    reader: Reader,
    turns: Iterable[tuple[str, str | None]],
    *,
    wanted: Side = Side.PROMPT,
    alone: bool = False,
    replies: bool = False,
) -> Iterator[tuple[int, Reading]]:
    """Yield what the network makes of the texts of one side of a conversation, each turn by itself if `alone`."""
    place = reader.start()
    for number, (prompt, reply) in enumerate(turns, start=1):
        if alone:
            place = reader.start()
        for side, said in ((Side.PROMPT, prompt), (Side.RESPONSE, reply if replies else None)):
            if said and said.strip():
                if side is wanted:
                    yield number, reader.read(place, said, side, lasts=True)
                place = reader.after(place, said, side)


def rows_of(spread: Spread, examples: Sequence[Example], mode: str) -> list[Row]:
    """Return the texts judged by ``history``, ``turn`` or ``replies``, with what the network makes of them."""
    judged = [one for one in examples if one.judged.get(mode)]
    return [row for rows in spread(partial(_rows, mode=mode), judged) for row in rows]


def _rows(reader: Reader, one: Example, mode: str) -> list[Row]:
    replies = mode == "replies"
    side = Side.RESPONSE if replies else Side.PROMPT
    found = read_turns(reader, one.turns, wanted=side, alone=mode == "turn", replies=replies)
    known = one.judged[mode]
    return [Row(one.id, number, reading, known[number]) for number, reading in found if number in known]


def calibrate(sides: Sequence[Sequence[Row]]) -> Calibration:
    """Fit slopes and offsets (Platt 1999, with the readers' values as soft labels), and what foretells errors.

    Indeterminacy is fitted to half the readers' own I and half the distance of F from theirs, beside the weights
    that are `FIXED`. The rows are of prompts, then of replies, of conversations that nothing was fitted on.
    """
    return Calibration(*(np.array(parts) for parts in zip(*map(_fit_side, sides), strict=True)))


def _fit_side(rows: Sequence[Row]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    count = len(PRINCIPLES)
    raw = np.array([_loudest(row.reading) for row in rows])  # (rows, principles, 3)
    targets = np.array([row.target for row in rows])
    slope, offset = np.ones((2, count)), np.zeros((2, count))
    for place in range(count):
        for which, component in ((0, 0), (1, 2)):
            design = np.column_stack((raw[:, place, component], np.ones(len(rows))))
            slope[which, place], offset[which, place] = _logistic(design, targets[:, place, component], 1e-3)
    unsure = np.zeros((count, len(FEATURES)))
    fixed = np.array([FIXED.get(name, 0.0) for name in FEATURES])
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
        wanted = 0.5 * wrong + 0.5 * targets[:, place, 1]
        unsure[place] = fixed
        unsure[place, free] = _logistic(given[:, free], wanted, RIDGE, given @ fixed)
    return slope, offset, unsure


def _loudest(reading: Reading) -> NDArray[np.float64]:
    """Return T, I and F of the piece with the highest F, for each principle, as logits."""
    count = len(PRINCIPLES)
    triples = reading.logits[:, : 3 * count].reshape(-1, count, 3).astype(np.float64)
    return triples[triples[:, :, 2].argmax(axis=0), np.arange(count)]


def _logistic(
    design: NDArray[np.float64],
    targets: NDArray[np.float64],
    ridge: float,
    beside: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Fit a logistic regression to soft targets in [0, 1]; the last column of the design is not held back."""

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = design @ weights + beside
        held = ridge * np.append(weights[:-1], 0)
        value = np.logaddexp(0, logits) - targets * logits
        return value.sum() + 0.5 * held @ weights, design.T @ (expit(logits) - targets) + held

    fitted: NDArray[np.float64] = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B").x
    return fitted


def service(data: Path) -> list[Conversation]:
    """Return the conversations that set operating points: the train part of one service.

    Its dev part is left for benchmarks, so that no rate is measured on what set the threshold.
    """
    sequences = open_dataset(data / "train" / f"{SERVICE}.jsonl")
    return [one.conversation for one in sequences if not isinstance(one, BadRecord)]


def operating_points(
    spread: Spread, calibration: Calibration, conversations: Sequence[Conversation]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return threshold and false-positive rate of each detector on benign conversations, by context.

    With the history each conversation is read twice, once with its replies between the prompts and once without,
    since either may be done: it counts by the higher score, so that the rate holds both ways.
    """
    points: dict[str, dict[str, dict[str, Any]]] = {}
    for context, ways in (("history", (False, True)), ("turn", (False,))):
        each = (
            spread(partial(_scored, calibration=calibration, context=context, replies=way), conversations)
            for way in ways
        )
        told = list(zip(*each, strict=True))
        points[context] = {}
        for name in DETECTORS:
            detector: Any = build_detector(name)
            highest = [max(run_detector(detector, turns).score or 0.0 for turns in both) for both in told]
            calibrated = detector.with_threshold(max(LEAST.get(name, 0.0), threshold_for(highest, RATE)))
            fired = [any(run_detector(calibrated, turns).fired for turns in both) for both in told]
            rate = Rate(sum(fired), len(told))
            points[context][name] = {
                "threshold": calibrated.threshold,
                "fpr": rate.count / rate.of,
                "false_positives": rate.count,
                "n": rate.of,
                "interval": list(rate.interval),
            }
    return points


def _scored(
    reader: Reader, one: Conversation, calibration: Calibration, context: str, replies: bool
) -> list[TurnScores]:
    turns = [(turn.prompt, turn.response) for turn in one]
    return [
        TurnScores(number, calibration.strongest(reading), len(turns[number - 1][0]))
        for number, reading in read_turns(reader, turns, alone=context == "turn", replies=replies)
    ]
