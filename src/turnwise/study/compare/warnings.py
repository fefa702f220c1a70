"""What a reader must know before believing a number, the gravest first."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from turnwise.rates import Rate
from turnwise.stats import (
    FEW_ABOVE,
    FEW_GROUPS,
    DetectorResult,
    copied_principles,
    different_rates,
    disjoint_sources,
    evaluated,
    least_p,
    matched,
    principles_below_chance,
    strong_baselines,
    thin_threshold,
)
from turnwise.study.compare.arm_diagnostics import ArmChecks
from turnwise.study.compare.comparisons import LEVEL
from turnwise.study.compare.context_and_trajectory import ALL
from turnwise.study.compare.data import LabelledConversation, StudyData
from turnwise.study.compare.judging import ArmJudgement, evaluated_of
from turnwise.study.compare.plan import Fold, Settings, read_origin, sha256_of_ids, short_name

if TYPE_CHECKING:
    from turnwise.study.compare.study import Study

STYLE_RECALL = 0.2
"""Recall from which a baseline that sees no course of a conversation is worth a warning."""

MIXED_SHARE = 0.5
"""Share of the attacks that should come from data sets with benign conversations as well."""

BLIND = ("first_turn", "length_only")
"""Baselines that can't see manipulation unfold: what they catch, they catch by style or length."""

OF_LENGTH = ("length_only",)
OWN_LENGTH = "reads the length of a conversation: its figures by length are its own rule"
LENGTH_WORDS = re.compile(r"\b(turn|chars|turns_since)\b")


Part = Literal["everything", "gains", "runs", "detection", "scores", "checks"]
"""Which figures of a study a warning concerns."""


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning, and the part of the report at which it has to be read."""

    text: str
    about: Part


def find_cautions(study: Study, not_apart: str, not_between: str) -> tuple[Caution, ...]:
    """The warnings of a study, the gravest first; the texts say why gains or splits could not be measured."""
    settings, data, judgements, results = study.settings, study.data, study.judgements, study.results
    chosen, folds = study.chosen, study.folds
    reference = judgements[study.reference]
    followed = reference if chosen is None else judgements[chosen]
    left = data.untested(settings)
    pairs = [(judgements[one.first], judgements[one.second]) for one in study.between_runs]
    compared = (
        line for first, second in [(reference, followed), *pairs] for line in _compared_rates(first, second)
    )
    found: list[tuple[Part, Iterable[str]]] = [
        ("everything", _missing(results)),
        ("detection", _without_evidence(results)),
        ("everything", _corrected(settings, data)),
        ("gains", _apart(study, not_apart)),
        ("runs", _splits(settings, not_between, bool(study.between_runs))),
        ("detection", _given(settings)),
        ("everything", _trained(settings, data)),
        ("everything", _confounded([one for one in data.known if one.sequence_id not in left])),
        ("detection", _blind(results, judgements, chosen)),
        ("detection", _own_rule(judgements, data.known)),
        ("detection", _files(judgements, folds)),
        ("detection", _unbeaten(study)),
        ("detection", _rates(settings, results, judgements)),
        ("detection", compared),
        ("detection", _thin(judgements, reference, followed, *(one for pair in pairs for one in pair))),
        ("scores", _principles(data, folds, {reference.arm.run, followed.arm.run})),
        ("checks", _order(study.checks, judgements, chosen)),
        ("everything", _few(reference)),
    ]
    told: dict[str, Caution] = {}
    for about, texts in found:
        for text in texts:
            told.setdefault(text, Caution(text, about))
    return tuple(told.values())


def _corrected(settings: Settings, study_data: StudyData) -> Iterator[str]:
    if settings.corrected_by:
        whose = ", ".join(settings.corrected_by)
        yield (
            f"the labels of {study_data.corrected} conversations are not those of their data sets but what "
            f"{whose} made of them; {study_data.disputed} conversations on which they disagree are left out"
        )


def _missing(results: Sequence[DetectorResult]) -> Iterator[str]:
    for result in results:
        if result.missing.warning:
            yield f"run {result.run}: {result.missing.warning}"


def _without_evidence(results: Sequence[DetectorResult]) -> Iterator[str]:
    for result in results:
        known = evaluated(result.judged)
        silent = sum(one.score == -math.inf for one in known)
        if silent:
            yield (
                f"{result.name} has no evidence in {silent} of the {len(known)} conversations that it was tested "
                "on: no threshold flags them"
            )


def _apart(study: Study, not_apart: str) -> Iterator[str]:
    if not_apart:
        yield f"the gain of context and the gain of trajectory could not be measured ({not_apart})"
    rate = study.settings.target_fpr
    for one in study.two_by_two:
        if rate * one.benign < 1:
            yield (
                f"{100 * rate:g} % of {one.benign} benign conversations is less than one: recall at that rate, "
                "and with it the gain of context and the gain of trajectory, rests on the most suspicious of them"
            )
        if least_p(study.settings.replicates) * sum(gain.attacks == ALL for gain in one.gains) >= LEVEL:
            yield f"{study.settings.replicates} resamples are too few to show a gain: --replicates sets them"
    if study.settings.seeds == 1 and study.two_by_two:
        yield "a single seed was asked for (seeds = 1): nothing here says whether the gains are stable over seeds"


def _splits(settings: Settings, not_judged: str, between_runs: bool) -> Iterator[str]:
    if not_judged:
        yield (
            f"two runs could not be compared on {settings.splits} splits ({not_judged}): every interval and "
            "p-value takes this one split and its thresholds as given"
        )
    elif settings.splits == 1 and settings.thresholds == "calibrated" and between_runs:
        yield (
            "a single split was asked for (splits = 1): another split may find another gain, and nothing here "
            "says how different"
        )


def _given(settings: Settings) -> Iterator[str]:
    if settings.thresholds == "given":
        yield (
            "thresholds were given, not calibrated on these conversations: the detectors stand at different rates "
            "of false positives, so that a difference in recall is no gain by itself"
        )


def _trained(settings: Settings, study_data: StudyData) -> Iterator[str]:
    left = study_data.trained_benign
    if left:
        named = ", ".join(f"{source} ({len(ids)})" for source, ids in left.items())
        yield (
            f"an observer was trained on data sets of the benign conversations: {named}. "
            + (
                "They were kept, so that the false-positive rates here flatter it"
                if settings.keep_trained
                else "They neither set a threshold nor are tested; --keep-trained keeps them"
            )
        )
    sources = frozenset[str]().union(*(one.training_sources for one in study_data.runs))
    attacks = {one.strata["source"] for one in study_data.known if one.attack} & sources
    if attacks:
        yield f"an observer was trained on {_listed(attacks)}: recall on these attacks flatters it"


def _confounded(known: Sequence[LabelledConversation]) -> Iterator[str]:
    told = disjoint_sources([one.strata["source"] for one in known], [one.attack for one in known])
    if told:
        yield from told
        return
    attacks = {one.strata["source"] for one in known if one.attack}
    benign = {one.strata["source"] for one in known if not one.attack}
    shared = attacks & benign
    beside = sum(one.attack and one.strata["source"] in shared for one in known)
    of = sum(one.attack for one in known)
    if beside < MIXED_SHARE * of:
        which = f"{of - beside} of {of} attacks come from data sets without a benign conversation"
        yield (
            f"{which} ({_listed(attacks - shared)}): whatever tells these from the benign sets, style or topic, "
            "passes for detection"
        )


def _blind(
    results: Sequence[DetectorResult], judgements: Sequence[ArmJudgement], chosen: int | None
) -> Iterator[str]:
    followed = None if chosen is None else results[chosen].counts.recall
    for result, judgement in zip(results, judgements, strict=True):
        recall = result.counts.recall
        if judgement.arm.detector not in BLIND:
            continue
        told = () if followed is None else strong_baselines(followed, {judgement.arm.name: recall})
        if told:
            yield from told
        elif recall.of and recall.count >= STYLE_RECALL * recall.of:
            what = "the length" if judgement.arm.detector == "length_only" else "the first turn"
            yield (
                f"{judgement.arm.name} catches {percent(recall)} of the attacks by {what} alone: that part of any "
                "recall here is no sign that manipulation was seen to unfold"
            )


def _own_rule(judgements: Sequence[ArmJudgement], known: Sequence[LabelledConversation]) -> Iterator[str]:
    values = {(name, one.strata[name]) for one in known for name in ("source", "category", "tactic")}
    for detector in sorted({one.arm.detector for one in judgements if not one.arm.baseline}):
        rule = _plain(detector.partition(":")[0])
        for name, value in sorted(values):
            if rule == _plain(value):
                yield (
                    f"{name} {value!r} bears the name of the detector {short_name(detector)}: if the group was "
                    "defined by the detector's own rule, its recall there is no finding"
                )
        if detector.startswith("pattern:") and LENGTH_WORDS.search(detector):
            yield f"{short_name(detector)} {OWN_LENGTH}"
    for judgement in judgements:
        if judgement.arm.detector in OF_LENGTH:
            yield f"{judgement.arm.name} {OWN_LENGTH}"


def _files(judgements: Sequence[ArmJudgement], folds: Sequence[Fold]) -> Iterator[str]:
    for detector in sorted({one.arm.detector for one in judgements if one.arm.from_file}):
        origin = read_origin(detector)
        if origin and [origin.digest] == [sha256_of_ids(fold.train) for fold in folds]:
            continue  # tuned on just what the study trains on
        yield (
            f"{short_name(detector)} comes from a file: if it was tuned on conversations of this study, its "
            "figures flatter it"
        )


def _unbeaten(study: Study) -> Iterator[str]:
    if study.chosen is None:
        return
    name = study.arms[study.chosen].name
    if left := study.unbeaten(name):
        yield f"{name} does not beat {_listed(left)}"


def _rates(
    settings: Settings, results: Sequence[DetectorResult], judgements: Sequence[ArmJudgement]
) -> Iterator[str]:
    if settings.thresholds == "given":
        return
    for result, judgement in zip(results, judgements, strict=True):
        rate = result.counts.fpr
        if rate.of and rate.interval[0] > settings.target_fpr:
            yield (
                f"{judgement.arm.name} flags {percent(rate)} of the benign test conversations, beyond the "
                f"{100 * settings.target_fpr:g} % it was set for: by the chance of the calibration set, or "
                "because the test conversations differ from it"
            )


def _compared_rates(first: ArmJudgement, second: ArmJudgement) -> Iterator[str]:
    if first is second:
        return
    pairs = [(a, b) for a, b in matched(first.judged, second.judged) if not a.attack]
    if pairs:
        yield from different_rates(
            [a.fired for a, _ in pairs],
            [b.fired for _, b in pairs],
            [a.group for a, _ in pairs],
            (first.arm.name, second.arm.name),
        )


def _thin(judgements: Sequence[ArmJudgement], *shown: ArmJudgement) -> Iterator[str]:
    """Tell of the shown arms in full, and how many others there are."""
    for one in dict.fromkeys(judgement.arm.name for judgement in shown):
        [judgement] = [judgement for judgement in judgements if judgement.arm.name == one]
        number, thinnest = min(enumerate(judgement.folds, start=1), key=lambda numbered: numbered[1].flagged)
        if thinnest.benign:
            where = f"fold {number} of {len(judgement.folds)}" if len(judgement.folds) > 1 else ""
            yield from thin_threshold(thinnest.benign, thinnest.threshold, one, where)
    others = [
        judgement
        for judgement in judgements
        if judgement not in shown and any(fold.benign and fold.flagged < FEW_ABOVE for fold in judgement.folds)
    ]
    if others:
        yield (
            f"The thresholds of {len(others)} further arms have fewer than {FEW_ABOVE} benign calibration "
            "conversations at or above them as well."
        )


def _principles(study_data: StudyData, folds: Sequence[Fold], runs: Container[str]) -> Iterator[str]:
    """Look at the principles of some runs outside the test parts: no choice may rest on what is tested."""
    if len(folds) != 1 or not folds[0].calibrate:
        return
    development = folds[0].train | folds[0].calibrate
    for run in study_data.runs:
        if run.run.name not in runs:
            continue
        examples = evaluated_of(run, development)
        names = sorted({name for example in examples for turn in example.turns for name in turn.scores})
        whole = [
            turn.scores for example in examples for turn in example.turns if len(turn.scores) == len(names) > 0
        ]
        F = {name: [scores[name].F for scores in whole] for name in names}
        highest: dict[str, tuple[list[float], list[bool]]] = {name: ([], []) for name in names}
        for example in examples:
            for name in names:
                values = [turn.scores[name].F for turn in example.turns if name in turn.scores]
                if values:
                    highest[name][0].append(max(values))
                    highest[name][1].append(example.attack)
        told = list(copied_principles(F))
        for name, (values, labels) in highest.items():
            if min(labels.count(True), labels.count(False)) > 1:
                told += principles_below_chance({name: values}, labels)
        yield from (f"Run {run.run.name}, conversations that train and calibrate: {line}" for line in told)


def _order(checks: ArmChecks, judgements: Sequence[ArmJudgement], chosen: int | None) -> Iterator[str]:
    if chosen is None or judgements[chosen].arm.baseline:
        return
    name = judgements[chosen].arm.name
    changed = checks.changed(name)
    if changed is not None and changed.value < 0.01:
        yield (
            f"permuting the scores changes {100 * changed.value:.1f} % of the verdicts of {name} on attacks: "
            "it hardly uses their order"
        )


def _few(reference: ArmJudgement) -> Iterator[str]:
    for attack, label in ((True, "attacks"), (False, "benign conversations")):
        groups = {one.group for one in reference.judged if one.attack is attack}
        if len(groups) < FEW_GROUPS:
            yield f"the tested {label} fall into {len(groups)} groups: intervals and tests by group are rough"


def percent(rate: Rate) -> str:
    """A share in per cent, with its exact interval.

    >>> percent(Rate(30, 100))
    '30.0 % [21.2, 40.0]'
    """
    low, high = rate.interval
    return f"{100 * rate.count / rate.of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def _listed(names: Sequence[str] | set[str]) -> str:
    given = sorted(names) if isinstance(names, set) else list(names)
    shown = ", ".join(given[:6])
    return shown if len(given) <= 6 else f"{shown} and {len(given) - 6} more"


def _plain(text: str) -> str:
    return text.lower().replace("-", "_").replace(" ", "_")
