"""The answer of a study in one sentence, and the figure beside it: with them a report begins."""

from __future__ import annotations

from typing import Any

from turnwise.study.compare import Study
from turnwise.study.compare.context_and_trajectory import CONTEXT, TRAJECTORY
from turnwise.study.compare.warnings import percent
from turnwise.study.report.figure_parts import Figure, figure, tips
from turnwise.study.report.gain_tables import shown_words
from turnwise.study.report.table import points_cell
from turnwise.study.stats.bootstrap import Difference


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
            return f"{one.detector} on {one.b} {says} {beside} {one.a}: {points} points of recall{_rate(study)}."
    for apart in study.two_by_two:
        return shown_words(apart, figures=True)
    arms = [
        f"{study.arms[place].name} catches {percent(study.results[place].counts.recall)}"
        for place in _followed(study)
        if study.results[place].counts.recall.of
    ]
    return f"Of the attacks{_rate(study)}, {' and '.join(arms)}." if arms else "No arm could be judged on attacks."


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
    for place in _followed(study) if not rows else ():
        recall = study.results[place].counts.recall
        if recall.of:
            low, high = recall.interval
            rows.append({"what": study.arms[place].name, "value": 100 * recall.count / recall.of}
                        | {"low": 100 * low, "high": 100 * high})  # fmt: skip
    if not rows:
        return None
    read = study.two_by_two and not any(one.gain for one in study.between_runs)
    rate = f" at {100 * study.two_by_two[0].rate:g} % false positives" if read else _rate(study)
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


def _rate(study: Study) -> str:
    given = study.settings.thresholds == "given"
    return " at the thresholds given" if given else f" at {100 * study.settings.target_fpr:g} % false positives"


def _followed(study: Study) -> list[int]:
    return list(dict.fromkeys([study.reference, study.followed]))
