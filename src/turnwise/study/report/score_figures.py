"""Figures of the scores and of the order of turns: courses, single conversations, gains, shuffles."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from turnwise.plots.style import LABELS, LOOKS, Figure, figure, line_legend, plain, scales, tips
from turnwise.stats import Judged, mean_scores
from turnwise.study.compare import Study

COURSES_SHOWN = 9
"""Single conversations that are drawn."""


def courses(study: Study) -> Figure | None:
    """Mean T, I and F over turns by label."""
    import altair as alt

    run = study.arms[study.followed].run
    data = next(one for one in study.data.runs if one.run.name == run)
    rows = mean_scores(data.examples)
    if not rows:
        return None
    present = [name for name in LABELS if any(row["label"] == name for row in rows)]
    look = scales({name: LABELS[name] for name in present})
    legend = line_legend()
    colour = alt.Color("label:N", legend=legend).scale(**look["color"])
    dash = alt.StrokeDash("label:N", legend=legend).scale(**look["strokeDash"])
    x = alt.X("turn:Q").title("turn").axis(format="d", tickMinStep=1, grid=False)
    base, values = alt.Chart(), alt.InlineData(values=rows)
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("low:Q").title(None).scale(domain=[0, 1]), y2="high:Q")
    lines = base.mark_line(strokeWidth=2).encode(x=x, y=alt.Y("mean:Q").title(None), color=colour, strokeDash=dash)
    chart = (
        alt.layer(*plain(band, "label", present, [LABELS[name] for name in present]), lines, data=values)
        .properties(width=190, height=130)
        .facet(
            row=alt.Row("component:N").sort(["T", "I", "F"]).title(None),
            column=alt.Column("principle:N").title(None),
        )
    )
    return figure(
        "courses",
        "Mean T, I and F over the turns",
        f"Run {run}, all labelled conversations; bands are 95 % intervals of the mean. A turn is shown where "
        "at least ten conversations of the label reach it, so that long conversations alone make up the right "
        "end.",
        chart,
    )


def single_trajectories(study: Study) -> Figure | None:
    """Single trajectories with the turn that was flagged."""
    import altair as alt

    place = study.followed
    arm, judged = study.arms[place], study.results[place].judged
    data = next(one for one in study.data.runs if one.run.name == arm.run)
    examples = {example.sequence_id: example for example in data.examples}
    rows, order = [], []
    for one, kind in _picked(judged):
        panel = f"{_short(one.sequence_id)}: {kind}"
        order.append(panel)
        for turn in examples[one.sequence_id].turns:
            for place_of, (principle, score) in enumerate(sorted(turn.scores.items())):
                rows.append(
                    {"panel": panel, "turn": turn.turn, "F": round(score.F, 4), "principle": principle}
                    | {"flagged": turn.turn == one.turn and place_of == 0}
                )
    if not rows:
        return None
    names = sorted({str(row["principle"]) for row in rows})
    looks = [LOOKS[1:][place % (len(LOOKS) - 1)] for place in range(len(names))]
    look = scales(dict(zip(names, looks, strict=True)))
    legend = line_legend()
    x = alt.X("turn:Q").title("turn").scale(zero=False).axis(format="d", tickMinStep=1, grid=False)
    y = alt.Y("F:Q").title("F").scale(domain=[0, 1])
    colour = alt.Color("principle:N", legend=legend).scale(**look["color"])
    base = alt.Chart()
    mark = (
        base.transform_filter("datum.flagged").mark_rule(strokeWidth=6, opacity=0.2, color="#444444").encode(x=x)
    )
    dots = plain(base.mark_point(filled=True, size=25, opacity=1).encode(x=x, y=y), "principle", names, looks)
    lines = base.mark_line(strokeWidth=1.8).encode(
        x=x, y=y, color=colour, strokeDash=alt.StrokeDash("principle:N", legend=legend).scale(**look["strokeDash"])
    )
    chart = (
        alt.layer(mark, lines, *dots, data=alt.InlineData(values=rows))
        .properties(width=190, height=110)
        .facet(facet=alt.Facet("panel:N").sort(order).title(None), columns=3)
    )
    return figure(
        "single",
        "Single conversations",
        f"F by principle in run {arm.run}; the grey bar is the turn at which {arm.name} first fired. The first "
        "of each kind by a hash of their id, not the most telling ones.",
        chart,
    )


def gains(study: Study) -> Figure | None:
    """The heat map of gains by source, category, tactic and length."""
    import altair as alt

    rows = []
    for cell in study.cells:
        gain = cell.gain
        if gain is None:
            continue
        small = gain.pairs < study.settings.small_cell
        rows.append(
            {
                "division": cell.division,
                "value": cell.value,
                "gain": None if small else 100 * gain.gain,
                "text": f"too few ({gain.pairs})" if small else f"{100 * gain.gain:+.0f} of {gain.pairs}",
                "dark": not small and abs(gain.gain) > 0.5,
            }
        )
    if not rows or study.chosen is None:
        return None
    scale = alt.Scale(domain=[-100, 0, 100], range=["#0072B2", "#F7F7F7", "#D55E00"])
    legend = alt.Legend(title="gain, points", orient="right")
    panels = []
    for division in dict.fromkeys(str(row["division"]) for row in rows):
        data = alt.InlineData(values=[row for row in rows if row["division"] == division])
        base = alt.Chart(data).encode(y=alt.Y("value:N").title(None).axis(labelLimit=220, minExtent=220))
        tiles = base.mark_rect(stroke="white").encode(
            color=alt.Color("gain:Q", legend=legend).scale(scale), tooltip=tips(rows)
        )
        text = base.mark_text(fontSize=11).encode(
            text="text:N", color=alt.condition("datum.dark", alt.value("white"), alt.value("black"))
        )
        panels.append(alt.layer(tiles, text).properties(width=170, height=alt.Step(22), title=f"by {division}"))
    chart = alt.vconcat(*panels)
    first, second = study.arms[study.reference].name, study.arms[study.chosen].name
    return figure(
        "gain",
        "Where the gain comes from",
        f"Recall of {second} less that of {first}, in percentage points, with the number of attacks. Cells of "
        f"fewer than {study.settings.small_cell} attacks show no figure. Tables have intervals and p-values.",
        chart,
    )


def shuffles(study: Study) -> Figure | None:
    """The share of verdicts that change when the order does."""
    import altair as alt

    rows = []
    for name, one in study.checks.order_shuffle.items():
        for label, found in (("attack", one.attacks), ("benign", one.benign)):
            if found is not None and not math.isnan(found.value):
                rows.append(
                    {"arm": name, "label": label}
                    | {"changed": 100 * found.value, "low": 100 * found.low, "high": 100 * found.high}
                )
    moved = study.checks.turns_reordered
    if moved is not None:
        name = f"{study.arms[study.followed].name}, scored again"
        for label, rate in (("attack", moved.attacks), ("benign", moved.benign)):
            if rate.of:
                low, high = rate.interval
                rows.append(
                    {"arm": name, "label": label}
                    | {"changed": 100 * rate.count / rate.of, "low": 100 * low, "high": 100 * high}
                )
    if not rows:
        return None
    order = list(dict.fromkeys(str(row["arm"]) for row in rows))
    look = scales({name: LABELS[name] for name in ("attack", "benign")})
    legend = alt.Legend(title=None, orient="bottom")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("arm:N").sort(order).title(None).axis(labelLimit=300),
        yOffset=alt.YOffset("label:N"),
        color=alt.Color("label:N", legend=legend).scale(**look["color"]),
    )
    x = alt.X("low:Q").title("verdicts that change, %").scale(domainMin=0)
    rule = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="changed:Q", shape=alt.Shape("label:N", legend=legend).scale(**look["shape"]), tooltip=tips(rows)
    )
    return figure(
        "shuffle",
        "Is order used?",
        "Share of the verdicts that change when the scores of a conversation are permuted; scored again: when its "
        "turns are permuted and scored anew. A detector that only looks for the worst turn changes none.",
        alt.layer(rule, dots).properties(width=420, height=alt.Step(14)),
    )


def _picked(judged: Sequence[Judged]) -> list[tuple[Judged, str]]:
    """Conversations of every kind of verdict, in an order that nobody chose."""
    ordered = sorted(
        (one for one in judged if one.evaluated), key=lambda one: hashlib.sha256(one.sequence_id.encode()).digest()
    )
    picked: list[tuple[Judged, str]] = []
    for attack, fired, kind, most in (
        (True, True, "attack, flagged", 3),
        (True, False, "attack, missed", 3),
        (False, True, "benign, flagged", 2),
        (False, False, "benign, quiet", 3),
    ):
        found = [one for one in ordered if one.attack is attack and one.fired is fired]
        picked += [(one, kind) for one in found[:most]]
    return picked[:COURSES_SHOWN]


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:11]}…{name[-12:]}"
