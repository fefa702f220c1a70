"""Curves of scores over turns, drawn by ECharts as SVG: panels side by side on one axis of turns.

Nothing but numbers and names goes into a chart, and its tooltips are drawn, never parsed as HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.plots.style import COMPONENTS

if TYPE_CHECKING:
    from nicegui.elements.echart import EChart

Points = Sequence[tuple[int, float | None]]
"""A line: (turn, value) in the order of turns; a value of None is a gap."""

_COLOURS: Final = {"T": "#2b8fd0", "I": "#c98500", "F": "#dd5a12"}
"""By component; they are told apart on white and on dark paper."""

_OTHERS: Final = ("#7a5cc4", "#2a9d7c", "#b0457b", "#6b7686")
_SYMBOLS: Final = {"T": "circle", "I": "rect", "F": "triangle"}
_QUIET, _LINES = "#7a8494", "rgba(128,138,152,0.25)"
_ACCENT = "#4f7fe8"
_PANEL_HEIGHT = 210
"""Pixels of a row of panels."""

_WITHOUT_SYMBOLS = 60
"""Turns from which points get no symbol of their own."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a chart, with its lines by name; T, I and F look the same everywhere."""

    title: str
    lines: Mapping[str, Points]
    level: float | None = None  # a line across, such as a threshold
    low: float | None = 0.0
    high: float | None = 1.0  # end of the axis; None is what the lines need
    dashed: frozenset[str] = frozenset()  # lines of the second of two conversations that are compared


def chart_options(
    panels: Sequence[Panel],
    *,
    last: int,
    at: int | None = None,
    marks: Mapping[int, str] | None = None,
    columns: int = 3,
    title: str = "",
) -> dict[str, Any]:
    """ECharts' options for panels over turns to `last`; `marks` are words at turns, `title` is read aloud."""
    across = max(1, min(columns, len(panels)))
    rows = -(-len(panels) // across)
    share = 100 / across
    options: dict[str, Any] = {
        "animation": False,
        "backgroundColor": "transparent",
        "aria": {"enabled": True, "label": {"enabled": True, "description": visible(title)}},
        "legend": {"type": "scroll", "top": 0, "left": 0, "itemWidth": 28, "textStyle": {"color": _QUIET},
                   "data": []},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True, "order": "seriesAsc"},
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "title": [], "grid": [], "xAxis": [], "yAxis": [], "series": [],
    }  # fmt: skip
    named: dict[str, None] = {}
    for place, panel in enumerate(panels):
        row, column = divmod(place, across)
        top = 34 + row * _PANEL_HEIGHT
        options["title"].append(
            {"text": visible(panel.title), "left": f"{column * share + 0.3}%", "top": top,
             "textStyle": {"fontSize": 13, "fontWeight": 600, "color": _QUIET}}
        )  # fmt: skip
        options["grid"].append(
            {"left": f"{column * share + 3.2}%", "width": f"{share - 5}%", "top": top + 26,
             "height": _PANEL_HEIGHT - 68}
        )  # fmt: skip
        options["xAxis"].append(
            {"type": "value", "gridIndex": place, "min": 1, "max": max(last, 2), "minInterval": 1,
             "splitLine": {"show": False}, "axisLabel": {"color": _QUIET, "hideOverlap": True},
             "axisLine": {"lineStyle": {"color": _QUIET}}, "axisPointer": {"label": {"precision": 0}}}
        )  # fmt: skip
        options["yAxis"].append(
            {"type": "value", "gridIndex": place, "min": panel.low, "max": panel.high, "splitNumber": 4,
             **({"interval": 0.25} if (panel.low, panel.high) == (0.0, 1.0) else {}),
             "axisLabel": {"color": _QUIET}, "splitLine": {"lineStyle": {"color": _LINES}}}
        )  # fmt: skip
        drawn = [_line(name, points, place, panel, last) for name, points in panel.lines.items()]
        if drawn:
            drawn[0]["markLine"] = _marked(panel, at, marks or {}, with_words=place == 0)
        options["series"] += drawn
        named |= dict.fromkeys(visible(name) for name in panel.lines)
    options["legend"]["data"] = list(named)
    options["height"] = 34 + rows * _PANEL_HEIGHT
    return options


def score_bars(
    attacks: Sequence[int], benign: Sequence[int], low: float, high: float, threshold: float
) -> dict[str, Any]:
    """A chart of how many scores of attacks (up) and benign ones (down) lie in equal parts of `low` to `high`."""
    high = high if high > low else low + 1.0
    at, each = min(max(threshold, low), high), (high - low) / len(attacks)
    quiet, accent = {"color": _QUIET}, {"color": _ACCENT}
    kinds = {"attacks, upward": (attacks, _COLOURS["F"]), "benign, downward": (benign, _QUIET)}
    series: list[dict[str, Any]] = [
        {"name": f"{sum(counts):,} {name}", "type": "bar", "yAxisIndex": side, "barGap": "-100%",
         "barMinHeight": 2, "barCategoryGap": "10%", "itemStyle": {"color": colour},
         "data": [[round(low + (place + 0.5) * each, 6), count or None] for place, count in enumerate(counts)]}
        for side, (name, (counts, colour)) in enumerate(kinds.items())
    ]  # fmt: skip
    label = {"formatter": f"flagged from {threshold:.4g} →", "align": "right" if at > (low + high) / 2 else "left"}
    series[0]["markLine"] = {"silent": True, "symbol": "none", "data": [
        {"xAxis": at, "lineStyle": {**accent, "width": 2, "type": "solid"}, "label": {**accent, **label}}
    ]}  # fmt: skip
    return {
        "animation": False, "backgroundColor": "transparent", "height": 230, "series": series,
        "legend": {"top": 0, "left": 0, "textStyle": quiet},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "grid": {"left": 16, "right": 16, "top": 52, "bottom": 44},
        "xAxis": {"type": "value", "min": low, "max": high, "name": "highest score of a conversation",
                  "nameLocation": "middle", "nameGap": 26, "nameTextStyle": quiet,
                  "axisLabel": {**quiet, "showMinLabel": False, "showMaxLabel": False},
                  "splitLine": {"show": False}, "axisLine": {"lineStyle": quiet}},
        "yAxis": [{"type": "value", "show": False, "inverse": side, "min": -most, "max": most}
                  for side, most in ((False, max(*attacks, 1)), (True, max(*benign, 1)))],
    }  # fmt: skip


def show_chart(options: dict[str, Any], label: str, on_turn: Callable[[int], Any] | None = None) -> EChart:
    """Show a chart in the page, whose `options` lose their height; `on_turn` hears the turn of a clicked point."""

    def clicked(event: Any) -> Any:
        return on_turn(int(event.value[0])) if on_turn is not None else None

    height = options.pop("height")
    chart = ui.echart(options, on_point_click=clicked if on_turn is not None else None, renderer="svg")
    chart.props["role"] = "img"
    chart.props["aria-label"] = visible(label)
    chart.props["data-chart"] = "yes"
    return chart.classes("chart").style(f"height: {height}px")


def redraw(chart: EChart, options: dict[str, Any]) -> None:
    """Draw a chart anew with other options, which lose their height."""
    chart.style(f"height: {options.pop('height')}px")
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def _line(name: str, points: Points, place: int, panel: Panel, last: int) -> dict[str, Any]:
    component = name.partition(" ")[0]
    known = component in COMPONENTS
    others = [one for one in panel.lines if one.partition(" ")[0] not in COMPONENTS]
    colour = _COLOURS[component] if known else _OTHERS[others.index(name) % len(_OTHERS)]
    dash = COMPONENTS[component].dash if known else [1, 0]
    stroke: str | list[int] = "solid" if dash == [1, 0] else dash
    return {
        "name": visible(name), "type": "line", "xAxisIndex": place, "yAxisIndex": place,
        "data": [[turn, None if value is None else round(value, 4)] for turn, value in points],
        "connectNulls": False, "showSymbol": last < _WITHOUT_SYMBOLS,
        "symbol": _SYMBOLS.get(component, "diamond"), "symbolSize": 7, "triggerLineEvent": False,
        "lineStyle": {"color": colour, "width": 2, "type": [5, 4] if name in panel.dashed else stroke,
                      "opacity": 0.75 if name in panel.dashed else 1},
        "itemStyle": {"color": colour, "opacity": 0.75 if name in panel.dashed else 1},
    }  # fmt: skip


def _marked(panel: Panel, at: int | None, marks: Mapping[int, str], *, with_words: bool) -> dict[str, Any]:
    """The lines across a panel: its level, the chosen turn, and where something happened."""
    data: list[dict[str, Any]] = []
    if panel.level is not None:
        data.append({"yAxis": panel.level, "lineStyle": {"color": _QUIET, "type": "dotted"},
                     "label": {"show": True, "formatter": f"{panel.level:.3g}", "color": _QUIET,
                               "position": "insideStartTop"}})  # fmt: skip
    for turn, words in marks.items():
        data.append({"xAxis": turn, "lineStyle": {"color": _COLOURS["F"], "type": "dashed"},
                     "label": {"show": with_words, "formatter": visible(words), "color": _COLOURS["F"],
                               "position": "insideEndTop"}})  # fmt: skip
    if at is not None:
        data.append({"xAxis": at, "lineStyle": {"color": _ACCENT, "width": 2, "type": "solid"},
                     "label": {"show": False}})  # fmt: skip
    return {"silent": True, "symbol": "none", "data": data}
