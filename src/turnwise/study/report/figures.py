"""The figures of a report as Vega-Lite specifications: the same for HTML, SVG and PDF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnwise.plots.style import LOOKS, Figure, LineStyle, figure, line_legend, plain, scales, tips
from turnwise.stats import Difference, evaluated, realised_rates, roc_points
from turnwise.study.compare import Study
from turnwise.study.compare.context_and_trajectory import CONTEXT, TRAJECTORY
from turnwise.study.compare.judging import ArmJudgement
from turnwise.study.report.score_figures import courses, gains, shuffles, single_trajectories
from turnwise.study.report.verdict_text import rate_words

LEFT_PART = 0.05
"""False-positive rate up to which the second ROC panel goes."""


def all_figures(study: Study) -> tuple[Figure, ...]:
    """Return every figure that the study has data for, the answer first; needs altair.

    A figure has a `name`, a `title`, a `caption` and its `spec`, a Vega-Lite specification for
    `turnwise.plots.save`.
    """
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
    looks = {
        "baseline": LineStyle("#0072B2", [6, 3], "circle"),
        "over time": LineStyle("#D55E00", [1, 0], "triangle-up"),
    }
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
    two = [study.arms[place].name for place in study.compared_places]
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

    places = study.compared_places
    rows: list[dict[str, Any]] = [
        {"arm": study.arms[place].name} | {name: 100 * value for name, value in point.items()}
        for place in places
        for point in _realised(study.judgements[place])
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


def answer_figure(study: Study) -> Figure | None:
    """Differences in recall with their intervals, or recalls where nothing is compared."""
    import altair as alt

    found: dict[str, Difference] = {
        f"{one.detector}, {one.b} less {one.a}": one.gain.overall.expected
        for one in study.between_runs
        if one.gain is not None
    }
    for apart in study.two_by_two if not found else ():
        for kind in (CONTEXT, TRAJECTORY):
            if gain := apart.first(kind):
                found[kind if len(study.two_by_two) == 1 else f"{kind}, {apart.observer}"] = gain.by_seed[0]
    rows: list[dict[str, Any]] = [
        {"what": what, "value": 100 * one.value, "low": 100 * one.low, "high": 100 * one.high}
        for what, one in found.items()
    ]
    for place in study.compared_places if not rows else ():
        recall = study.results[place].counts.recall
        if recall.of:
            low, high = recall.interval
            rows.append({"what": study.arms[place].name, "value": 100 * recall.count / recall.of}
                        | {"low": 100 * low, "high": 100 * high})  # fmt: skip
    if not rows:
        return None
    read = study.two_by_two and not any(one.gain for one in study.between_runs)
    rate = f" at {100 * study.two_by_two[0].rate:g} % false positives" if read else rate_words(study)
    title = f"{'points of recall' if found else 'recall, %'}{rate}"
    y = alt.Y("what:N").sort([row["what"] for row in rows]).title(None).axis(labelLimit=320)
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y)
    least = min(0.0, *(row["low"] for row in rows))
    x = alt.X("low:Q").title(title).scale(domain=[least, max(0.0, *(row["high"] for row in rows))], nice=True)
    zero = alt.Chart(alt.InlineData(values=[{"low": 0}])).mark_rule(color="#888888", strokeDash=[3, 3]).encode(x=x)
    interval = base.mark_rule(strokeWidth=2, color="#D55E00").encode(x=x, x2="high:Q")
    dot = base.mark_point(filled=True, size=80, opacity=1, color="#D55E00").encode(x="value:Q", tooltip=tips(rows))
    return figure(
        "answer",
        "The answer",
        "With 95 % intervals; zero, dotted, is no difference." if found else "With exact 95 % intervals.",
        alt.layer(zero, interval, dot).properties(width=380, height=alt.Step(34)),
    )


def shown_arms(study: Study) -> list[int]:
    """The arms that curves show, few enough to see: the reference, the chosen one, what is most like either."""
    arms = study.arms
    chosen = study.followed
    own = [f"{name}@{arms[chosen].run}" for name in ("any_turn", "first_turn")]
    blind = [place for place, arm in enumerate(arms) if arm.name in own or arm.detector == "length_only"]
    by_recall = sorted(
        (place for place, arm in enumerate(arms) if not arm.baseline),
        key=lambda place: (-study.judgements[place].calibration.attacks.count, place),
    )
    wanted = dict.fromkeys([study.reference, chosen, *blind, *by_recall])
    return list(wanted)[: len(LOOKS)]


def looks_of(study: Study, places: Sequence[int] | None = None) -> dict[str, Any]:
    """The encodings that tell arms apart, the same in every figure."""
    import altair as alt

    wanted = [study.arms[place].name for place in (shown_arms(study) if places is None else places)]
    look = scales(dict(zip(wanted, arm_looks(study, wanted), strict=True)))
    legend = line_legend(columns=2)
    return {
        "color": alt.Color("arm:N", legend=legend).scale(**look["color"]),
        "strokeDash": alt.StrokeDash("arm:N", legend=legend).scale(**look["strokeDash"]),
    }


def arm_looks(study: Study, names: Sequence[str]) -> list[LineStyle]:
    """How arms look, by their names, the same in every figure."""
    looks = {study.arms[place].name: LOOKS[number] for number, place in enumerate(shown_arms(study))}
    return [looks[name] for name in names]


def _realised(judgement: ArmJudgement) -> list[dict[str, float]]:
    """Asked and realised false-positive rates of thresholds from the one calibrate part; none with folds."""
    if len(judgement.folds) != 1:
        return []
    benign = [one.score for one in evaluated(judgement.judged, attack=False) if one.score is not None]
    return realised_rates(judgement.folds[0].benign, benign)
