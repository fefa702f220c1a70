"""The gain: over many splits, and at matched false-positive rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from turnwise.study.compare import Study
from turnwise.study.report.table import Table
from turnwise.study.report.value_formats import (
    Column,
    as_json,
    difference_cell,
    make_table,
    points,
    points_cell,
    share,
)
from turnwise.study.stats.matched_rates import MatchedRates
from turnwise.study.stats.split_gains import Gain, OneStudy, SplitGains

ONE_THRESHOLD = (
    "takes these thresholds as given: that other calibration conversations would have set other ones is not in it"
)
"""What an interval does that conditions on a threshold; tables, words and pages say it alike."""

AT_THESE = "for these thresholds alone"
"""The same in a title, which the terminal shows too."""


def gain_as_json(study: Study) -> dict[str, Any] | None:
    """The gain over many splits with all that it comes from; None where there is none."""
    found = study.gain
    if found is None:
        return None
    names = ("splits", "conversations", "left_out", "followed", "overall", "by_source")
    whole = {name: as_json(getattr(found, name)) for name in names}
    return {
        "splits": whole.pop("splits"),
        "first_seed": study.settings.seed,
        **whole,
        "other_seeds": [
            {"overall": as_json(other.overall), "by_source": as_json(other.by_source)}
            for other in study.other_seeds
        ],
        "arms": list(found.arms),
        "each_split": [
            {"seed": study.settings.seed + split, **_split_as_json(found, split)} for split in range(found.splits)
        ],
    }


def _split_as_json(found: SplitGains, split: int) -> dict[str, Any]:
    by_arm = {name: as_json(getattr(found, name)[split].tolist()) for name in ("thresholds", "recall", "fpr")}
    followed = found.arms[int(found.followed_places[split])]
    return {"followed": followed, "gain": as_json(float(found.gain[split])), **by_arm}


class _Of(NamedTuple):
    """The gain on the attacks of a source, or on all."""

    name: str
    gain: Gain


def over_splits_table(study: Study) -> Table:
    """The gain of the followed arm over many splits, and what one study would find."""
    found = study.gain
    gains = {} if found is None else {"all attacks": found.overall, **found.by_source}
    count = 0 if found is None else found.splits
    splits = "a single split" if count == 1 else f"{count} splits"
    first = study.arms[study.reference].name

    def ends(one: OneStudy) -> str:
        return f"{points(one.low)} to {points(one.high)}"

    return make_table(
        "over_splits",
        f"Gain of the followed arm over {first}, over {splits}",
        (
            Column("", "attacks of", at="name"),
            Column("", "attacks", at="gain.attacks"),
            Column("", "expected gain, points", points_cell, "gain.expected"),
            Column("", "one study, median", points, "gain.one_study.median"),
            Column("", "one study, 95 %", ends, "gain.one_study"),
            *(Column("", f"{name}, %", share, f"gain.one_study.{name}") for name in ("helps", "equal", "hurts")),
        ),
        [_Of(name, gain) for name, gain in gains.items()],
        1,
        f"Recall of the followed arm less that of {first}. In each split the arm is "
        "chosen and what is fitted is fitted anew on the train part. The interval of the expected gain covers "
        "which conversations were drawn and the thresholds that they set. One study: what a single study with "
        "one split would find, and in how many such studies the followed arm catches more, as many, or fewer."
        + (" Of a single split nothing is said about others." if count == 1 else ""),
    )


def followed_table(study: Study) -> Table:
    """Which arm was followed, and recall and false positives from split to split."""
    found = study.gain
    rows = []
    if found is not None:
        for place, name in enumerate(found.arms):
            recall, rate = 100 * found.recall[:, place], 100 * found.fpr[:, place]
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


class _Matched(NamedTuple):
    arm: str
    found: MatchedRates


def matched_rates_as_json(study: Study) -> list[dict[str, Any]]:
    """Every arm against the reference, at equal false-positive rates."""
    return [{"arm": name, **as_json(found)} for name, found in study.matched_rates.items()]


def matched_table(study: Study) -> Table:
    """Every arm against the reference, at equal false-positive rates."""
    first = study.arms[study.reference].name
    rows = [_Matched(name, found) for name, found in study.matched_rates.items()]
    rates = tuple(rows[-1].found.recall) if rows else ()

    def at_rate(of: str, rate: float, heading: str, scale: float, digits: int) -> Column:
        def cell(found: Mapping[float, Any]) -> str:
            return difference_cell(found[rate], scale, digits)

        return Column("", heading, cell, f"found.{of}")

    return make_table(
        "matched",
        f"Arms at the same false-positive rate as {first}, on the test conversations",
        (
            Column("", "arm", at="arm"),
            *(at_rate("partial_auc", rate, f"partial AUC to {100 * rate:g} %", 1, 3) for rate in rates),
            *(at_rate("recall", rate, f"recall at {100 * rate:g} %, points", 100, 1) for rate in rates),
            Column(
                "",
                "recall at the thresholds used, points",
                lambda found: difference_cell(found, 100, 1),
                "found.thresholds_used",
            ),
            Column("", f"false positives of {first}, %", lambda fpr: _percent(fpr[0]), "found.fpr"),
            Column("", "false positives of the arm, %", lambda fpr: _percent(fpr[1]), "found.fpr"),
        ),
        rows,
        1,
        f"Each arm less {first}, with the paired interval of a bootstrap over groups and its p, not corrected "
        "for the number of arms. Partial AUC is standardised: 0.5 by chance. Recall at a rate is read from the "
        "ROC curve of the test conversations, where both arms flag equally many benign ones; no threshold is "
        "known in advance there. The thresholds used answer the operational question, at the false-positive "
        f"rates that came out: that interval {ONE_THRESHOLD}.",
    )


def _percent(rate: Any) -> str:
    return f"{100 * rate.count / rate.of:.1f}"
