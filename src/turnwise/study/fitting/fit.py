"""Detectors that are fitted: the learned one, and those that need densities of F."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.detectors import Detector, build_detector
from turnwise.detectors.kit.likelihood import fit_beta
from turnwise.detectors.learned import FEATURES, Learned, features_of
from turnwise.errors import UnknownNameError, UsageError
from turnwise.study.examples import Example, split_by_group

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


Features = Callable[[Example], Mapping[str, Mapping[str, float]]]
"""Gives the features of each principle of a conversation after its last turn."""


def features_at_the_end(example: Example) -> Mapping[str, Mapping[str, float]]:
    """Return the features of each principle of a conversation after its last turn."""
    return features_of(example.turns)


def fit_detector(
    name: str, examples: Sequence[Example], seed: int = 0, features: Features = features_at_the_end
) -> Detector:
    """Return a detector fitted on labelled conversations, at its default threshold.

    Args:
        name: one of `FITTED`.
        examples: conversations of both labels, at least 10 each.
        seed: of the folds of cross-validation.
        features: gives what ``learned`` is fitted on; another than the default may keep it between fits.

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
    return FITTED[name](name, examples, seed, features)


def _fit_densities(name: str, examples: Sequence[Example], seed: int, features: Features) -> Detector:
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


def _fit_learned(name: str, examples: Sequence[Example], seed: int, features: Features) -> Detector:
    """Fit the logistic model; the penalty is chosen by cross-validation over groups.

    The label is of the conversation, the model of a principle: the principle that looks worst stands for it,
    chosen anew by the model of the last round. Source: S. Andrews, I. Tsochantaridis and T. Hofmann, "Support
    vector machines for multiple-instance learning", 2003, whose alternation this is.
    """
    known = [(example, found) for example in examples if (found := features(example))]
    folds = split_by_group([example for example, _ in known], {str(n): 1 / FOLDS for n in range(FOLDS)}, seed)
    fold_of = {example.sequence_id: fold for fold, part in folds.items() for example in part}
    parts = [
        (
            _Features.of([item for item in known if fold_of[item[0].sequence_id] != fold]),
            _Features.of([item for item in known if fold_of[item[0].sequence_id] == fold]),
        )
        for fold, part in folds.items()
        if part
    ]

    def loss(penalty: float) -> float:
        return sum(_log_loss(_fit_rounds(inside, penalty), outside) for inside, outside in parts)

    weights = _fit_rounds(_Features.of(known), min(PENALTIES, key=loss))
    return Learned(
        weights={name: float(value) for name, value in zip(FEATURES, weights[1:], strict=True)},
        intercept=float(weights[0]),
    )


FITTED: Mapping[str, Callable[[str, Sequence[Example], int, Features], Detector]] = {
    "hmm": _fit_densities,
    "learned": _fit_learned,
    "shiryaev_roberts": _fit_densities,
    "sprt": _fit_densities,
}
"""Detectors that can be fitted, and how."""


@dataclass(frozen=True, slots=True)
class _Features:
    """Features of every principle of some conversations, those of a conversation in a row.

    Args:
        rows: a row a principle; shape (principles of all conversations, features).
        owner: place of the conversation of each row, rising.
        attack: whether each conversation is one; shape (conversations,).
    """

    rows: NDArray[np.float64]
    owner: NDArray[np.intp]
    attack: NDArray[np.bool_]

    @classmethod
    def of(cls, known: Sequence[tuple[Example, Mapping[str, Mapping[str, float]]]]) -> _Features:
        import numpy as np

        rows = [
            [features[principle][name] for name in FEATURES]
            for _, features in known
            for principle in sorted(features)
        ]
        owner = [place for place, (_, features) in enumerate(known) for _ in features]
        return cls(np.array(rows), np.array(owner, np.intp), np.array([example.attack for example, _ in known]))

    def worst(self, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return the row of each conversation's worst principle: to a model, or by its peak before there is one.

        Args:
            weights: intercept and weights of the model.
        """
        import numpy as np

        badness = self.rows[:, FEATURES.index("peak")] if weights is None else _odds(self.rows, weights)
        begins = np.flatnonzero(np.diff(self.owner, prepend=-1))
        highest = np.maximum.reduceat(badness, begins)
        places = np.flatnonzero(badness == highest[self.owner])
        _, first = np.unique(self.owner[places], return_index=True)
        return self.rows[places[first]]


def _fit_rounds(known: _Features, penalty: float) -> NDArray[np.float64]:
    """Return intercept and weights, in the features' units."""
    weights = None
    for _ in range(ROUNDS):
        weights = _fit_logistic(known.worst(weights), known.attack, penalty)
    assert weights is not None
    return weights


def _odds(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log odds of each row.

    The product is not asked of BLAS: its threads wait for each other longer than so small a table takes, and their
    number would change the last digits.
    """
    import numpy as np

    odds: NDArray[np.float64] = np.einsum("ij,j->i", rows, weights[1:]) + weights[0]
    return odds


def _log_loss(weights: NDArray[np.float64], known: _Features) -> float:
    import numpy as np

    signs = np.where(known.attack, 1.0, -1.0)
    return float(np.logaddexp(0.0, -signs * _odds(known.worst(weights), weights)).sum())


def _fit_logistic(rows: NDArray[np.float64], attack: NDArray[np.bool_], penalty: float) -> NDArray[np.float64]:
    """Fit standardised features, both labels weighing the same; return intercept and weights in their units.

    Newton's method, its step halved until the loss falls (iteratively reweighted least squares: T. Hastie, R.
    Tibshirani and J. Friedman, "The Elements of Statistical Learning", 2009, section 4.4.1). The intercept is not
    penalised.
    """
    import numpy as np

    truth = attack.astype(float)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread < 1e-9] = 1.0
    standard = (rows - mean) / spread
    weight = np.where(attack, 0.5 / truth.sum(), 0.5 / (1 - truth).sum()) * len(truth)
    ridge = np.full(standard.shape[1] + 1, penalty)
    ridge[0] = 0.0
    table = np.column_stack([np.ones(len(standard)), standard])

    def loss(values: NDArray[np.float64]) -> float:
        odds = _odds(standard, values)
        total = (weight * np.logaddexp(0.0, np.where(attack, -odds, odds))).sum()
        return float(total + 0.5 * (ridge * values**2).sum())

    values = np.zeros(len(ridge))
    before = loss(values)
    for _ in range(_MOST_STEPS):
        chance = 0.5 * (np.tanh(0.5 * _odds(standard, values)) + 1.0)
        gradient = np.einsum("i,ij->j", weight * (chance - truth), table) + ridge * values
        bend = np.einsum("i,ij,ik->jk", weight * chance * (1 - chance), table, table) + np.diag(ridge)
        step = np.linalg.solve(bend, gradient)
        while (after := loss(values - step)) > before and np.abs(step).max() > _SMALL_STEP:
            step = step / 2
        values, before = values - step, min(before, after)
        if np.abs(step).max() <= _SMALL_STEP:
            break
    weights = values[1:] / spread
    return np.concatenate(([values[0] - (weights * mean).sum()], weights))
