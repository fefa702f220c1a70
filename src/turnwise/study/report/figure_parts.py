"""What the figures of a report share: which arms they show, how these look, legends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.plots.style import CONFIG, Look, scales
from turnwise.study.compare import Study

LOOKS = (
    Look("#000000", [3, 1], "circle"),
    Look("#D55E00", [1, 0], "triangle-up"),
    Look("#0072B2", [6, 3], "square"),
    Look("#009E73", [2, 2], "diamond"),
    Look("#CC79A7", [8, 2, 2, 2], "triangle-down"),
    Look("#E69F00", [4, 1], "cross"),
    Look("#56B4E9", [1, 3], "triangle-right"),
)
"""How the arms look that are drawn together: Okabe and Ito's colours, each with a dash and a shape of its own."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure.

    Args:
        name: of its files.
        title: heading.
        caption: what it shows and how to read it.
        spec: Vega-Lite, JSON values.
    """

    name: str
    title: str
    caption: str
    spec: dict[str, Any]


def shown_arms(study: Study) -> list[int]:
    """Return the places of the arms that curves show: the reference, the chosen one, what is most like either.

    A chart with twenty lines shows none; tables have all arms.
    """
    arms = study.arms
    chosen = study.reference if study.chosen is None else study.chosen
    own = [f"{name}@{arms[chosen].run}" for name in ("any_turn", "first_turn")]
    blind = [place for place, arm in enumerate(arms) if arm.name in own or arm.detector == "length_only"]
    by_recall = sorted(
        (place for place, arm in enumerate(arms) if not arm.baseline),
        key=lambda place: (-study.judgements[place].on_calibrate.count, place),
    )
    wanted = dict.fromkeys([study.reference, chosen, *blind, *by_recall])
    return list(wanted)[: len(LOOKS)]


def looks_of(study: Study, places: Sequence[int] | None = None) -> dict[str, Any]:
    """Return the encodings that tell arms apart, the same in every figure.

    Args:
        study: the study.
        places: the arms that are drawn; those of `shown_arms` by default.
    """
    import altair as alt

    wanted = [study.arms[place].name for place in (shown_arms(study) if places is None else places)]
    look = scales(dict(zip(wanted, arm_looks(study, wanted), strict=True)))
    legend = line_legend(columns=2)
    return {
        "color": alt.Color("arm:N", legend=legend).scale(**look["color"]),
        "strokeDash": alt.StrokeDash("arm:N", legend=legend).scale(**look["strokeDash"]),
    }


def plain(
    chart: Any, field: str, names: Sequence[str], looks: Sequence[Look], *, shape: bool = False
) -> list[Any]:
    """Return a layer for each name, in its colour and with its shape, that adds nothing to the legend.

    A legend that bands or points share with lines shows them, and not the dashes of the lines.

    Args:
        chart: the marks, with all encodings but colour and shape.
        field: the field of the names.
        names: what is drawn.
        looks: how each looks, in the same order.
        shape: whether its points have its shape.
    """
    import altair as alt

    layers = []
    for name, look in zip(names, looks, strict=True):
        one = chart.transform_filter(alt.FieldEqualPredicate(field=field, equal=name))
        given = {"color": alt.value(look.colour)} | ({"shape": alt.value(look.shape)} if shape else {})
        layers.append(one.encode(**given))
    return layers


def arm_looks(study: Study, names: Sequence[str]) -> list[Look]:
    """Return how arms look, by their names, the same in every figure."""
    looks = {study.arms[place].name: LOOKS[number] for number, place in enumerate(shown_arms(study))}
    return [looks[name] for name in names]


def line_legend(columns: int = 0) -> Any:
    """Return the legend of lines, which shows their dashes."""
    import altair as alt

    return alt.Legend(
        title=None, orient="bottom", labelLimit=300, columns=columns, symbolSize=400, symbolStrokeWidth=2
    )


def tips(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """Return what is shown on hover: every field of the rows."""
    import altair as alt

    first = rows[0] if rows else {}
    return [
        alt.Tooltip(f"{name}:Q", format=".1f") if isinstance(value, float) else alt.Tooltip(f"{name}:N")
        for name, value in first.items()
    ]


def figure(name: str, title: str, caption: str, chart: Any) -> Figure:
    """Return a figure of an Altair chart.

    Args:
        name: of its files.
        title: heading.
        caption: what it shows.
        chart: the chart.
    """
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = CONFIG
    return Figure(name, title, caption, spec)
