"""Fits a head to annotated states, and tells by cross-validation what it is worth."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.observers.local.scores import TaughtHead, sigmoid, unsure_of
from turnwise.stats import Bin, Floats, Interval, area_of_turns, classes_of, resamples

LEAST_TURNS = 100
LEAST_OF_EACH = 15
LEAST_CONVERSATIONS = 10
"""Conversations with turns that break the principle, and with turns that don't, at least."""

FOLDS = 5
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Strengths of the ridge that are tried, in units of the mean variance of a state."""

SHARES = (0.4, 0.6, 0.8, 1.0)
"""Shares of the conversations to learn from, for the learning curve."""

DRAWS = 4
"""How often each share is drawn."""

MORE = 100
"""Further annotations for which the curve is drawn out."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a head is worth, by cross-validation: each turn is scored by a head that saw none of its conversation.

    Args:
        auroc: how well F ranks turns that break the principle above others, with its interval by conversation.
        classes: turns by their F, for calibration.
        error: mean distance of F from the annotation.
        unsure: rank correlation of I with that distance; NaN where all are alike.
        curve: turns learned from, and the area then.
        more: the area that `MORE` further annotations would give, about.
        ridge: strength of the ridge.
    """

    auroc: Interval
    classes: tuple[Bin, ...]
    error: float
    unsure: float
    curve: tuple[tuple[int, float], ...]
    more: float
    ridge: float

    @property
    def outlook(self) -> str:
        """What further annotations would bring, in a sentence."""
        (few, before), (many, now) = self.curve[0], self.curve[-1]
        return (
            f"{MORE} more annotations would give an AUROC of about {self.more:.2f}: learned from {few} turns it "
            f"is {before:.2f}, from {many} it is {now:.2f}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        unsure = None if math.isnan(self.unsure) else round(self.unsure, 4)
        return {
            "auroc": round(self.auroc.value, 4),
            "interval": [round(self.auroc.low, 4), round(self.auroc.high, 4)],
            "note": self.auroc.note,
            "calibration": [one._asdict() for one in self.classes],
            "mean_error": round(self.error, 4),
            "rank_correlation_of_i_with_error": unsure,
            "learning_curve": [[turns, round(area, 4)] for turns, area in self.curve],
            "with_100_more": round(self.more, 4),
            "outlook": self.outlook,
            "ridge": self.ridge,
        }


def check_enough(falsity: Sequence[float], groups: Sequence[str]) -> None:
    """Refuse what is too little to teach from; the message says how much is missing."""
    pairs = list(zip(falsity, groups, strict=True))
    missing = []
    if len(pairs) < LEAST_TURNS:
        missing.append(
            f"{LEAST_TURNS - len(pairs)} more turns ({len(pairs)} are annotated, {LEAST_TURNS} are needed)"
        )
    for kind, some in (
        ("break the principle", [group for value, group in pairs if value > 0.5]),
        ("don't break it", [group for value, group in pairs if value < 0.5]),
    ):
        if len(some) < LEAST_OF_EACH:
            missing.append(
                f"{LEAST_OF_EACH - len(some)} more turns that {kind} (there are {len(some)} of {LEAST_OF_EACH})"
            )
        elif len(set(some)) < LEAST_CONVERSATIONS:
            missing.append(
                f"turns that {kind} of {LEAST_CONVERSATIONS - len(set(some))} more conversations (they are of "
                f"{len(set(some))}, {LEAST_CONVERSATIONS} are needed)"
            )
    if missing:
        raise UsageError(f"too little to teach from: annotate {'; '.join(missing)}")


def fit(states: Floats, targets: Floats, groups: Sequence[str], seed: int = 0) -> tuple[TaughtHead, Worth]:
    """Fit a head on states, shape (turns, width), and F or F, T and I of each turn; tell what it is worth."""
    # Linear outputs are ridge regressions, their strength chosen within each fold by the squared error of F. What
    # they give of turns that were left out sets slopes, intercepts and I: the distance of F from the annotation
    # that is to be expected, and half of that and half of the annotators' own I where there is one.
    check_enough(targets[:, 0].tolist(), groups)
    fold = folds_of(groups, seed)
    out = np.empty_like(targets)
    for number in range(FOLDS):
        test = fold == number
        inner = folds_of([group for group, left in zip(groups, test, strict=True) if not left], seed + 1)
        ridge = _best(states[~test], targets[~test], inner)
        weights, offset = _ridge(states[~test], targets[~test], [ridge])[0]
        out[test] = states[test] @ weights.T + offset
    ridge = _best(states, targets, fold)
    weights, offset = _ridge(states, targets, [ridge])[0]
    head = _calibrated(TaughtHead(weights, offset, np.ones(2), np.zeros(2), np.zeros(3)), out, targets)
    return head, _worth(head, out, states, targets, groups, ridge, seed)


def folds_of(groups: Sequence[str], seed: int) -> NDArray[np.int64]:
    """The fold of each turn: conversations in the order of a hash, dealt out by how many turns each has."""
    counts = {name: groups.count(name) for name in dict.fromkeys(groups)}
    order = sorted(counts, key=lambda name: (-counts[name], zlib.crc32(f"{seed}:{name}".encode())))
    sizes, place = [0] * FOLDS, {}
    for name in order:
        place[name] = sizes.index(min(sizes))
        sizes[place[name]] += counts[name]
    return np.array([place[name] for name in groups])


def _ridge(states: Floats, targets: Floats, ridges: Sequence[float]) -> list[tuple[Floats, Floats]]:
    """Weights, shape (outputs, width), and offsets of ridge regressions, by the smaller Gram matrix."""
    centre, middle = states.mean(axis=0), targets.mean(axis=0)
    moved = states - centre
    unit = float((moved**2).mean()) * states.shape[1] or 1.0
    wide = len(states) <= states.shape[1]
    values, vectors = np.linalg.eigh((moved @ moved.T if wide else moved.T @ moved) / unit)
    turned = vectors.T @ ((targets - middle) if wide else moved.T @ (targets - middle))
    found = []
    for ridge in ridges:
        solved = vectors @ (turned / (np.maximum(values, 0.0) + ridge)[:, None]) / unit
        weights = (moved.T @ solved if wide else solved).T
        found.append((weights, middle - weights @ centre))
    return found


def _best(states: Floats, targets: Floats, fold: NDArray[np.int64]) -> float:
    """The strength with the smallest squared error of F on folds that were left out."""
    errors = np.zeros(len(RIDGES))
    for number in range(FOLDS):
        test = fold == number
        for place, (weights, offset) in enumerate(_ridge(states[~test], targets[~test], RIDGES)):
            told = np.clip(states[test] @ weights[0] + offset[0], 0, 1)
            errors[place] += ((told - targets[test, 0]) ** 2).sum()
    return RIDGES[int(errors.argmin())]


def _calibrated(head: TaughtHead, out: Floats, targets: Floats) -> TaughtHead:
    """Set slopes, intercepts and I by what was given of turns that were left out."""
    ones = np.ones(len(out))
    of_truth = min(1, out.shape[1] - 1)
    lines = [_logistic(np.stack((out[:, place], ones), axis=1), targets[:, place]) for place in (0, of_truth)]
    slope, intercept = np.array(lines).T
    # Where left-out turns rank the other way round there is nothing to learn, and nothing to turn round.
    head = replace(head, slope=np.maximum(slope, 0.0), intercept=intercept)
    falsity = head.calibrated(out)[:, 2]
    error = np.abs(falsity - targets[:, 0])
    own = targets.shape[1] > 1
    doubt = out[:, 2] if own else np.zeros(len(out))
    wanted = (error + targets[:, 2]) / 2 if own else error
    # Few turns are near an F of a half where F is right; there, what calibrated scores are off by.
    grid = np.linspace(0.1, 0.9, 9)
    inputs = np.concatenate((unsure_of(falsity, doubt), unsure_of(grid, np.full(9, doubt.mean()))))
    return replace(head, unsure=_logistic(inputs, np.concatenate((wanted, 2 * grid * (1 - grid)))))


def _logistic(inputs: Floats, targets: Floats) -> Floats:
    """Weights of a logistic regression on targets in [0, 1], by Newton's method with a slight ridge."""
    weights = np.zeros(inputs.shape[1])
    slight = 1e-2 * np.eye(len(weights))
    for _ in range(50):
        told = sigmoid(inputs @ weights)
        slope = inputs.T @ (told - targets) + slight @ weights
        curve = (inputs * (told * (1 - told))[:, None]).T @ inputs + slight
        step = np.linalg.solve(curve, slope)
        weights -= step * min(1.0, 5.0 / (float(np.abs(step).max()) + 1e-12))
        if float(np.abs(step).max()) < 1e-9:
            break
    return weights


def _worth(
    head: TaughtHead, out: Floats, states: Floats, targets: Floats, groups: Sequence[str], ridge: float, seed: int
) -> Worth:
    from scipy.stats import spearmanr

    triples = head.calibrated(out)
    error = np.abs(triples[:, 2] - targets[:, 0])
    told = np.flatnonzero(targets[:, 0] != 0.5)
    flagged = (targets[told, 0] > 0.5).tolist()
    drawn = resamples([groups[place] for place in told.tolist()], flagged, np.random.default_rng(seed))
    curve = tuple(_area_from(states, targets, groups, ridge, share, seed) for share in SHARES)
    varied = float(np.ptp(triples[:, 1])) > 0 and float(np.ptp(error)) > 0
    return Worth(
        auroc=area_of_turns(drawn, out[told, 0].tolist(), flagged),
        classes=tuple(classes_of(triples[told, 2].tolist(), flagged)),
        error=float(error.mean()),
        unsure=float(spearmanr(triples[:, 1], error).statistic) if varied else math.nan,
        curve=curve,
        more=_drawn_out(curve),
        ridge=ridge,
    )


def _area_from(
    states: Floats, targets: Floats, groups: Sequence[str], ridge: float, share: float, seed: int
) -> tuple[int, float]:
    """Turns learned from, and the mean area on folds that were left out, where a share of the others is used."""
    from turnwise.stats import auc_covariance

    fold, sizes, areas = folds_of(groups, seed), [], []
    names = np.array(groups)
    for number, draw in product(range(FOLDS), range(DRAWS if share < 1 else 1)):
        test = np.flatnonzero((fold == number) & (targets[:, 0] != 0.5))
        others = sorted(set(names[fold != number]), key=lambda name: zlib.crc32(f"{seed}:{draw}:{name}".encode()))
        learned = np.isin(names, others[: max(2, round(share * len(others)))])
        weights, offset = _ridge(states[learned], targets[learned], [ridge])[0]
        scores, breaks = states[test] @ weights[0] + offset[0], targets[test, 0] > 0.5
        if min(breaks.sum(), (~breaks).sum()) > 1:
            values, _ = auc_covariance([scores[breaks].tolist()], [scores[~breaks].tolist()])
            sizes.append(int(learned.sum()))
            areas.append(float(values[0]))
    return round(float(np.mean(sizes))), float(np.mean(areas))


def _drawn_out(curve: Sequence[tuple[int, float]]) -> float:
    """The area with `MORE` further turns: what is missing to 1 falls as a power of the turns, or not at all."""
    sizes = np.log([size for size, _ in curve])
    gaps = np.log([max(1 - area, 1e-4) for _, area in curve])
    power = min(0.0, float(np.polyfit(sizes, gaps, 1)[0]))
    last, now = curve[-1]
    return float(1 - (1 - now) * ((last + MORE) / last) ** power)
