"""The verdict of a study in plain words."""

from __future__ import annotations

from turnwise.study.compare import Study, Test
from turnwise.study.compare.caveats import percent
from turnwise.study.report.numbers import interval_cell, p_cell


def verdict(study: Study) -> tuple[str, ...]:
    """Return the paragraphs at the top of a report: what was compared, what gained, what that does not show."""
    return (_compared(study), _gained(study), *_by_source(study), _not_shown(study))


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


def _gained(study: Study) -> str:
    reference = study.results[study.reference]
    first = study.arms[study.reference].name
    base = (
        f"{first}, the reference, catches {percent(reference.ever.recall)} of the attacks "
        f"and flags {percent(reference.ever.false_positive_rate)} of the benign conversations."
        if reference.ever.recall.of and reference.ever.false_positive_rate.of
        else f"{first} is the reference."
    )
    if study.chosen is None:
        return f"{base} Nothing but baselines was asked for, so there is no gain to report."
    arm, result = study.arms[study.chosen], study.results[study.chosen]
    if not (result.ever.recall.of and result.ever.false_positive_rate.of):
        return base
    why = (
        "the first that was asked for"
        if study.settings.thresholds == "given"
        else "chosen because it caught most attacks among the calibration conversations"
    )
    own = (
        f"{arm.name} ({why}) catches {percent(result.ever.recall)} "
        f"and flags {percent(result.ever.false_positive_rate)}."
    )
    test = study.test_of(arm.name)
    return f"{base} {own} {_tested(test, first, arm.name)} {_baselines(study, arm.name)}".strip()


def _tested(test: Test | None, first: str, second: str) -> str:
    if test is None or test.detail is None:
        return ""
    gain = interval_cell(test.detail.recall, 100, 1, sign=True)
    counts = (
        f"{second} alone caught {test.c_count} and {first} alone {test.b_count} of {test.pairs} attacks; exact "
        "McNemar "
        f"p = {p_cell(test.p)}, by groups {p_cell(test.p_group)}, after Holm's correction {p_cell(test.p_holm)}"
    )
    rate = " (both at the same number of flagged calibration conversations)" if test.tightened else ""
    if test.won:
        return f"That is a gain of {gain} percentage points{rate}: {counts}."
    if test.lost:
        return f"That is a loss, {gain} percentage points{rate}: {counts}."
    return f"A difference is not shown, {gain} percentage points{rate}: {counts}."


def _baselines(study: Study, name: str) -> str:
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
        parts.append(
            f"{cell.value}: {percent(before)} against {percent(after)}, {gain.b_count} to {gain.c_count} of "
            f"{gain.pairs} attacks in {gain.groups} groups, p = {p_cell(gain.p)} ({p_cell(gain.p_holm)} after "
            "Holm)"
        )
    if not parts:
        return ()
    names = f"{study.arms[study.reference].name} against {study.arms[study.chosen].name}"
    return (f"By source, {names}. {'. '.join(parts)}.",)


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
    """Return how it was done, in words."""
    settings = study.settings
    if settings.thresholds == "given":
        split = "Thresholds were given: those of the detectors' specifications and of the runs' operating points."
    elif settings.folds:
        split = (
            f"The conversations were divided into {settings.folds} folds by group. Each fold was tested with "
            "what was "
            "fitted on one half of the others and calibrated on the other half."
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
    return (
        f"The unit is the conversation; it counts as flagged if the detector fired at any turn. {split}{level} "
        f"alpha = {settings.target_fpr:g}, seed {settings.seed}.",
        "Baselines are in every comparison: any_turn (the worst single turn), count_flags (its flag chosen on the "
        "train part), first_turn, last_turn, length_only, and any_turn on runs that saw a window or the whole "
        "transcript, where the store has them.",
        "Differences in recall are tested by the exact McNemar test on paired verdicts, and again with whole "
        "groups "
        "as the unit; Holm's correction takes the larger p. Rates have Clopper-Pearson intervals, areas DeLong's; "
        f"differences have percentile intervals of a bootstrap over groups ({settings.replicates} resamples).",
    )
