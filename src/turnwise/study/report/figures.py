"""The figures of a report as Vega-Lite specifications: the same for HTML, SVG and PDF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnwise.plots.style import Look, scales
from turnwise.study.compare import Study
from turnwise.study.report.answer import answer_figure
from turnwise.study.report.figure_parts import (
    Figure,
    arm_looks,
    calibration_points,
    figure,
    looks_of,
    plain,
    roc_points,
    shown_arms,
    tips,
)
from turnwise.study.report.score_figures import courses, gains, shuffles, single_trajectories

LEFT_PART = 0.05
"""False-positive rate up to which the second ROC panel goes."""


def all_figures(study: Study) -> tuple[Figure, ...]:
    """Every figure that the study has data for."""
    made: tuple[Callable[[Study], Figure | None], ...] = (
        answer_figure,
        recalls,
        roc,
        survival,
        courses,
        single_trajectories,
        gains,
        shuffles,
        calibration,
    )
    return tuple(figure for figure in (make(study) for make in made) if figure is not None)


def recalls(study: Study) -> Figure:
    """Recall and false positives of every arm, dot and interval."""
    import altair as alt

    target = 100 * study.settings.target_fpr
    given = study.settings.thresholds == "given"
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        kind = "baseline" if judgement.arm.baseline else "over time"
        for what, rate in (("recall", result.counts.recall), ("false positives", result.counts.fpr)):
            if rate.of:
                low, high = rate.interval
                value = 100 * rate.count / rate.of
                rows.append(
                    {"arm": judgement.arm.name, "kind": kind, "what": what}
                    | {"value": value, "low": 100 * low, "high": 100 * high}
                )
    order = [arm.name for arm in study.arms]
    looks = {"baseline": Look("#0072B2", [6, 3], "circle"), "over time": Look("#D55E00", [1, 0], "triangle-up")}
    look = scales(looks)
    colour = alt.Color("kind:N", legend=alt.Legend(title=None, orient="bottom")).scale(**look["color"])
    panels = []
    for what, width in (("recall", 360), ("false positives", 200)):
        data = alt.InlineData(values=[row for row in rows if row["what"] == what])
        base = alt.Chart(data).encode(y=alt.Y("arm:N").sort(order).title(None).axis(labelLimit=260), color=colour)
        x = alt.X("low:Q").title(f"{what}, %")
        if what == "recall":
            x = x.scale(domain=[0, 100])
        else:
            base = base.encode(y=alt.Y("arm:N").sort(order).title(None).axis(labels=False, ticks=False))
        interval = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
        shape = alt.Shape("kind:N", legend=alt.Legend(title=None, orient="bottom")).scale(**look["shape"])
        dots = base.mark_point(filled=True, size=70, opacity=1).encode(
            x="value:Q", shape=shape, tooltip=tips(rows)
        )
        layers = [interval, dots]
        if what == "false positives" and not given:
            asked = alt.Chart(alt.InlineData(values=[{"low": target}]))
            layers.insert(0, asked.mark_rule(color="#888888", strokeDash=[3, 3]).encode(x=x))
        panels.append(alt.layer(*layers).properties(width=width, height=18 * len(order)))
    return figure(
        "recall",
        "Recall at given thresholds" if given else f"Recall at {target:g} % false positives",
        "Each arm at its threshold, on the test conversations: share of the attacks that are flagged, and of the "
        "benign conversations, with exact 95 % intervals for these thresholds alone."
        + ("" if given else f" Dotted: the {target:g} % that thresholds were set for on other conversations."),
        alt.hconcat(*panels),
    )


def roc(study: Study) -> Figure | None:
    """The ROC curves with the operating points, whole and their left part."""
    import altair as alt

    rows, points = [], []
    for place in shown_arms(study):
        name, result = study.arms[place].name, study.results[place]
        rows += [
            {"arm": name, "fpr": round(100 * fpr, 4), "recall": round(100 * recall, 4), "order": order}
            for order, (fpr, recall) in enumerate(roc_points(result.judged))
        ]
        fpr, recall = result.counts.fpr, result.counts.recall
        if fpr.of and recall.of:
            points.append({"arm": name, "fpr": 100 * fpr.count / fpr.of, "recall": 100 * recall.count / recall.of})
    if not rows:
        return None
    look = looks_of(study)
    panels = []
    for most, title in ((100.0, "whole"), (100 * LEFT_PART, f"up to {100 * LEFT_PART:g} % false positives")):
        x = alt.X("fpr:Q").title("false positives, %").scale(domain=[0, most], nice=False)
        y = alt.Y("recall:Q").title("recall, %").scale(domain=[0, 100])
        lines = (
            alt.Chart(alt.InlineData(values=rows))
            .mark_line(strokeWidth=2, clip=True)
            .encode(x=x, y=y, order="order:Q", color=look["color"], strokeDash=look["strokeDash"])
        )
        dots = (
            alt.Chart(alt.InlineData(values=points))
            .mark_point(filled=True, size=110, opacity=1, stroke="white", strokeWidth=1, clip=True)
            .encode(x=x, y=y, tooltip=tips(points))
        )
        names = [str(point["arm"]) for point in points]
        both = alt.layer(lines, *plain(dots, "arm", names, arm_looks(study, names), shape=True))
        panels.append(both.properties(width=290, height=290, title=title))
    return figure(
        "roc",
        "ROC curves and operating points",
        "By the highest score of a conversation. The points are the thresholds that were used; where scores "
        "can fall again, a verdict at the last turn would have another curve.",
        alt.hconcat(*panels),
    )


def survival(study: Study) -> Figure | None:
    """The share of attacks not flagged yet, over turns."""
    import altair as alt

    rows = []
    for place in shown_arms(study):
        flag = study.results[place].first_flag
        if flag is None:
            continue
        curve, name = flag.survival, study.arms[place].name
        last = max((one.turns for one in study.results[place].judged if one.attack), default=1)
        steps = [(0, 1.0, 1.0, 1.0), *zip(curve.turns, curve.undetected, curve.low, curve.high, strict=True)]
        steps.append((max(last, steps[-1][0]), *steps[-1][1:]))
        rows += [
            {"arm": name, "turn": turn, "undetected": 100 * left, "low": 100 * low, "high": 100 * high}
            for turn, left, low, high in steps
        ]
    if not rows:
        return None
    horizon = max(study.results[place].mean_turn_horizon for place in shown_arms(study))
    look = looks_of(study)
    x = alt.X("turn:Q").title("turn").scale(domain=[0, horizon + 1], nice=False).axis(format="d", tickMinStep=1)
    y = alt.Y("undetected:Q").title("attacks not flagged yet, %").scale(domain=[0, 100])
    base = alt.Chart(alt.InlineData(values=rows))
    followed = dict.fromkeys([study.reference, study.followed])
    two = [study.arms[place].name for place in followed]
    band = base.mark_area(opacity=0.15, interpolate="step-after", clip=True).encode(
        x=x, y=alt.Y("low:Q"), y2="high:Q"
    )
    lines = base.mark_line(strokeWidth=2, interpolate="step-after", clip=True).encode(
        x=x, y=y, color=look["color"], strokeDash=look["strokeDash"]
    )
    return figure(
        "survival",
        "Attacks not flagged yet",
        "Kaplan-Meier curves over turns, attacks that are never flagged censored at their last turn; 95 % "
        f"bands of the reference and of the chosen arm, for these thresholds alone. Up to turn {horizon + 1}.",
        alt.layer(*plain(band, "arm", two, arm_looks(study, two)), lines).properties(width=520, height=300),
    )


def calibration(study: Study) -> Figure | None:
    """Realised against asked false-positive rates."""
    import altair as alt

    places = dict.fromkeys([study.reference, study.followed])
    rows: list[dict[str, Any]] = [
        {"arm": study.arms[place].name} | {name: 100 * value for name, value in point.items()}
        for place in places
        for point in calibration_points(study.judgements[place])
    ]
    if not rows:
        return None
    look = looks_of(study, list(places))
    most = max(row["asked"] for row in rows)
    diagonal = (
        alt.Chart(alt.InlineData(values=[{"asked": 0, "realised": 0}, {"asked": most, "realised": most}]))
        .mark_line(color="#888888", strokeDash=[3, 3], strokeWidth=1)
        .encode(x="asked:Q", y="realised:Q")
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("asked:Q").title("false positives asked for, %"))
    rule = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q").title("realised on the test, %"), y2="high:Q")
    lines = base.mark_line(strokeWidth=2).encode(
        y="realised:Q", color=look["color"], strokeDash=look["strokeDash"]
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(y="realised:Q", tooltip=tips(rows))
    names = [study.arms[place].name for place in places]
    looks = arm_looks(study, names)
    marks = [*plain(rule, "arm", names, looks), *plain(dots, "arm", names, looks, shape=True)]
    return figure(
        "calibration",
        "Calibration of the thresholds",
        "Thresholds set on the calibrate part for several rates, and the rate that came out on the test, with "
        "exact 95 % intervals. On or under the dotted line the promise is kept.",
        alt.layer(diagonal, *marks, lines).properties(width=380, height=300),
    )
