"""A guard is watched: its audit in a file or a store as it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError, UsageError
from turnwise.explorer import AuditWatch, ServiceWatch
from turnwise.store import Store

GUARDRAILS = [
    {"keywords": {"keywords": ["acme"], "action": "block"}},
    {"drift": {"observer": "scripted:0.1,0.2,0.9"}},
]


def talk(pipeline: GuardrailPipeline, name: str, *texts: str) -> None:
    chat = Conversation(conversation_id=name, participants={"initiator": "ann", "responder": "bot"})
    for text in texts:
        pipeline.check_input(text, conversation=chat)


def write_audit(path: Path, name: str, *texts: str) -> None:
    pipeline = GuardrailPipeline({"guardrails": GUARDRAILS}, audit=path)
    talk(pipeline, name, *texts)
    pipeline.close()


def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write_audit(path, "first", "Hello", "acme")
    watch = AuditWatch(path)
    assert (watch.look(), watch.look()) == (2, 0)
    write_audit(path, "second", "Hello")
    assert watch.look() == 1
    second, first = watch.conversations()
    assert (first.conversation_id, first.turns, first.blocked) == ("first", 2, 1)
    assert (second.conversation_id, second.who) == ("second", "ann")
    assert first.stance
    assert [check["turn"] for check in watch.checks("first")] == [1, 2]


def test_a_line_counts_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write_audit(path, "first", "Hello")
    line = path.read_bytes()
    path.write_bytes(line + line[:40])
    watch = AuditWatch(path)
    assert watch.look() == 1
    with path.open("ab") as file:
        file.write(line[40:])
    assert watch.look() == 1


def test_a_line_that_is_no_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write_audit(path, "first", "Hello")
    path.write_bytes(b'no json\n{"kind": "check"}\n' + path.read_bytes())
    watch = AuditWatch(path)
    assert (watch.look(), len(watch.events)) == (1, 1)


def test_a_file_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write_audit(path, "first", "Hello", "Hello again", "And again")
    watch = AuditWatch(path)
    watch.look()
    path.unlink()
    write_audit(path, "second", "Hello")
    assert watch.look() == 1
    assert watch.conversations()[0].conversation_id == "second"


def test_a_store_is_followed_too(tmp_path: Path) -> None:
    location = tmp_path / "work.db"
    Store(location, create=True).close()
    audit = {"sink": "store", "path": str(location)}
    pipeline = GuardrailPipeline({"guardrails": GUARDRAILS, "audit": audit})
    talk(pipeline, "first", "Hello", "acme")
    pipeline.close()
    with Store(location) as store:
        watch = AuditWatch(store)
        assert (watch.look(), watch.look()) == (2, 0)
        assert watch.conversations()[0].blocked == 1


def test_an_audit_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match=r"no\.jsonl can't be read \(No such file"):
        AuditWatch(tmp_path / "no.jsonl")


@pytest.mark.parametrize("url", ["ftp://a.example", "127.0.0.1:8080", "http://me:secret@a.example", "http://"])
def test_a_service_is_named_by_its_address_alone(url: str) -> None:
    with pytest.raises(UsageError, match=r"give the address of a service, such as http://127\.0\.0\.1:8080"):
        ServiceWatch(url)


def test_a_service_that_does_not_answer_says_so_and_not_its_key() -> None:
    with pytest.raises(GuardError, match=r"http://127\.0\.0\.1:9 does not answer") as caught:
        ServiceWatch("http://127.0.0.1:9", "a-secret-key").conversations()
    assert "a-secret-key" not in str(caught.value)
