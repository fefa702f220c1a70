"""What a study is asked to do: its settings, its arms, and which conversations train, calibrate and test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from turnwise.detectors import load_detector, same_but_threshold
from turnwise.errors import UnknownNameError, UsageError
from turnwise.observers.protocol import Context, ContextMode
from turnwise.stats import check_rate
from turnwise.stats.examples import Example, split_by_group
from turnwise.study.fitting import FITTED

if TYPE_CHECKING:
    from turnwise.store import Run

THRESHOLDS = ("calibrated", "given")
GUARANTEES = ("expectation", "confidence")
MIN_FOLDS, MOST_FOLDS = 2, 1_000

MOST_SPLITS = 1_000
"""Splits that a study may be redrawn on."""

MOST_SEEDS = 100

MOST_REPLICATES = 100_000
"""Resamples that a bootstrap may take: all of them are held at once, a number for each group."""

MOST_SEED = 2**32 - 1
"""The largest seed that all sources of chance take."""

Thresholds = Literal["calibrated", "given"]
Guarantee = Literal["expectation", "confidence"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a study; the same settings on the same data give the same bytes.

    Args:
        runs: runs to compare; those of the store with a window or a whole transcript come in as baselines.
        detectors: specifications or YAML files; the baselines come in by themselves.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        thresholds: ``"calibrated"`` on a part of the conversations, or ``"given"``: those of the specifications
            and of the run's operating points, so that every conversation is tested.
        guarantee: with ``"expectation"`` the rate holds on average over calibration sets, with ``"confidence"`` in
            all but 1 - `confidence` of them.
        confidence: of the intervals and of that guarantee, in (0, 1).
        folds: 0 for one split into train, calibrate and test; from 2 to 1,000 every conversation is tested once,
            with what was fitted and calibrated on the other folds.
        shares: of the groups that go to train, calibrate and test, where there are no folds.
        seed: of the splits and of the bootstrap, a whole number from 0 to 2³² - 1.
        replicates: resamples of the bootstrap, from 1 to 100,000.
        splits: splits that two runs of the same context are compared on, from 1 to 1,000: the first is that of
            the seed, each further one that of the next seed. With 1 nothing is said about other splits. Given
            thresholds need none.
        seeds: how often folds are drawn for the gain of context and the gain of trajectory, from 1 to 100: a gain
            that is not stable over them is not shown.
        small_cell: conversations of a label under which a cell shows no percentage.
        patterns: YAML file of your own named patterns, which detectors may use.
        truth: run whose F says at which turns a reader flags something; None to look at labels alone.
        keep_trained: test false positives also on data sets that an observer was trained on.
        corrected_by: people whose corrected labels hold in place of the imported ones; where they disagree, a
            conversation is left out.

    Raises:
        UsageError: a value out of range, or no run.
    """

    runs: tuple[str, ...]
    detectors: tuple[str, ...] = ()
    target_fpr: float = 0.01
    thresholds: Thresholds = "calibrated"
    guarantee: Guarantee = "expectation"
    confidence: float = 0.95
    folds: int = 0
    shares: tuple[float, float, float] = (0.3, 0.3, 0.4)
    seed: int = 0
    replicates: int = 2000
    splits: int = 50
    seeds: int = 6
    small_cell: int = 10
    patterns: str | None = None
    truth: str | None = None
    keep_trained: bool = False
    corrected_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("a study needs at least one run: name it with --run")
        for name in ("target_fpr", "confidence"):
            check_rate(name.replace("_", " "), getattr(self, name))
        if self.thresholds not in THRESHOLDS:
            raise UnknownNameError("kind of thresholds", self.thresholds, THRESHOLDS)
        if self.guarantee not in GUARANTEES:
            raise UnknownNameError("guarantee", self.guarantee, GUARANTEES)
        if self.folds != 0 and not MIN_FOLDS <= self.folds <= MOST_FOLDS:
            raise UsageError(
                f"folds must be 0, or at least {MIN_FOLDS} and at most {MOST_FOLDS}, not {self.folds}"
            )
        for name, most in (("replicates", MOST_REPLICATES), ("splits", MOST_SPLITS), ("seeds", MOST_SEEDS)):
            if not 1 <= getattr(self, name) <= most:
                raise UsageError(f"{name} must be at least 1 and at most {most}, not {getattr(self, name)}")
        if self.small_cell < 1:
            raise UsageError(f"small cell must be at least 1, not {self.small_cell}")
        if not 0 <= self.seed <= MOST_SEED:
            raise UsageError(f"seed must be from 0 to {MOST_SEED}, not {self.seed}")

    @property
    def kept_with(self) -> float | None:
        """The confidence with which thresholds keep the rate; None where they keep it on average."""
        return self.confidence if self.guarantee == "confidence" else None


PARTS = ("train", "calibrate", "test")


@dataclass(frozen=True, slots=True)
class Fold:
    """Ids of the conversations of one fold; no group stands in two of its parts.

    Args:
        train: what detectors are fitted on.
        calibrate: what sets thresholds.
        test: what is reported.
    """

    train: frozenset[str]
    calibrate: frozenset[str]
    test: frozenset[str]


def make_folds(examples: Sequence[Example], settings: Settings) -> tuple[Fold, ...]:
    """The folds of a study: one, or as many as the settings ask for.

    With folds, what is not tested is halved into train and calibrate, so that a conversation never sets the
    threshold that judges it (cross-fitting: A. Schick, "On asymptotically efficient estimation in semiparametric
    models", Annals of Statistics 14, 1986).

    >>> examples = [Example(f"{n}", f"g{n // 2}", n < 10, ()) for n in range(40)]
    >>> [len(fold.test) for fold in make_folds(examples, Settings(("r",), folds=4))]
    [10, 10, 10, 10]
    """
    if settings.thresholds == "given":
        return (Fold(frozenset(), frozenset(), _ids(examples)),)
    if settings.folds:
        share = 1 / settings.folds
        parts = split_by_group(examples, {str(n): share for n in range(settings.folds)}, settings.seed)
        return tuple(_around(examples, part, settings.seed) for part in parts.values())
    split = split_by_group(examples, dict(zip(PARTS, settings.shares, strict=True)), settings.seed)
    return (Fold(*(_ids(split[name]) for name in PARTS)),)


def without(folds: Iterable[Fold], ids: Collection[str]) -> tuple[Fold, ...]:
    """Folds in which some conversations neither set a threshold nor are tested; they still train.

    >>> [fold] = without([Fold(frozenset("ab"), frozenset("cd"), frozenset("ef"))], "ace")
    >>> sorted(fold.train), sorted(fold.calibrate), sorted(fold.test)
    (['a', 'b'], ['d'], ['f'])
    """
    return tuple(replace(fold, calibrate=fold.calibrate - {*ids}, test=fold.test - {*ids}) for fold in folds)


def _around(examples: Sequence[Example], tested: Sequence[Example], seed: int) -> Fold:
    test = _ids(tested)
    rest = [example for example in examples if example.sequence_id not in test]
    halves = split_by_group(rest, {"train": 0.5, "calibrate": 0.5}, seed + 1)
    return Fold(_ids(halves["train"]), _ids(halves["calibrate"]), test)


def _ids(examples: Sequence[Example]) -> frozenset[str]:
    return frozenset(example.sequence_id for example in examples)


REFERENCE = "any_turn"
"""The detector that a detector over time has to beat."""

BASELINES = (REFERENCE, "count_flags", "first_turn", "last_turn", "length_only")
"""Detectors that are in every comparison."""

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Arm:
    """One detector on one run.

    Args:
        name: unique in the study, such as ``"cusum@local-history"``.
        detector: what was asked for, as a specification, the name of a fitted one, or a YAML file.
        run: name of the run.
        context: what its observer saw.
        baseline: whether it is one of those that every comparison holds.
        asked: whether its detector was asked for by name; a baseline may be.
    """

    name: str
    detector: str
    run: str
    context: str
    baseline: bool
    asked: bool

    @property
    def fitted(self) -> bool:
        """Whether its parameters are fitted on the train conversations."""
        return self.detector in FITTED

    @property
    def chosen_flag(self) -> bool:
        """Whether the F from which ``count_flags`` flags a turn is chosen on the train conversations."""
        return self.detector == "count_flags"

    @property
    def trained(self) -> bool:
        """Whether another train part would make another detector of it."""
        return self.fitted or self.chosen_flag

    @property
    def from_file(self) -> bool:
        """Whether the detector comes from a file, and so may have been tuned on the same conversations."""
        return self.detector.endswith((".yaml", ".yml"))


def compared_runs(all_runs: Sequence[Run], asked: Sequence[str]) -> tuple[list[str], list[str]]:
    """The asked runs, and runs of the same observers with a window or transcript, which come in as baselines."""
    chosen = list(dict.fromkeys(asked))
    observers = {(run.observer, run.observer_version) for run in all_runs if run.name in chosen}
    further = [
        run.name
        for run in all_runs
        if run.name not in chosen
        and (run.observer, run.observer_version) in observers
        and Context.parse(run.context).mode in (ContextMode.WINDOW, ContextMode.TRANSCRIPT)
    ]
    return chosen, further


def plan_arms(settings: Settings, contexts: Mapping[str, str], further: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of a study, baselines first; `further` runs come in as baselines with `any_turn` alone.

    >>> arms = plan_arms(Settings(("h",), ("cusum", "any_turn")), {"h": "history"}, [])
    >>> [arm.name for arm in arms if arm.baseline]
    ['any_turn@h', 'count_flags@h', 'first_turn@h', 'last_turn@h', 'length_only@h']
    >>> [arm.name for arm in arms if not arm.baseline]
    ['cusum@h']
    >>> [arm.name for arm in arms if arm.asked]
    ['any_turn@h', 'cusum@h']
    """
    # A detector stands on every run that was scored turn by turn; one whose file says on which of these runs it
    # was tuned, on that run alone.
    whole = str(ContextMode.TRANSCRIPT)
    runs = tuple(dict.fromkeys(settings.runs))
    turnwise = [run for run in runs if contexts[run] != whole]
    baselines = {spec: _baseline(spec, settings.patterns) for spec in settings.detectors}
    asked = set(baselines.values())
    arms = [
        Arm(f"{name}@{run}", name, run, contexts[run], True, name in asked)
        for run in turnwise
        for name in BASELINES
        if name != "length_only" or run == turnwise[0]
    ]
    transcripts = [run for run in runs if contexts[run] == whole]
    arms += [
        Arm(f"{REFERENCE}@{run}", REFERENCE, run, contexts[run], True, REFERENCE in asked)
        for run in [*transcripts, *further]
    ]
    taken = {arm.name for arm in arms}
    for spec, baseline in baselines.items():
        if baseline is not None:
            continue
        for run in _runs_of(spec, turnwise):
            name = _free_name(f"{short_name(spec)}@{run}", taken)
            taken.add(name)
            arms.append(Arm(name, spec, run, contexts[run], False, True))
    return tuple(arms)


def reference_of(arms: Iterable[Arm]) -> Arm:
    """The arm to beat: `any_turn` on the first run that sees single turns, or on the first run if none does."""
    found = [arm for arm in arms if arm.detector == REFERENCE]
    turn = [arm for arm in found if arm.context == ContextMode.TURN]
    by_turn = [arm for arm in found if arm.context != ContextMode.TRANSCRIPT]
    if not by_turn:
        raise UsageError("a study needs a run that was scored turn by turn: context turn, window:k or history")
    return (turn or by_turn)[0]


def short_name(spec: str) -> str:
    """What tables call a detector: its specification, cut short, or the name of its file.

    >>> short_name("tuned/cusum.yaml"), short_name("cusum:limit=0.2")
    ('cusum.yaml', 'cusum:limit=0.2')
    """
    name = Path(spec).name if spec.endswith((".yaml", ".yml")) else spec
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _runs_of(spec: str, runs: Sequence[str]) -> Sequence[str]:
    """The runs that a detector stands on: all, or the one alone that its file says it was tuned on."""
    if not spec.endswith((".yaml", ".yml")):
        return runs
    origin = read_origin(spec)
    return [origin.run] if origin and origin.run in runs else runs


def _baseline(spec: str, patterns: str | None) -> str | None:
    """The baseline that a specification asks for; its threshold is set in any case."""
    if spec in FITTED:
        return None
    detector = load_detector(spec, patterns=patterns)
    same = detector.name in BASELINES and same_but_threshold(detector, detector.name)
    return detector.name if same else None


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


MARK = "# origin: "
"""Begins the line of a detector file that says where it comes from, as JSON."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that a detector was tuned on, and the SHA-256 of the ids of the conversations."""

    run: str
    digest: str


def sha256_of_ids(ids: Iterable[str]) -> str:
    """The SHA-256 of some ids, whatever their order.

    >>> sha256_of_ids(["b", "a"]) == sha256_of_ids(["a", "b"])
    True
    """
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(ids)).encode()).hexdigest()


def read_origin(file: str) -> Origin | None:
    """Where a detector file comes from; None where it does not say."""
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(MARK):
            try:
                found = json.loads(line.removeprefix(MARK))
                return Origin(str(found["run"]["name"]), str(found["split"]["sha256_of_ids"]))
            except (ValueError, KeyError, TypeError):  # somebody edited the heading: then it says nothing
                return None
    return None
