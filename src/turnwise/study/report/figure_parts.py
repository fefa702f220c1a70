"""What the figures of a report share: which arms they show, how these look, and the points of curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.errors import UsageError
from turnwise.plots.style import CONFIG, Look, scales
from turnwise.rates import clopper_pearson
from turnwise.study.compare import Judgement, Study
from turnwise.study.examples import Example
from turnwise.study.stats.judged import Judged, evaluated
from turnwise.study.stats.thresholds import threshold_for

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
    """A figure; its files bear its name, and `spec` is Vega-Lite as JSON values."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]


def shown_arms(study: Study) -> list[int]:
    """The places of the arms that curves show: the reference, the chosen one, what is most like either.

    A chart with twenty lines shows none; tables have all arms.
    """
    arms = study.arms
    chosen = study.followed
    own = [f"{name}@{arms[chosen].run}" for name in ("any_turn", "first_turn")]
    blind = [place for place, arm in enumerate(arms) if arm.name in own or arm.detector == "length_only"]
    by_recall = sorted(
        (place for place, arm in enumerate(arms) if not arm.baseline),
        key=lambda place: (-study.judgements[place].calibration.attacks.count, place),
    )
    wanted = dict.fromkeys([study.reference, chosen, *blind, *by_recall])
    return list(wanted)[: len(LOOKS)]


def looks_of(study: Study, places: Sequence[int] | None = None) -> dict[str, Any]:
    """The encodings that tell arms apart, the same in every figure."""
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
    """A layer for each name, in its colour and with its shape, that adds nothing to the legend.

    A legend that bands or points share with lines shows them, and not the dashes of the lines. `chart` has the
    marks with all encodings but colour and shape.
    """
    import altair as alt

    layers = []
    for name, look in zip(names, looks, strict=True):
        one = chart.transform_filter(alt.FieldEqualPredicate(field=field, equal=name))
        given = {"color": alt.value(look.colour)} | ({"shape": alt.value(look.shape)} if shape else {})
        layers.append(one.encode(**given))
    return layers


def arm_looks(study: Study, names: Sequence[str]) -> list[Look]:
    """How arms look, by their names, the same in every figure."""
    looks = {study.arms[place].name: LOOKS[number] for number, place in enumerate(shown_arms(study))}
    return [looks[name] for name in names]


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


def figure(name: str, title: str, caption: str, chart: Any) -> Figure:
    """A figure of an Altair chart."""
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = CONFIG
    return Figure(name, title, caption, spec)


NOMINAL = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2)
"""False-positive rates at which the calibration curve is drawn."""

FEWEST_AT_A_TURN = 10
"""Conversations that a mean at a turn needs."""

_Z = 1.959963984540054


def roc_points(judged: Sequence[Judged]) -> list[tuple[float, float]]:
    """The corners of the ROC curve as (false-positive rate, recall), from (0, 0) to (1, 1).

    >>> roc_points([Judged("a", "a", True, 1, 0.9), Judged("b", "b", False, 1, 0.1)])
    [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    """
    scores = sorted(((one.score, one.attack) for one in evaluated(judged) if one.score is not None), reverse=True)
    attacks = sum(attack for _, attack in scores)
    benign = len(scores) - attacks
    if not attacks or not benign:
        return []
    points = [(0.0, 0.0)]
    caught = flagged = 0
    for place, (score, attack) in enumerate(scores):
        caught += attack
        flagged += not attack
        if place + 1 == len(scores) or scores[place + 1][0] != score:
            points.append((flagged / benign, caught / attacks))
    return _corners(points)


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out points in the middle of a straight run."""
    kept = list(points[:1])
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        level = before[1] == point[1] == after[1]
        steep = before[0] == point[0] == after[0]
        if not (level or steep):
            kept.append(point)
    return [*kept, *points[1:][-1:]]


def calibration_points(judgement: Judgement) -> list[dict[str, float]]:
    """Asked and realised false-positive rates, of thresholds from the one calibrate part; none with folds."""
    if len(judgement.folds) != 1 or not judgement.folds[0].benign:
        return []
    benign = [one.score for one in evaluated(judgement.judged, attack=False) if one.score is not None]
    points = []
    for asked in NOMINAL:
        try:
            limit = threshold_for(judgement.folds[0].benign, asked)
        except UsageError:  # too few calibration conversations for this rate
            continue
        flagged = sum(score >= limit for score in benign)
        low, high = clopper_pearson(flagged, len(benign))
        points.append({"asked": asked, "realised": flagged / max(1, len(benign)), "low": low, "high": high})
    return points


def mean_scores(examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Mean T, I and F turn by turn, by label and principle, with 95 % intervals of the mean."""
    values: dict[tuple[str, str, str, int], list[float]] = {}
    for example in examples:
        label = "attack" if example.attack else "benign"
        for turn in example.turns:
            for principle, score in turn.scores.items():
                for component in "TIF":
                    key = (label, principle, component, turn.turn)
                    values.setdefault(key, []).append(getattr(score, component))
    rows = []
    for (label, principle, component, number), found in sorted(values.items()):
        if len(found) < FEWEST_AT_A_TURN:
            continue
        mean = math.fsum(found) / len(found)
        error = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1) / len(found))
        rows.append(
            {
                "label": label,
                "principle": principle,
                "component": component,
                "turn": number,
                "mean": round(mean, 6),
                "low": round(max(0.0, mean - _Z * error), 6),
                "high": round(min(1.0, mean + _Z * error), 6),
                "conversations": len(found),
            }
        )
    return rows
