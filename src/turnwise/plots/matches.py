"""The chart of what matched a pattern: a line a sequence, with the turn at which it matched first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.plots.style import CONFIG, LABELS, scales

_COLUMNS = 3
_WIDTH, _HEIGHT = 300, 220
_FAINT = 0.55


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """One sequence that matched.

    Args:
        sequence_id: its id.
        label: its ground truth.
        turn: number of the first turn at which the pattern held.
        values: by the name of a series, its value turn by turn from 1, None at gaps.
    """

    sequence_id: str
    label: str
    turn: int
    values: Mapping[str, Sequence[float | None]]


def matches_chart(lines: Sequence[MatchedLine], *, title: str, subtitle: str = "") -> dict[str, Any]:
    """Return the chart of the sequences that matched, a panel a series, as a Vega-Lite specification.

    Args:
        lines: the sequences; each with the same series.
        title: heading.
        subtitle: a line below it.
    """
    import altair as alt

    present = {name: look for name, look in LABELS.items() if any(line.label == name for line in lines)}
    look = scales(present or LABELS)
    legend = alt.Legend(title=None, orient="bottom")
    drawn = (
        alt.Chart()
        .encode(
            x=alt.X("turn:Q")
            .title("turn")
            .scale(nice=False, padding=8)
            .axis(format="d", tickMinStep=1, grid=False),
            y=alt.Y("value:Q").title(None),
            detail="sequence:N",
            color=alt.Color("label:N", legend=legend).scale(**look["color"]),
            strokeDash=alt.StrokeDash("label:N", legend=legend).scale(**look["strokeDash"]),
        )
        .mark_line(strokeWidth=1.5, opacity=_FAINT)
    )
    tooltip = [alt.Tooltip("sequence:N"), alt.Tooltip("label:N"), alt.Tooltip("turn:Q")]
    points = drawn.transform_filter("datum.first").encode(
        shape=alt.Shape("label:N", legend=legend).scale(**look["shape"]),
        tooltip=[*tooltip, alt.Tooltip("value:Q", format=".3f")],
    )
    hidden = drawn.mark_point(size=70, opacity=0).encode(tooltip=[*tooltip, alt.Tooltip("value:Q", format=".3f")])
    series = list(dict.fromkeys(name for line in lines for name in line.values))
    chart = (
        alt.layer(
            drawn,
            hidden,
            points.mark_point(filled=True, size=70, opacity=1),
            data=alt.InlineData(values=list(_rows(lines))),
        )
        .properties(width=_WIDTH, height=_HEIGHT)
        .facet(facet=alt.Facet("series:N").sort(series).title(None), columns=_COLUMNS)
        .properties(title=alt.TitleParams(title, subtitle=subtitle))
    )
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = CONFIG
    return spec


def _rows(lines: Sequence[MatchedLine]) -> Iterator[dict[str, Any]]:
    for line in lines:
        for name, values in line.values.items():
            for turn, value in enumerate(values, start=1):
                yield {
                    "sequence": line.sequence_id,
                    "label": line.label,
                    "series": name,
                    "turn": turn,
                    "value": value,
                    "first": turn == line.turn,
                }
