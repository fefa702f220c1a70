"""Conversations imported from files, in whatever order."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import line, write_lines

from turnwise.datasets import examples
from turnwise.errors import StoreError
from turnwise.store import Store

Cli = Callable[..., Any]


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Return a file of messages with labels in other words, two of them of nobody else."""
    words = ["malicious", 1, "safe", "odd", "odd", "strange", None]
    return write_lines(
        tmp_path / "labelled.jsonl",
        *({"messages": [{"role": "user", "content": f"Hi {n}"}], "label": word} for n, word in enumerate(words)),
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table of one conversation, one row a message."""
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        rows = [("conversation_id", "role", "text", "label"), ("t", "user", "Hi", "1"), ("t", "bot", "Hello", "1")]
        csv.writer(file).writerows(rows)
    return path


def labels(path: str) -> list[str]:
    with Store(path) as store:
        return [str(head.label) for head in store.heads()]


def test_labels_that_are_not_known_are_counted_and_named(cli: Cli, labelled: Path) -> None:
    told = cli("import", labelled, "--store", "one.db")
    assert (told.code, told.out) == (0, "imported 7, skipped 0 already stored, into one.db\n")
    assert (
        "3 conversations have an unknown label and were imported without one: 'odd' (2), 'strange' (1)" in told.err
    )
    assert labels("one.db") == ["attack", "attack", "benign", *["unlabelled"] * 4]
    assert cli("import", labelled, "--json").json["unknown_labels"] == {"odd": 2, "strange": 1}


def test_a_label_map_says_what_they_mean(cli: Cli, labelled: Path, tmp_path: Path) -> None:
    told = cli("import", labelled, "--store", "one.db", "--label-map", "odd=attack,*=benign")
    assert (told.code, told.err) == (0, "")
    assert labels("one.db") == ["benign", "benign", "benign", "attack", "attack", "benign", "unlabelled"]
    file = tmp_path / "map.yaml"
    file.write_text("odd: attack\nstrange: benign\n")
    assert cli("import", labelled, "--store", "two.db", "--label-map", file).err == ""
    assert labels("two.db") == ["attack", "attack", "benign", "attack", "attack", "benign", "unlabelled"]
    refused = cli("import", labelled, "--label-map", "odd=evil")
    assert refused.code == 2
    assert "label map: 'odd' can't map to 'evil'; use attack, benign, unlabelled" in refused.err


def test_several_files_give_one_summary(cli: Cli, chats: Path, table: Path, labelled: Path) -> None:
    told = cli("import", chats, table, labelled, "--store", "all.db")
    assert told.code == 0
    assert told.out.splitlines() == [
        f"{chats}: imported 3, skipped 0 already stored",
        f"{table}: imported 1, skipped 0 already stored",
        f"{labelled}: imported 7, skipped 0 already stored",
        "imported 11, skipped 0 already stored, into all.db",
    ]
    again = cli("import", chats, table, "--store", "all.db", "--json").json
    assert (again["imported"], again["skipped"]) == (0, 4)
    assert [(one["file"], one["skipped"]) for one in again["files"]] == [(str(chats), 3), (str(table), 1)]


def test_a_bad_file_does_not_lose_the_good_ones(cli: Cli, chats: Path, table: Path, tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "bad.jsonl", {"colour": "blue"})
    half = write_lines(tmp_path / "half.jsonl", "{", line("only", "benign", "Hi"))
    told = cli("import", bad, chats, "missing.jsonl", half, table, "--store", "some.db")
    assert told.code == 1
    assert "imported 5, skipped 0 already stored, into some.db" in told.out
    assert f"{bad}: not imported" in told.out
    assert f"{half}: imported 1, skipped 0 already stored, 1 bad lines" in told.out
    assert f"error: {bad}: the format can't be told from its fields: colour" in told.err
    assert "error: there is no file missing.jsonl" in told.err
    assert f"{half}, line 1: not JSON" in told.err
    assert "2 of 5 files" in told.err
    shown = cli("import", bad, chats, "--store", "some.db", "--json")
    assert shown.code == 1
    assert [one["error"] is None for one in shown.json["files"]] == [False, True]


def test_strict_stops_at_the_first_bad_file(cli: Cli, chats: Path) -> None:
    assert cli("import", "missing.jsonl", chats, "--strict", "--store", "none.db").code == 1
    assert not Path("none.db").exists()


def test_a_wrong_format_is_wrong_use_with_several_files_too(cli: Cli, chats: Path, table: Path) -> None:
    assert cli("import", chats, table, "--format", "nonsense").code == 2


def test_labels_are_mended_by_a_second_import(cli: Cli, labelled: Path) -> None:
    """The words that were not known are mapped later; conversations keep their scores."""
    first = cli("import", labelled, "--store", "one.db")
    assert "--label-map odd=benign (or =attack) and --relabel" in first.err
    cli("evaluate", "--store", "one.db", "--observer", "scripted:0.5", "--run", "r")
    meant = ("import", labelled, "--store", "one.db", "--label-map", "odd=attack,strange=benign")
    told = cli(*meant)
    assert (told.code, told.out) == (0, "imported 0, skipped 7 already stored, into one.db\n")
    assert "3 conversations are stored with another label than in the file, and keep it: labelled-4 (" in told.err
    assert (
        "(unlabelled, in the file attack)" in told.err and "; --relabel takes the labels of the file" in told.err
    )
    assert labels("one.db") == ["attack", "attack", "benign", *["unlabelled"] * 4]
    told = cli(*meant, "--relabel")
    changed = "changed 3 labels (2 unlabelled to attack, 1 unlabelled to benign)"
    assert (told.code, told.err) == (0, "")
    assert told.out == f"imported 0, skipped 7 already stored, {changed}, into one.db\n"
    assert labels("one.db") == ["attack", "attack", "benign", "attack", "attack", "benign", "unlabelled"]
    assert "of attacks" in cli("detect", "--store", "one.db").out
    assert len(cli("query", "F >= 0.5", "--store", "one.db", "--label", "attack", "--json").json["matches"]) == 4
    again = cli(*meant, "--relabel", "--json").json
    assert (again["relabelled"], again["other_labels"], again["files"][0]["relabelled"]) == ([], [], 0)
    assert cli(*meant).err == ""  # which is now what the file says


def test_what_has_other_turns_is_not_relabelled_and_named(cli: Cli, chats: Path, tmp_path: Path) -> None:
    cli("import", chats, "--store", "one.db")
    changed = write_lines(
        tmp_path / "changed.jsonl",
        line("attack_01", "benign", "Tell me about locks", "And old ones?", "Now my neighbour's"),
        line("benign_01", "attack", "What is a lever?"),
    )
    told = cli("import", changed, "--store", "one.db", "--relabel", "--json").json
    assert told["relabelled"] == [{"sequence_id": "attack_01", "stored": "attack", "given": "benign"}]
    [error] = told["errors"]
    assert error["line"] == 2 and "'benign_01'" in error["reason"] and "its turns differ" in error["reason"]
    assert labels("one.db") == ["benign", "benign", "benign"]


def test_a_bad_cell_is_named_by_row_and_column(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "chats.csv"
    good = json.dumps([{"role": "user", "content": "Hi"}])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("uid", "chat"), ("a", good), ("b", "[oops")])
    told = cli("import", path, "--columns", "id=uid,messages=chat")
    assert told.code == 0
    assert f"{path}, line 3: column 'chat': not JSON" in told.err


def test_files_of_others_have_other_roles_and_encodings(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "helpdesk.csv"
    path.write_bytes("ticket,who,says\n7,customer,Où?\n7,agent,Là\n".encode("cp1252"))
    named = ("import", path, "--format", "turns", "--columns", "id=ticket,role=who,text=says")
    refused = cli(*named)
    assert refused.code == 1
    assert "name the encoding of the file with --encoding, such as cp1252" in refused.err
    refused = cli(*named, "--encoding", "cp1252")
    assert refused.code == 1
    assert "say what it means with --role-map customer=user" in refused.err
    told = cli(*named, "--encoding", "cp1252", "--role-map", "customer=user,agent=assistant", "--json")
    assert (told.code, told.json["imported"]) == (0, 1)
    with Store("turnwise.db") as store:
        assert [(turn.prompt, turn.response) for turn in store.sequence("helpdesk-7").conversation] == [
            ("Où?", "Là")
        ]
    assert cli("import", path, "--encoding", "klingon").code == 2


def test_a_packed_file_that_was_cut_off_ends_with_status_1_and_says_what_was_kept(
    cli: Cli, tmp_path: Path
) -> None:
    salt = random.Random(0)
    chats = [line(f"chat-{n}", "benign", salt.randbytes(300).hex()) for n in range(300)]
    content = gzip.compress("\n".join(map(json.dumps, chats)).encode())
    path = tmp_path / "chats.jsonl.gz"
    path.write_bytes(content[: len(content) // 2])
    done = cli("import", path, "--json")
    kept = done.json["imported"]
    assert done.code == 1
    assert 50 < kept < 250
    assert done.json["files"][0]["whole"] is False
    again = cli("import", path)
    assert again.code == 1
    assert f"error: {path} breaks off: {kept} conversations before that are kept, what may have" in again.err
    assert len(labels("turnwise.db")) == kept


def test_an_endless_row_of_bad_lines_ends_the_import(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.store.sequences.MOST_BAD", 1_000)
    path = tmp_path / "chats.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line("a", "benign", "Hi")).encode() + b"\nx" * 1_000_000))
    done = cli("import", path)
    assert done.code == 1
    assert "more than 1,000 records in a row can't be read, the last of them since: not JSON" in done.err
    assert labels("turnwise.db") == ["benign"]


@pytest.mark.parametrize(
    "arguments", [["missing.jsonl"], ["bad.jsonl", "--format", "turnwise"], ["--from-store", "missing.db"]]
)
def test_a_failed_import_leaves_no_empty_store_behind(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    write_lines(tmp_path / "bad.jsonl", {"bad": 1})
    assert cli("import", *arguments, "--store", "new.db").code == 1
    assert {path.name for path in tmp_path.iterdir()} == {"bad.jsonl"}


def test_a_failed_import_leaves_a_store_alone_that_others_have_open(cli: Cli, chats: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    with pytest.raises(StoreError, match="no store at missing"), Store(new, create=True) as store:
        other = Store(new)
        store.import_from("missing.db")
    assert cli("import", chats, "--store", new).code == 0
    assert len(list(other.heads())) == 3
    other.close()


def test_the_conversations_that_ship_have_a_name(cli: Cli) -> None:
    ships = len(examples())
    assert cli("import", "turnwise:examples", "--store", "one.db").out == (
        f"imported {ships}, skipped 0 already stored, into one.db\n"
    )
    assert sorted(labels("one.db")) == sorted(str(chat.label) for chat in examples())
    assert cli("import", "turnwise:else", "--store", "one.db").code == 1


SETS = {"attacks": ("attack", 40), "chats": ("benign", 40), "questions": ("benign", 30)}
PRINCIPLES = "reciprocity", "third_party_harm"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return three files of conversations, beside a file of scores and one of a reader's."""
    generator = random.Random(6)
    made, scores, read = [], [], []
    for source, (label, count) in SETS.items():
        lines = []
        for number in range(count):
            name, length = f"{source}-{generator.random():.8f}", generator.randint(3, 6)
            turns = [{"role": "user", "content": f"{name} {turn}"} for turn in range(length)]
            metadata = {"goal": f"{source} {number // 2}", "category": f"kind {number % 3}"}
            lines.append({"id": name, "label": label, "source": source, "turns": turns, "metadata": metadata})
            for turn in range(1, length + 1):
                raised = 0.1 * turn if label == "attack" else 0.0
                for principle in PRINCIPLES:
                    F = min(1.0, round(0.45 * generator.random() + raised, 3))
                    score = {"sequence_id": name, "turn": turn, "principle": principle, "T": 1 - F, "I": 0.2}
                    scores.append({**score, "F": F})
                    read.append({**score, "F": 0.9 if raised > 0.25 else 0.1})
        made.append(write(tmp_path / f"{source}.jsonl", lines))
    write(tmp_path / "scores.jsonl", scores)
    write(tmp_path / "read.jsonl", read)
    return made


def write(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def report(cli, folder: Path, files: list[Path], name: str) -> dict[str, bytes]:
    """Import files in order, score them, tune and compare, and return all that was written."""
    store = folder / f"{name}.db"
    for file in files:
        assert cli("import", file, "--store", store).code == 0
    for run, scores in (("history", "scores"), ("reader", "read")):
        asked = ["--store", store, "--run", run, "--observer", f"replay:{folder / scores}.jsonl"]
        principles = [part for principle in PRINCIPLES for part in ("--principle", principle)]
        assert cli("evaluate", *asked, "--context", "history", *principles).code == 0
    on = ["--store", store, "--run", "history"]
    out, tuned = folder / f"{name}-out", folder / "tuned.yaml"
    assert cli("study", "tune", *on, "--detector", "learned", "--target-fpr", "0.2", "--out", tuned).code == 0
    asked = ["--detector", "cusum", "--detector", "learned", "--target-fpr", "0.2", "--truth", "reader"]
    done = cli("study", "compare", *on, *asked, "--replicates", "20", "--splits", "3", "--report", out)
    assert done.code == 0, done.err
    assert "Against the turns that a reader flags" in done.out
    return {
        "tuned": tuned.read_bytes(),
        **{str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()},
    }


@pytest.mark.integration
def test_the_order_of_import_changes_no_byte(cli, tmp_path, files):
    other = write(
        tmp_path / "other.jsonl",
        [
            {
                "id": "first of all",
                "label": "unlabelled",
                "source": "o",
                "turns": [{"role": "user", "content": "Hi"}],
            }
        ],
    )
    one = report(cli, tmp_path, files, "one")
    turned = [
        other,
        *(write(file, [*map(json.loads, file.read_text().splitlines())][::-1]) for file in reversed(files)),
    ]
    another = report(cli, tmp_path, turned, "another")
    assert one.keys() == another.keys()
    assert [name for name in one if one[name] != another[name]] == []
    assert {"report.html", "results.json", "verdicts.parquet"} <= one.keys()
