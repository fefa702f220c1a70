"""Small graphs as SVG, made from numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from turnwise.explorer.markup import element

_WIDTH, _HEIGHT, _EDGE = 120, 24, 2
_FLAG: Final = 3.2


def small_graph(series: Sequence[tuple[int, float]], turns: int, flag: int | None = None) -> Markup:
    """A small graph of (turn, value in [0, 1]), in order, broken at turns without one, with a mark at turn `flag`.

    >>> "<path" in small_graph([(1, 0.0), (2, 1.0)], 2), "aria-label" in small_graph([], 3)
    (True, True)
    """
    last = max(turns, 2)
    path, dots, before = [], [], None
    for turn, value in series:
        x, y = _x(turn, last), _y(value)
        path.append(f"{'L' if before == turn - 1 else 'M'}{x:.1f} {y:.1f}")
        alone = before != turn - 1 and (turn + 1) not in {one for one, _ in series}
        if alone:
            dots.append(element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=1.6, class_="graph-dot"))
        before = turn
    values = dict(series)
    if flag is not None and flag in values:
        x, y = _x(flag, last), _y(values[flag])
        points = f"{x:.1f},{y - _FLAG:.1f} {x + _FLAG:.1f},{y + _FLAG:.1f} {x - _FLAG:.1f},{y + _FLAG:.1f}"
        dots.append(element("polygon", points=points, class_="graph-flag"))
    highest = f"highest F {max(values.values()):.2f}" if values else "no score"
    said = f"{highest}, flagged at turn {flag}" if flag is not None else highest
    return element(
        "svg",
        element("line", x1=0, x2=_WIDTH, y1=_y(0.0), y2=_y(0.0), class_="graph-ground"),
        element("path", d="".join(path), class_="graph-line") if path else None,
        dots,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        role="img",
        aria_label=said,
        class_="graph",
    )


def _x(turn: int, last: int) -> float:
    return _EDGE + (turn - 1) / (last - 1) * (_WIDTH - 2 * _EDGE)


def _y(value: float) -> float:
    return _EDGE + (1.0 - value) * (_HEIGHT - 2 * _EDGE)
