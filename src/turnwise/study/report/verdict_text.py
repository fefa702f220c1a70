"""The verdict of a study in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnwise.stats import p_cell
from turnwise.study.compare import Study, Test
from turnwise.study.compare.comparisons import LEVEL
from turnwise.study.compare.context_and_trajectory import (
    ALL,
    CONTEXT,
    SHOWN,
    TRAJECTORY,
    ApartGain,
    Kind,
    TwoByTwo,
)
from turnwise.study.compare.warnings import percent
from turnwise.study.report.gain_tables import seeds_cell, shown_words
from turnwise.study.report.run_tables import runs_words
from turnwise.study.report.table import points_cell
from turnwise.study.report.turn_tables import reader_words


def verdict(study: Study) -> tuple[str, ...]:
    """Return the paragraphs at the top of a report: what was compared, what gained, what that does not show."""
    return (
        _compared(study),
        *runs_words(study),
        *_apart(study),
        *reader_words(study),
        _gained(study),
        *_by_source(study),
        *_at_the_end(study),
        *_if_missing(study),
        _not_shown(study),
    )


def question(study: Study) -> str:
    """What a study asks first, as the heading of its report."""
    return (
        "Which run finds more?"
        if study.between_runs
        else "What finds more: reading the history, or watching over time?"
    )


def _compared(study: Study) -> str:
    tested = study.results[study.reference].judged
    attacks = sum(one.attack for one in tested)
    groups = len({one.group for one in tested})
    runs = ", ".join(dict.fromkeys(f"{arm.run} ({arm.context})" for arm in study.arms))
    settings = study.settings
    if settings.thresholds == "given":
        how = "at the thresholds that were given"
    else:
        sure = (
            f"with {100 * settings.confidence:g} % confidence"
            if settings.guarantee == "confidence"
            else "on average"
        )
        how = (
            f"each at a threshold that other conversations set for {100 * settings.target_fpr:g} % "
            f"false positives {sure}"
        )
    detectors = len({arm.detector for arm in study.arms})
    return (
        f"{detectors} detectors ({len(study.arms)} arms: a detector on a run) were compared on "
        f"{len(tested)} conversations ({attacks} attacks, "
        f"{len(tested) - attacks} benign, in {groups} groups), {how}. Runs: {runs}."
    )


def _apart(study: Study) -> tuple[str, ...]:
    """The answer: the gain of context and the gain of trajectory, and which of them is shown."""
    return tuple(_apart_words(study, one) for one in study.two_by_two)


def _apart_words(study: Study, one: TwoByTwo) -> str:
    runs = " and ".join(one.chosen)
    seeds = "one seed" if study.settings.seeds == 1 else f"{study.settings.seeds} seeds"
    parts = [
        f"{shown_words(one)} Runs {runs}, {100 * one.rate:g} % false positives, {seeds} of {one.folds} folds."
    ]
    for kind, what in ((CONTEXT, "history against the turn alone"), (TRAJECTORY, "against the highest F")):
        if gain := one.first(kind):
            parts.append(f"{kind[:1].upper()}{kind[1:]} ({gain.b[0]}, {what}): {_gain_words(gain)}.")
    for kind in (CONTEXT, TRAJECTORY):
        parts += _by_source_words(kind, [gain for gain in one.gains if gain.kind == kind and gain.attacks != ALL])
    if one.left_out:
        parts.append(f"{one.left_out} conversations that not all of these runs evaluated are left out.")
    return " ".join(parts)


def _by_source_words(kind: Kind, by_source: Sequence[ApartGain]) -> Iterator[str]:
    """On the attacks of which sources a gain is shown, and on which accumulation adds nothing."""
    shown = [f"{gain.attacks} {points_cell(gain.by_seed[0])}" for gain in by_source if gain.says == SHOWN]
    others = ", ".join(gain.attacks for gain in by_source if gain.says != SHOWN)
    if shown:
        yield f"By source, the {kind} is shown on {', '.join(shown)}."
    if others:
        adds = "reading the history" if kind == CONTEXT else "accumulation"
        yield f"By source, {adds} adds nothing that is shown on {others}."


def _gain_words(gain: ApartGain) -> str:
    among = f", seeds {seeds_cell(gain.by_seed)}" if len(gain.by_seed) > 1 else ""
    note = f"; {gain.by_seed[0].note}" if gain.by_seed[0].note else ""
    return f"{points_cell(gain.by_seed[0])} points{among}, p = {p_cell(gain.p_holm)} after Holm, {gain.says}{note}"


def _gained(study: Study) -> str:
    reference = study.results[study.reference]
    first = study.arms[study.reference].name
    where = f"In {_of_tables(study)} of seed {study.settings.seed}, which the tables below show, "
    where = "" if study.settings.thresholds == "given" else where
    base = (
        f"{where}{first}, the reference, catches {percent(reference.counts.recall)} of the attacks "
        f"and flags {percent(reference.counts.fpr)} of the benign conversations."
        if reference.counts.recall.of and reference.counts.fpr.of
        else f"{first} is the reference."
    )
    if study.chosen is None:
        return f"{base} Nothing but baselines was asked for, so there is no gain to report."
    arm, result = study.arms[study.chosen], study.results[study.chosen]
    if not (result.counts.recall.of and result.counts.fpr.of):
        return base
    why = (
        "the first that was asked for"
        if study.settings.thresholds == "given"
        else "chosen because it caught most attacks among the training conversations, cross-fitted"
    )
    own = f"{arm.name} ({why}) catches {percent(result.counts.recall)} and flags {percent(result.counts.fpr)}."
    parts = [base, own, _tested(study.test_of(arm.name), first, arm.name), _baselines(study)]
    return " ".join(part for part in parts if part)


def _of_tables(study: Study) -> str:
    """What most tables stand on: a split, or folds."""
    return f"the {study.settings.folds} folds" if study.settings.folds else "the split"


def _tested(test: Test | None, first: str, second: str) -> str:
    if test is None or test.differences is None:
        return ""
    gain = points_cell(test.differences.recall)
    counts = (
        f"{second} alone caught {test.b_alone} and {first} alone {test.a_alone} of {test.pairs} attacks; exact "
        f"McNemar p = {p_cell(test.p)}, by groups {p_cell(test.p_group)}, after Holm's correction "
        f"{p_cell(test.p_holm)}"
    )
    rate = ", for these thresholds alone"
    if test.tightened:
        rate += " (both at the same number of flagged calibration conversations)"
    if test.won:
        return f"That is a gain of {gain} percentage points{rate}: {counts}."
    if test.lost:
        return f"That is a loss, {gain} percentage points{rate}: {counts}."
    return f"A difference is not shown, {gain} percentage points{rate}: {counts}."


def _baselines(study: Study) -> str:
    name = study.arms[study.chosen if study.chosen is not None else study.reference].name
    tested = [test.a for test in study.tests if test.b == name]
    left = study.unbeaten(name)
    if not tested:
        return ""
    if not left:
        return f"It beats every baseline that it was tested against ({len(tested)})."
    return f"It does not beat {', '.join(left)}."


def _by_source(study: Study) -> tuple[str, ...]:
    if study.chosen is None:
        return ()
    parts = []
    for cell in study.cells:
        gain = cell.gain
        if cell.division != "source" or gain is None or gain.pairs < study.settings.small_cell:
            continue
        before, after = cell.recall[study.reference], cell.recall[study.chosen]
        shown = gain.p_holm < LEVEL
        what = "a difference is not shown" if not shown else "a gain" if gain.gain > 0 else "a loss"
        parts.append(
            f"{cell.value}: {percent(before)} against {percent(after)}, {what} (alone {gain.a_alone} to "
            f"{gain.b_alone} of {gain.pairs} attacks in {gain.groups} groups, p = {p_cell(gain.p)}, "
            f"{p_cell(gain.p_holm)} after Holm)"
        )
    if not parts:
        return ()
    names = f"{study.arms[study.reference].name} against {study.arms[study.chosen].name}"
    divided = f"these {study.settings.folds} folds" if study.settings.folds else "this split"
    return (f"By source, {names}, for the thresholds of {divided} alone. {'. '.join(parts)}.",)


def _at_the_end(study: Study) -> tuple[str, ...]:
    if study.chosen is None:
        return ()
    name = study.arms[study.chosen].name
    test = next((test for test in study.final_tests if test.b == name), None)
    first, second = study.results[study.reference].final, study.results[study.chosen].final
    if test is None or test.benign is None or not (first.recall.of and first.fpr.of):
        return ()
    shown = "is more" if test.won else "is less" if test.lost else "is not shown to differ"
    return (
        f"Judged at the last turn alone, {study.arms[study.reference].name} flags {percent(first.recall)} of the "
        f"attacks and {percent(first.fpr)} of the benign conversations, {name} "
        f"{percent(second.recall)} and {percent(second.fpr)}; what {name} catches {shown}: alone "
        f"{test.a_alone} to {test.b_alone} of {test.pairs} attacks, p = {p_cell(max(test.p, test.p_group))}, "
        f"{p_cell(test.p_holm)} after Holm.",
    )


def _if_missing(study: Study) -> tuple[str, ...]:
    found = study.if_missing
    if found is None or study.chosen is None:
        return ()
    name = study.arms[study.chosen].name
    worst, best = found.against_second, found.for_second
    return (
        f"Verdicts on {best.pairs - found.complete.pairs} attacks are missing. Had all of them gone against "
        f"{name}, it alone would have caught {worst.b_alone} attacks and the reference alone {worst.a_alone} "
        f"(p = {p_cell(max(worst.p, worst.p_group))}); had all gone its way, {best.b_alone} and {best.a_alone} "
        f"(p = {p_cell(max(best.p, best.p_group))}).",
    )


def _not_shown(study: Study) -> str:
    parts = [
        "that the detectors would do as well on attacks of another kind, by people who know them, or in another "
        "language",
        "that a flagged attack would have done harm, or that a flag came in time to prevent it",
    ]
    if study.settings.thresholds == "calibrated":
        parts.append(
            f"that {100 * study.settings.target_fpr:g} % of the benign conversations of another service would be "
            "flagged: a threshold holds for conversations like those that set it"
        )
    else:
        parts.append("which detector is better at the same rate of false positives: thresholds were not matched")
    return f"What this does not show: {'; '.join(parts)}."


def methods(study: Study) -> tuple[str, ...]:
    """How it was done, in words."""
    settings = study.settings
    if settings.thresholds == "given":
        split = "Thresholds were given: those of the detectors' specifications and of the runs' operating points."
    elif settings.folds:
        split = (
            f"The conversations were divided into {settings.folds} folds by group. Each fold was tested with "
            "what was fitted on one half of the others and calibrated on the other half."
        )
    else:
        train, calibrate, test = (f"{100 * share:g} %" for share in settings.shares)
        split = (
            f"The conversations were divided by group: {train} of the groups to fit detectors, {calibrate} to set "
            f"thresholds, {test} to test."
        )
    promise = (
        "with k calibration scores at or above it, P(Binomial(n, alpha) <= k) <= 1 - confidence"
        if settings.guarantee == "confidence"
        else "(scores at or above it + 1) / (n + 1) <= alpha over the benign calibration conversations"
    )
    level = "" if settings.thresholds == "given" else f" The threshold of an arm is the lowest with {promise}."
    flag = "at its default flag" if settings.thresholds == "given" else "its flag chosen on the train part"
    study_data = study.data
    failed = sum(len(one.failed) for one in study_data.runs)
    unread = sum(len(one.unread) for one in study_data.runs)
    not_read = f" Conversations with a text that an observer did not read, likewise: {unread}." if unread else ""
    return (
        f"The unit is the conversation; it counts as flagged if the detector fired at any turn. {split}{level} "
        f"alpha = {settings.target_fpr:g}, seed {settings.seed}. Left out: {study_data.unlabelled} conversations "
        f"without a label, {study_data.untried} that no run has tried. Conversations with an evaluation that "
        f"failed, over all runs: {failed}; they are judged by what was evaluated, and are missing where nothing "
        f"was.{not_read}",
        f"Baselines are in every comparison: any_turn (the worst single turn), count_flags ({flag}), first_turn, "
        "last_turn, length_only, and any_turn on runs that saw a window or the whole transcript, where the store "
        "has them.",
        "Differences in recall are tested by the exact McNemar test on paired verdicts, and again with whole "
        "groups as the unit; Holm's correction takes the larger p. Rates have Clopper-Pearson intervals, areas "
        f"DeLong's; differences have percentile intervals of a bootstrap over groups ({settings.replicates} "
        "resamples).",
        *(
            [
                f"Context and trajectory: with each of {settings.seeds} seeds the conversations are divided into "
                "folds by group. What is fitted, the setting of an accumulator and the best of them are chosen on "
                "the other folds, whose benign conversations also put the scores on one scale. Recall is read "
                "from the ROC curve over all folds, where every decision flags the same share of the benign ones. "
                f"The bootstrap over groups ({settings.replicates} resamples) is paired; thresholds move with it, "
                "what was chosen and fitted stays."
            ]
            if study.two_by_two
            else []
        ),
    )


def answer(study: Study) -> str:
    """What the study found, in one sentence.

    That is which of two runs finds more, where two were compared over splits; else what reading the history and
    watching over time add; else what the detectors catch.
    """
    for one in study.between_runs:
        if one.gain is not None:
            found = one.gain.overall.expected
            says = "finds more" if found.low > 0 else "finds less" if found.high < 0 else "is not shown to differ"
            beside = "from what it finds on" if says == "is not shown to differ" else "than on"
            points = points_cell(found)
            return (
                f"{one.detector} on {one.b} {says} {beside} {one.a}: {points} points of recall{rate_words(study)}."
            )
    for apart in study.two_by_two:
        return shown_words(apart, figures=True)
    arms = [
        f"{study.arms[place].name} catches {percent(study.results[place].counts.recall)}"
        for place in study.compared_places
        if study.results[place].counts.recall.of
    ]
    return (
        f"Of the attacks{rate_words(study)}, {' and '.join(arms)}."
        if arms
        else "No arm could be judged on attacks."
    )


def rate_words(study: Study) -> str:
    """At which false-positive rate arms are compared."""
    given = study.settings.thresholds == "given"
    return " at the thresholds given" if given else f" at {100 * study.settings.target_fpr:g} % false positives"
