"""How charts look: colours that colour-blind people tell apart, and shapes and dashes for print without colour."""

from __future__ import annotations

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


class Look(NamedTuple):
    """How one line of a chart looks; colours are Okabe and Ito's ("Color Universal Design", 2008).

    `dash` has the lengths of strokes and gaps; [1, 0] is solid.
    """

    colour: str
    dash: list[int]
    shape: str


COMPONENTS = {
    "T": Look("#0072B2", [7, 3], "circle"),
    "I": Look("#E69F00", [2, 2], "square"),
    "F": Look("#D55E00", [1, 0], "triangle-up"),
}
"""By component of a score. F, what one looks for, is the solid line."""

LABELS = {
    "attack": Look("#D55E00", [1, 0], "triangle-up"),
    "benign": Look("#0072B2", [7, 3], "circle"),
    "unlabelled": Look("#666666", [2, 2], "square"),
}
"""By ground truth."""


def scales(looks: dict[str, Look]) -> dict[str, Any]:
    """The arguments of `altair.Scale` for colour, dash and shape of named lines."""
    names = list(looks)
    return {
        "color": {"domain": names, "range": [look.colour for look in looks.values()]},
        "strokeDash": {"domain": names, "range": [look.dash for look in looks.values()]},
        "shape": {"domain": names, "range": [look.shape for look in looks.values()]},
    }
