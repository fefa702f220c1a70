"""The chain of an audit: it names what was done to a line, holds under several writers, and outlives erasure."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation
from turnwise.guard import AuditSettings, GuardrailPipeline, read_audit, verify_audit

Records = Callable[[], list[dict[str, Any]]]
EVENTS = 30


def event(number: int) -> dict[str, Any]:
    """Return an event that nobody chained."""
    return {"v": 1, "kind": "check", "time": "2025-01-01T00:00:00.000000+00:00", "text": f"text {number}"}


@pytest.fixture(params=["jsonl", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / ("audit.jsonl" if request.param == "jsonl" else "audit.db"))


def pipeline_to(place: str) -> GuardrailPipeline:
    audit = {"path": place, "sink": "store" if place.endswith(".db") else "jsonl", "text": "raw"}
    config = {"guardrails": [{"length": {"max_characters": 99}}], "audit": audit}
    return GuardrailPipeline(config, clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))


def filled(place: str, count: int = EVENTS) -> None:
    with pipeline_to(place) as pipeline:
        for number in range(1, count + 1):
            pipeline.check_input(f"‘text’ {number}", Conversation("ann", "bot", conversation_id=f"chat-{number}"))


Lines = list[bytes]


def removed(lines: Lines, at: int, chance: random.Random) -> Lines:
    return lines[:at] + lines[at + 1 :]


def swapped(lines: Lines, at: int, chance: random.Random) -> Lines:
    at = min(at, len(lines) - 2)
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def doubled(lines: Lines, at: int, chance: random.Random) -> Lines:
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]]


def edited(lines: Lines, at: int, chance: random.Random) -> Lines:
    record = json.loads(lines[at])
    record[chance.choice(["text", "reasons", "blocked", "time", "conversation_id"])] = "something else"
    return [*lines[:at], json.dumps(record, separators=(",", ":")).encode() + b"\n", *lines[at + 1 :]]


def flipped(lines: Lines, at: int, chance: random.Random) -> Lines:
    line, byte = bytearray(lines[at]), chance.randrange(len(lines[at]) - 1)
    line[byte] ^= 1 << chance.randrange(8)
    return [*lines[:at], bytes(line), *lines[at + 1 :]]


def shortened(lines: Lines, at: int, chance: random.Random) -> Lines:
    return [*lines[:at], lines[at][: chance.randrange(1, len(lines[at]) - 1)] + b"\n", *lines[at + 1 :]]


def cut_off(lines: Lines, at: int, chance: random.Random) -> Lines:
    return lines[:at]


def cut_within(lines: Lines, at: int, chance: random.Random) -> Lines:
    return [*lines[:at], lines[at][: chance.randrange(1, len(lines[at]))]]


def erased_by_hand(lines: Lines, at: int, chance: random.Random) -> Lines:
    record = {name: value for name, value in json.loads(lines[at]).items() if name not in ("text", "salt")}
    record["erased"] = record["time"]
    return [*lines[:at], json.dumps(record, separators=(",", ":")).encode() + b"\n", *lines[at + 1 :]]


def forged(lines: Lines, at: int, chance: random.Random) -> Lines:
    return [*lines[:at], json.dumps(event(at)).encode() + b"\n", *lines[at:]]


KINDS = [removed, swapped, doubled, edited, flipped, shortened, cut_off, cut_within, erased_by_hand, forged]


@pytest.mark.parametrize("damage", KINDS, ids=lambda kind: kind.__name__)
def test_every_damage_is_named_at_its_line(tmp_path: Path, damage: Callable[..., Lines]) -> None:
    log = tmp_path / "audit.jsonl"
    filled(str(log))
    lines = log.read_bytes().splitlines(keepends=True)
    assert verify_audit(log).intact
    for seed in range(20):
        chance = random.Random(seed)
        at = chance.randrange(EVENTS - 1)
        changed = damage(lines, at, chance)
        if changed == lines:
            continue
        log.write_bytes(b"".join(changed))
        found = verify_audit(log)
        assert not found.intact
        numbers = [int(n) for place, _ in found.damage for n in re.findall(r"line (\d+)", place)]
        if damage in (cut_off, cut_within):
            # The last line that is left, and that the end is missing.
            assert any(f"event {at} is the last" in what for _, what in found.damage) or numbers == [at + 1]
        else:
            first = at + 1 + (damage in (doubled,))
            assert min(numbers) in (min(first, EVENTS - 1), first), (damage, seed, found.damage)


def test_the_line_after_one_that_was_written_anew_does_not_follow(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    filled(str(log), 3)
    other = tmp_path / "other" / "audit.jsonl"
    other.parent.mkdir()
    filled(str(other), 2)
    lines, made = (path.read_bytes().splitlines(keepends=True) for path in (log, other))
    log.write_bytes(lines[0] + made[1] + lines[2])
    places = [(place, what) for place, what in verify_audit(log).damage]
    assert [place for place, _ in places] == ["audit.jsonl, line 2", "audit.jsonl, line 3"]
    assert all("one of the two was written anew" in what for _, what in places)


def test_a_torn_last_line_is_told_from_a_changed_one(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    filled(str(log), 3)
    with log.open("ab") as file:
        file.write(b'{"v":1,"kind":"check","text":"half a te')
    found = verify_audit(log)
    assert found.intact and "line 4, the last one, was cut off" in found.notes[0]
    filled(str(log), 2)
    found = verify_audit(log)
    assert found.intact and "line 4 was cut off while it was written; the next writer says so" in found.notes[0]
    torn = json.loads(log.read_bytes().splitlines()[4])
    assert (torn["kind"], torn["bytes"]) == ("torn", 39)


def test_an_audit_without_hashes_has_no_chain(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text("".join(json.dumps(event(number)) + "\n" for number in range(3)))
    found = verify_audit(log)
    assert not found.intact and found.notes == ("audit.jsonl has no chain: none of its 3 events carries a hash",)
    filled(str(log), 2)
    assert verify_audit(log).intact  # what is written from now on


def test_the_head_tells_of_an_audit_that_was_written_anew(place: str) -> None:
    filled(place, 4)
    head = verify_audit(place).head
    filled(place, 2)
    assert head.n == 4 and verify_audit(place, expected=head.hash).intact
    assert "written anew" in verify_audit(place, expected="0" * 64).damage[0].what


def test_a_key_is_needed_to_make_hashes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_AUDIT_KEY", "only we know")
    filled(place, 3)
    assert verify_audit(place).intact
    monkeypatch.delenv("TURNWISE_AUDIT_KEY")
    assert len(verify_audit(place).damage) == 3


WRITER = """
import sys
from turnwise.guard import GuardrailPipeline
config = {"guardrails": [{"length": {"max_characters": 99}}], "audit": {"path": sys.argv[1], "sink": sys.argv[2]}}
with GuardrailPipeline(config) as pipeline:
    for number in range(int(sys.argv[3])):
        pipeline.check_input(f"{number}")
        if number % 10 == 0:
            pipeline._setup.audit.flush()
"""


def writer(place: str, count: int) -> subprocess.Popen[bytes]:
    sink = "store" if place.endswith(".db") else "jsonl"
    return subprocess.Popen([sys.executable, "-c", WRITER, place, sink, str(count)])


@pytest.mark.integration
def test_several_processes_make_one_chain(place: str) -> None:
    writers = [writer(place, 60) for _ in range(3)]
    assert [one.wait(120) for one in writers] == [0, 0, 0]
    found = verify_audit(place)
    assert found.intact and found.events == 180


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_the_chain_holds_after_a_writer_was_killed(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    for _ in range(3):
        one = writer(str(log), 1_000_000)
        size = log.stat().st_size if log.exists() else 0
        while one.poll() is None and (not log.exists() or log.stat().st_size < size + 20_000):
            pass
        os.kill(one.pid, signal.SIGKILL)
        one.wait(60)
    filled(str(log), 2)
    found = verify_audit(log)
    assert found.intact and found.events > 10


def test_the_chain_goes_over_files_that_were_moved_away(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    for number in (2, 1):
        filled(str(log), 3)
        log.rename(tmp_path / f"audit.jsonl.{number}")
    filled(str(log), 3)
    found = verify_audit(log)
    assert found.intact and found.events == 9
    (tmp_path / "audit.jsonl.1").rename(tmp_path / "elsewhere")
    [damage] = verify_audit(log).damage
    assert damage == ("audit.jsonl, line 1", "before it events are missing: 4 to 6")
    (tmp_path / "audit.jsonl.2").unlink()
    assert not verify_audit(log).intact
    assert verify_audit(log, first=7).intact


@given(st.lists(st.sampled_from(["ann", "ben", "eve"]), min_size=1, max_size=12), st.sets(st.integers(0, 11)))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_erasure_anywhere_leaves_a_chain_that_verifies(
    tmp_path_factory: pytest.TempPathFactory, people: list[str], chosen: set[int]
) -> None:
    for name in ("audit.jsonl", "audit.db"):
        place = str(tmp_path_factory.mktemp("audit") / name)
        texts = {f"text {number} of {who}": number in chosen for number, who in enumerate(people)}
        with pipeline_to(place) as pipeline:
            for (text, gone), who in zip(texts.items(), people, strict=True):
                chat = Conversation(who, "bot", conversation_id="gone" if gone else "stays")
                pipeline.check_input(text, chat)
            receipt = pipeline.forget_conversation("gone")
        count = sum(texts.values())
        assert sum(receipt.audit.values()) == count
        found = verify_audit(place)
        assert found.intact and (found.erased, found.events) == (count, len(people) + (count > 0))
        left = Path(place).read_bytes().decode("latin-1")
        for text, gone in texts.items():
            assert gone == (f'{text}"' not in left)
        events = read_audit(place).events
        assert [("erased" in one, "salt" in one) for one in events] == [
            (gone, not gone) for gone in texts.values()
        ]


def test_an_erased_line_that_no_event_speaks_of_is_damage(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    filled(str(log), 3)
    with pipeline_to(str(log)) as pipeline:
        pipeline.forget_conversation("chat-2")
    assert verify_audit(log).intact
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[1].replace(b'"erased":"20', b'"erased":"19').join([lines[0], b"".join(lines[2:])]))
    [damage] = verify_audit(log).damage
    assert damage.place == "audit.jsonl, line 2" and "it says that it was erased" in damage.what


def test_texts_past_their_time_are_erased_by_the_writer(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    filled(str(log), 3)
    config = {"guardrails": ["pii"], "audit": {"path": str(log), "keep_days": 30}}
    with GuardrailPipeline(config) as pipeline:
        pipeline.check_input("what is said today", Conversation("ben", "bot"))
    *old, new = read_audit(log).events
    assert new["text"] == "what is said today" and all("erased" in one and "text" not in one for one in old)
    assert verify_audit(log).intact
    with pytest.raises(ValueError, match="keep_days is 0"):
        AuditSettings(str(log), keep_days=0)
