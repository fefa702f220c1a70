"""Runs listed, renamed, deleted, compared and followed by week."""

from __future__ import annotations

import csv
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.store import Run, Store

Cli = Callable[..., Any]
MAIN = "from turnwise.cli import main; main()"
CONTENT = "run 'first': 18 scores and 0 failures of 3 sequences, 0 calls"


def _names(path: Path) -> list[str]:
    with Store(path) as store:
        return [run.name for run in store.runs()]


def test_a_run_is_deleted_and_it_is_said_what_went(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "delete", "first", "--yes", "--store", evaluated)
    assert (done.code, done.out) == (0, f"deleted {CONTENT}\n"), done.err
    with Store(evaluated) as store:
        counts = {"sequences": 3, "turns": 8, "runs": 0, "evaluations": 0, "failures": 0, "unread": 0}
        assert store.counts() == counts


def test_json_says_what_went(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "delete", "first", "-y", "--json", "--store", evaluated)
    assert done.json["deleted"]["evaluations"] == 18


def test_without_a_terminal_nothing_goes_unless_that_is_said(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "delete", "first", "--store", evaluated)
    assert done.code == 2
    assert f"Delete {CONTENT}? No terminal to ask on: add --yes" in done.err
    done = cli("runs", "rename", "first", "x", "--store", evaluated)
    assert done.code == 2
    assert "Rename run 'first' to 'x'? No terminal to ask on: add --yes" in done.err
    assert _names(evaluated) == ["first"]


@pytest.mark.parametrize(("answer", "left", "code"), [("y\n", [], 0), ("n\n", ["first"], 1)])
def test_in_a_terminal_it_asks(evaluated: Path, answer: str, left: list[str], code: int) -> None:
    parent, child = pty.openpty()
    os.write(parent, answer.encode())
    command = [sys.executable, "-c", MAIN, "runs", "delete", "first", "--store", str(evaluated)]
    done = subprocess.run(command, stdin=child, capture_output=True, text=True, check=False)
    os.close(parent)
    os.close(child)
    assert f"Delete {CONTENT}?" in done.stderr
    assert (done.returncode, _names(evaluated)) == (code, left)


def test_a_run_is_renamed(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "rename", "first", "pilot", "--yes", "--store", evaluated)
    assert (done.code, done.out) == (0, "run 'first' is now 'pilot'\n"), done.err
    assert _names(evaluated) == ["pilot"]
    assert cli("show", "attack_01", "--store", evaluated, "--run", "pilot").code == 0


@pytest.mark.parametrize("command", [("delete", "x"), ("rename", "x", "y")])
def test_an_unknown_run_is_wrong_use(cli: Cli, evaluated: Path, command: tuple[str, ...]) -> None:
    done = cli("runs", *command, "--yes", "--store", evaluated)
    assert done.code == 2
    assert "unknown run 'x'" in done.err


def test_an_option_before_the_command_is_refused_rather_than_lost(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "--store", evaluated, "delete", "first", "--yes")
    assert done.code == 2
    assert "No such option: --store" in done.err
    assert _names(evaluated) == ["first"]


def test_a_run_that_is_written_elsewhere_is_refused(cli: Cli, evaluated: Path) -> None:
    with Store(evaluated) as store:
        run: Run = store.run("first")
        store.start_run(run)
        done = cli("runs", "delete", "first", "--yes", "--store", evaluated)
    assert done.code == 1
    assert "run 'first' is being written by another process" in done.err


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
