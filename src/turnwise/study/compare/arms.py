"""The arms of a study: every asked detector on every run, the baselines, and the arm that a report follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.detectors import load_detector, same_but_threshold
from turnwise.errors import UsageError
from turnwise.observers.protocol import Context, ContextMode
from turnwise.study.compare.settings import Settings
from turnwise.study.compare.tuning import read_origin
from turnwise.study.fitting.fit import FITTED

if TYPE_CHECKING:
    from turnwise.store import Run


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

    A detector that was asked for stands on every run that was scored turn by turn; one whose file says on which of
    these runs it was tuned, on that run alone.

    >>> arms = plan_arms(Settings(("h",), ("cusum", "any_turn")), {"h": "history"}, [])
    >>> [arm.name for arm in arms if arm.baseline]
    ['any_turn@h', 'count_flags@h', 'first_turn@h', 'last_turn@h', 'length_only@h']
    >>> [arm.name for arm in arms if not arm.baseline]
    ['cusum@h']
    >>> [arm.name for arm in arms if arm.asked]
    ['any_turn@h', 'cusum@h']
    """
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
