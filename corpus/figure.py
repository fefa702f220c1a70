"""Draw the figure of the data card: annotated F around the turn at which compliance would do harm.

python -m pip install altair vl-convert-python
python corpus/figure.py
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import altair as alt
from check import peak_f

from turnwise.datasets import Pair, load_twins

CORPUS = Path(__file__).parent
REACH = 5
"""Turns that are shown before and after."""
LEAST = 20
"""Conversations that a point needs."""


def main() -> None:
    """Write f-over-turns.svg."""
    pairs = [
        pair
        for pair in load_twins(CORPUS / "twins")
        if pair.attack.sequence.metadata["tactic"] != "sudden_turn_late"
    ]
    table = alt.Data(values=list(points(pairs)))
    x = alt.X("turn:Q", title="user turn, 0 = first turn whose compliance would do harm (in the attack)")
    y = alt.Y("mean:Q", title="highest annotated F over principles", scale=alt.Scale(domain=[0, 1]))
    halves = alt.Color(
        "half:N", title=None, scale=alt.Scale(domain=["attack", "benign twin"], range=["#b2182b", "#2166ac"])
    )
    base = alt.Chart(table).encode(x=x, color=halves)
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    line = base.mark_line(point=True).encode(y=y, strokeDash=alt.StrokeDash("half:N", legend=None))
    chart = (band + line).properties(
        width=460, height=260, title=f"{len(pairs)} pairs of gradual tactics, mean and 95 %"
    )
    chart.save(CORPUS / "f-over-turns.svg")


def points(pairs: Iterable[Pair]) -> Iterable[dict[str, float | str]]:
    """Yield mean and interval of F by turns from harm_at."""
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for pair in pairs:
        harm = pair.attack.harm_at or 0
        for name, half in (("attack", pair.attack), ("benign twin", pair.benign)):
            for turn, f in enumerate(peak_f(half), start=1):
                values[name, turn - harm].append(f)
    for (name, turn), some in sorted(values.items()):
        if abs(turn) <= REACH and len(some) >= LEAST:
            mean = statistics.mean(some)
            margin = 1.96 * statistics.stdev(some) / len(some) ** 0.5
            yield {
                "half": name,
                "turn": turn,
                "mean": mean,
                "low": max(mean - margin, 0),
                "high": min(mean + margin, 1),
            }


if __name__ == "__main__":
    main()
