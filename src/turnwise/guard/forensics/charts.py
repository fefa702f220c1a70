"""Charts of an analysis, as SVG that stands in a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from turnwise.conversation import Side, Turn
from turnwise.errors import ChartError
from turnwise.linear_regex import LinearRegex
from turnwise.plots import draw, trajectory_chart
from turnwise.plots.style import CONFIG
from turnwise.scoring import Score
from turnwise.scoring.trajectory import scores_by_turn

MODES: Final = {"normal": "#0072B2", "cautious": "#E69F00", "guarded": "#D55E00", "terminated": "#333333"}
"""Colour by engagement mode, of Okabe and Ito's palette."""

_WIDTH, _HEIGHT = 640, 190
_NAMESPACE = LinearRegex(r'\sxmlns(?::\w+)?="[^"]*"')
"""What a drawing needs as a file, and not inside a page."""


def can_draw() -> bool:
    """Return whether what draws charts is installed."""
    return all(find_spec(package) is not None for package in ("altair", "vl_convert"))


def drawings(analysis: Mapping[str, Any]) -> dict[str, str | ChartError]:
    """Return the charts that an analysis has data for, as SVG that stands in a page, by heading.

    Args:
        analysis: what `analyze_conversation_forensics` gave.

    Returns:
        The charts; of one that can't be drawn, why.
    """
    found = {}
    if any(point["scores"] for point in analysis["trajectory"]):
        found["Trajectory"] = _trajectory(analysis)
    for drift in analysis["drift"]:
        found[f"Score of {drift['guardrail']}"] = _detector(drift)
    if analysis["stance"]:
        found["Stance"] = _stance(analysis["stance"])
    return {
        name: one if isinstance(one, ChartError) else _NAMESPACE.sub(lambda _: "", one)
        for name, one in draw(found).svg.items()
    }


def _trajectory(analysis: Mapping[str, Any]) -> dict[str, Any]:
    points = analysis["trajectory"]
    last = max(point["turn"] for point in points)
    scores = (
        (point["turn"], Side.PROMPT if point["side"] == "input" else Side.RESPONSE, name, Score.from_dict(score))
        for point in points
        for name, score in point["scores"].items()
    )
    turns = [Turn(number, "") for number in range(1, last + 1)]
    return trajectory_chart(list(scores_by_turn(last, scores, {})), turns, title="")


def _detector(drift: Mapping[str, Any]) -> dict[str, Any]:
    import altair as alt

    rows = [{"place": place, **point} for place, point in enumerate(_inputs(drift["scores"]))]
    turns = _turns(rows)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=turns, y=alt.Y("score:Q").title("score of the detector")
    )
    layers = [
        base.mark_line(strokeWidth=2, color="#333333"),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            color=alt.condition("datum.active", alt.value("#D55E00"), alt.value("#333333")),
            shape=alt.condition("datum.active", alt.value("triangle-up"), alt.value("circle")),
        ),
    ]
    for name, colour, dash in (("threshold", "#D55E00", [1, 0]), ("warn", "#E69F00", [5, 3])):
        if drift[name] is not None:
            layers += _level(drift[name], {"threshold": "block", "warn": "warn"}[name], colour, dash)
    began = drift["began"]
    if began is not None and began["alarm"]:
        mark = alt.Chart(
            alt.InlineData(values=[{"turn": began["turn"], "what": f"began at turn {began['turn']}"}])
        )
        layers.append(mark.mark_rule(color="#0072B2", strokeDash=[2, 2], strokeWidth=1.5).encode(x="turn:Q"))
        layers.append(
            mark.mark_text(align="left", dx=4, baseline="top", color="#0072B2", fontSize=11).encode(
                x="turn:Q", y=alt.value(2), text="what:N"
            )
        )
    return _finished(alt.layer(*layers))


def _stance(stances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import altair as alt

    rows = [{"turn": one["turn"], "trust": one.get("trust"), "mode": one.get("mode")} for one in _latest(stances)]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=_turns(rows), y=alt.Y("trust:Q").title("trust").scale(domain=[0, 1])
    )
    look = alt.Color("mode:N", legend=alt.Legend(title=None, orient="bottom")).scale(
        domain=list(MODES), range=list(MODES.values())
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(color=look)
    return _finished(alt.layer(base.mark_line(color="#999999"), points))


def _level(value: float, name: str, colour: str, dash: list[int]) -> list[Any]:
    import altair as alt

    at = alt.Chart(alt.InlineData(values=[{"value": value, "name": f"{name} at {value:.3g}"}]))
    return [
        at.mark_rule(color=colour, strokeDash=dash).encode(y="value:Q"),
        # At the left, where scores are low as a rule.
        at.mark_text(align="left", dy=-6, color=colour, fontSize=11).encode(
            y="value:Q", x=alt.value(4), text="name:N"
        ),
    ]


def _turns(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    last = max((row["turn"] for row in rows), default=1)
    scale = alt.Scale(domain=[1, max(last, 2)], nice=False, padding=8)
    return alt.X("turn:Q").title("turn").scale(scale).axis(format="d", tickMinStep=1, grid=False)


def _inputs(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one point a turn: of the prompt, where both sides were scored."""
    by_turn: dict[int, Mapping[str, Any]] = {}
    for point in points:
        by_turn.setdefault(point["turn"], point)
    return list(by_turn.values())


def _latest(stances: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one stance a turn: the last."""
    return list({one["turn"]: one for one in stances}.values())


def _finished(chart: Any) -> dict[str, Any]:
    spec: dict[str, Any] = chart.properties(width=_WIDTH, height=_HEIGHT).to_dict()
    spec["config"] = CONFIG
    return spec
