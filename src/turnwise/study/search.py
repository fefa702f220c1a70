"""The parameters of a detector, searched inside the training conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.detectors import Detector, build_detector, detector_names, load_detector, to_mapping
from turnwise.errors import UsageError
from turnwise.study.calibrate import threshold_for
from turnwise.study.cross_fit import CrossFitted, Make, cross_fitted
from turnwise.study.example import Example
from turnwise.study.fit import FITTED, fit_detector
from turnwise.study.space import Between, OneOf, Space, space_of

if TYPE_CHECKING:
    from optuna.trial import Trial

_DIGITS = 4
"""Decimals of a searched number; significant digits on a logarithmic scale."""

MOST_TRIALS = 10_000
"""Trials that a search may take; the sampler looks at all that went before, so each takes longer than the last."""

Parameters = dict[str, Any]
Result = Callable[[Parameters], CrossFitted]


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found. All figures are of the training conversations.

    Args:
        detector: the best one, made from all training conversations; its threshold is set on their benign scores.
        before: cross-fitted, what the detector did as it was given.
        after: the same of the best one: the best of many, and so somewhat flattered.
        trials: how many parameters were tried.
        best: number of the trial that was best, from 1.
    """

    detector: Detector
    before: CrossFitted
    after: CrossFitted
    trials: int
    best: int


def search(
    spec: str, train: Sequence[Example], target_fpr: float = 0.01, budget: int = 200, seed: int = 0
) -> Searched:
    """Search the parameters of a detector for the highest recall at a false-positive rate.

    The recall of a trial is cross-fitted by group, see `cross_fitted`; of equal ones the first is kept. The first
    trial is the detector as given, where its parameters lie in the range that is searched. Densities are fitted
    anew in each fold. Source of the sampler: J. Bergstra, R. Bardenet, Y. Bengio and B. Kégl, "Algorithms for
    Hyper-Parameter Optimization", NIPS 2011 (tree-structured Parzen estimator), as optuna has it.

    Args:
        spec: specification of a detector that `turnwise.study.space` knows ranges for.
        train: the training conversations, the only ones that are read.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        budget: trials, at least 1.
        seed: of the folds and of the sampler; the same seed finds the same.

    Raises:
        UnknownNameError: no such detector, or none whose parameters are searched.
        UsageError: too few conversations, or a budget below 1.
        DetectorError: the specification does not fit.
    """
    given = check_search(spec, budget)
    space = space_of(given.name)
    fits = _Fits(given, seed)
    tried: dict[str, CrossFitted] = {}

    def result(parameters: Parameters) -> CrossFitted:
        key = repr(sorted(parameters.items()))
        if key not in tried:
            tried[key] = cross_fitted(fits.maker(parameters), train, target_fpr, seed)
        return tried[key]

    before = result({})
    order = _trials(space, given, budget, seed, result)
    place, parameters = max(enumerate(order), key=lambda item: (result(item[1]).recall.count, -item[0]))
    after = result(parameters)
    best = fits.maker(parameters)(train)
    return Searched(
        best.with_threshold(threshold_for(after.benign, target_fpr)), before, after, len(order), place + 1
    )


def check_search(spec: str, budget: int) -> Detector:
    """Check what is asked of a search before any work is done for it, and return the detector as given.

    Args:
        spec: specification of the detector.
        budget: trials.

    Raises:
        UnknownNameError: no such detector, or none whose parameters are searched.
        UsageError: a budget out of range.
        DetectorError: the specification does not fit.
    """
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
        """Return what makes the detector with these parameters."""

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


def _trials(space: Space, given: Detector, budget: int, seed: int, result: Result) -> list[Parameters]:
    """Return the parameters of all trials, in the order in which the sampler asked for them."""
    import optuna

    order: list[Parameters] = []

    def objective(trial: Trial) -> float:
        order.append({name: _suggested(trial, name, values) for name, values in space.items()})
        return float(result(order[-1]).recall.count)

    with _quiet():
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        start = {name: getattr(given, name) for name in space}
        if all(values.holds(start[name]) for name, values in space.items()):
            study.enqueue_trial(start)
        study.optimize(objective, n_trials=budget)
    return order


def _suggested(trial: Trial, name: str, values: Between | OneOf) -> Any:
    """Return the sampler's next value, with no more digits than a person would write."""
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
