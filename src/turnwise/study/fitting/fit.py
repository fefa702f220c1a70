"""Detectors that are fitted: the learned one, and those that need densities of F."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.detectors import Detector, build_detector
from turnwise.detectors.change_points import fit_beta
from turnwise.detectors.learned import FEATURES, Learned, features_by_turn
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
        import numpy as np

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
    """Fit one beta density to the F of harmless turns, one to those of the last third of attacks.

    Which turns of an attack are bad is not labelled; by its last third an attack that unfolds has turned.
    """
    benign = [F for example in examples if not example.attack for F in inputs(example).peaks]
    attack = [F for example in examples if example.attack for F in _last_third(inputs(example).peaks)]
    benign_a, benign_b = fit_beta(benign)
    attack_a, attack_b = fit_beta(attack)
    parameters = {"benign_a": benign_a, "benign_b": benign_b, "attack_a": attack_a, "attack_b": attack_b}
    return build_detector({"detector": name, **parameters})


def _last_third(values: Sequence[float]) -> Sequence[float]:
    return values[-max(1, -(-len(values) // 3)) :]


def _fit_learned(name: str, examples: Sequence[Example], seed: int, inputs: Inputs) -> Detector:
    """Fit the logistic model; the penalty is chosen by cross-validation over groups.

    The label is of the conversation, the model of a principle: the principle that looks worst stands for it,
    chosen anew by the model of the last round. Source: S. Andrews, I. Tsochantaridis and T. Hofmann, "Support
    vector machines for multiple-instance learning", 2003, whose alternation this is.
    """
    import numpy as np

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
    """Features of every principle of some conversations, a row a principle, those of a conversation in a row.

    `owner` is the place of the conversation of each row, rising.
    """

    rows: NDArray[np.float64]
    owner: NDArray[np.intp]
    attack: NDArray[np.bool_]

    @classmethod
    def of(cls, known: Sequence[tuple[Example, NDArray[np.float64]]]) -> _Features:
        import numpy as np

        owner = np.repeat(np.arange(len(known)), [len(rows) for _, rows in known])
        attack = np.array([example.attack for example, _ in known])
        return cls(np.concatenate([rows for _, rows in known]), owner, attack)

    def of_conversations(self, chosen: NDArray[np.bool_]) -> _Features:
        import numpy as np

        rows = chosen[self.owner]
        return _Features(self.rows[rows], (np.cumsum(chosen) - 1)[self.owner[rows]], self.attack[chosen])

    def worst(self, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """The row of each conversation's worst principle: to a model, or by its peak before there is one."""
        import numpy as np

        badness = self.rows[:, FEATURES.index("peak")] if weights is None else _odds(self.rows, weights)
        begins = np.flatnonzero(np.diff(self.owner, prepend=-1))
        highest = np.maximum.reduceat(badness, begins)
        places = np.flatnonzero(badness == highest[self.owner])
        _, first = np.unique(self.owner[places], return_index=True)
        return self.rows[places[first]]


def _fit_rounds(known: _Features, penalty: float, near: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Intercept and weights, in the features' units; the search begins at those that are near, if any."""
    import numpy as np

    rows = known.worst(None)
    weights = _fit_logistic(rows, known.attack, penalty, near)
    for _ in range(ROUNDS - 1):
        others = known.worst(weights)
        if np.array_equal(others, rows):  # the same principles stand for their conversations: so will the fit be
            break
        rows, weights = others, _fit_logistic(others, known.attack, penalty, weights)
    return weights


def _odds(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The log odds of each row.

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


def _fit_logistic(
    rows: NDArray[np.float64],
    attack: NDArray[np.bool_],
    penalty: float,
    near: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Intercept and weights, in the features' units, fitted on standardised ones, both labels weighing the same.

    Newton's method, its step halved until the loss falls (iteratively reweighted least squares: T. Hastie, R.
    Tibshirani and J. Friedman, "The Elements of Statistical Learning", 2009, section 4.4.1), from weights `near`
    the answer where some are known. The intercept is not penalised.
    """
    import numpy as np

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
