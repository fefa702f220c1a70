"""docs/prevalence.md shows the rates that ship for `local`."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from turnwise.rates import Rate

PAGE = (Path(__file__).parents[3] / "docs" / "prevalence.md").read_text(encoding="utf-8")
SHIPPED = json.loads((resources.files("turnwise.study.prevalence") / "detector_rates.json").read_text())
[LOCAL] = (one["detectors"] for one in SHIPPED["observers"].values() if one["observer"] == "local")


def test_the_table_is_what_ships() -> None:
    for name, row in LOCAL.items():
        shares = [100 * count / of for count, of in row["by_service"].values()]
        cells = f"{row['false_positives'][0]} | {min(shares):.1f} % to {max(shares):.1f} % | {row['recall'][0]}"
        assert f"| `{name}` | {cells} |" in PAGE


def test_the_example_is_of_the_shipped_rates() -> None:
    assert f"recall taken for it            {Rate(*LOCAL['any_turn']['recall'])} ({SHIPPED['recall_on']})" in PAGE
    wrong = Rate(*LOCAL["any_turn"]["false_positives"])
    assert f"false positives taken for it   {wrong} ({SHIPPED['false_positives_on']})" in PAGE
