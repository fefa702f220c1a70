"""The tables of the gain: over many splits, and at matched false-positive rates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from turnwise.study.compare import Study
from turnwise.study.report.table import NONE, Table, interval_cell, p_cell
from turnwise.study.stats.redraw import Difference, OneStudy

ONE_THRESHOLD = (
    "takes these thresholds as given: that other calibration conversations would have set other ones is not in it"
)
"""What an interval does that conditions on a threshold; tables, words and pages say it alike."""

AT_THESE = "for these thresholds alone"
"""The same in a title, which the terminal shows too."""


def gain_tables(study: Study) -> Iterator[Table]:
    """Yield the table of the gain over many splits, of the arms followed, and of arms at matched rates."""
    yield _over_splits(study)
    yield _followed(study)
    yield _matched(study)


def points(value: float) -> str:
    """A difference of rates in percentage points.

    >>> points(0.0312), points(float("nan"))
    ('+3.1', '–')
    """
    return NONE if np.isnan(value) else f"{100 * value:+.1f}"


def share(value: float) -> str:
    """A share in per cent, without decimals.

    >>> share(0.876)
    '88'
    """
    return NONE if np.isnan(value) else f"{100 * value:.0f}"


def _over_splits(study: Study) -> Table:
    found = study.redrawn
    rows = []
    if found is not None:
        for name, gain in {"all attacks": found.redraw.overall, **found.redraw.subsets}.items():
            one: OneStudy = gain.one_study
            rows.append(
                (
                    name,
                    str(gain.attacks),
                    interval_cell(gain.expected, 100, 1, sign=True),
                    points(one.median),
                    f"{points(one.low)} to {points(one.high)}",
                    share(one.helps),
                    share(one.equal),
                    share(one.hurts),
                )
            )
    count = 0 if found is None else found.splits
    splits = "a single split" if count == 1 else f"{count} splits"
    return Table(
        "over_splits",
        f"Gain of the followed arm over {study.arms[study.reference].name}, over {splits}",
        (
            "attacks of",
            "attacks",
            "expected gain, points",
            "one study, median",
            "one study, 95 %",
            "helps, %",
            "equal, %",
            "hurts, %",
        ),
        tuple(rows),
        1,
        f"Recall of the followed arm less that of {study.arms[study.reference].name}. In each split the arm is "
        "chosen and what is fitted is fitted anew on the train part. The interval of the expected gain covers "
        "which conversations were drawn and the thresholds that they set. One study: what a single study with "
        "one split would find, and in how many such studies the followed arm catches more, as many, or fewer."
        + (" Of a single split nothing is said about others." if count == 1 else ""),
    )


def _followed(study: Study) -> Table:
    found = study.redrawn
    rows = []
    if found is not None:
        redraw = found.redraw
        for place, name in enumerate(found.arms):
            recall, rate = 100 * redraw.recall[:, place], 100 * redraw.false_positive_rate[:, place]
            rows.append(
                (
                    name,
                    "reference" if place == 0 else f"{found.followed.get(name, 0)} of {found.splits}",
                    f"{recall.mean():.1f}",
                    f"{recall.min():.1f} to {recall.max():.1f}",
                    f"{np.nanmean(rate):.2f}",
                    f"{np.nanmin(rate):.2f} to {np.nanmax(rate):.2f}",
                )
            )
    return Table(
        "followed",
        "Which arm was followed, and what thresholds do from split to split",
        ("arm", "followed", "mean recall, %", "least to most", "mean false positives, %", "least to most "),
        tuple(rows),
        1,
        "Recall and false positives on the test part of each split, at the threshold that its calibrate part set. "
        "Splits share conversations, so that the least and the most are no interval.",
    )


def _matched(study: Study) -> Table:
    rows: list[tuple[str, ...]] = []
    rates: tuple[float, ...] = ()
    for name, found in study.matched.items():
        rates = tuple(found.recall)
        carried = NONE if found.carried_over is None else difference_cell(found.carried_over, 100, 1)
        realised = (
            (NONE, NONE)
            if found.realised is None
            else tuple(f"{100 * one.count / one.of:.1f}" for one in found.realised)
        )
        rows.append(
            (
                name,
                *(difference_cell(found.partial_auc[rate], 1, 3) for rate in rates),
                *(difference_cell(found.recall[rate], 100, 1) for rate in rates),
                carried,
                *realised,
            )
        )
    first = study.arms[study.reference].name
    return Table(
        "matched",
        f"Arms at the same false-positive rate as {first}, on the test conversations",
        (
            "arm",
            *(f"partial AUC to {100 * rate:g} %" for rate in rates),
            *(f"recall at {100 * rate:g} %, points" for rate in rates),
            "recall at the thresholds used, points",
            f"false positives of {first}, %",
            "false positives of the arm, %",
        ),
        tuple(rows),
        1,
        f"Each arm less {first}, with the paired interval of a bootstrap over groups and its p, not corrected "
        "for the number of arms. Partial AUC is standardised: 0.5 by chance. Recall at a rate is read from the "
        "ROC curve of the test conversations, where both arms flag equally many benign ones; no threshold is "
        "known in advance there. The thresholds used answer the operational question, at the false-positive "
        f"rates that came out: that interval {ONE_THRESHOLD}.",
    )


def difference_cell(found: Difference, scale: float, digits: int) -> str:
    """A difference of two arms with its interval, and its p where it has one."""
    text = interval_cell(found, scale, digits, sign=True)
    return text if found.p is None or text == NONE else f"{text}, p {p_cell(found.p)}"
