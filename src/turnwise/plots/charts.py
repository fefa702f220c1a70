"""Charts of a trajectory and of what matched a pattern, as Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.conversation import Side
from turnwise.plots.style import COMPONENTS, CONFIG, LABELS, scales

if TYPE_CHECKING:
    from turnwise.conversation import Turn
    from turnwise.scoring import TurnScores


SHOWN = 600
"""Characters of a text that are shown on hover."""

_COLUMNS = 3
_WIDTH, _HEIGHT = 260, 200


def trajectory_chart(
    scores: Sequence[TurnScores], turns: Sequence[Turn], *, title: str, subtitle: str = ""
) -> dict[str, Any]:
    """Return the chart of a trajectory as a Vega-Lite specification.

    Each principle has a panel, and one more where its response was scored. A line is broken where a principle was
    not evaluated. In HTML the text of a turn is shown on hover.

    Args:
        scores: the scores, turn by turn from 1.
        turns: the turns themselves, as many.
        title: heading.
        subtitle: a line below it.
    """
    import altair as alt

    rows = list(_rows(scores, turns))
    panels = [_panel(*scored) for scored in _scored(scores)]
    columns = 2 if len(panels) == 4 else _COLUMNS
    look = scales(COMPONENTS)
    legend = alt.Legend(title=None, orient="bottom")
    last = max((turn.turn for turn in scores), default=1)
    lines = (
        alt.Chart()
        .encode(
            x=alt.X("turn:Q")
            .title("turn")
            .scale(domain=[1, max(last, 2)], nice=False, padding=8)
            .axis(format="d", tickMinStep=1, grid=False),
            y=alt.Y("value:Q").title(None).scale(domain=[0, 1]).axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f"),
            color=alt.Color("component:N", legend=legend).scale(**look["color"]),
            strokeDash=alt.StrokeDash("component:N", legend=legend).scale(**look["strokeDash"]),
        )
        .mark_line(strokeWidth=2)
    )
    points = lines.mark_point(filled=True, size=55, opacity=1).encode(
        shape=alt.Shape("component:N", legend=legend).scale(**look["shape"]),
        tooltip=[
            alt.Tooltip("turn:Q"),
            alt.Tooltip("principle:N"),
            alt.Tooltip("component:N"),
            alt.Tooltip("value:Q", format=".3f"),
            alt.Tooltip("text:N"),
        ],
    )
    chart = (
        alt.layer(lines, points, data=alt.InlineData(values=rows))
        .properties(width=_WIDTH, height=_HEIGHT)
        .facet(facet=alt.Facet("principle:N").sort(panels).title(None), columns=columns)
        .properties(title=alt.TitleParams(title, subtitle=subtitle))
    )
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = CONFIG
    return spec


def _rows(scores: Sequence[TurnScores], turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """A row for each turn, panel and component; at a gap its value is None, which breaks the line."""
    scored = _scored(scores)
    for at, turn in zip(scores, turns, strict=True):
        for principle, side in scored:
            response = side is Side.RESPONSE
            score = (at.response_scores if response else at.scores).get(principle)
            for component in COMPONENTS:
                yield {
                    "turn": at.turn,
                    "principle": _panel(principle, side),
                    "component": component,
                    "value": None if score is None else getattr(score, component),
                    "text": shortened((turn.response or "") if response else turn.prompt),
                }


def shortened(text: str) -> str:
    """As much of a text as is shown on hover.

    >>> len(shortened("x" * 10_000))
    600
    """
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _scored(scores: Sequence[TurnScores]) -> list[tuple[str, Side]]:
    found = {(principle, Side.PROMPT) for turn in scores for principle in turn.scores}
    return sorted(found | {(principle, Side.RESPONSE) for turn in scores for principle in turn.response_scores})


def _panel(principle: str, side: Side) -> str:
    return principle if side is Side.PROMPT else f"{principle} (response)"


_WIDE, _HIGH = 300, 220
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
    """Return the chart of the sequences that matched, with a panel for each series, as a Vega-Lite specification.

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
            data=alt.InlineData(values=list(_matched_rows(lines))),
        )
        .properties(width=_WIDE, height=_HIGH)
        .facet(facet=alt.Facet("series:N").sort(series).title(None), columns=_COLUMNS)
        .properties(title=alt.TitleParams(title, subtitle=subtitle))
    )
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = CONFIG
    return spec


def _matched_rows(lines: Sequence[MatchedLine]) -> Iterator[dict[str, Any]]:
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
