"""What is set on the held-out part: probabilities, indeterminacy and operating points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.detectors import Detector, build_detector, run_detector
from turnwise.observers.local.network import BEND, Floats, Network
from turnwise.observers.local.training.samples import PAIR_KINDS, UNKNOWN, Sample
from turnwise.observers.local.weights import FEATURES, PRINCIPLES
from turnwise.scoring import Score, TurnScores

DETECTORS = ("any_turn", "trust_ema", "slope", "cusum")
"""The detectors that get an operating point."""

FIXED = {"distance": 1.0, "evasion": 1.5, "unfamiliar": 2.0}
"""Weights in indeterminacy that no held-out part of the training data can teach, since all of it is alike: of
distance from it, of hidden text (the odds times 4.5), and of text made of fragments instead of known words."""

TOGETHER = 200
"""Conversations run at once."""

FAR = 0.25
"""An F that is this far from its target is an error, on whichever side of 0.5."""

LEAST_SLOPE = 0.02
"""Slope of a calibrated logit at least."""

TYPICAL_I = 0.2
"""Indeterminacy of the median held-out turn: an anchor, since labels say nothing of its scale."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What an arm made of one conversation.

    Args:
        logits: shape (turns, members, 2 · principles).
        features: shape (turns, features of a reading).
    """

    logits: Floats
    features: Floats

    def scores(self, network: Network, arm: str) -> Floats:
        """Return T, I and F, shape (turns, 3, principles).

        Args:
            network: the calibrated network that made the trace.
            arm: ``history`` or ``turn``.
        """
        part = network.arm(arm)
        return part.scores(self.logits, self.features, part.turn_numbers([len(self.logits)]))


def traces(network: Network, arm: str, conversations: Sequence[Sequence[str]]) -> list[Trace]:
    """Run the numpy network over the user turns of conversations.

    Args:
        network: the network.
        arm: ``history`` or ``turn``.
        conversations: the user turns of each, at least one.
    """
    found: list[Trace] = []
    for start in range(0, len(conversations), TOGETHER):
        part = conversations[start : start + TOGETHER]
        lengths = [len(texts) for texts in part]
        reading = network.read_many([text for texts in part for text in texts])
        logits = network.arm(arm).run(reading.vector, lengths)
        cuts = np.cumsum(lengths)[:-1]
        pieces = zip(np.split(logits, cuts), np.split(reading.features, cuts), strict=True)
        found.extend(Trace(*piece) for piece in pieces)
    return found


@dataclass(frozen=True, slots=True)
class Known:
    """Turns of known label, for one principle, a row each.

    Args:
        false: logits of F of each member, shape (turns, members).
        true: mean logits of T, shape (turns,).
        labels: targets of F and of T, shape (turns, 2).
        weights: weight of each turn.
        features: features of a reading, shape (turns, features of a reading).
        numbers: number of the turn, from 1.
        annotated: 1 where the label is an annotation, of a twin or a drill.
    """

    false: NDArray[np.float64]
    true: NDArray[np.float64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    features: NDArray[np.float64]
    numbers: NDArray[np.float64]
    annotated: NDArray[np.float64]


def known_turns(samples: Sequence[Sample], seen: Sequence[Trace], principle: int) -> Known:
    """Collect the turns whose label is known, or follows: the peak of an attack is taken for its violation.

    The target of T is that of the sample where F's is known by itself, else what F's leaves.

    Args:
        samples: the held-out samples.
        seen: the trace of each.
        principle: index of the principle.
    """
    rows: list[tuple[Any, ...]] = []
    for sample, trace in zip(samples, seen, strict=True):
        false = trace.logits[:, :, principle]
        true = trace.logits[:, :, principle + len(PRINCIPLES)].mean(axis=1)
        targets = [turn[principle] for turn in sample.turns]
        faith = [turn[principle] for turn in sample.good_faith]
        if sample.conversation[principle] == 1 and not any(target >= 0.5 for target in targets):
            peak = int(false.mean(axis=1).argmax())
            targets[peak], faith[peak] = 1.0, 0.0
        for turn, target in enumerate(targets):
            if target != UNKNOWN:
                label = (target, 1 - target if faith[turn] == UNKNOWN else faith[turn])
                annotated = sample.kind in PAIR_KINDS
                features = trace.features[turn]
                rows.append((false[turn], true[turn], label, sample.weight, features, turn + 1, annotated))
    return Known(*(np.array(column, float) for column in zip(*rows, strict=True)))


def terms_of(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a calibrated logit is a weighted sum of, in the order of ``weights.CALIBRATION``.

    Args:
        logits: one a turn.

    >>> terms_of(np.array([-1.0, 4.0])).tolist()
    [[-1.0, -1.0, 1.0], [4.0, 3.0, 1.0]]
    """
    return np.column_stack((logits, np.clip(logits, -BEND, BEND), np.ones_like(logits)))


def fit_calibration(
    terms: NDArray[np.float64], labels: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weights of the terms that make logits into probabilities.

    Logistic regression on smoothed targets (Platt 1999). A calibrated logit must rise with the logit wherever it
    is: where the fit says otherwise, the bend is given up.

    Args:
        terms: what `terms_of` gave, shape (turns, terms).
        labels: in [0, 1].
        weights: weight of each.

    >>> slope, bent, offset = fit_calibration(
    ...     terms_of(np.array([-2.0, -1, 1, 2])), np.array([0.0, 0, 1, 1]), np.ones(4)
    ... )
    >>> bool(slope > 0 and abs(offset) < 1e-3)
    True
    """
    positives, negatives = float(labels.sum()), float((1 - labels).sum())
    low, high = 1 / (negatives + 2), (positives + 1) / (positives + 2)
    targets = low + labels * (high - low)
    slope, bent, offset = _logistic(terms, targets, weights, ridge=1e-3)
    if min(slope, slope + bent) < LEAST_SLOPE:
        slope, offset = _logistic(terms[:, (0, 2)], targets, weights, ridge=1e-3)
        bent = 0.0
    return np.array([max(slope, LEAST_SLOPE), bent, offset])


def fit_indeterminacy(
    features: NDArray[np.float64],
    wrong: NDArray[np.float64],
    weights: NDArray[np.float64],
    typical: float = TYPICAL_I,
) -> NDArray[np.float64]:
    """Return the weights that make features into indeterminacy, the last of them the offset.

    A class-balanced logistic regression on the observer's own errors; a feature that would lower I gets no weight,
    and those of `FIXED` are given.
    The offset is moved so that the median turn has the typical I.

    Args:
        features: shape (turns, features).
        wrong: 1 where the observer was on the wrong side of 0.5, or far off.
        weights: weight of each turn.
        typical: I of the median turn, in (0, 1).
    """
    active = [feature for feature, name in enumerate(FEATURES) if name not in FIXED]
    errors, others = float(weights @ wrong), float(weights @ (1 - wrong))
    balance = np.where(wrong == 1, 0.5 / max(errors, 1e-9), 0.5 / max(others, 1e-9)) * weights * len(wrong)
    found = np.zeros(len(FEATURES) + 1)
    while active:
        design = np.column_stack((features[:, active], np.ones(len(features))))
        solution = _logistic(design, wrong, balance, ridge=1.0)
        negative = [feature for feature, value in zip(active, solution, strict=False) if value < 0]
        if not negative:
            found[active] = solution[:-1]
            break
        active = [feature for feature in active if feature not in negative]
    for name, value in FIXED.items():
        found[FEATURES.index(name)] = value
    found[-1] = np.log(typical / (1 - typical)) - np.median(features @ found[:-1])
    return found


def _logistic(
    design: NDArray[np.float64], targets: NDArray[np.float64], weights: NDArray[np.float64], ridge: float
) -> NDArray[np.float64]:
    """Fit a logistic regression by Newton's method with step halving."""
    solution = np.zeros(design.shape[1])
    penalty = ridge * np.eye(design.shape[1])

    def loss(candidate: NDArray[np.float64]) -> float:
        scores = design @ candidate
        return float(
            weights @ (np.logaddexp(0, scores) - targets * scores) + 0.5 * candidate @ penalty @ candidate
        )

    for _ in range(100):
        predicted = 1 / (1 + np.exp(-np.clip(design @ solution, -500, 500)))
        gradient = design.T @ (weights * (predicted - targets)) + penalty @ solution
        curvature = (design.T * (weights * predicted * (1 - predicted))) @ design + penalty
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(solution)), gradient)
        size = 1.0
        while size > 1e-6 and loss(solution - size * step) > loss(solution):
            size /= 2
        solution = solution - size * step
        if np.abs(size * step).max() < 1e-8:
            break
    return solution


def turn_scores(network: Network, arm: str, seen: Trace, texts: Sequence[str]) -> list[TurnScores]:
    """Return what a detector reads of one conversation.

    Args:
        network: the network.
        arm: ``history`` or ``turn``.
        seen: the trace of the conversation.
        texts: its user turns.
    """
    turns = []
    values = seen.scores(network, arm).astype(float)
    for number, (rows, text) in enumerate(zip(values, texts, strict=True), start=1):
        scores = {name: Score(*rows[:, index]) for index, name in enumerate(PRINCIPLES)}
        turns.append(TurnScores(turn=number, scores=scores, length=len(text)))
    return turns


def operating_threshold(scores: Sequence[float], rate: float = 0.01) -> float:
    """Return the lowest threshold that at most this share of benign conversations reaches.

    It lies halfway between the last score that may reach it and the next lower one, or just above the latter where
    they are equal.

    Args:
        scores: a conversation's highest signal, one each, at least one.
        rate: share of false positives allowed, in [0, 1).

    >>> operating_threshold([0.1, 0.2, 0.3, 0.9], rate=0.25)
    0.6
    """
    ranked = np.sort(np.asarray(scores, float))[::-1]
    allowed = int(rate * len(ranked) + 1e-9)
    first_free = float(ranked[allowed])
    if allowed > 0 and ranked[allowed - 1] > first_free:
        return float((ranked[allowed - 1] + first_free) / 2)
    return float(first_free + max(1e-6, 1e-6 * abs(first_free)))


def operating_points(
    conversations: Sequence[Sequence[TurnScores]], interval: Callable[[int, int], tuple[float, float]]
) -> dict[str, dict[str, Any]]:
    """Return threshold and false-positive rate of each detector on benign conversations.

    Args:
        conversations: the scores of benign conversations that nothing was fitted on.
        interval: gives the exact 95 % interval of a rate from hits and trials.
    """
    points = {}
    for name in DETECTORS:
        detector: Any = build_detector(name)
        threshold = operating_threshold([run_detector(detector, turns).score for turns in conversations])
        calibrated: Detector = detector.with_threshold(threshold)
        false = sum(run_detector(calibrated, turns).fired for turns in conversations)
        points[name] = {
            "threshold": threshold,
            "fpr": false / len(conversations),
            "false_positives": false,
            "n": len(conversations),
            "interval": list(interval(false, len(conversations))),
        }
    return points


def auroc(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> float | None:
    """Return the area under the ROC curve, ties counted half; None where there is only one class.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0.0, 0, 1, 1]))
    0.875
    """
    positive, negative = scores[labels == 1], np.sort(scores[labels == 0])
    if not len(positive) or not len(negative):
        return None
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return float(below.mean() / 2 / len(negative))


def calibration_error(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64],
    bins: int = 15,
) -> float:
    """Return the expected calibration error over bins of equal width (Guo et al. 2017).

    Args:
        probabilities: one a turn, in [0, 1].
        labels: 0 or 1.
        weights: weight of each.
        bins: number of bins.

    >>> round(calibration_error(np.array([0.2, 0.2, 0.9]), np.array([0.0, 0, 1]), np.ones(3)), 3)
    0.167
    """
    index = np.minimum((probabilities * bins).astype(int), bins - 1)
    gap = np.bincount(index, weights * (probabilities - labels), bins)
    return float(np.abs(gap).sum() / weights.sum())
