"""How charts look: colours that colour-blind people tell apart, and shapes and dashes for print without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

AXIS = {"labelFontSize": 11, "titleFontSize": 12, "gridColor": "#e8e8e8", "domainColor": "#888888"}
CONFIG: dict[str, Any] = {
    "background": "white",
    "font": "sans-serif",
    "axis": AXIS,
    "header": {"labelFontSize": 13, "labelFontWeight": "bold", "title": None},
    "legend": {"labelFontSize": 11, "titleFontSize": 12, "symbolSize": 90, "symbolStrokeWidth": 0},
    "title": {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "subtitleColor": "#555555"},
    "view": {"stroke": "#cccccc"},
}
"""Settings of every chart."""


class LineStyle(NamedTuple):
    """How one line looks: `dash` has the lengths of strokes and gaps. Colours are Okabe and Ito's (2008)."""

    colour: str
    dash: list[int]
    shape: str


COMPONENTS = {
    "T": LineStyle("#0072B2", [7, 3], "circle"),
    "I": LineStyle("#E69F00", [2, 2], "square"),
    "F": LineStyle("#D55E00", [1, 0], "triangle-up"),
}
"""By component of a score. F, what one looks for, is the solid line."""

LABELS = {
    "attack": LineStyle("#D55E00", [1, 0], "triangle-up"),
    "benign": LineStyle("#0072B2", [7, 3], "circle"),
    "unlabelled": LineStyle("#666666", [2, 2], "square"),
}
"""By ground truth."""


def scales(looks: dict[str, LineStyle]) -> dict[str, Any]:
    """The arguments of `altair.Scale` for colour, dash and shape of named lines."""
    names = list(looks)
    return {
        "color": {"domain": names, "range": [look.colour for look in looks.values()]},
        "strokeDash": {"domain": names, "range": [look.dash for look in looks.values()]},
        "shape": {"domain": names, "range": [look.shape for look in looks.values()]},
    }


def plain(
    chart: Any, field: str, names: Sequence[str], looks: Sequence[LineStyle], *, shape: bool = False
) -> list[Any]:
    """A layer for each name, in its colour and with its shape, that adds nothing to the legend."""
    # A legend that bands or points share with lines shows them, and not the dashes of the lines.
    import altair as alt

    layers = []
    for name, look in zip(names, looks, strict=True):
        one = chart.transform_filter(alt.FieldEqualPredicate(field=field, equal=name))
        given = {"color": alt.value(look.colour)} | ({"shape": alt.value(look.shape)} if shape else {})
        layers.append(one.encode(**given))
    return layers


def line_legend(columns: int = 0) -> Any:
    """The legend of lines, which shows their dashes."""
    import altair as alt

    return alt.Legend(
        title=None, orient="bottom", labelLimit=300, columns=columns, symbolSize=400, symbolStrokeWidth=2
    )


def tips(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """What is shown on hover: every field of the rows."""
    import altair as alt

    first = rows[0] if rows else {}
    return [
        alt.Tooltip(f"{name}:Q", format=".1f") if isinstance(value, float) else alt.Tooltip(f"{name}:N")
        for name, value in first.items()
    ]


LOOKS = (
    LineStyle("#000000", [3, 1], "circle"),
    LineStyle("#D55E00", [1, 0], "triangle-up"),
    LineStyle("#0072B2", [6, 3], "square"),
    LineStyle("#009E73", [2, 2], "diamond"),
    LineStyle("#CC79A7", [8, 2, 2, 2], "triangle-down"),
    LineStyle("#E69F00", [4, 1], "cross"),
    LineStyle("#56B4E9", [1, 3], "triangle-right"),
)
"""How the arms look that are drawn together: Okabe and Ito's colours, each with a dash and a shape of its own."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure; its files bear its name, and `spec` is Vega-Lite as JSON values."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]


def figure(name: str, title: str, caption: str, chart: Any) -> Figure:
    """A figure of an Altair chart."""
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = CONFIG
    return Figure(name, title, caption, spec)
