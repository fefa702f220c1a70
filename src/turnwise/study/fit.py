"""Detectors that are fitted: the learned one, and those that need densities of F."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnwise.detectors import Detector, build_detector
from turnwise.detectors.densities import fit_beta
from turnwise.detectors.learned import FEATURES, Learned, features_of
from turnwise.errors import UnknownNameError, UsageError
from turnwise.study.example import Example
from turnwise.study.splits import split_by_group

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Strengths of the L2 penalty that cross-validation chooses from."""

FOLDS = 5
ROUNDS = 3
"""Times that the principle which stands for an attack is chosen anew."""

_FEWEST = 10
"""Conversations of each label that a fit needs."""


def fit_detector(name: str, examples: Sequence[Example], seed: int = 0) -> Detector:
    """Return a detector fitted on labelled conversations, at its default threshold.

    Args:
        name: one of `FITTED`.
        examples: conversations of both labels, at least 10 each.
        seed: of the folds of cross-validation.

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
    return FITTED[name](name, examples, seed)


def _fit_densities(name: str, examples: Sequence[Example], seed: int) -> Detector:
    """Fit one beta density to the F of harmless turns, one to those of the last third of attacks.

    Which turns of an attack are bad is not labelled; by its last third an attack that unfolds has turned.
    """
    benign = [F for example in examples if not example.attack for F in _peaks(example)]
    attack = [F for example in examples if example.attack for F in _last_third(_peaks(example))]
    benign_a, benign_b = fit_beta(benign)
    attack_a, attack_b = fit_beta(attack)
    parameters = {"benign_a": benign_a, "benign_b": benign_b, "attack_a": attack_a, "attack_b": attack_b}
    return build_detector({"detector": name, **parameters})


def _peaks(example: Example) -> list[float]:
    """Return the highest F over the principles of every evaluated turn."""
    return [max(score.F for score in scores.scores.values()) for scores in example.turns if scores.scores]


def _last_third(values: Sequence[float]) -> Sequence[float]:
    return values[-max(1, -(-len(values) // 3)) :]


def _fit_learned(name: str, examples: Sequence[Example], seed: int) -> Detector:
    """Fit the logistic model; the penalty is chosen by cross-validation over groups.

    The label is of the conversation, the model of a principle: the principle that looks worst stands for it,
    chosen anew by the model of the last round. Source: S. Andrews, I. Tsochantaridis and T. Hofmann, "Support
    vector machines for multiple-instance learning", 2003, whose alternation this is.
    """
    known = [(example, features_of(example.turns)) for example in examples]
    known = [(example, features) for example, features in known if features]
    folds = split_by_group([example for example, _ in known], {str(n): 1 / FOLDS for n in range(FOLDS)}, seed)
    fold_of = {example.sequence_id: fold for fold, part in folds.items() for example in part}

    def loss(penalty: float) -> float:
        total = 0.0
        for fold in folds:
            inside = [item for item in known if fold_of[item[0].sequence_id] != fold]
            outside = [item for item in known if fold_of[item[0].sequence_id] == fold]
            total += _log_loss(_fit_rounds(inside, penalty), outside)
        return total

    return _fit_rounds(known, min(PENALTIES, key=loss))


FITTED: Mapping[str, Callable[[str, Sequence[Example], int], Detector]] = {
    "hmm": _fit_densities,
    "learned": _fit_learned,
    "shiryaev_roberts": _fit_densities,
    "sprt": _fit_densities,
}
"""Detectors that can be fitted, and how."""

_Known = tuple[Example, dict[str, dict[str, float]]]


def _fit_rounds(known: Sequence[_Known], penalty: float) -> Learned:
    attack = [example.attack for example, _ in known]
    model = _fit_logistic([_worst(features, None) for _, features in known], attack, penalty)
    for _ in range(ROUNDS - 1):
        model = _fit_logistic([_worst(features, model) for _, features in known], attack, penalty)
    return model


def _worst(features: Mapping[str, Mapping[str, float]], model: Learned | None) -> Mapping[str, float]:
    """Return the features of the principle that looks worst: to the model, or by its peak before there is one."""

    def badness(principle: str) -> float:
        return features[principle]["peak"] if model is None else _odds(model, features[principle])

    return features[max(sorted(features), key=badness)]


def _odds(model: Learned, features: Mapping[str, float]) -> float:
    return model.intercept + sum(weight * features[name] for name, weight in model.weights.items())


def _log_loss(model: Learned, known: Sequence[_Known]) -> float:
    import numpy as np

    odds = np.array([_odds(model, _worst(features, model)) for _, features in known])
    signs = np.array([1.0 if example.attack else -1.0 for example, _ in known])
    return float(np.logaddexp(0.0, -signs * odds).sum())


def _fit_logistic(rows: Sequence[Mapping[str, float]], attack: Sequence[bool], penalty: float) -> Learned:
    """Fit weights on standardised features, both labels weighing the same; return them in the features' units."""
    import numpy as np
    from scipy.optimize import minimize

    table = np.array([[row[name] for name in FEATURES] for row in rows])
    truth = np.array(attack, float)
    mean, spread = table.mean(axis=0), table.std(axis=0)
    spread[spread < 1e-9] = 1.0
    standard = (table - mean) / spread
    weight = np.where(truth == 1, 0.5 / truth.sum(), 0.5 / (1 - truth).sum()) * len(truth)

    def objective(values: NDArray[np.float64]) -> tuple[float, Any]:
        odds = standard @ values[1:] + values[0]
        loss = (weight * np.logaddexp(0.0, np.where(truth == 1, -odds, odds))).sum()
        residual = weight * (0.5 * (np.tanh(0.5 * odds) + 1.0) - truth)
        gradient = np.concatenate(([residual.sum()], residual @ standard + penalty * values[1:]))
        return float(loss + 0.5 * penalty * (values[1:] ** 2).sum()), gradient

    found = minimize(objective, np.zeros(len(FEATURES) + 1), jac=True, method="L-BFGS-B").x
    weights = found[1:] / spread
    return Learned(
        weights={name: float(value) for name, value in zip(FEATURES, weights, strict=True)},
        intercept=float(found[0] - weights @ mean),
    )
