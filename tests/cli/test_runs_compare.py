"""``turnwise runs compare`` and ``runs trends``: tables, JSON and files."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def two(cli: Cli, evaluated: Path) -> Path:
    """A store whose second run flags a conversation that the first doesn't, and does not flag another."""
    assert cli("evaluate", "--store", evaluated, "--run", "second", "--observer", "scripted:0.1,0.7,0.1").code == 0
    return evaluated


def test_flips_are_listed_with_turn_and_scores(cli: Cli, two: Path) -> None:
    told = cli("runs", "compare", "first", "second", "--store", two)
    assert told.code == 0
    assert "2 of 3 conversations that both judged are flagged by one alone" in told.out
    assert "benign_01" in told.out and "+0.600" in told.out
    assert "By source" in told.out and "McNemar" in told.out


def test_json_and_files_have_all_columns(cli: Cli, two: Path, tmp_path: Path) -> None:
    path = tmp_path / "flips.csv"
    told = cli("runs", "compare", "first", "second", "--store", two, "--by", "label", "--json", "--export", path)
    found = told.json
    assert [(one["sequence_id"], one["flagged_by"], one["turn"]) for one in found["flips"]] == [
        ("benign_01", "b", 2), ("benign_02", "b", 2)
    ]  # fmt: skip
    assert found["a"]["run"] == "first" and found["judged_by_both"] == 3
    assert {one["label"]: (one["flagged_a"], one["flagged_b"]) for one in found["rates"]} == {
        "attack": (1, 1), "benign": (0, 2)
    }  # fmt: skip
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sequence_id"] for row in rows] == ["benign_01", "benign_02"]
    assert list(rows[0]) == list(found["flips"][0])
    assert "2 flips written" in told.err


def test_labels_that_people_corrected_count_where_asked(cli: Cli, two: Path) -> None:
    assert cli("judgements", "label", "benign_01", "attack", "--author", "ann", "--store", two).code == 0
    told = cli("runs", "compare", "first", "second", "--store", two, "--by", "label", "--json")
    assert "--corrected-by ann counts it" in told.err
    assert [(one["label"], one["conversations"]) for one in told.json["rates"]] == [("benign", 2), ("attack", 1)]
    counted = cli("runs", "compare", "first", "second", "--store", two, "--corrected-by", "ann", "--json")
    assert {one["label"]: one["conversations"] for one in counted.json["rates"]} == {"attack": 2, "benign": 1}


def test_two_detectors_of_one_run(cli: Cli, two: Path) -> None:
    both = ("--detector", "any_turn", "--detector", "any_turn:threshold=0.95")
    told = cli("runs", "compare", "first", "first", "--store", two, *both, "--json")
    assert [one["sequence_id"] for one in told.json["flips"]] == ["attack_01"]
    assert told.json["b"]["threshold"] == 0.95


def test_wrong_use_says_what_to_do(cli: Cli, two: Path) -> None:
    alone = cli("runs", "compare", "first", "first", "--store", two)
    assert alone.code == 2 and "name two detectors" in alone.err
    three = cli("runs", "compare", "first", "second", "--store", two, *("--detector", "cusum") * 3)
    assert three.code == 2 and "at most two detectors" in three.err
    unknown = cli("runs", "compare", "first", "nothing", "--store", two)
    assert unknown.code == 2 and "unknown run 'nothing'" in unknown.err


def test_trends_say_what_has_no_time(cli: Cli, two: Path, tmp_path: Path) -> None:
    told = cli("runs", "trends", "--run", "first", "--store", two)
    assert told.code == 0
    assert "3 conversations have no known time" in told.err and "--time imported" in told.err
    path = tmp_path / "weeks.json"
    weeks = cli("runs", "trends", "--run", "first", "--store", two, "--time", "imported", "--export", path)
    assert "1/3 = 33.3 %" in weeks.out and "reference" in weeks.out
    found = cli("runs", "trends", "--run", "first", "--store", two, "--time", "imported", "--json").json
    assert found["unknown"] == 0 and [one["conversations"] for one in found["weeks"]] == [3, 3]
