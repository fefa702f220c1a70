"""Forgetting leaves no byte of a person's texts, refuses who still holds them, and says what it did not reach."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.cli import main
from turnwise.errors import ForgottenError
from turnwise.explorer import AuditWatch
from turnwise.guard import MemoryStateStore, SqliteStateStore, read_audit, verify_audit
from turnwise.guard.state import STORED
from turnwise.sessions import StateStore

MARK = "marmalade-4711"
CONFIG: dict[str, Any] = {
    "session_by": "initiator",
    "guardrails": [{"drift": {"observer": "scripted:" + ",".join(["0.1"] * 50)}}, {"pii": {"action": "warn"}}],
}


def pipeline_in(folder: Path, **audit: Any) -> GuardrailPipeline:
    """Return a pipeline with state and audit below a folder."""
    written = {"path": str(folder / "audit.jsonl"), "text": "raw", **audit}
    return GuardrailPipeline({**CONFIG, "state": {"sqlite": str(folder / "state.db")}, "audit": written})


def talk(pipeline: GuardrailPipeline, who: str, chat_id: str, turns: int = 6) -> Conversation:
    chat = Conversation.human_ai(who, "model", conversation_id=chat_id)
    for number in range(turns):
        pipeline.check_input(f"{MARK} of {who.strip().lower()}, turn {number} " + "and more " * number * 40, chat)
        pipeline.check_output(f"{MARK} answered to {who.strip().lower()}, turn {number}", chat)
    return chat


def bytes_below(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def payloads_of(path: Path, key: str) -> list[bytes]:
    """Return what a state store has of a conversation, compressed as it is."""
    with SqliteStateStore(path) as store:
        return [part[3:] for name, part in store.parts(STORED, key).items() if name.startswith("turn:")]


HOLDER = """
import json, sys
from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import ForgottenError
pipeline = GuardrailPipeline(json.loads(sys.argv[1]))
chat = pipeline.load_conversation("chat-ann")
assert chat.turn(1).prompt
print("held", flush=True)
sys.stdin.readline()
try:
    pipeline.check_input("are you still there?", chat)
except ForgottenError as error:
    print(error, flush=True)
pipeline.close()
"""


def hold_elsewhere(config: dict[str, Any]) -> subprocess.Popen[str]:
    """Return another process that holds the conversation of Ann, and checks it once it is told to."""
    command = [sys.executable, "-c", HOLDER, json.dumps(config)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    return other


@pytest.mark.parametrize("what", ["person", "conversation"])
def test_no_byte_of_the_texts_is_left_while_another_process_has_the_store_open(tmp_path: Path, what: str) -> None:
    guard = pipeline_in(tmp_path)
    talk(guard, "Ben", "chat-ben")
    held = talk(guard, "Ann ", "chat-ann")
    guard._setup.audit.flush()  # type: ignore[union-attr]
    (tmp_path / "audit.jsonl").rename(tmp_path / "audit.jsonl.1")
    talk(guard, "Ben", "chat-ben-2")
    guard.check_output(
        f"{MARK} answered to ann, once more", held, turn_number=guard.check_input("x", held).turn_number
    )
    other = hold_elsewhere({**CONFIG, "state": {"sqlite": str(tmp_path / "state.db")}})
    gone, stays = (payloads_of(tmp_path / "state.db", key) for key in ("chat-ann", "chat-ben"))
    assert all(part in bytes_below(tmp_path) for part in stays)
    receipt = guard.forget("ANN") if what == "person" else guard.forget_conversation("chat-ann")
    left = bytes_below(tmp_path)
    assert b"of ann" not in left and b"to ann" not in left and b"Ann" not in left
    pieces = {part[at : at + 16] for part in gone for at in range(0, len(part) - 16, 16)}
    assert not [one for one in pieces if one in left and not any(one in part for part in stays)]
    assert b"of ben" in left and all(part in left for part in stays)
    with pytest.raises(ForgottenError, match="'chat-ann' was forgotten"):
        guard.check_input("and now?", held)
    said, _ = other.communicate("go on\n", timeout=60)
    assert "'chat-ann' was forgotten" in said
    guard.close()
    assert b"of ann" not in bytes_below(tmp_path)
    found = verify_audit(tmp_path / "audit.jsonl")
    assert found.intact and found.erased == 14
    assert (receipt.what, receipt.conversations, sum(receipt.audit.values())) == (what, 1, 14)
    assert set(receipt.audit) == {str(tmp_path / name) for name in ("audit.jsonl", "audit.jsonl.1")}
    assert any("backups" in place for place in receipt.unreached) and json.dumps(receipt.to_dict())


def test_nor_in_the_table_of_a_store(tmp_path: Path) -> None:
    guard = pipeline_in(tmp_path, path=str(tmp_path / "audit.db"), sink="store")
    talk(guard, "ben", "chat-ben")
    talk(guard, "ann", "chat-ann")
    receipt = guard.forget("ann")
    left = bytes_below(tmp_path)
    assert b"of ann" not in left and b"of ben" in left
    assert list(receipt.audit.values()) == [12]
    assert verify_audit(tmp_path / "audit.db").intact
    guard.close()
    assert b"of ann" not in bytes_below(tmp_path)


def worker(store: StateStore | None) -> GuardrailPipeline:
    return GuardrailPipeline(CONFIG, state_store=store)


@pytest.mark.parametrize("make", [MemoryStateStore, lambda: None], ids=["shared", "alone"])
def test_a_name_is_a_new_beginning_once_it_was_forgotten(make: Callable[[], StateStore | None]) -> None:
    store = make()
    one = worker(store)
    other = one if store is None else worker(store)
    held = talk(one, "ann", "chat", 2)
    assert one.forget_conversation("chat") or store is None
    assert not one.forget_conversation("chat")
    fresh = Conversation.human_ai("ann", "model", conversation_id="chat")
    assert other.check_input("Hello", fresh).turn_number == 1
    assert other.check_input("Hello again", fresh).turn_number == 2
    for _ in range(2):
        with pytest.raises(ForgottenError):
            one.check_input("and again", held)
    with pytest.raises(ForgottenError):
        one.check_output("a reply", held)
    assert other.check_output("Hi", fresh, turn_number=1).turn_number == 1
    assert [turn.prompt for turn in fresh.turns] == ["Hello", "Hello again"]


def test_a_conversation_that_the_store_never_had_is_refused_with_its_person() -> None:
    guard = worker(MemoryStateStore())
    held = Conversation.human_ai("Ann", "model")
    held.add_prompt(f"{MARK}, said before anybody checked")
    guard.forget("ann")
    with pytest.raises(ForgottenError):
        guard.check_input("Hello", held)


def test_what_is_forgotten_while_its_first_text_is_checked_is_not_written(tmp_path: Path) -> None:
    store = MemoryStateStore()
    guard = worker(store)
    chat = Conversation.human_ai("ann", "model", conversation_id="chat")
    stream = guard.stream_output(chat, turn_number=chat.add_prompt("Hello").number)
    stream.feed("a reply")
    worker(store).forget("ann")
    with pytest.raises(ForgottenError):
        stream.end()
    assert store.keys(STORED) == []


def test_what_is_past_its_time_goes_as_well(tmp_path: Path) -> None:
    now = [datetime(2025, 1, 1, tzinfo=UTC)]
    with SqliteStateStore(tmp_path / "s.db", ttl=timedelta(days=1), clock=lambda: now[0]) as store:
        guard = GuardrailPipeline(
            {**CONFIG, "session_by": "conversation"}, state_store=store, clock=lambda: now[0]
        )
        talk(guard, "ann", "chat-ann")
        gone = payloads_of(tmp_path / "s.db", "chat-ann")
        now[0] += timedelta(days=2)
        guard.forget("ann")
        left = bytes_below(tmp_path)
        assert gone and not any(part in left for part in gone)


def test_everybody_who_takes_part_is_a_person_but_for_models() -> None:
    store = MemoryStateStore()
    guard = worker(store)
    guard.check_input("Hello", Conversation.human_to_human("ann", "Ben", conversation_id="two"))
    guard.check_input("Hello", Conversation.human_ai("eve", "model", conversation_id="one"))
    assert guard.forget("model").conversations == 0
    assert guard.forget("ben").conversations == 1
    assert store.keys(STORED) == ["one"]


def test_forks_are_forgotten_with_their_conversation() -> None:
    store = MemoryStateStore()
    guard = worker(store)
    for text in ("Hello", "Goodbye"):
        said = [{"role": "user", "content": "Before"}, {"role": "user", "content": text}]
        guard.check_messages(said[:1], conversation_id="chat")
        guard.check_messages(said, conversation_id="chat")
    guard.check_messages([{"role": "user", "content": "Otherwise"}], conversation_id="chat")
    assert len(store.keys(STORED)) > 1
    assert guard.forget_conversation("chat").conversations > 1
    assert store.keys(STORED) == []


def test_forgetting_and_ageing_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pipeline_in(tmp_path) as guard:
        talk(guard, "ann", "chat-ann")
        talk(guard, "ben", "chat-ben")
    state, audit = str(tmp_path / "state.db"), str(tmp_path / "audit.jsonl")

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as done:
            main(["guard", *words])
        return int(done.value.code or 0), capsys.readouterr().out

    code, said = run("forget", "Ann", "--state", state, "--audit", audit, "--json")
    receipt = json.loads(said)
    assert code == 0 and (receipt["conversations"], receipt["audit"]) == (1, {audit: 12})
    assert b"of ann" not in bytes_below(tmp_path) and b"of ben" in bytes_below(tmp_path)
    assert "not reached:" in run("forget", "chat-ben", "--conversation", "--state", state)[1]
    code, said = run("verify", audit)
    assert code == 0 and "the chain holds: 25 events, 12 of them with their texts erased" in said
    shown = json.loads(run("audit", audit, "--json")[1])["events"]
    assert [event["erased"] for event in shown if "erased" in event] == [receipt["time"]] * 12
    code, said = run("expire", "--days", "0", "--state", state, "--audit", audit, "--json")
    assert code == 0 and json.loads(said)["audit"] == {audit: 12}
    assert b"of ben" not in bytes_below(tmp_path)
    lines = Path(audit).read_bytes().splitlines(keepends=True)
    Path(audit).write_bytes(b"".join(lines[:4] + lines[5:]))
    code, said = run("verify", audit)
    assert code == 1 and "audit.jsonl, line 5: before it events are missing: 5" in said
    assert run("forget", "ann")[0] == 2


def test_an_audit_that_cant_erase_is_named(tmp_path: Path) -> None:
    class Own:
        def write(self, event: object) -> None: ...
        def close(self) -> None: ...

    guard = GuardrailPipeline(CONFIG, audit=Own())
    talk(guard, "ann", "chat-ann", 1)
    assert guard.forget("ann").unreached[0] == "the audit, a Own, which can't erase"


def test_tenants_forget_their_own_alone(tmp_path: Path) -> None:
    whole = pipeline_in(tmp_path)
    web, desk = whole.for_tenant("web"), whole.for_tenant("desk")
    for tenant in (web, desk):
        talk(tenant, "ann", "chat", 1)
    assert sum(web.forget("ann").audit.values()) == 2
    assert desk.load_conversation("chat") is not None and web.find_conversation("chat") is None
    kept = [event for event in read_audit(tmp_path / "audit.jsonl").events if "erased" not in event]
    assert {event["tenant"] for event in kept} == {"desk"}
    whole.close()


def test_a_hashed_name_is_found_in_any_spelling(tmp_path: Path) -> None:
    guard = pipeline_in(tmp_path, text="redacted")
    talk(guard, "Ann@Example.com ", "chat", 1)
    assert sum(guard.forget("ann@example.COM").audit.values()) == 2
    guard.close()


def test_who_watches_the_audit_sees_the_texts_no_more(tmp_path: Path) -> None:
    with pipeline_in(tmp_path) as guard:
        talk(guard, "ann", "chat-ann", 2)
        guard._setup.audit.flush()  # type: ignore[union-attr]
        watch = AuditWatch(tmp_path / "audit.jsonl")
        assert watch.look() == 4 and "of ann" in str(watch.events)
        guard.forget("ann")
        watch.look()
        assert len(watch.events) == 4 and "of ann" not in str(watch.events)
