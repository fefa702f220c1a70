"""Detectors that are fitted, and thresholds set for one's own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.detectors import Detector, build_detector, load_detector, run_detector
from turnwise.detectors.base import ByPrinciple
from turnwise.detectors.change_points import fit_beta
from turnwise.detectors.learned import FEATURES, Learned, features_by_turn
from turnwise.detectors.loading import PatternSource
from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate, clopper_pearson
from turnwise.stats import f1, needed_benign, threshold_for, threshold_for_f1
from turnwise.stats.examples import Example, split_by_group

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Strengths of the L2 penalty that cross-validation chooses from."""

FOLDS = 5
ROUNDS = 3
"""Times that the principle which stands for an attack is chosen anew."""

_MOST_STEPS = 100
_SMALL_STEP = 1e-10
"""Change of a weight at which Newton's method has arrived; it needs about ten steps."""

_FEWEST = 10
"""Conversations of each label that a fit needs."""


@dataclass(frozen=True, slots=True)
class FitInput:
    """What fits take of a conversation.

    `every` has the features of each principle at each evaluated turn, `last` those after the last turn, principles
    in order of their names; a row a principle. `peaks` are the highest F of every evaluated turn.
    """

    every: NDArray[np.float64]
    last: NDArray[np.float64]
    peaks: tuple[float, ...]

    @classmethod
    def of(cls, example: Example) -> FitInput:
        """What fits take of this conversation."""
        last: dict[str, list[float]] = {}
        rows: list[list[float]] = []
        peaks: list[float] = []
        for scores, features in zip(example.turns, features_by_turn(example.turns), strict=True):
            found = {principle: [of[name] for name in FEATURES] for principle, of in features.items()}
            rows += found.values()
            last |= found
            if found:
                peaks.append(max(score.F for score in scores.scores.values()))
        every, ended = (
            np.array(some, dtype=float).reshape(-1, len(FEATURES))
            for some in (rows, [last[principle] for principle in sorted(last)])
        )
        return cls(every, ended, tuple(peaks))


Inputs = Callable[[Example], FitInput]
"""Gives what fits take of a conversation; another than `FitInput.of` may keep it between fits."""


def fit_detector(name: str, examples: Sequence[Example], seed: int = 0, inputs: Inputs = FitInput.of) -> Detector:
    """Return a detector fitted on labelled conversations, at its default threshold.

    Args:
        name: one of `FITTED`.
        examples: conversations of both labels, at least 10 each.
        seed: of the folds of cross-validation.
        inputs: gives what is fitted on; another than the default may keep it between fits.

    Raises:
        UnknownNameError: that detector is not fitted.
        UsageError: too few conversations of a label.
        DetectorError: the values of F can't carry a density.
    """
    if name not in FITTED:
        raise UnknownNameError("detector that is fitted", name, FITTED)
    for attack, label in ((True, "attack"), (False, "benign")):
        found = sum(example.attack is attack for example in examples)
        if found < _FEWEST:
            raise UsageError(
                f"{found} {label} conversations are too few to fit {name}: at least {_FEWEST} are needed"
            )
    return FITTED[name](name, examples, seed, inputs)


def _fit_densities(name: str, examples: Sequence[Example], seed: int, inputs: Inputs) -> Detector:
    """Fit one beta density to the F of harmless turns, one to those of the last third of attacks."""
    # Which turns of an attack are bad is not labelled; by its last third an attack that unfolds has turned.
    benign = [F for example in examples if not example.attack for F in inputs(example).peaks]
    attack = [F for example in examples if example.attack for F in _last_third(inputs(example).peaks)]
    benign_a, benign_b = fit_beta(benign)
    attack_a, attack_b = fit_beta(attack)
    parameters = {"benign_a": benign_a, "benign_b": benign_b, "attack_a": attack_a, "attack_b": attack_b}
    return build_detector({"detector": name, **parameters})


def _last_third(values: Sequence[float]) -> Sequence[float]:
    return values[-max(1, -(-len(values) // 3)) :]


def _fit_learned(name: str, examples: Sequence[Example], seed: int, inputs: Inputs) -> Detector:
    """Fit the logistic model; the penalty is chosen by cross-validation over groups."""
    # The label is of the conversation, the model of a principle: the principle that looks worst stands for it,
    # chosen anew by the model of the last round (S. Andrews, I. Tsochantaridis and T. Hofmann, "Support vector
    # machines for multiple-instance learning", 2003).
    known = [(example, found) for example in examples if len(found := inputs(example).last)]
    folds = split_by_group([example for example, _ in known], {str(n): 1 / FOLDS for n in range(FOLDS)}, seed)
    fold_of = {example.sequence_id: fold for fold, part in folds.items() for example in part}
    dealt = np.array([int(fold_of[example.sequence_id]) for example, _ in known])
    whole = _Features.of(known)
    parts = [
        (whole.of_conversations(dealt != fold), whole.of_conversations(dealt == fold)) for fold in np.unique(dealt)
    ]

    losses = np.zeros(len(PENALTIES))
    for inside, outside in parts:
        weights = None
        for place, penalty in enumerate(PENALTIES):
            weights = _fit_rounds(inside, penalty, weights)
            losses[place] += _log_loss(weights, outside)
    weights = _fit_rounds(whole, PENALTIES[int(losses.argmin())])
    return Learned(
        weights={name: float(value) for name, value in zip(FEATURES, weights[1:], strict=True)},
        intercept=float(weights[0]),
    )


FITTED: Mapping[str, Callable[[str, Sequence[Example], int, Inputs], Detector]] = {
    "hmm": _fit_densities,
    "learned": _fit_learned,
    "shiryaev_roberts": _fit_densities,
    "sprt": _fit_densities,
}
"""Detectors that can be fitted, and how."""


@dataclass(frozen=True, slots=True)
class _Features:
    """Features of some conversations, a row a principle; `owner` is the conversation of each row, rising."""

    rows: NDArray[np.float64]
    owner: NDArray[np.intp]
    attack: NDArray[np.bool_]

    @classmethod
    def of(cls, known: Sequence[tuple[Example, NDArray[np.float64]]]) -> _Features:
        owner = np.repeat(np.arange(len(known)), [len(rows) for _, rows in known])
        attack = np.array([example.attack for example, _ in known])
        return cls(np.concatenate([rows for _, rows in known]), owner, attack)

    def of_conversations(self, chosen: NDArray[np.bool_]) -> _Features:
        rows = chosen[self.owner]
        return _Features(self.rows[rows], (np.cumsum(chosen) - 1)[self.owner[rows]], self.attack[chosen])

    def worst(self, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """The row of each conversation's worst principle: to a model, or by its peak before there is one."""
        badness = self.rows[:, FEATURES.index("peak")] if weights is None else _odds(self.rows, weights)
        begins = np.flatnonzero(np.diff(self.owner, prepend=-1))
        highest = np.maximum.reduceat(badness, begins)
        places = np.flatnonzero(badness == highest[self.owner])
        _, first = np.unique(self.owner[places], return_index=True)
        return self.rows[places[first]]


def _fit_rounds(known: _Features, penalty: float, near: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Intercept and weights, in the features' units; the search begins at those that are near, if any."""
    rows = known.worst(None)
    weights = _fit_logistic(rows, known.attack, penalty, near)
    for _ in range(ROUNDS - 1):
        others = known.worst(weights)
        if np.array_equal(others, rows):  # the same principles stand for their conversations: so will the fit be
            break
        rows, weights = others, _fit_logistic(others, known.attack, penalty, weights)
    return weights


def _odds(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The log odds of each row."""
    # Not by BLAS: its threads wait for each other longer than so small a table takes, and their number would
    # change the last digits.
    odds: NDArray[np.float64] = np.einsum("ij,j->i", rows, weights[1:]) + weights[0]
    return odds


def _log_loss(weights: NDArray[np.float64], known: _Features) -> float:
    signs = np.where(known.attack, 1.0, -1.0)
    return float(np.logaddexp(0.0, -signs * _odds(known.worst(weights), weights)).sum())


def _fit_logistic(
    rows: NDArray[np.float64], attack: NDArray[np.bool_], penalty: float, near: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Intercept and weights, in the features' units, fitted on standardised ones."""
    # Newton's method, its step halved until the loss falls (iteratively reweighted least squares: T. Hastie, R.
    # Tibshirani and J. Friedman, "The Elements of Statistical Learning", 2009, section 4.4.1). The intercept is
    # not penalised.
    truth = attack.astype(float)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread < 1e-9] = 1.0
    standard = (rows - mean) / spread
    weight = np.where(attack, 0.5 / truth.sum(), 0.5 / (1 - truth).sum()) * len(truth)
    ridge = np.full(standard.shape[1] + 1, penalty)
    ridge[0] = 0.0
    table = np.vstack([np.ones(len(standard)), standard.T])
    sign = np.where(attack, -1.0, 1.0)

    def tried(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        odds = np.einsum("ji,j->i", table, values)
        loss = (weight * np.logaddexp(0.0, sign * odds)).sum() + 0.5 * (ridge * values**2).sum()
        return odds, float(loss)

    values = np.zeros(len(ridge))
    if near is not None:
        values[0], values[1:] = near[0] + (near[1:] * mean).sum(), near[1:] * spread
    odds, before = tried(values)
    for _ in range(_MOST_STEPS):
        chance = 0.5 * (np.tanh(0.5 * odds) + 1.0)
        gradient = np.einsum("ji,i->j", table, weight * (chance - truth)) + ridge * values
        bend = np.einsum("ji,ki->jk", table * (weight * chance * (1 - chance)), table) + np.diag(ridge)
        try:
            step = np.linalg.solve(bend, gradient)
        except np.linalg.LinAlgError:  # every chance is 0 or 1, so that nothing bends along the intercept
            step = np.linalg.lstsq(bend, gradient, rcond=None)[0]
        while (moved := tried(values - step))[1] > before and np.abs(step).max() > _SMALL_STEP:
            step = step / 2
        values, odds, before = values - step, moved[0], min(before, moved[1])
        if np.abs(step).max() <= _SMALL_STEP:
            break
    weights = values[1:] / spread
    return np.concatenate(([values[0] - (weights * mean).sum()], weights))


SHARES = {"train": 0.6, "calibrate": 0.4}


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned detector, and what it does on the conversations that set its threshold.

    Args:
        detector: the detector, at its new threshold.
        fitted: whether its parameters were fitted, or only its threshold was set.
        train: conversations that it was fitted on.
        calibrate: conversations that set the threshold.
        flagged_benign: benign ones of the latter that it flags.
        flagged_attacks: attacks of the latter that it flags; not a test result, though nothing was chosen on them
            unless F1 was sought.
    """

    detector: Detector
    fitted: bool
    train: int
    calibrate: int
    flagged_benign: Rate
    flagged_attacks: Rate

    @property
    def f1(self) -> float:
        """F1 on the conversations that set the threshold."""
        return f1(self.flagged_attacks.count, self.flagged_benign.count, self.flagged_attacks.of)


def tune(
    spec: str,
    examples: Sequence[Example],
    target_fpr: float = 0.01,
    seed: int = 0,
    *,
    objective: Objective = "recall",
    patterns: PatternSource | None = None,
) -> Tuned:
    """Fit a detector on three fifths of the groups and set its threshold on the rest.

    The threshold is set on the benign conversations there for a false-positive rate, or for F1 on all of them.

    Args:
        spec: the name of a detector that is fitted, or a specification whose threshold alone is set.
        examples: conversations of both labels.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        seed: of the split.
        objective: ``"recall"`` at that rate, or ``"f1"``, whatever the rate.
        patterns: your own named patterns, or the YAML file that defines them.

    Raises:
        UnknownNameError: no such detector, parameter or objective.
        DetectorError: a specification or value that does not fit.
        UsageError: too few conversations; the message says how many are needed.
    """
    check_objective(objective)
    parts = split_by_group(examples, SHARES, seed)
    fitted = spec in FITTED
    detector = fit_detector(spec, parts["train"], seed) if fitted else load_detector(spec, patterns=patterns)
    labels = [example.attack for example in parts["calibrate"]]
    peaks = list(zip(labels, highest_scores(detector, parts["calibrate"]), strict=True))
    benign = [score for attack, score in peaks if not attack]
    limit = threshold_for_f1(peaks) if objective == "f1" else threshold_for(benign, target_fpr)
    attacks = [score for attack, score in peaks if attack]
    return Tuned(
        detector.with_threshold(limit),
        fitted,
        len(parts["train"]),
        len(parts["calibrate"]),
        _at_or_above(limit, benign),
        _at_or_above(limit, attacks),
    )


def _at_or_above(limit: float, scores: Sequence[float]) -> Rate:
    return Rate(sum(score >= limit for score in scores), len(scores))


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """A detector at a threshold that keeps the false-positive rate `alpha` with probability `confidence`.

    `fitted_on` counts conversations, 0 where nothing was fitted. `flagged_benign` are of those that set the
    threshold, in so many groups, `flagged_attacks` of the attacks beside them. `upper_bound` is the one-sided
    exact one of the false-positive rate.
    """

    detector: Detector
    alpha: float
    confidence: float
    fitted_on: int
    flagged_benign: Rate
    groups: int
    flagged_attacks: Rate
    upper_bound: float


def guaranteed(
    spec: str,
    examples: Sequence[Example],
    alpha: float = 0.01,
    confidence: float = 0.95,
    seed: int = 0,
    *,
    patterns: PatternSource | None = None,
) -> Guaranteed:
    """Set the threshold of a detector on benign conversations, with a guarantee.

    A detector that is fitted is fitted on half of the groups, and its threshold set on the other half.
    """
    fitted = spec in FITTED
    parts = split_by_group(examples, {"train": 0.5, "calibrate": 0.5}, seed) if fitted else {"calibrate": examples}
    detector = fit_detector(spec, parts["train"], seed) if fitted else load_detector(spec, patterns=patterns)
    scores = list(zip(parts["calibrate"], highest_scores(detector, parts["calibrate"]), strict=True))
    benign = [score for example, score in scores if not example.attack]
    try:
        limit = threshold_for(benign, alpha, confidence)
    except UsageError as error:
        raise UsageError(f"{error}{_beyond(len(benign), alpha, confidence, fitted)}") from error
    attacks = [score for example, score in scores if example.attack]
    flagged = _at_or_above(limit, benign)
    return Guaranteed(
        detector.with_threshold(limit),
        alpha,
        confidence,
        len(parts["train"]) if fitted else 0,
        flagged,
        len({example.group for example, _ in scores if not example.attack}),
        _at_or_above(limit, attacks),
        clopper_pearson(flagged.count, flagged.of, 1 - 2 * (1 - confidence))[1] if confidence > 0.5 else 1.0,
    )


def _beyond(benign: int, alpha: float, confidence: float, fitted: bool) -> str:
    """What the data can bear instead, where the rates are in range at all."""
    if not (0 < alpha < 1 and 0 < confidence < 1) or benign >= needed_benign(alpha, confidence):
        return ""
    more = " A detector that is fitted leaves half of them for the threshold." if fitted else ""
    able = 1 - (1 - confidence) ** (1 / benign) if benign else 1.0
    lowest = f"; {benign} can keep {100 * able:.2g} % at best" if able < 1 else ""
    return f"{lowest}. On average over such sets a rate needs fewer: see turnwise study tune.{more}"


OBJECTIVES = ("recall", "f1")
"""Recall where few benign conversations are flagged; F1, for those who reproduce results that were tuned by it."""


Objective = Literal["recall", "f1"]


def check_objective(objective: str) -> None:
    """Raise an `UnknownNameError` where there is no such objective."""
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES)


def highest_scores(detector: Detector, examples: Sequence[Example]) -> list[float]:
    """The highest score of each conversation by a detector; minus infinity without evidence."""
    if isinstance(detector, ByPrinciple) and not getattr(detector, "judges_last", False):
        return [detector.highest(example.turns) for example in examples]
    found = (run_detector(detector, example.turns).score for example in examples)
    return [-math.inf if score is None else score for score in found]
