"""Erasure: no byte of a text is left in any file of a store, a receipt stays, and what was killed is ended."""

import json
import os
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.errors import UnknownNameError, UsageError
from turnwise.guard import GuardrailPipeline
from turnwise.observers import ObservationFailure, ScriptedObserver
from turnwise.runs import evaluate, plan_scan
from turnwise.scoring import Score
from turnwise.store import Store

MARK = "zebrafinch"


def chat(name, number, person="Ann"):
    conversation = Conversation.human_ai(person, "some-model")
    for turn in (1, 2):
        conversation.add_prompt(f"{MARK}{number} prompt {turn} of {name}")
        conversation.add_response(f"{MARK}{number} answer {turn} of {name}")
    return Sequence(name, Label.BENIGN, "made", conversation)


def filled(path, count=6):
    with Store(path, create=True) as store:
        store.add_sequences(chat(f"chat-{n}", n, "Ann" if n % 2 else "Ben") for n in range(count))
        evaluate(store, "run", "scripted:0.2,0.9")
        for n in range(count):
            name = f"chat-{n}"
            store.people.correct_label(name, "attack", "Eve", f"{MARK}{n} note")
            store.people.mark_turn(name, 2, "Eve", f"{MARK}{n} mark")
            store.people.review([name], "confirmed", author="Eve", note=f"{MARK}{n} review")
    return path


def matching(store, run=None):
    return tuple(one.sequence_id for one in store.query("F >= 0.5", run))


def found_in(folder, number):
    """The files of a folder in which a mark stands, in Parquet and zlib as well."""
    wanted, found = f"{MARK}{number} ".encode(), []
    for file in Path(folder).rglob("*"):
        if not file.is_file():
            continue
        content = file.read_bytes()
        if wanted in content:
            found.append(file.name)
        elif file.suffix == ".parquet":
            rows = duckdb.execute(f"SELECT * FROM read_parquet('{file}')").fetchall()
            if wanted.decode() in repr(rows):
                found.append(file.name)
        else:
            at = content.find(b"\x78\xda")
            while at >= 0:
                try:
                    if wanted in zlib.decompressobj().decompress(content[at:]):
                        found.append(file.name)
                        break
                except zlib.error:
                    pass
                at = content.find(b"\x78\xda", at + 1)
    return found


def test_no_byte_of_an_erased_text_is_left_and_others_stay(tmp_path):
    path = filled(tmp_path / "work.db")
    assert found_in(tmp_path, 1) and found_in(tmp_path, 2)
    with Store(path) as store:
        before = matching(store, "run")
        made = store.erase(["chat-1", "chat-3"], author="Eve", reason="asked for it")
        assert made.finished and made.counts["turns"] == 4 and made.counts["reviews"] == 2
        assert [one.sequence_id for one in store.heads()] == ["chat-0", "chat-2", "chat-4", "chat-5"]
        assert set(matching(store, "run")) == set(before) - {"chat-1", "chat-3"}
        with pytest.raises(UnknownNameError):
            store.sequence("chat-1")
        assert found_in(tmp_path, 1) == [] == found_in(tmp_path, 3)
    assert found_in(tmp_path, 1) == [] == found_in(tmp_path, 3) and found_in(tmp_path, 2)
    with Store(path) as store:
        [receipt] = store.erasures()
        assert receipt.concerns("chat-1") and not receipt.concerns("chat-2")
        assert (receipt.author, receipt.reason, receipt.finished) == ("Eve", "asked for it", True)
        assert "chat-1" not in json.dumps(receipt.to_dict())


def test_every_table_that_says_something_of_a_sequence_is_covered(tmp_path):
    path = filled(tmp_path / "work.db")
    with Store(path) as store:
        store.people.judge("chat-1", 1, {"p": Score(0.1, 0.2, 0.9)}, "Eve", versions={"p": "1"})
        refusing = ScriptedObserver(
            lambda name, turn, one: ObservationFailure(one.principle.name, one.side, "server", "down")
        )
        evaluate(store, "failed", refusing)
        key = sqlite3.connect(path).execute("SELECT id FROM sequences WHERE sequence_id = 'chat-1'").fetchone()
        there = rows_about(path, key)
        assert all(there.values())
        assert there.keys() == {"turns", "evaluations", "failures", "corrections", "human_scores", "reviews"}
        store.erase(["chat-1"])
    assert not any(rows_about(path, key).values())


def rows_about(path, key):
    """How many rows each table has that names a sequence by its key."""
    with closing(sqlite3.connect(path)) as record:
        tables = [name for (name,) in record.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        named = {
            name: row[3]
            for name in tables
            for row in record.execute(f"PRAGMA foreign_key_list({name})")
            if row[2] == "sequences"
        }
        return {
            name: record.execute(f"SELECT count(*) FROM {name} WHERE {column} = ?", key).fetchone()[0]
            for name, column in named.items()
        }


def test_nothing_is_erased_where_one_id_is_unknown(tmp_path):
    with Store(filled(tmp_path / "work.db")) as store:
        with pytest.raises(UnknownNameError):
            store.erase(["chat-1", "nobody"])
        with pytest.raises(UsageError, match="at least one"):
            store.erase([])
        assert len(list(store.heads())) == 6 and store.erasures() == ()


_KILLED = """
import os, sys
from sqlalchemy import Engine, event
from turnwise.store import Store

@event.listens_for(Engine, "before_cursor_execute")
def die_before_the_file_is_written_anew(connection, cursor, statement, *_):
    if statement == "VACUUM":
        os._exit(9)

with Store(sys.argv[1]) as store:
    store.erase(["chat-1"])
"""


def test_an_erasure_that_was_killed_is_ended_by_the_same_command(tmp_path):
    path = filled(tmp_path / "work.db")
    done = subprocess.run([sys.executable, "-c", _KILLED, str(path)], env=os.environ, check=False)
    assert done.returncode == 9
    with Store(path) as store:
        assert not store.erasures()[0].finished
        assert store.erase(["chat-1"]).finished
        assert [one.finished for one in store.erasures()] == [True]
    assert found_in(tmp_path, 1) == []


@pytest.fixture
def findings(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    with (source / "chats.jsonl").open("w") as file:
        for n in range(6):
            turns = [
                {"role": "user", "content": f"{MARK}{n} prompt"},
                {"role": "assistant", "content": f"{MARK}{n} yes"},
            ]
            file.write(json.dumps({"id": f"chat-{n}", "messages": turns}) + "\n")
    folder = tmp_path / "found"
    plan_scan(source / "chats.jsonl", folder, observer="scripted:0.9", part_rows=2).run()
    return folder


def test_findings_are_written_anew_without_a_conversation(findings):
    with Store(findings) as store:
        store.people.correct_label("chat-1", "attack", "Eve", f"{MARK}1 note")
        before = store.counts()
        made = store.erase(["chat-1"])
        assert made.finished and made.counts["turns"] >= 1
        assert [one.sequence_id for one in store.heads()] == [f"chat-{n}" for n in (0, 2, 3, 4, 5)]
        assert store.counts()["sequences"] == before["sequences"] - 1
        assert matching(store) == tuple(f"chat-{n}" for n in (0, 2, 3, 4, 5))
    assert found_in(findings, 1) == [] and found_in(findings, 2)
    with Store(findings) as store:
        assert store.erasures()[0].concerns("chat-1") and len(list(store.sequences())) == 5


_KILLED_FINDINGS = """
import os, sys
from pathlib import Path
from turnwise.store import Store
real, count = Path.replace, []
def replace(self, target):
    if str(self).endswith(".parquet.erasing"):
        count.append(self)
        if len(count) == 2:
            os._exit(9)
    return real(self, target)
Path.replace = replace
with Store(sys.argv[1]) as store:
    store.erase(["chat-1"])
"""


def test_findings_whose_erasure_was_killed_are_whole_again(findings):
    done = subprocess.run([sys.executable, "-c", _KILLED_FINDINGS, str(findings)], env=os.environ, check=False)
    assert done.returncode == 9
    with Store(findings) as store:
        assert "chat-1" not in [one.sequence_id for one in store.heads()]
        assert store.erase(["chat-1"]).finished
    assert found_in(findings, 1) == []


def test_a_plan_of_a_stranger_replaces_nothing_outside(findings, tmp_path):
    (tmp_path / "victim.erasing").write_text("bad")
    (tmp_path / "victim").write_text("good")
    manifest = (findings / "manifest.json").read_text()
    (findings / ".erasing.json").write_text(json.dumps({"files": ["../victim"], "manifest": manifest}))
    with Store(findings) as store:
        assert len(list(store.heads())) == 6
    assert (tmp_path / "victim").read_text() == "good"


def test_the_audit_keeps_its_chain_with_the_text_gone(tmp_path, cli):
    path, log = filled(tmp_path / "work.db"), tmp_path / "audit.jsonl"
    for audit in (str(path), str(log)):
        config = {
            "guardrails": ["pii"],
            "audit": {"sink": "store", "path": audit} if audit.endswith(".db") else {"path": audit},
        }
        with GuardrailPipeline(config) as pipeline:
            for n in (1, 2):
                conversation = Conversation.human_ai("Ann" if n % 2 else "Ben", "m", conversation_id=f"chat-{n}")
                pipeline.check_input(f"{MARK}{n} mail a@example.org", conversation=conversation)
    receipt = cli("erase", "chat-1", "--store", path, "--audit", log, "--yes", "--json").json
    assert len(receipt["forgotten"]["audit"]) == 2
    for place in (path, log):
        assert cli("guard", "verify", place).code == 0
    assert found_in(tmp_path, 1) == []


def test_a_person_is_erased_in_any_spelling_by_the_command(tmp_path, cli):
    path = filled(tmp_path / "work.db")
    asked = ["erase", "--person", "ANN ", "--store", path]
    assert cli(*asked, "--dry-run", "--json").json == {"would_erase": ["chat-1", "chat-3", "chat-5"]}
    assert cli(*asked).code != 0  # no terminal to ask on
    done = cli(*asked, "--yes", "--receipt", tmp_path / "receipt.json", "--author", "Eve")
    assert done.code == 0 and "erased" in done.out
    assert json.loads((tmp_path / "receipt.json").read_text())["store"]["author"] == "Eve"
    for n in (1, 3, 5):
        assert found_in(tmp_path, n) == []
    with Store(path) as store:
        assert [one.sequence_id for one in store.heads()] == ["chat-0", "chat-2", "chat-4"]
