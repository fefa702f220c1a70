"""``turnwise export``, and ``turnwise import --from-store``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
def test_a_store_goes_out_and_comes_back(cli: Cli, evaluated: Path, name: str) -> None:
    done = cli("export", "--out", "out", "--format", name, "--store", evaluated)
    assert (done.code, done.out) == (0, f"exported 33 rows from {evaluated} to out\n"), done.err
    assert "sequences: 3\nturns: 8\nruns: 1\n" in done.err
    done = cli("import", "--from-store", "out", "--store", "again.db")
    said = "imported 3 sequences, 8 turns, 1 runs, 3 provenances, 18 evaluations from out into again.db\n"
    assert (done.code, done.out) == (0, said), done.err
    assert (
        cli("runs", "list", "--json", "--store", "again.db").json
        == cli("runs", "list", "--json", "--store", evaluated).json
    )
    for command in (["show", "attack_01"], ["detect", "--detector", "any_turn"]):
        there, here = (cli(*command, "--json", "--store", store) for store in (evaluated, "again.db"))
        assert (here.code, here.out) == (there.code, there.out)


def test_json_says_what_was_done(cli: Cli, evaluated: Path) -> None:
    done = cli("export", "--out", "out", "--format", "csv", "--json", "--store", evaluated)
    assert (done.json["folder"], done.json["format"], done.json["rows"]["turns.csv"]) == ("out", "csv", 8)
    assert len(done.json["not_carried"]) == 2
    assert "An empty cell is an empty text, or nothing at all." in done.err
    assert cli("--quiet", "export", "--out", "quiet", "--store", evaluated).err == ""
    merged = cli("import", "--from-store", evaluated, "--json", "--store", "again.db").json
    assert (merged["source"], merged["added"]["evaluations"]) == (str(evaluated), 18)


def test_what_is_there_already_is_counted(cli: Cli, evaluated: Path) -> None:
    done = cli("import", "--from-store", evaluated, "--store", evaluated)
    assert done.code == 0
    assert done.out == f"imported nothing new from {evaluated} into {evaluated}\n33 rows were there already\n"


def test_a_run_and_a_condition_choose(cli: Cli, evaluated: Path) -> None:
    chosen = ("--run", "first", "--where", "turns = 2")
    done = cli("export", "--out", "out", "--format", "jsonl", *chosen, "--store", evaluated)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in Path("out/sequences.jsonl").read_text().splitlines()]
    assert [row["sequence_id"] for row in rows] == ["benign_01"]


def test_the_run_of_a_project_does_not_narrow_an_export(cli: Cli, evaluated: Path) -> None:
    Path("turnwise.toml").write_text(f'store = "{evaluated}"\nrun = "elsewhere"\n')
    done = cli("export", "--out", "out", "--json")
    assert done.json["rows"]["evaluations.parquet"] == 18


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import",), "name a file of conversations, or an export or a store with --from-store"),
        (("import", "a.jsonl", "--from-store", "b"), "leave out FILE"),
        (("import", "--strict", "--label", "benign", "--from-store", "b"), "leave out --label, --strict"),
        (("export", "--out", "x", "--format", "tables"), "unknown format 'tables'; known: arangodb, csv, jsonl"),
        (("export", "--out", "no/such"), "there is no folder"),
        (("export", "--out", "x", "--run", "secnd"), "unknown run 'secnd'; known: first"),
        (("export", "--out", "x", "--where", "turns > 99"), "no sequence is left to export"),
        (("export", "--out", "x\0y"), "a file name can't have a NUL character"),
        (("export", "--out", "."), ". is there already: name a new folder, or an empty one"),
    ],
)
def test_wrong_use(cli: Cli, evaluated: Path, arguments: tuple[str, ...], said: str) -> None:
    Path("here").touch()
    done = cli(*arguments, "--store", evaluated)
    assert done.code == 2
    assert said in done.err


def test_a_clash_is_wrong_use_and_nothing_is_imported(cli: Cli, evaluated: Path) -> None:
    cli("export", "--out", "out", "--store", evaluated)
    with closing(sqlite3.connect(evaluated)) as connection, connection:
        connection.execute("UPDATE evaluations SET T = 1 - T WHERE id IN (1, 2)")
    done = cli("import", "--from-store", "out", "--store", evaluated)
    assert done.code == 2
    assert "2 things clash with what" in done.err
    assert "  run 'first', sequence 'attack_01', turn 1, prompt, " in done.err


def test_a_damaged_export_is_an_error(cli: Cli, evaluated: Path) -> None:
    cli("export", "--out", "out", "--format", "jsonl", "--store", evaluated)
    with Path("out/turns.jsonl").open("a") as file:
        file.write("{}\n")
    done = cli("import", "--from-store", "out", "--store", "again.db")
    assert (done.code, done.out) == (1, "")
    assert "turns.jsonl was changed or cut off after the export" in done.err


@pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
def test_that_labels_were_corrected_is_said(cli: Cli, evaluated: Path, name: str) -> None:
    exporting = ("export", "--format", name, "--store", evaluated)
    assert "corrections" not in cli(*exporting, "--out", "before").err.replace("corrections: 0", "")
    cli("judgements", "label", "attack_01", "benign", "--author", "ann", "--store", evaluated)
    told = cli(*exporting, "--out", "after").err
    assert "what people say of them stands beside them, in 1 rows of corrections" in told
