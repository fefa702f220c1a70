"""What an observer sees by what decides: the gain of context, apart from the gain of trajectory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import TurnwiseError, UsageError
from turnwise.observers.protocol import ContextMode
from turnwise.stats import (
    FEW,
    FEW_GROUPS,
    TAILS,
    Difference,
    Floats,
    Interval,
    holm_corrected,
    paired_difference,
    resamples,
    roc_heads,
)
from turnwise.stats.examples import Example, split_by_group
from turnwise.study.compare.comparisons import LEVEL
from turnwise.study.compare.data import StudyData, attacks_by_source
from turnwise.study.compare.judging import ArmScores, evaluated_of
from turnwise.study.compare.plan import Arm, Settings, short_name

if TYPE_CHECKING:
    from turnwise.store import Run

Kind = Literal["gain of context", "gain of trajectory"]
CONTEXT: Kind = "gain of context"
TRAJECTORY: Kind = "gain of trajectory"

SHOWN, LOSS, NOT_SHOWN, NOT_STABLE = "shown", "a loss", "not shown", "not shown (not stable over seeds)"
"""What is said of a gain."""

ALL = "all attacks"
HIGHEST, LAST, LEARNED, BEST = "highest F", "last F", "learned", "best accumulator"

ACCUMULATORS: Mapping[str, tuple[str, ...]] = {
    "EMA": ("f_ema", "f_ema:slope_limit=inf", "f_ema:alpha=0.6,slope_limit=inf"),
    "CUSUM": ("cusum", "cusum:drift=0.15", "cusum:drift=0.05"),
    "peak accumulation": ("peak_accumulation", "peak_accumulation:positive=0.15"),
}
"""In every study, with the settings that the tuning folds choose from."""

FOLDS = 5
REPLAYED = "replay"


@dataclass(frozen=True, slots=True)
class DecisionRecall:
    """The recall of one decision on one run, with the interval of the first seed.

    Args:
        run: name of the run.
        sees: its context.
        decision: what decides.
        recall: at the matched false-positive rate.
        other_seeds: the same with the folds of other seeds.
    """

    run: str
    sees: str
    decision: str
    recall: Interval
    other_seeds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ApartGain:
    """One of the two gains in recall, `b` less `a`, at the same false-positive rate.

    Args:
        kind: context (same decision, more seen) or trajectory (same observer, accumulator against highest F).
        attacks: all attacks, or the source whose attacks these are.
        a: decision and run to beat.
        b: decision and run that may gain.
        by_seed: the gain with the folds of each seed.
        p: the largest of the seeds' p-values.
        p_holm: the same, corrected over the gains on all attacks, or over those by source.
    """

    kind: Kind
    attacks: str
    a: tuple[str, str]
    b: tuple[str, str]
    by_seed: tuple[Difference, ...]
    p: float
    p_holm: float

    @property
    def stable(self) -> bool:
        """Whether the gain with each seed lies in the interval of every other seed."""
        return all(one.low <= other.value <= one.high for one in self.by_seed for other in self.by_seed)

    @property
    def says(self) -> str:
        """What is shown: a gain, a loss, or neither and why."""
        if not self.stable:
            return NOT_STABLE
        if self.p_holm >= LEVEL:
            return NOT_SHOWN
        if all(one.low > 0 for one in self.by_seed):
            return SHOWN
        return LOSS if all(one.high < 0 for one in self.by_seed) else NOT_SHOWN


@dataclass(frozen=True, slots=True)
class TwoByTwo:
    """The decisions on the runs of one observer, and the two gains.

    Args:
        observer: its name.
        rate: false-positive rate at which recalls are read.
        folds: how many there are for each seed.
        attacks: how many were judged.
        benign: likewise.
        left_out: others that not all of these runs evaluated.
        cells: by run, then by decision.
        gains: on all attacks, then by source; the first of each kind is the one that the words are about.
        chosen: by run, how often each accumulator was the best on the tuning folds.
    """

    observer: str
    rate: float
    folds: int
    attacks: int
    benign: int
    left_out: int
    cells: tuple[DecisionRecall, ...]
    gains: tuple[ApartGain, ...]
    chosen: Mapping[str, Mapping[str, int]]

    def first(self, kind: Kind, attacks: str = ALL) -> ApartGain | None:
        """Return the gain that the words are about: by highest F, or on the run that sees most."""
        return next((one for one in self.gains if one.kind == kind and one.attacks == attacks), None)


def two_by_two(
    study_data: StudyData,
    arms: Sequence[Arm],
    scores: ArmScores,
    tell: Callable[[str], None],
) -> tuple[tuple[TwoByTwo, ...], str]:
    """Measure the decisions and the two gains, for each observer; comes with why one could not be measured."""
    # With every seed the conversations are divided into folds by group. What is fitted, the setting of an
    # accumulator and the best of them are decided on the other folds alone. These also put the scores of a fold on
    # one scale: 0 at the median of their benign conversations, 1 at the threshold that they set. Recall is read
    # from the ROC curve over all folds, so that every decision flags the same share of the benign ones. The
    # bootstrap over groups is paired: the threshold moves with it, what was chosen or fitted does not.
    found, why_not = [], ""
    for runs in _by_observer(study_data, scores.settings):
        tell(f"judging context and trajectory: {', '.join(runs)}")
        try:
            found.append(_ObserverShare(study_data, runs, arms, scores).result())
        except TurnwiseError as error:
            why_not = why_not or f"{', '.join(runs)}: {error}"
    return tuple(found), why_not


def _by_observer(study_data: StudyData, settings: Settings) -> list[tuple[str, ...]]:
    """The runs of each observer that belong together: one that saw single turns, then one that saw more."""
    # The version of replayed scores is their hash, and so another in each context.

    def observer(run: Run) -> tuple[str, str]:
        return run.observer, "" if run.observer == REPLAYED else run.observer_version

    runs = {one.run.name: one.run for one in study_data.runs}
    asked = [runs[name] for name in dict.fromkeys(settings.runs) if runs[name].context != ContextMode.TRANSCRIPT]
    found: list[tuple[str, ...]] = []
    for one in dict.fromkeys(map(observer, asked)):
        own = [run for run in asked if observer(run) == one]
        alone = [run.name for run in own if run.context == ContextMode.TURN]
        wider = [run.name for run in own if run.context != ContextMode.TURN]
        for number in range(max(len(alone), len(wider))):
            turn = [alone[min(number, len(alone) - 1)]] if alone else []
            found.append((*turn, *wider[number : number + 1]))
    return found


class _ObserverShare:
    """One observer's part of the work: the conversations that all its runs evaluated, and their resamples."""

    def __init__(self, study_data: StudyData, runs: Sequence[str], arms: Sequence[Arm], scores: ArmScores) -> None:
        self.settings, self.scores, self.runs = scores.settings, scores, runs
        data = {one.run.name: one for one in study_data.runs if one.run.name in runs}
        self.contexts = {name: data[name].run.context for name in runs}
        self.observer = data[runs[0]].run.observer
        both = {one.sequence_id for one in study_data.known}
        for name in runs:
            both &= {example.sequence_id for example in evaluated_of(data[name], both)}
        self.examples = {name: evaluated_of(data[name], both) for name in runs}
        untested = study_data.untested(self.settings)
        self.known = [one for one in study_data.known if one.sequence_id in both - untested]
        self.left_out = len(study_data.known) - len(both)
        self.place = {one.sequence_id: number for number, one in enumerate(self.known)}
        self.labels = np.array([one.attack for one in self.known], dtype=bool)
        self.of_groups = [len({one.group for one in self.known if one.attack is label}) for label in (True, False)]
        self.folds = min(FOLDS, *self.of_groups)
        if self.folds > 1:
            drawn = resamples(
                [one.group for one in self.known],
                [one.attack for one in self.known],
                np.random.default_rng(self.settings.seed),
                self.settings.replicates,
            )
            self.weights = np.column_stack([np.ones(drawn.groups), drawn.counts.T])[drawn.place]
        self.decisions = {name: _decisions(name, self.contexts[name], arms) for name in runs}
        self.chosen: dict[str, Counter[str]] = {name: Counter() for name in runs}

    def result(self) -> TwoByTwo:
        """Measure with every seed."""
        if self.folds < 2:
            attacks, benign = self.of_groups
            raise UsageError(
                f"folds need two groups of each label at least, not {attacks} with attacks and {benign} with "
                "benign conversations"
            )
        seeds = [self._pooled(self.settings.seed + number) for number in range(self.settings.seeds)]
        recalls = [{key: self._recalls(values, ALL) for key, values in pooled.items()} for pooled in seeds]
        cells = [
            DecisionRecall(
                run,
                self.contexts[run],
                decision,
                self._cell(recalls[0][decision, run]),
                tuple(float(one[decision, run][0]) for one in recalls[1:]),
            )
            for decision, run in recalls[0]
        ]
        gains = [self._gain(kind, ALL, a, b, recalls) for kind, a, b in self._compared()]
        heads = [next((one for one in gains if one.kind == kind), None) for kind in (CONTEXT, TRAJECTORY)]
        by_source = []
        for source in attacks_by_source(self.known, self.settings.small_cell):
            for head in heads:
                if head is not None:
                    of = [
                        {key: self._recalls(pooled[key], source) for key in (head.a, head.b)} for pooled in seeds
                    ]
                    by_source.append(self._gain(head.kind, source, head.a, head.b, of))
        attacks = int(self.labels.sum())
        return TwoByTwo(
            self.observer,
            self.settings.target_fpr,
            self.folds,
            attacks,
            len(self.known) - attacks,
            self.left_out,
            tuple(cells),
            (*holm_corrected(gains), *holm_corrected(by_source)),
            {run: dict(counts.most_common()) for run, counts in self.chosen.items()},
        )

    def _compared(self) -> list[tuple[Kind, tuple[str, str], tuple[str, str]]]:
        """The gains to measure, those that the words are about first."""
        most = self.runs[-1]
        found: list[tuple[Kind, tuple[str, str], tuple[str, str]]] = []
        if len(self.runs) > 1:
            found += [(CONTEXT, (name, self.runs[0]), (name, most)) for name in self._columns()]
        return found + [(TRAJECTORY, (HIGHEST, run), (BEST, run)) for run in reversed(self.runs)]

    def _columns(self) -> list[str]:
        fitted = [LEARNED] if LEARNED in self.decisions[self.runs[0]] else []
        return [HIGHEST, LAST, *ACCUMULATORS, *fitted, BEST]

    def _pooled(self, seed: int) -> dict[tuple[str, str], Floats]:
        """By decision and run, the score of every conversation by what the other folds chose and fitted."""
        first = self.examples[self.runs[0]]
        parts = split_by_group(first, {str(n): 1 / self.folds for n in range(self.folds)}, seed)
        found = {(name, run): np.full(len(self.known), -np.inf) for run in self.runs for name in self._columns()}
        for part in parts.values():
            held_out = {example.sequence_id for example in part}
            for run in self.runs:
                tuning = [one for one in self.examples[run] if one.sequence_id not in held_out]
                tested = [one for one in self.examples[run] if one.sequence_id in held_out & self.place.keys()]
                places = [self.place[one.sequence_id] for one in tested]
                on_one_scale: dict[str, Floats] = {}
                for name, arm in self._choose(run, tuning, seed).items():
                    if arm.name not in on_one_scale:
                        on_one_scale[arm.name] = self._on_one_scale(arm, tuning, tested, seed)
                    found[name, run][places] = on_one_scale[arm.name]
        return found

    def _choose(self, run: str, tuning: Sequence[Example], seed: int) -> dict[str, Arm]:
        """What stands for each decision: of several arms the one that catches most on the tuning folds."""
        decisions = self.decisions[run]
        accumulators = [arm for name, arms in decisions.items() if name not in (HIGHEST, LAST) for arm in arms]
        caught = {arm.name: self.scores.in_training(arm, tuning, seed).count for arm in accumulators}
        chosen = {name: max(arms, key=lambda arm: caught.get(arm.name, 0)) for name, arms in decisions.items()}
        best = max(accumulators, key=lambda arm: caught[arm.name])
        self.chosen[run][short_name(best.detector)] += 1
        return {name: chosen[name] for name in self._columns() if name != BEST} | {BEST: best}

    def _on_one_scale(self, arm: Arm, tuning: Sequence[Example], tested: Sequence[Example], seed: int) -> Floats:
        detector = self.scores.detector(arm, tuning, seed)
        of_benign = [one for one in tuning if not one.attack and one.sequence_id in self.place]
        benign = np.array(self.scores.of(arm, detector, of_benign))
        values = np.array(self.scores.of(arm, detector, tested))
        benign = benign[np.isfinite(benign)]
        if not len(benign):
            return values
        middle, limit = np.quantile(benign, [0.5, 1 - self.settings.target_fpr], method="higher")
        scaled: Floats = 1 + (values - limit) / (limit - middle or 1.0)
        return scaled

    def _recalls(self, values: Floats, attacks: str) -> Floats:
        """Recall at the rate, on the data and on each resample."""
        kept = self._of(attacks) | ~self.labels
        _, recalls = roc_heads(values[kept], self.labels[kept], self.weights[kept], [self.settings.target_fpr])
        recall: Floats = recalls[0]
        return recall

    def _of(self, attacks: str) -> NDArray[np.bool_]:
        chosen = [one.attack and attacks in (ALL, one.strata["source"]) for one in self.known]
        return np.array(chosen, dtype=bool)

    def _groups(self, attacks: str) -> int:
        chosen = self._of(attacks)
        return len({one.group for one, taken in zip(self.known, chosen, strict=True) if taken})

    def _cell(self, recalls: Floats) -> Interval:
        low, high = np.quantile(recalls[1:][np.isfinite(recalls[1:])], TAILS)
        groups = self._groups(ALL)
        return Interval(float(recalls[0]), float(low), float(high), 0.95, "percentile", groups, self._note(groups))

    def _note(self, groups: int) -> str:
        return FEW if min(groups, self.of_groups[1]) < FEW_GROUPS else ""

    def _gain(
        self,
        kind: Kind,
        attacks: str,
        a: tuple[str, str],
        b: tuple[str, str],
        recalls: Sequence[Mapping[tuple[str, str], Floats]],
    ) -> ApartGain:
        groups = self._groups(attacks)
        by_seed = tuple(
            paired_difference(kind, of[b] - of[a], groups, False, self._note(groups)) for of in recalls
        )
        p = max(1.0 if one.p is None else one.p for one in by_seed)
        return ApartGain(kind, attacks, a, b, by_seed, p, p)


def _decisions(run: str, context: str, arms: Sequence[Arm]) -> dict[str, tuple[Arm, ...]]:
    """The arms that may stand for each decision on a run, in the order of the table."""
    # Detectors of files may have been tuned on conversations that are tested here: they are no accumulators.

    def arm(detector: str) -> Arm:
        return Arm(f"{detector}@{run}", detector, run, context, False, True)

    found: dict[str, tuple[Arm, ...]] = {HIGHEST: (arm("any_turn"),), LAST: (arm("last_turn"),)}
    found |= {name: tuple(map(arm, settings)) for name, settings in ACCUMULATORS.items()}
    known = {one.name for of in found.values() for one in of}
    for one in arms:
        if one.run == run and not one.baseline and not one.from_file and one.name not in known:
            found[one.detector] = (one,)
    return found
