"""``turnwise detect``: all columns in a file, where thresholds come from, and sequences of one source."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.cli.conftest import line, write_lines

from turnwise.datasets import example_judgements

Cli = Callable[..., Any]

DETECTORS = ("--detector", "any_turn:threshold=0.4", "--detector", "cusum")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of an export."""
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    with duckdb.connect() as connection:
        cursor = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".json"])
def test_an_export_has_all_columns_of_all_verdicts(cli: Cli, evaluated: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"it's{ending}"
    told = cli("detect", "--store", evaluated, *DETECTORS, "--export", path, "--json")
    assert told.code == 0
    assert f"6 verdicts written to {path}" in told.err
    expected = told.json
    assert list(expected[0]) == [
        *("sequence_id", "label", "imported_label", "source", "turns", "missing", "run", "detector"),
        *("fired", "turn", "score", "threshold", "threshold_source", "reason"),
    ]
    if ending == ".csv":
        shown = {None: "", True: "true", False: "false"}
        expected = [
            {
                k: shown.get(v, str(v)) if not isinstance(v, (int, float)) or isinstance(v, bool) else str(v)
                for k, v in row.items()
            }
            for row in expected
        ]
    assert read(path) == expected


def test_what_is_not_scored_is_exported_without_a_verdict(cli: Cli, imported: Path) -> None:
    cli("evaluate", "--store", imported, "--observer", "scripted:0.5", "--sides", "response")
    assert cli("detect", "--store", imported, "--export", "out.parquet").code == 0
    row = read(Path("out.parquet"))[0]
    assert (row["fired"], row["score"], row["turns"], row["reason"][:11]) == (None, None, 3, "not checked")


def test_a_text_that_looks_like_a_formula_is_quoted_in_csv(cli: Cli, tmp_path: Path) -> None:
    chats = write_lines(tmp_path / "chats.jsonl", line("=1+1", "attack", "Hi"))
    cli("import", chats)
    cli("evaluate", "--observer", "scripted:0.5")
    cli("detect", "--export", "out.csv")
    assert read(Path("out.csv"))[0]["sequence_id"] == "'=1+1"


@pytest.mark.parametrize("name", ["out.xlsx", "out", "no/such/folder/out.csv", "\0.csv"])
def test_a_file_that_can_not_be_written_is_refused_before_any_work(cli: Cli, name: str) -> None:
    refused = cli("detect", "--store", "none.db", "--export", name)
    assert refused.code == 2
    assert "can't write" in refused.err


def test_the_table_shows_each_threshold_and_where_it_comes_from(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    shown = cli("detect", "--store", evaluated, *DETECTORS).out
    assert "threshold" in shown
    for words in ("0.400", "given", "default"):
        assert words in shown
    read_before = example_judgements("turn")
    cli("import", read_before.parents[1] / "examples.jsonl", "--store", "read.db")
    cli("evaluate", "--store", "read.db", "--context", "turn", "--observer", f"replay:{read_before}")
    assert "operating point" in cli("detect", "--store", "read.db").out
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
    checked = cli("check", chat, "--observer", "scripted:0.5", *DETECTORS).out
    assert "given" in checked and "default" in checked


def test_thresholds_of_different_origin_are_never_mixed_in_silence(cli: Cli, tmp_path: Path) -> None:
    read_before = example_judgements("turn")
    store = ("--store", tmp_path / "read.db")
    cli("import", read_before.parents[1] / "examples.jsonl", *store)
    cli("evaluate", *store, "--context", "turn", "--observer", f"replay:{read_before}")
    both = ("detect", *store, "--detector", "any_turn", "--detector", "slope:window=5", "--export", "out.csv")
    rows = {row["detector"]: row["threshold_source"] for row in cli(*both, "--json").json}
    assert rows == {"any_turn": "operating point", "slope:window=5": "default"}
    assert {row["detector"]: row["threshold_source"] for row in read(Path("out.csv"))} == rows
    told = cli(*both)
    verdicts = told.out.partition("Fired, with 95 % intervals")[0]
    assert verdicts.count(" operating") == verdicts.count(" default") == len(read(Path("out.csv"))) / 2
    assert "any_turn: at the observer's operating point" in told.err
    assert "slope:window=5: at the default, calibrated to nothing" in told.err
    for alone in ("any_turn", "slope:window=5"):
        assert "calibrated to nothing" not in cli("detect", *store, "--detector", alone).err


@pytest.fixture
def two_sources(cli: Cli, chats: Path, tmp_path: Path) -> None:
    """Make a store of the chats, of the source ``made``, and of one of another."""
    other = write_lines(tmp_path / "other.jsonl", {**line("other_01", "attack", "Hi"), "source": "other"})
    assert cli("import", chats, other).code == 0


@pytest.mark.usefixtures("two_sources")
def test_evaluate_and_detect_take_the_sequences_of_one_source(cli: Cli) -> None:
    observer = ("--observer", "scripted:0.5", "--run", "r")
    assert cli("evaluate", *observer, "--source", "other", "--json").json["sequences"] == 1
    assert cli("evaluate", *observer, "--json").json["sequences"] == 4
    of_other = cli("detect", "--source", "other", "--json").json
    assert {(row["sequence_id"], row["source"]) for row in of_other} == {("other_01", "other")}
    both = cli("detect", "--source", "made", "--sequence", "attack_01", "--sequence", "other_01", "--json").json
    assert {row["sequence_id"] for row in both} == {"attack_01"}
    attacks = cli("detect", "--source", "made", "--label", "attack", "--json").json
    assert {row["sequence_id"] for row in attacks} == {"attack_01"}


@pytest.mark.usefixtures("two_sources")
@pytest.mark.parametrize("command", [("evaluate", "--observer", "scripted:0.5"), ("detect", "--run", "r")])
def test_an_unknown_source_lists_those_that_exist(cli: Cli, command: tuple[str, ...]) -> None:
    cli("evaluate", "--observer", "scripted:0.5", "--run", "r")
    refused = cli(*command, "--source", "othre")
    assert refused.code == 2
    assert "unknown source 'othre'; did you mean 'other'? known: made, other" in refused.err
    apart = cli(*command, "--source", "other", "--sequence", "attack_01")
    assert apart.code == 2
    assert "no named sequence comes from source 'other'" in apart.err


@pytest.fixture
def corrected(cli: Cli, evaluated: Path) -> Path:
    """Return a store in which Ann and Ben say of the attack that it is none, and disagree on another."""
    for name, author, label in (
        ("attack_01", "ann", "benign"),
        ("attack_01", "ben", "benign"),
        ("benign_01", "ann", "attack"),
        ("benign_01", "ben", "benign"),
    ):
        assert cli("judgements", "label", name, label, "--author", author, "--store", evaluated).code == 0
    return evaluated


def rates(shown: str) -> str:
    """Return the table of rates by label, without what it takes to look well."""
    return " ".join(shown.partition("Fired, with 95 % intervals")[2].replace("\N{NO-BREAK SPACE}", " ").split())


def test_corrected_labels_are_counted_where_that_is_asked(
    cli: Cli, corrected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    only = ("detect", "--store", corrected, "--detector", "any_turn:threshold=0.4")
    plain = cli(*only)
    assert "1/1 = 100.0 %" in rates(plain.out)
    assert "people say of 2 of these conversations that their label is another one" in plain.err
    assert "--corrected-by ann --corrected-by ben counts it" in plain.err
    told = cli(*only, "--corrected-by", "ann", "--corrected-by", "ben")
    assert "1/1 = 100.0 %" not in told.out and "1/2 = 50.0 %" in rates(told.out)
    assert "benign, imported as attack" in " ".join(told.out.split())
    assert "disputed, imported as benign" in " ".join(told.out.split())
    assert (
        "the labels of 1 conversations are not those of their data sets but what ann, ben made of them; "
        "1 on which they disagree are in no rate" in told.err
    )
    by_ben = cli(*only, "--corrected-by", "ben", "--json")
    assert [(row["sequence_id"], row["label"], row["imported_label"]) for row in by_ben.json] == [
        ("attack_01", "benign", "attack"),
        ("benign_01", "benign", "benign"),
        ("benign_02", "benign", "benign"),
    ]
    both = cli(*only, "--corrected-by", "ann", "--corrected-by", "ben", "--export", "all.csv", "--json")
    assert [row["label"] for row in both.json] == ["benign", None, "benign"]
    assert [row["label"] for row in read(Path("all.csv"))] == ["benign", "", "benign"]
    attacks = cli(*only, "--corrected-by", "ann", "--label", "attack", "--json").json
    assert [row["sequence_id"] for row in attacks] == ["benign_01"]
    unknown = cli(*only, "--corrected-by", "bea")
    assert (unknown.code, "unknown author of corrections 'bea'; did you mean" in unknown.err) == (2, True)


def test_where_imported_labels_are_counted_corrections_are_told(cli: Cli, corrected: Path) -> None:
    told = cli("query", "F > 0.8", "--store", corrected, "--json").err
    assert "people say of 2 of these conversations that their label is another one" in told
    assert "--corrected-by ann --corrected-by ben counts it" in told
    only = cli("detect", "--store", corrected, "--sequence", "benign_02").err
    assert "people say" not in only


def test_where_nobody_corrected_anything_nothing_is_said_of_it(cli: Cli, evaluated: Path) -> None:
    for command in (("detect",), ("query", "F > 0.8")):
        assert "people say" not in cli(*command, "--store", evaluated).err


def test_only_what_fired_may_be_listed(cli: Cli, evaluated: Path) -> None:
    given = ("detect", "--store", evaluated, *DETECTORS)
    every, fired = cli(*given), cli(*given, "--fired", "--export", "fired.csv")
    assert "1/1 = 100.0 %" in rates(every.out)
    assert rates(fired.out) == rates(every.out)
    assert "benign_01" in every.out and "benign_01" not in fired.out
    listed = cli(*given, "--fired", "--json").json
    assert listed == [row for row in cli(*given, "--json").json if row["fired"]]
    assert {row["sequence_id"] for row in listed} == {"attack_01"}
    assert f"{len(listed)} verdicts written to fired.csv" in fired.err
    assert {row["sequence_id"] for row in read(Path("fired.csv"))} == {"attack_01"}
    quiet = cli("detect", "--store", evaluated, "--detector", "never", "--fired", "--fail-on-findings")
    assert quiet.code == 0
    assert quiet.out.startswith("no detector fired\n") and "0/1 = 0.0 %" in rates(quiet.out)
    assert cli("detect", "--store", evaluated, "--detector", "never", "--fired", "--json").json == []
