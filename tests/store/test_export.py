"""A store written to files and made of them again, and merged into another: nothing lost, nothing half done."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from postgresql_server import PostgresqlServer
from random_stores import Content, contents, fill, rows_of
from tests.store.conftest import NOW

from turnwise.conversation import Label
from turnwise.errors import (
    PatternError,
    StoreCorruptError,
    StoreError,
    StoreVersionError,
    UnknownNameError,
    UsageError,
)
from turnwise.scoring import Call, Score
from turnwise.store import Store

LOSSLESS = ("jsonl", "parquet")
TABLES = (
    "sequences", "turns", "runs", "provenances", "replies", "evaluations", "failures", "calls", "corrections",
    "human_scores", "reviews", "audit_events",
)  # fmt: skip
Make = Callable[..., Any]


@pytest.fixture
def location(path: Path) -> str:
    """Return where the store is: a file, whose rows are compared; one test below has PostgreSQL."""
    return str(path)


@pytest.fixture
def filled(
    store: Store,
    make_sequence: Make,
    make_run: Make,
    make_evaluation: Make,
    make_failure: Make,
    make_reply: Make,
) -> Store:
    """Return a store of two sequences and two runs, the first of which asked a language model."""
    store.add_sequences([make_sequence("a", tactic="slow"), make_sequence("b", label=Label.BENIGN)])
    store.start_run(make_run())
    store.start_run(make_run("second"))
    store.journal.record(make_reply("unused"))
    calls = (Call(1, make_reply("k1"), Score(0.5, 0.25, 0.125)), Call(2, None, None, reason="timeout", attempts=3))
    store.append([make_evaluation("a", calls=calls, raw_reply=make_reply("k1").text), make_failure("a", 2)])
    store.append([make_evaluation("b", reasoning="calm", raw_reply="T=0.5"), make_evaluation("b", run="second")])
    event = {"time": NOW.isoformat(), "kind": "check", "conversation_id": "c", "blocked": True, "reasons": ["x"]}
    store.audit.append([event])
    store.people.correct_label("b", "attack", "ann", "read again")
    store.people.mark_turn("a", 2, "ben")
    store.people.review(["a", "b"], "confirmed", author="ann", assignee="ben", note="seen")
    store.people.judge("a", 1, {"p": Score(0.5, 0.25, 0.125)}, "ann", versions={"p": "1"})
    return store


@pytest.fixture
def exported(filled: Store, tmp_path: Path) -> Path:
    """Return an export of that store as JSON lines."""
    folder = tmp_path / "exported"
    filled.export(folder, format="jsonl")
    return folder


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """Return another store, empty."""
    with Store(tmp_path / "other.db", create=True, clock=lambda: NOW) as opened:
        yield opened


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    text = (folder / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def table(file: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.read_bytes().decode(), newline="")))


def rewrite(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change a file of an export as somebody would who mends the manifest too."""
    rows = lines(folder, name)
    change(rows)
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = hashlib.sha256((folder / f"{name}.jsonl").read_bytes()).hexdigest()
    manifest["files"][f"{name}.jsonl"] = {"rows": len(rows), "sha256": digest}
    (folder / "manifest.json").write_text(json.dumps(manifest))


# The same store again


@settings(max_examples=8)
@given(contents())
def test_an_export_makes_an_equal_store(content: Content) -> None:
    with TemporaryDirectory() as folder:
        first = Path(folder, "first.db")
        fill(first, content)
        for name in LOSSLESS:
            again = Path(folder, f"{name}.db")
            with Store(first) as store:
                store.export(Path(folder, name), format=name)
            with Store(again, create=True) as store:
                store.import_from(Path(folder, name))
            assert rows_of(again) == rows_of(first)


@settings(max_examples=8)
@given(contents(), contents())
def test_what_is_imported_twice_is_there_once(mine: Content, others: Content) -> None:
    with TemporaryDirectory() as folder:
        here, there = Path(folder, "here.db"), Path(folder, "there.db")
        fill(here, mine)
        fill(there, others)
        with Store(here) as store:
            try:
                store.import_from(there)
            except UsageError as error:  # the two happened to use a name for different things
                assert "clash" in str(error)
                return
            once = rows_of(here)
            again = store.import_from(there)
        assert not any(again.added.values())
        assert rows_of(here) == once


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_new_store_is_used_like_the_old_one(filled: Store, other: Store, tmp_path: Path, name: str) -> None:
    filled.export(tmp_path / "out", format=name)
    merged = other.import_from(tmp_path / "out")
    assert merged.added == dict(zip(TABLES, (2, 4, 2, 2, 3, 3, 1, 2, 2, 1, 2, 1), strict=True))
    assert not any(merged.already.values())
    assert other.tallies() == filled.tallies()
    assert other.sequence("a").conversation.to_dict() == filled.sequence("a").conversation.to_dict()
    assert (
        other.trajectory("first", "a", replies=True).evaluations
        == filled.trajectory("first", "a", replies=True).evaluations
    )
    assert other.journal.find("unused", 1) == filled.journal.find("unused", 1)
    assert list(other.audit.events()) == list(filled.audit.events())
    assert other.people.corrections() == filled.people.corrections()
    assert other.people.scores() == filled.people.scores()
    assert other.people.reviews() == filled.people.reviews() != ()
    other.start_run(filled.run("first"))  # what is added later gets keys of its own
    assert list(other.query("F > 0.1", "first")) == list(filled.query("F > 0.1", "first"))


def test_a_store_is_imported_without_an_export(path: Path, filled: Store, other: Store) -> None:
    for location in (path, f"sqlite:///{path}"):
        other.import_from(location)
        assert rows_of(path.with_name("other.db")) == rows_of(path)


@pytest.mark.integration
@pytest.mark.parametrize("name", [*LOSSLESS, "postgresql"])
def test_a_store_goes_through_postgresql_unchanged(
    postgresql: PostgresqlServer, tmp_path: Path, filled: Store, path: Path, make_sequence: Make, name: str
) -> None:
    filled.delete_run("second")  # so that keys have gaps
    filled.export(tmp_path / "out")
    url = postgresql.new_schema()
    with Store(url, create=True, clock=lambda: NOW) as server:
        server.import_from(tmp_path / "out")
        back = url
        if name in LOSSLESS:
            back = str(tmp_path / "back")
            server.export(back, format=name)
        with Store(tmp_path / "again.db", create=True) as again:
            again.import_from(back)
        assert rows_of(tmp_path / "again.db") == rows_of(path)
        assert not any(server.import_from(path).added.values())
        assert [one.new for one in server.add_sequences([make_sequence("later")])] == [
            True
        ]  # under a key of its own
        assert [head.sequence_id for head in server.heads()] == ["a", "b", "later"]
        with Store(tmp_path / "other.db", create=True) as other:
            other.add_sequences([make_sequence("later", ("else", None))])
        with pytest.raises(UsageError, match="1 thing clashes"):
            server.import_from(tmp_path / "other.db")


def test_the_files_show_one_moment_while_others_write(
    filled: Store, other: Store, path: Path, tmp_path: Path, make_sequence: Make
) -> None:
    before = rows_of(path)

    def write(table: str, rows: int) -> None:
        filled.add_sequences([make_sequence(f"during {table}")])

    filled.export(tmp_path / "out", progress=write)
    other.import_from(tmp_path / "out")
    assert rows_of(tmp_path / "other.db") == before


# A part of a store


def test_a_run_takes_along_what_it_rests_on(filled: Store, other: Store, tmp_path: Path) -> None:
    done = filled.export(tmp_path / "out", runs=["second"])
    assert done.not_carried == (
        "What belongs to no run that was wanted is left out, the audit of guards among it.",
    )
    merged = other.import_from(tmp_path / "out")
    assert merged.added == dict(zip(TABLES, (1, 2, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0), strict=True))
    assert [run.name for run in other.runs()] == ["second"]
    assert other.trajectory("second", "b").evaluations == filled.trajectory("second", "b").evaluations


def test_a_condition_takes_its_sequences_alone(filled: Store, other: Store, tmp_path: Path) -> None:
    filled.export(tmp_path / "out", where='metadata.tactic = "slow"')
    other.import_from(tmp_path / "out")
    assert [head.sequence_id for head in other.heads()] == ["a"]
    assert [run.name for run in other.runs()] == ["first", "second"]
    assert (
        other.trajectory("first", "a", replies=True).evaluations
        == filled.trajectory("first", "a", replies=True).evaluations
    )
    assert other.failures("first", replies=True) == filled.failures("first", replies=True)
    assert other.journal.find("k1", 1) is not None
    assert other.journal.find("unused", 1) is None


@pytest.mark.parametrize(
    ("chosen", "error", "said"),
    [
        ({"runs": ["thrid"]}, UnknownNameError, "unknown run 'thrid'; known: first, second"),
        ({"where": "turns > 9"}, UsageError, "no sequence is left to export: --where 'turns > 9' holds for none"),
        ({"where": "turns >"}, PatternError, "column 8: expected a number"),
        ({"where": "cost > 1"}, UsageError, "name the one run that is meant with --run"),
        ({"format": "xlsx"}, UnknownNameError, "unknown format 'xlsx'; known: arangodb, csv, jsonl, parquet"),
    ],
)
def test_what_is_not_there_can_not_be_exported(
    filled: Store, tmp_path: Path, chosen: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        filled.export(tmp_path / "out", **chosen)
    assert said in str(caught.value)
    assert sorted(found.name for found in tmp_path.iterdir() if found.is_dir()) == []


def test_a_run_that_was_deleted_or_renamed_is_not_known_by_its_name(filled: Store, tmp_path: Path) -> None:
    filled.delete_run("second")
    filled.rename_run("first", "pilot")
    for name in ("second", "first"):
        with pytest.raises(UnknownNameError, match=f"unknown run '{name}'; known: pilot"):
            filled.export(tmp_path / "out", runs=[name])


# Merging


def test_two_stores_become_one(
    filled: Store, other: Store, path: Path, make_sequence: Make, make_run: Make
) -> None:
    other.add_sequences([make_sequence("x"), make_sequence("b", label=Label.BENIGN)])
    other.start_run(make_run("theirs"))
    merged = other.import_from(path)
    assert (merged.added["sequences"], merged.already["sequences"]) == (1, 1)
    assert [head.sequence_id for head in other.heads()] == ["x", "b", "a"]
    assert [run.name for run in other.runs()] == ["theirs", "first", "second"]
    for name in "ab":
        assert (
            other.trajectory("first", name, replies=True).evaluations
            == filled.trajectory("first", name, replies=True).evaluations
        )


def test_a_run_that_was_divided_grows_together(
    other: Store, store: Store, path: Path, make_sequence: Make, make_run: Make, make_evaluation: Make
) -> None:
    for place, name in ((store, "a"), (other, "b")):
        place.add_sequences([make_sequence("a"), make_sequence("b")])
        place.start_run(make_run())
        place.append([make_evaluation(name)])
    merged = other.import_from(path)
    assert (merged.added["runs"], merged.added["evaluations"]) == (0, 1)
    assert [len(trajectory.evaluations) for _, trajectory in other.trajectories("first")] == [1, 1]


def test_sequences_that_differ_clash_and_are_named(
    filled: Store, other: Store, path: Path, tmp_path: Path, make_sequence: Make, make_run: Make
) -> None:
    other.add_sequences([make_sequence("a", ("something else", None)), make_sequence("z")])
    other.start_run(make_run("second", context="turn", parameters={}))
    before = rows_of(tmp_path / "other.db")
    with pytest.raises(UsageError) as caught:
        other.import_from(path)
    assert str(caught.value).split("\n") == [
        f"{path} can't be imported: 2 things clash with what {tmp_path / 'other.db'} holds. Nothing was imported; "
        "give the run another name with turnwise runs rename, or import into another store",
        "  run 'second' has other context and parameters",
        "  sequence 'a' has other content",
    ]
    assert rows_of(tmp_path / "other.db") == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"score": Score(0.1, 0.1, 0.1)}, "run 'first', sequence 'b', turn 1, prompt, p: another score"),
        ({"reasoning": "new"}, "run 'first', sequence 'b', turn 1, prompt, p: the same score, made anew"),
        ({"version": "9"}, "run 'first', principle 'p': version 1, not 9"),
    ],
)
def test_scores_that_differ_clash(
    filled: Store,
    other: Store,
    path: Path,
    tmp_path: Path,
    make_sequence: Make,
    make_run: Make,
    make_evaluation: Make,
    changes: dict[str, Any],
    said: str,
) -> None:
    other.add_sequences([make_sequence("b", label=Label.BENIGN)])
    other.start_run(make_run())
    other.append([make_evaluation("b", **{"reasoning": "calm", "raw_reply": "T=0.5", **changes})])
    before = rows_of(tmp_path / "other.db")
    with pytest.raises(UsageError) as caught:
        other.import_from(path)
    assert said in str(caught.value)
    assert rows_of(tmp_path / "other.db") == before


def test_many_clashes_are_counted_and_a_dozen_named(
    store: Store, other: Store, path: Path, make_sequence: Make
) -> None:
    store.add_sequences([make_sequence(str(number)) for number in range(40)])
    other.add_sequences([make_sequence(str(number), ("else", None)) for number in range(40)])
    with pytest.raises(UsageError) as caught:
        other.import_from(path)
    first, *listed = str(caught.value).split("\n")
    assert "40 things clash" in first
    assert (len(listed), listed[-1]) == (13, "  and 28 more")


# Damage


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "UPDATE turns SET prompt = CAST(x'61c562' AS TEXT) WHERE sequence = 1",
            "turns.prompt where sequence",
        ),
        ("UPDATE runs SET created_at = 'then' WHERE id = 2", "runs.created_at where name is 'second'"),
        (
            "UPDATE sequences SET label = 'odd' WHERE id = 2",
            "sequences.label where sequence_id is 'b' and id is 2: ",
        ),
        ("DELETE FROM turns WHERE turn = 2", "sequence 'a' can't be read (only 1 of its 2 turns are there)"),
        ("DELETE FROM provenances", "a row of evaluations is about row 1 of provenances, which is not there"),
        ("DELETE FROM runs WHERE id = 1", "a row of provenances is about row 1 of runs, which is not there"),
    ],
)
def test_a_damaged_row_is_named_and_no_folder_is_left(
    filled: Store, raw: Make, path: Path, tmp_path: Path, change: str, said: str
) -> None:
    raw(change)
    for name in ("jsonl", "csv"):
        with pytest.raises(StoreCorruptError) as caught:
            filled.export(tmp_path / "out", format=name)
        assert f"{path} is damaged: {said}" in str(caught.value)
    assert [found.name for found in tmp_path.iterdir() if found.is_dir()] == []


def test_the_rest_of_a_damaged_store_can_be_exported(
    filled: Store, other: Store, raw: Make, tmp_path: Path
) -> None:
    raw("UPDATE sequences SET label = 'odd' WHERE id = 2")
    filled.export(tmp_path / "out", where="id = a")
    other.import_from(tmp_path / "out")
    assert [head.sequence_id for head in other.heads()] == ["a"]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("evaluations", lambda rows: rows[1].update(T="x"), "evaluations.jsonl, row 2: T is 'x', not a number"),
        ("evaluations", lambda rows: rows[1].update(T=1.5), "row 2: T is 1.5, not a number in [0, 1]"),
        ("evaluations", lambda rows: rows[0].update(run=7), "row 1 of evaluations is about row 7 of runs"),
        ("evaluations", lambda rows: rows[0].pop("side"), "evaluations.jsonl, row 1: side is missing"),
        ("evaluations", lambda rows: rows[0].update(side=None), "evaluations.jsonl, row 1: side is missing"),
        ("evaluations", lambda rows: rows[0].update(mood=1), "a table evaluations has no column 'mood'"),
        ("evaluations", lambda rows: rows.append({**rows[0], "id": 9}), "its rows don't fit together"),
        ("evaluations", lambda rows: rows.reverse(), "rows are not in the order of their keys"),
        ("sequences", lambda rows: rows[0].update(label="odd"), "row 1: label is 'odd', not one of attack"),
        ("sequences", lambda rows: rows.pop(), "turns of a missing sequence 2"),
        ("turns", lambda rows: rows.pop(), "sequence 'b' can't be read (only 1 of its 2 turns are there)"),
        ("runs", lambda rows: rows[0].update(created_at="2025-01-31"), "not a time with a zone, such as"),
        ("runs", lambda rows: rows[0].update(id=True), "runs.jsonl, row 1: id is True, not a whole number"),
        ("calls", lambda rows: rows[0].update(cached=0), "calls.jsonl, row 1: cached is 0, not true or false"),
        ("replies", lambda rows: rows[0].update(text="\ud83d"), "replies.jsonl, row 1: text is '\\ud83d', not"),
    ],
)  # fmt: skip
def test_a_damaged_row_of_an_export_is_named_and_nothing_imported(
    exported: Path, other: Store, name: str, change: Callable[[Any], None], said: str
) -> None:
    rewrite(exported, name, change)
    with pytest.raises(StoreCorruptError) as caught:
        other.import_from(exported)
    assert said in str(caught.value)
    assert not any(other.counts().values())


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_file_that_was_changed_or_cut_off_is_named(
    filled: Store, other: Store, tmp_path: Path, name: str
) -> None:
    filled.export(tmp_path / "out", format=name)
    file = tmp_path / "out" / f"turns.{name}"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(StoreCorruptError, match="was changed or cut off after the export"):
        other.import_from(tmp_path / "out")
    file.unlink()
    with pytest.raises(StoreCorruptError, match=f"out is damaged: turns.{name} is missing"):
        other.import_from(tmp_path / "out")


def test_a_manifest_is_read_with_care(exported: Path, other: Store, tmp_path: Path) -> None:
    manifest = exported / "manifest.json"
    whole = json.loads(manifest.read_text())

    def said(error: type[StoreError], **changes: Any) -> str:
        manifest.write_text(json.dumps({**whole, **changes}))
        with pytest.raises(error) as caught:
            other.import_from(exported)
        return str(caught.value)

    assert "has schema version 99, this turnwise knows" in said(StoreVersionError, schema_version=99)
    assert "unknown format 'odd'" in said(StoreError, format="odd")
    assert "is damaged (files: Input should be" in said(StoreCorruptError, files=[])
    assert "does not name sequences.jsonl" in said(StoreCorruptError, files={})
    files = {**whole["files"], "runs.jsonl": {**whole["files"]["runs.jsonl"], "rows": 7}}
    assert "runs.jsonl has 2 rows, its manifest says 7" in said(StoreCorruptError, files=files)
    manifest.unlink()
    with pytest.raises(StoreError, match="is a folder without manifest"):
        other.import_from(exported)
    with pytest.raises(StoreError, match="there is no store at"):
        other.import_from(tmp_path / "nothing.db")


def test_an_import_is_done_whole_or_not_at_all(
    exported: Path, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "turnwise.store.transfer.merging.Merge._count_on", lambda *_: 1 / 0
    )  # all is written by then
    with pytest.raises(ZeroDivisionError):
        other.import_from(exported)
    assert not any(other.counts().values())


# The folder


def test_a_folder_that_holds_something_is_left_alone(filled: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    filled.export(folder)  # an empty one will do
    before = sorted(folder.iterdir())
    with pytest.raises(UsageError, match="out is there already: name a new folder, or an empty one"):
        filled.export(folder)
    assert sorted(folder.iterdir()) == before
    with pytest.raises(UsageError, match="there is no folder"):
        filled.export(tmp_path / "missing" / "out")


def test_the_manifest_says_what_was_exported(filled: Store, tmp_path: Path) -> None:
    filled.export(tmp_path / "out", format="csv", runs=["first"], where="turns = 2")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["format"], manifest["runs"], manifest["where"]) == ("csv", ["first"], "turns = 2")
    assert manifest["files"]["evaluations.csv"]["rows"] == 2
    assert len(manifest["not_carried"]) == 3


# Formats that are not read back


def test_csv_names_what_keys_stand_for_and_holds_no_formula(
    store: Store, tmp_path: Path, make_sequence: Make, make_run: Make, make_evaluation: Make
) -> None:
    store.add_sequences([make_sequence("=cmd()", ("@SUM(A1)", "-1\n+2"), source="+x")])
    store.start_run(make_run("=first"))
    store.append([make_evaluation("=cmd()", run="=first", reasoning="\t=1")])
    done = store.export(tmp_path / "out", format="csv")
    assert "can't be told" in done.not_carried[0]
    cells = [cell for file in (tmp_path / "out").glob("*.csv") for row in table(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "-"))]
    row = dict(zip(*table(tmp_path / "out" / "evaluations.csv"), strict=True))
    named = [row[name] for name in ("sequence_id", "source", "run_name", "principle_version", "T", "reasoning")]
    assert named == ["'=cmd()", "'+x", "'=first", "1", "0.5", "'\t=1"]


@pytest.mark.parametrize("name", ["csv", "arangodb"])
def test_what_does_not_carry_all_is_not_imported(filled: Store, other: Store, tmp_path: Path, name: str) -> None:
    filled.export(tmp_path / "out", format=name)
    with pytest.raises(UsageError, match=f"an export as {name}, which does not carry all of a store"):
        other.import_from(tmp_path / "out")


@pytest.mark.shows("DATA-13")
def test_arangodb_gets_documents_and_edges_between_them(filled: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    filled.export(folder, format="arangodb")
    documents = {
        f"{file.stem}/{row['_key']}": row
        for file in folder.glob("*.jsonl")
        for row in lines(folder, file.stem)
        if "_from" not in row
    }
    edges = [row for name in ("of_sequence", "in_run", "of_outcome") for row in lines(folder, name)]
    assert len(edges) == (4 + 5) + 4 + 2  # 5 are of what people said
    assert all(edge[end] in documents for edge in edges for end in ("_from", "_to"))
    score = documents["evaluations/first:a:1:prompt:p"]
    assert (score["run"], score["sequence_id"], score["label"], score["F"]) == ("first", "a", "attack", 0.125)
    assert documents[score["reply"]]["request_key"] == "k1"
    assert [turn["prompt"] for turn in documents["sequences/a"]["turns"]] == ["first of a", "second of a"]
    assert documents["runs/first"]["principle_versions"] == {"p": ["1"]}
    calls = [row for name, row in documents.items() if name.startswith("calls/")]
    assert [(row["repeat"], row["reason"]) for row in calls] == [(1, None), (2, "timeout")]


@settings(max_examples=8)
@given(contents())
def test_keys_are_such_as_arangodb_takes(content: Content) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:.@()+,=;$!*'%")
    with TemporaryDirectory() as folder:
        fill(Path(folder, "work.db"), content)
        with Store(Path(folder, "work.db")) as store:
            done = store.export(Path(folder, "out"), format="arangodb")
        for name in done.rows:
            keys = [row["_key"] for row in lines(Path(folder, "out"), Path(name).stem)]
            assert len(set(keys)) == len(keys)
            assert all(set(key) <= allowed and 0 < len(key) <= 254 for key in keys)


@pytest.mark.shows("DATA-13")
def test_the_questions_in_aql_ask_for_what_is_there(filled: Store, tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    page = (repository / "docs" / "export.md").read_text(encoding="utf-8")
    written = (repository / "examples" / "arangodb" / "queries.aql").read_text(encoding="utf-8")
    folder = tmp_path / "out"
    filled.export(folder, format="arangodb")
    names = {file.stem for file in folder.glob("*.jsonl")}
    there = {name for stem in names for row in lines(folder, stem) for name in row} | {"tactic", "turn", "text"}
    questions = [text for text in re.split(r"^//.*\n", written, flags=re.MULTILINE) if text.strip()]
    assert len(questions) == 10
    for question in questions:
        assert set(re.findall(r"\bIN (?:1\.\.1 \w+ \w )?([a-z_]+)\b(?! \()", question)) - {"scored", "at"} <= names
        assert set(re.findall(r"\b(?:early|late|trust|breach|e|s|c|run)\.(\w+)", question)) <= there
        assert [question.count(mark) for mark in "({["] == [question.count(mark) for mark in ")}]"]
    for name in names:
        assert f"`{name}`" in page
        assert name in page.partition("```sh")[2].partition("```")[0]


def test_long_names_that_differ_have_keys_that_differ(store: Store, tmp_path: Path, make_sequence: Make) -> None:
    names = ["x" * 300, "x" * 301, "ü" * 60, "a:b", "a%3Ab"]
    store.add_sequences([make_sequence(name) for name in names])
    store.export(tmp_path / "out", format="arangodb")
    keys = [row["_key"] for row in lines(tmp_path / "out", "sequences")]
    assert (len(set(keys)), max(map(len, keys))) == (5, 254)
