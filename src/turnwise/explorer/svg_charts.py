"""Where scores lie beside a threshold: SVG made of numbers alone."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from turnwise.explorer.markup import element

_WIDTH, _HEIGHT, _MIDDLE, _TALL = 860, 170, 80, 62
_LEFT, _RIGHT = 14, 14

_FAR = 0.85
"""Share of the width from which words stand to the left of the threshold."""


def score_chart(
    attacks: Sequence[int], benign: Sequence[int], low: float, high: float, threshold: float
) -> Markup:
    """How scores of attacks (upward) and benign conversations (downward) lie beside a threshold.

    `attacks` and `benign` are how many fall into each of equal parts of `low` to `high`.
    """
    most = {"attack": max(*attacks, 1), "benign": max(*benign, 1)}  # each side has a scale of its own
    inner = _WIDTH - _LEFT - _RIGHT
    each = inner / len(attacks)
    parts = [element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_MIDDLE, y2=_MIDDLE, class_="grid")]
    for place, counts in enumerate(zip(attacks, benign, strict=True)):
        for count, kind in zip(counts, ("attack", "benign"), strict=True):
            if count:
                tall = round(max(2.0, _TALL * count / most[kind]), 1)
                top = _MIDDLE - tall if kind == "attack" else _MIDDLE + 1
                parts.append(
                    element("rect", element("title", f"{count} {kind}"), x=round(_LEFT + place * each, 1), y=top,
                            width=round(each - 1, 1), height=tall, class_=f"bar-{kind}")
                )  # fmt: skip
    share = min(1.0, max(0.0, (threshold - low) / (high - low))) if high > low else 0.5
    at, far = round(_LEFT + share * inner, 1), share > _FAR
    bottom = _HEIGHT - 6
    parts += [
        element("line", x1=at, x2=at, y1=4, y2=_HEIGHT - 22, class_="limit"),
        element("text", f"flagged from {threshold:.4g} →", x=at - 6 if far else at + 6, y=13,
                class_="limit end" if far else "limit"),
        element("text", f"{low:.3g}", x=_LEFT, y=bottom, class_="axis"),
        element("text", f"{high:.3g}", x=_WIDTH - _RIGHT, y=bottom, class_="axis end"),
        element("text", "highest score of a conversation: attacks upward, benign downward", x=_WIDTH / 2, y=bottom,
                class_="axis middle"),
    ]  # fmt: skip
    said = (
        f"Scores from {low:.3g} to {high:.3g} of {sum(attacks)} attacks and {sum(benign)} benign conversations, "
        f"threshold {threshold:.4g}"
    )
    return element(
        "svg", element("title", said), parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=said,
        class_="drawn", data_chart=True,
    )  # fmt: skip
