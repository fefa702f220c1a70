"""The parameters of a detector, searched inside the training conversations by cross-fitted recall."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.detectors import Detector, build_detector, detector_names, load_detector, to_mapping
from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate
from turnwise.stats import f1, strictest_threshold, threshold_for, threshold_for_f1
from turnwise.stats.examples import Example, split_by_group
from turnwise.study.fitting.fit import FITTED, Objective, check_objective, fit_detector, highest_scores

if TYPE_CHECKING:
    from optuna.trial import Trial


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers of a range; with `log` they are even on the logarithmic scale."""

    low: float
    high: float
    whole: bool = False
    log: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class OneOf:
    """Values from a list; None where a parameter may be left out."""

    values: tuple[float | None, ...]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return value in self.values


Space = Mapping[str, Between | OneOf]
"""What a search looks among, by parameter."""

SPACES: Mapping[str, Space] = {
    "boundary_testing": {
        "breakers": Between(1, 4, whole=True),
        "bad": Between(1, 4, whole=True),
        "fall": Between(0.05, 1.0),
        "window": Between(4, 10, whole=True),
    },
    "count_flags": {"flag": Between(0.05, 0.95)},
    "cusum": {"drift": Between(0.0, 1.0)},
    # Only the ratio of its two limits matters once its threshold is calibrated, so one of them stays.
    "f_ema": {"alpha": Between(0.05, 1.0), "slope_limit": Between(0.02, 2.0, log=True)},
    "hmm": {
        "enter": Between(0.001, 0.5, log=True),
        "leave": Between(0.001, 0.5, log=True),
        "start_bad": Between(0.001, 0.5, log=True),
    },
    "page_hinkley": {"drift": Between(0.0, 0.3)},
    "peak_accumulation": {"share": Between(0.0, 2.0), "rise": Between(0.0, 1.0), "positive": Between(0.05, 0.95)},
    "slope": {"window": OneOf((None, 4, 5, 6, 8, 10)), "min_turns": Between(2, 4, whole=True)},
    "sprt": {"lower": Between(-8.0, -0.1)},
    "trust_ema": {"alpha": Between(0.05, 1.0), "initial": Between(0.0, 1.0)},
}
"""Every detector that has something to search for, and what. Densities and weights are fitted, not searched."""


def space_of(name: str) -> Space:
    """What a search looks among for a detector.

    >>> space_of("cusum")
    {'drift': Between(low=0.0, high=1.0, whole=False, log=False)}
    """
    if name not in SPACES:
        raise UnknownNameError("detector with parameters to search", name, SPACES)
    return SPACES[name]


FOLDS = 5
"""Parts that training conversations are divided into, by group."""

Make = Callable[[Sequence[Example]], Detector]
"""Makes a detector from conversations, such as by fitting it; or the same one whatever it is given."""


Score = Callable[[Detector, Sequence[Example]], Sequence[float]]
"""Gives the highest score of each conversation by a detector."""


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """What a detector does on conversations that neither fitted it nor set its threshold.

    `benign` and `attacks` are the highest scores of these conversations, by the detector of their fold.
    """

    recall: Rate
    false_positives: Rate
    benign: tuple[float, ...]
    attacks: tuple[float, ...]

    @property
    def f1(self) -> float:
        """F1 of these verdicts."""
        return f1(self.recall.count, self.false_positives.count, self.recall.of)

    @property
    def scores(self) -> list[tuple[bool, float]]:
        """Label and highest score of each conversation."""
        return [*((False, score) for score in self.benign), *((True, score) for score in self.attacks)]

    def to_dict(self) -> dict[str, Any]:
        """Return how many of how many, and F1, as JSON values."""
        return {
            "f1": self.f1,
            "recall": [self.recall.count, self.recall.of],
            "false_positives": [self.false_positives.count, self.false_positives.of],
        }

    def value(self, objective: Objective) -> float:
        """What a search makes as high as it can: attacks that were flagged, or F1."""
        return self.f1 if objective == "f1" else float(self.recall.count)


def cross_fitted(
    make: Make,
    examples: Sequence[Example],
    target_fpr: float,
    seed: int = 0,
    *,
    strict: bool = True,
    score: Score = highest_scores,
    objective: Objective = "recall",
) -> CrossFitted:
    """Recall and false positives by cross-fitting over groups.

    Each of five parts is scored by the detector that the other four make, and judged at a threshold set on scores
    of the other four parts, so that a conversation never has a say in its own verdict. Where benign conversations
    are too few it is an error, or, if not strict, the threshold lies just above all of them. Source: A. Schick,
    "On asymptotically efficient estimation in semiparametric models", Annals of Statistics 14 (1986).

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score, TurnScores
    >>> def one(number, F):
    ...     turns = (TurnScores(1, {"reciprocity": Score(0.5, 0.2, F)}),)
    ...     return Example(f"c{number}", f"g{number}", F > 0.5, turns)
    >>> examples = [*(one(n, n / 250) for n in range(100)), *(one(n, 0.9) for n in range(100, 120))]
    >>> found = cross_fitted(lambda _: build_detector("any_turn"), examples, 0.05)
    >>> str(found.recall), str(found.false_positives)
    ('20/20 = 100.0 % [83.2, 100.0]', '6/100 = 6.0 % [2.2, 12.6]')
    """
    parts = split_by_group(examples, {str(number): 1 / FOLDS for number in range(FOLDS)}, seed)
    scored: list[list[tuple[bool, float]]] = []
    for name, part in parts.items():
        detector = make([example for other, rest in parts.items() if other != name for example in rest])
        scored.append(list(zip([example.attack for example in part], score(detector, part), strict=True)))
    caught = flagged = 0
    for number, part_scores in enumerate(scored):
        others = [one for place, rest in enumerate(scored) if place != number for one in rest]
        if objective != "f1":
            limit = _limit([score for attack, score in others if not attack], target_fpr, strict)
        elif any(score > -math.inf for _, score in others):
            limit = threshold_for_f1(others)
        else:
            limit = math.inf  # without evidence nothing is flagged: these parameters are no good
        caught += sum(score >= limit for attack, score in part_scores if attack)
        flagged += sum(score >= limit for attack, score in part_scores if not attack)
    benign, attacks = (
        tuple(score for part_scores in scored for attack, score in part_scores if attack is label)
        for label in (False, True)
    )
    return CrossFitted(Rate(caught, len(attacks)), Rate(flagged, len(benign)), benign, attacks)


def _limit(benign: Sequence[float], target_fpr: float, strict: bool) -> float:
    try:
        return threshold_for(benign, target_fpr)
    except UsageError as error:
        if strict:
            raise UsageError(
                f"{error}, in each four fifths of the training conversations: evaluate more benign conversations, "
                "or raise the rate"
            ) from error
        return strictest_threshold(benign)


_DIGITS = 4
"""Decimals of a searched number; significant digits on a logarithmic scale."""

MOST_TRIALS = 10_000
"""Trials that a search may take; the sampler looks at all that went before, so each takes longer than the last."""

Parameters = dict[str, Any]
Value = Callable[[Parameters], float]


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found. All figures are of the training conversations.

    The detector was made from all of them, and its threshold is set on their scores. `after` is cross-fitted like
    `before`, but the best of many, and so somewhat flattered. `best` is the number of its trial, from 1.
    """

    detector: Detector
    before: CrossFitted
    after: CrossFitted
    trials: int
    best: int


def search(
    spec: str,
    train: Sequence[Example],
    target_fpr: float = 0.01,
    budget: int = 200,
    seed: int = 0,
    objective: Objective = "recall",
) -> Searched:
    """Search the parameters of a detector for the highest recall at a false-positive rate, or the highest F1.

    The value of a trial is cross-fitted by group, see `cross_fitted`; of equal ones the first is kept. The first
    trial is the detector as given, where its parameters lie in the range that is searched. Densities are fitted
    anew in each fold. The same seed finds the same. Source of the sampler: J. Bergstra, R. Bardenet, Y. Bengio and
    B. Kégl, "Algorithms for Hyper-Parameter Optimization", NIPS 2011 (tree-structured Parzen estimator), as optuna
    has it.
    """
    check_objective(objective)
    given = check_search(spec, budget)
    space = space_of(given.name)
    fits = _Fits(given, seed)
    tried: dict[str, CrossFitted] = {}

    def result(parameters: Parameters) -> CrossFitted:
        key = repr(sorted(parameters.items()))
        if key not in tried:
            tried[key] = cross_fitted(fits.maker(parameters), train, target_fpr, seed, objective=objective)
        return tried[key]

    before = result({})
    order = _trials(space, given, budget, seed, lambda parameters: result(parameters).value(objective))
    place, parameters = max(enumerate(order), key=lambda item: (result(item[1]).value(objective), -item[0]))
    after = result(parameters)
    best = fits.maker(parameters)(train)
    limit = threshold_for_f1(after.scores) if objective == "f1" else threshold_for(after.benign, target_fpr)
    return Searched(best.with_threshold(limit), before, after, len(order), place + 1)


def check_search(spec: str, budget: int) -> Detector:
    """Check what is asked of a search before any work is done for it, and return the detector as given."""
    if not 1 <= budget <= MOST_TRIALS:
        raise UsageError(f"a search needs a budget of at least 1 trial, at most {MOST_TRIALS}, not {budget}")
    name = spec.partition(":")[0].strip()
    if name in detector_names():  # what is only fitted, such as learned, can't even be built without its weights
        space_of(name)
    given = load_detector(spec)
    space_of(given.name)
    return given


class _Fits:
    """Detectors of one kind with parameters of one's choice; what is fitted is fitted once for each fold."""

    def __init__(self, given: Detector, seed: int) -> None:
        self._given = given
        self._seed = seed
        self._fitted: dict[tuple[str, ...], Mapping[str, Any]] = {}

    def maker(self, parameters: Parameters) -> Make:
        """What makes the detector with these parameters."""

        def make(examples: Sequence[Example]) -> Detector:
            return build_detector({**to_mapping(self._given), **self._densities(examples), **parameters})

        return make

    def _densities(self, examples: Sequence[Example]) -> Mapping[str, Any]:
        if self._given.name not in FITTED:
            return {}
        key = tuple(example.sequence_id for example in examples)
        if key not in self._fitted:
            self._fitted[key] = to_mapping(fit_detector(self._given.name, examples, self._seed))
        return self._fitted[key]


def _trials(space: Space, given: Detector, budget: int, seed: int, value: Value) -> list[Parameters]:
    """The parameters of all trials, in the order in which the sampler asked for them."""
    import optuna

    order: list[Parameters] = []

    def objective(trial: Trial) -> float:
        order.append({name: _suggested(trial, name, values) for name, values in space.items()})
        return value(order[-1])

    with _quiet():
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        start = {name: getattr(given, name) for name in space}
        if all(values.holds(start[name]) for name, values in space.items()):
            study.enqueue_trial(start)
        study.optimize(objective, n_trials=budget)
    return order


def _suggested(trial: Trial, name: str, values: Between | OneOf) -> Any:
    """The sampler's next value, with no more digits than a person would write."""
    if isinstance(values, OneOf):
        return trial.suggest_categorical(name, values.values)
    if values.whole:
        return trial.suggest_int(name, int(values.low), int(values.high))
    value = trial.suggest_float(name, values.low, values.high, log=values.log)
    return float(f"{value:.{_DIGITS}g}") if values.log else round(value, _DIGITS)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep optuna from telling every trial; what it told before it tells again afterwards."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
