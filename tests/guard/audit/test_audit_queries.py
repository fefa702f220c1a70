"""Asking an audit, in a file and in a store, and exporting it."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Conversation
from turnwise.errors import GuardError, StoreCorruptError
from turnwise.guard import AuditQuestion, GuardrailPipeline, export_csv, read_audit
from turnwise.store import Store

START = datetime(2025, 1, 1, 12, tzinfo=UTC)
Fill = Callable[[str], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return where six checks of three conversations are, a minute apart, by kind of audit."""
    folder = tmp_path_factory.mktemp("written")
    places = {"jsonl": folder / "audit.jsonl", "store": folder / "work.db"}
    for sink, path in places.items():
        now = START
        config: dict[str, Any] = {
            "name": "tested",
            "guardrails": [{"pii": {"action": "warn"}}, {"length": {"max_characters": 50}}],
            "audit": {"path": str(path), "sink": sink},
        }
        with GuardrailPipeline(config, clock=lambda: now) as pipeline:  # noqa: B023 - it is closed in the same round
            for name in ("a", "b", "c"):
                chat = Conversation(f"user-{name}", "bot", conversation_id=name)
                for text in ("Mail bob@example.com", "long " * (20 if name == "b" else 1)):
                    pipeline.check_input(text, conversation=chat, session_id=f"session-{name}")
                    now += timedelta(minutes=1)
    return places


@pytest.fixture
def fill(written: dict[str, Path], tmp_path: Path) -> Fill:
    """Return a function that gives a test its own copy of a kind of audit."""
    return lambda sink: Path(shutil.copy(written[sink], tmp_path))


BOTH = pytest.mark.parametrize("sink", ["jsonl", "store"])


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


@BOTH
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({}, ["a1", "a2", "b1", "b2", "c1", "c2"]),
        ({"conversation_id": "b"}, ["b1", "b2"]),
        ({"session_id": "session-c"}, ["c1", "c2"]),
        ({"guardrail": "pii"}, ["a1", "b1", "c1"]),
        ({"guardrail": "length"}, ["b2"]),
        ({"blocked": True}, ["b2"]),
        ({"blocked": False, "conversation_id": "b"}, ["b1"]),
        ({"since": at(4)}, ["c1", "c2"]),
        ({"until": at(1)}, ["a1"]),
        ({"since": at(1), "until": at(3)}, ["a2", "b1"]),
        ({"since": at(1).astimezone()}, ["a2", "b1", "b2", "c1", "c2"]),
        ({"limit": 2}, ["c1", "c2"]),
        ({"guardrail": "pii", "limit": 1}, ["c1"]),
        ({"conversation_id": "z"}, []),
    ],
)
def test_each_condition_alone_and_together(
    fill: Fill, sink: str, question: dict[str, Any], expected: list[str]
) -> None:
    answer = read_audit(fill(sink), AuditQuestion(**question))
    assert [f"{event['conversation_id']}{event['turn']}" for event in answer.events] == expected
    assert answer.unreadable == ()


def test_both_kinds_hold_the_same(fill: Fill) -> None:
    def plain(path: Path) -> list[dict[str, Any]]:
        events = read_audit(path).events
        for event in events:
            for key in ("seconds", "prev", "salt", "hash"):
                event.pop(key)
            for detail in event["guardrails"].values():
                detail.pop("seconds")
        return list(events)

    assert plain(fill("jsonl")) == plain(fill("store"))


def test_a_store_may_hold_other_things_as_well(fill: Fill) -> None:
    path = fill("store")
    with Store(path) as store:
        assert store.counts()["sequences"] == 0
    assert read_audit(f"sqlite:///{path}").checked == 6


def test_more_events_than_a_page(tmp_path: Path) -> None:
    with Store(tmp_path / "work.db", create=True) as store:
        store.audit.append([])
        store.audit.append([{"time": START.isoformat(), "kind": "check", "n": number} for number in range(1201)])
        store.audit.append([{"time": START.isoformat(), "kind": "gap", "dropped": 3}])
    answer = read_audit(tmp_path / "work.db")
    assert [event["n"] for event in answer.events] == list(range(1201))
    assert [gap["dropped"] for gap in answer.gaps] == [3]


@BOTH
def test_a_limit_bounds_the_events_alone(fill: Fill, sink: str) -> None:
    path = fill(sink)
    gap = {"time": at(0).isoformat(timespec="microseconds"), "kind": "gap", "dropped": 3}
    if sink == "store":
        with Store(path) as store:
            store.audit.rewrite(lambda record: gap if record["n"] == 1 else None, lambda _: [gap])
    else:
        path.write_text("".join([json.dumps(gap), "\n", *path.read_text().splitlines(keepends=True)[1:]]))
    answer = read_audit(path, AuditQuestion(limit=1))
    assert (len(answer.events), answer.checked, answer.gaps[0]) == (1, 5, gap)


def test_gaps_are_told_whatever_is_asked_for_but_the_time(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text(
        '{"kind":"gap","time":"2025-01-01T12:00:00.000000+00:00","dropped":2,"unwritten":1}\n'
        '{"kind":"gap","time":"2025-01-02T12:00:00.000000+00:00","dropped":4,"unwritten":0}\n'
    )
    answer = read_audit(log, AuditQuestion(conversation_id="a", until=START + timedelta(hours=1)))
    assert [gap["dropped"] for gap in answer.gaps] == [2]


def test_a_torn_last_line_is_named_and_the_others_are_read(fill: Fill) -> None:
    log = fill("jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole + b"\n[1]\n\xff\xfe\n" + whole[:100])
    answer = read_audit(log)
    assert len(answer.events) == 6
    assert answer.unreadable == (
        "line 8 is not an event of an audit: it is [1], not an object with keys",
        "line 9 is not JSON",
        "line 10 is not JSON; the last line: cut off by a crash, or still being written",
    )


def test_every_length_of_a_torn_file_can_be_read(fill: Fill, tmp_path: Path) -> None:
    whole = fill("jsonl").read_bytes()
    torn = tmp_path / "torn.jsonl"
    second = whole.index(b"\n") + 1
    for length in range(second, second + 200):
        torn.write_bytes(whole[:length])
        answer = read_audit(torn)
        assert len(answer.events) == 1
        assert len(answer.unreadable) == (length > second)


def test_what_is_no_audit_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("hello\nworld\n")
    with pytest.raises(GuardError, match=r"not an audit \(line 1 is not JSON"):
        read_audit(other)
    with pytest.raises(GuardError, match="can't be read: No such file"):
        read_audit(tmp_path / "none.jsonl")
    other.write_bytes(b"SQLite format 3\0 but not really" * 40)
    with pytest.raises(StoreCorruptError):
        read_audit(other)
    other.write_text("")
    assert read_audit(other).events == ()


@pytest.mark.parametrize(
    "wrong",
    [{"since": datetime(2025, 1, 1)}, {"until": datetime(2025, 1, 1)}, {"limit": 0}],  # noqa: DTZ001
)
def test_a_question_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(GuardError):
        AuditQuestion(**wrong)


def test_the_table_has_a_row_a_check(fill: Fill, tmp_path: Path) -> None:
    table = tmp_path / "out.csv"
    assert export_csv(read_audit(fill("jsonl")).events, table) == 6
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["conversation_id"] for row in rows] == ["a", "a", "b", "b", "c", "c"]
    assert rows[0]["text"] == "Mail [EMAIL]"
    assert rows[0]["warnings"] == "pii: 1 e-mail address"
    assert (rows[3]["blocked"], rows[3]["turn"], rows[3]["initiator"]) == ("true", "2", "user-b")


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", "＠x"),
        *("\u3000=1", " ＋1", "\u200b=1", "\ufeff=1", "\x01@x", "\u2003﹣1"),
    ],
)
def test_no_cell_is_a_formula(tmp_path: Path, text: str) -> None:
    table = tmp_path / "out.csv"
    event = {
        "time": "2025-01-01T12:00:00.000000+00:00",
        "conversation_id": text,
        "participants": {"initiator": text},
        "reasons": [text],
        "text": text,
        "turn": -3,
        "guardrails": {text: {"status": "failed"}},
        "stance": None,
    }
    export_csv([event], table)
    with table.open(newline="", encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    for column in ("conversation_id", "initiator", "reasons", "text", "failed"):
        assert row[column] == f"'{text}"
    assert row["turn"] == "-3"


def test_half_a_surrogate_pair_and_a_null_can_be_exported(tmp_path: Path) -> None:
    export_csv([{"text": "a\ud800\0b"}], tmp_path / "out.csv")
    assert "a\\ud800\\0b" in (tmp_path / "out.csv").read_text()


def test_a_table_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match="can't write"):
        export_csv([], tmp_path / "no" / "out.csv")


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (5, "is 5, not an object with keys"),
        ({"kind": "check"}, "time is missing; it has to be text"),
        ({"kind": "check", "time": "t", "reasons": 5}, "reasons is 5, not a list"),
        ({"kind": "check", "time": "t", "warnings": [1]}, "warnings[0] is 1, not text"),
        ({"kind": "gap", "time": "t", "dropped": "many"}, "dropped is 'many', not a whole number"),
    ],
)
def test_records_are_read_strictly(record: Any, told: str, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    sound = {"kind": "check", "time": "t", "turn": None, "guardrails": {}}
    log.write_text(f"{json.dumps(sound)}\n{json.dumps(record)}\n")
    answer = read_audit(log)
    assert len(answer.events) == 1
    assert told in answer.unreadable[0]
