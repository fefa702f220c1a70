"""docs/prevalence.md shows the rates that ship for `local`."""

from __future__ import annotations

import csv
import json
from importlib import resources
from pathlib import Path

from turnwise.rates import Rate

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "prevalence.md").read_text(encoding="utf-8")
SHIPPED = json.loads((resources.files("turnwise.study.prevalence") / "detector_rates.json").read_text())
[LOCAL] = (one["detectors"] for one in SHIPPED["observers"].values() if one["observer"] == "local")


def test_the_table_is_what_ships() -> None:
    with (DOCS / "measured" / "shipped-rates.csv").open(encoding="utf-8", newline="") as file:
        beside = list(csv.reader(file))[1:]
    assert len(beside) == len(LOCAL)
    for name, row in LOCAL.items():
        shares = [100 * count / of for count, of in row["by_service"].values()]
        spread = f"{min(shares):.1f} % to {max(shares):.1f} %"
        assert [name, str(row["false_positives"][0]), spread, str(row["recall"][0])] in beside


def test_the_example_is_of_the_shipped_rates() -> None:
    assert f"recall taken for it            {Rate(*LOCAL['any_turn']['recall'])} ({SHIPPED['recall_on']})" in PAGE
    wrong = Rate(*LOCAL["any_turn"]["false_positives"])
    assert f"false positives taken for it   {wrong} ({SHIPPED['false_positives_on']})" in PAGE
