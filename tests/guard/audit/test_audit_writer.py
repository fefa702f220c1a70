"""The writer: off the hot path, bounded, and honest about what it lost."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from turnwise.clock import utc_now
from turnwise.conversation import Conversation
from turnwise.errors import GuardError
from turnwise.guard import (
    AuditEvent,
    AuditSettings,
    AuditWriter,
    GuardrailPipeline,
    PipelineResult,
    read_audit,
    verify_audit,
)

Records = Callable[[], list[dict[str, Any]]]
Make = Callable[..., GuardrailPipeline]


class Gate:
    """A sink that waits until it is let go, as one on a disk that hangs."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.records: list[Mapping[str, Any]] = []
        self.closed = False

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.entered.set()
        assert self.opened.wait(30)
        self.records += records

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def event() -> Callable[..., AuditEvent]:
    """Return a function from a text to the event of its check."""
    pipeline = GuardrailPipeline({"guardrails": [{"length": {"max_characters": 1000}}]})

    def make(text: str) -> AuditEvent:
        chat = Conversation("ann", "bot")
        result: PipelineResult = pipeline.check_input(text, conversation=chat)
        return AuditEvent.of(result, "s", chat, "p", utc_now())

    return make


def recorded(event: AuditEvent) -> dict[str, Any]:
    return {"kind": event.kind, "text": event.result.text}


def writer(sink: Any, **settings: Any) -> AuditWriter:
    return AuditWriter(lambda: sink, recorded, path="gate", **settings)


def texts(sink: Gate) -> list[str]:
    return [record["text"] for record in sink.records if record["kind"] == "check"]


def test_writing_does_not_wait_for_the_disk(event: Callable[..., AuditEvent]) -> None:
    sink = Gate()
    audit = writer(sink, most=1000)
    one = event("hello")
    audit.write(one)
    assert sink.entered.wait(30)
    began = time.perf_counter()
    for _ in range(500):
        audit.write(one)
    took = time.perf_counter() - began
    assert audit.status.written == 0
    assert audit.status.waiting == 500
    sink.opened.set()
    audit.close()
    assert len(sink.records) == 501
    assert took < 1.0  # the disk hung all the while
    assert sink.closed


@pytest.mark.parametrize(
    ("policy", "kept"),
    [("drop_oldest", ["0", "3", "4"]), ("drop_newest", ["0", "1", "2"]), ("block", ["0", "1", "2"])],
)
def test_a_full_queue_gives_way_as_its_policy_says_and_the_gap_is_written(
    event: Callable[..., AuditEvent], policy: str, kept: list[str]
) -> None:
    sink = Gate()
    audit = writer(sink, most=2, when_full=policy, block_seconds=0.01)
    audit.write(event("0"))
    assert sink.entered.wait(30)
    for number in range(1, 5):
        audit.write(event(str(number)))
    assert audit.status.dropped == 2
    sink.opened.set()
    audit.close()
    assert texts(sink) == kept
    [gap] = [record for record in sink.records if record["kind"] == "gap"]
    assert (gap["dropped"], gap["policy"], gap["unwritten"], gap["error"]) == (2, policy, 0, None)


def test_block_waits_until_there_is_room(event: Callable[..., AuditEvent]) -> None:
    sink = Gate()
    audit = writer(sink, most=1, when_full="block", block_seconds=30.0)
    audit.write(event("0"))
    assert sink.entered.wait(30)
    audit.write(event("1"))
    waiting = threading.Thread(target=audit.write, args=(event("2"),))
    waiting.start()
    sink.opened.set()
    waiting.join(30)
    audit.close()
    assert texts(sink) == ["0", "1", "2"]
    assert audit.status.dropped == 0


def test_long_texts_count_by_their_characters(event: Callable[..., AuditEvent]) -> None:
    sink = Gate()
    audit = writer(sink, most=1000, characters=100, when_full="drop_newest")
    audit.write(event("0"))
    assert sink.entered.wait(30)
    for text in ("a" * 60, "b" * 60, "c" * 30):
        audit.write(event(text))
    sink.opened.set()
    audit.close()
    assert [text[0] for text in texts(sink)] == ["0", "a", "c"]


def test_flush_waits_and_close_is_idempotent(make_pipeline: Make, records: Records) -> None:
    pipeline = make_pipeline()
    pipeline.check_input("hello")
    audit = pipeline._setup.audit
    assert isinstance(audit, AuditWriter)
    assert audit.flush()
    assert len(records()) == 1
    pipeline.close()
    pipeline.close()
    pipeline.check_input("after it was closed")
    assert len(records()) == 1
    status = pipeline.audit_status
    assert status is not None
    assert (status.written, status.waiting, status.closed, status.error) == (1, 0, True, None)
    assert audit.flush(0.0)


def test_flush_says_when_it_was_not_in_time(event: Callable[..., AuditEvent]) -> None:
    sink = Gate()
    audit = writer(sink)
    audit.write(event("0"))
    assert not audit.flush(0.01)
    sink.opened.set()
    assert audit.flush()
    audit.close()


def test_closing_does_not_wait_for_ever(
    event: Callable[..., AuditEvent], caplog: pytest.LogCaptureFixture
) -> None:
    sink = Gate()
    audit = writer(sink)
    audit.write(event("0"))
    assert sink.entered.wait(30)
    audit.write(event("1"))
    with caplog.at_level(logging.WARNING, "turnwise.guard.audit"):
        audit.close(0.01)
    assert "did not take the last events" in caplog.text
    assert (audit.status.waiting, audit.status.unwritten) == (0, 2)
    sink.opened.set()
    audit.close()
    assert (audit.status.written, audit.status.unwritten) == (2, 0)


def test_a_pipeline_without_audit_has_no_status() -> None:
    assert GuardrailPipeline({"guardrails": ["pii"]}).audit_status is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_breaks_no_check_and_is_told_once(
    make_pipeline: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "turnwise.guard.audit"):
        pipeline = make_pipeline(path="/dev/full")
        for _ in range(3):
            assert not pipeline.check_input("hello").blocked
            assert pipeline._setup.audit.flush()  # type: ignore[union-attr]
        status = pipeline.audit_status
        pipeline.close()
    assert status is not None
    assert (status.written, status.unwritten, status.failing) == (0, 3, True)
    assert status.error is not None
    assert "No space left" in status.error
    assert [record.getMessage().count("No space left") for record in caplog.records] == [1]


def test_what_was_lost_is_written_as_soon_as_the_file_takes_events_again(
    make_pipeline: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "audit.jsonl"
    with caplog.at_level(logging.WARNING, "turnwise.guard.audit"):
        pipeline = make_pipeline(path=log)
        shutil.rmtree(folder)
        pipeline.check_input("lost")
        assert pipeline._setup.audit.flush()  # type: ignore[union-attr]
        assert pipeline.audit_status is not None
        assert pipeline.audit_status.failing
        folder.mkdir()
        pipeline.check_input("found")
        pipeline.close()
    gap, check = map(json.loads, log.read_text().splitlines())
    assert (gap["kind"], gap["unwritten"]) == ("gap", 1)
    assert "FileNotFoundError" in gap["error"]
    assert check["text"] == "found"
    assert not pipeline.audit_status.failing
    assert "takes events again; 1 were not written" in caplog.text


def test_a_moved_file_is_followed_by_a_new_one(make_pipeline: Make, log: Path, records: Records) -> None:
    pipeline = make_pipeline(fsync=True)
    pipeline.check_input("before")
    assert pipeline._setup.audit.flush()  # type: ignore[union-attr]
    log.rename(log.with_suffix(".1"))
    pipeline.check_input("between")
    assert pipeline._setup.audit.flush()  # type: ignore[union-attr]
    log.rename(log.with_suffix(".2"))
    log.touch()
    pipeline.check_input("after")
    pipeline.close()
    assert [record["text"] for record in records()] == ["after"]
    assert json.loads(log.with_suffix(".2").read_text())["text"] == "between"
    assert json.loads(log.with_suffix(".1").read_text())["text"] == "before"


def test_what_the_disk_did_not_confirm_is_taken_back(
    make_pipeline: Make, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        monkeypatch.undo()
        raise OSError(errno.EIO, "Input/output error")

    with make_pipeline(fsync=True) as pipeline:
        monkeypatch.setattr(os, "fsync", fail)
        pipeline.check_input("lost")
        assert pipeline._setup.audit.flush()  # type: ignore[union-attr]
        pipeline.check_input("found")
    answer = read_audit(log)
    assert [event["text"] for event in answer.events] == ["found"]
    assert [gap["unwritten"] for gap in answer.gaps] == [1]
    assert verify_audit(log).intact


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_has_no_disk_to_wait_for(make_pipeline: Make, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with make_pipeline(path=pipe, fsync=True) as pipeline:
        pipeline.check_input("hello")
    assert json.loads(os.read(reader, 10_000))["text"] == "hello"
    os.close(reader)
    assert pipeline.audit_status is not None
    assert (pipeline.audit_status.written, pipeline.audit_status.unwritten) == (1, 0)


def test_a_torn_last_line_stays_alone(make_pipeline: Make, log: Path) -> None:
    log.write_text('{"v":1,"kind":"che')
    with make_pipeline() as pipeline:
        pipeline.check_input("hello")
    answer = read_audit(log)
    assert [event["text"] for event in answer.events] == ["hello"]
    assert answer.unreadable == ("line 1 is not JSON",)


def test_an_event_that_cannot_be_recorded_holds_up_no_other(
    event: Callable[..., AuditEvent], caplog: pytest.LogCaptureFixture
) -> None:
    def record(given: AuditEvent) -> dict[str, Any]:
        if given.result.text == "1":
            raise RuntimeError("what is this")
        return recorded(given)

    sink = Gate()
    sink.opened.set()
    with caplog.at_level(logging.WARNING, "turnwise.guard.audit"):
        audit = AuditWriter(lambda: sink, record)
        for number in range(3):
            audit.write(event(str(number)))
        audit.close()
    assert texts(sink) == ["0", "2"]
    assert audit.status.unwritten == 1
    assert sum(record.get("unwritten", 0) for record in sink.records) == 1


def test_several_writers_share_a_file(make_pipeline: Make, records: Records) -> None:
    pipelines = [make_pipeline() for _ in range(4)]

    def talk(pipeline: GuardrailPipeline, name: int) -> None:
        for number in range(50):
            pipeline.check_input(f"{name}:{number}")

    threads = [threading.Thread(target=talk, args=(pipelines[name % 4], name)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for pipeline in pipelines:
        pipeline.close()
    said = [record["text"] for record in records()]
    assert sorted(said) == sorted(f"{name}:{number}" for name in range(8) for number in range(50))
    for name in range(8):
        mine = [text for text in said if text.startswith(f"{name}:")]
        assert mine == [f"{name}:{number}" for number in range(50)]


def test_a_forgotten_pipeline_writes_what_it_holds(make_pipeline: Make, records: Records) -> None:
    pipeline = make_pipeline()
    pipeline.check_input("hello")
    thread = next(one for one in threading.enumerate() if one.name == "turnwise-audit")
    del pipeline
    gc.collect()
    thread.join(30)
    assert [record["text"] for record in records()] == ["hello"]


def run(script: str, log: Path) -> None:
    # Later versions of Python warn of a fork beside threads, which is what these tests are about.
    command = [sys.executable, "-W", "ignore", "-c", script, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


START = """
import os, sys
from turnwise.guard import GuardrailPipeline
config = {"guardrails": [{"length": {"max_characters": 99}}], "audit": {"path": sys.argv[1], "text": "raw"}}
pipeline = GuardrailPipeline(config)
"""


def test_the_end_of_the_interpreter_loses_nothing(log: Path, records: Records) -> None:
    run(START + "for number in range(500): pipeline.check_input(str(number))", log)
    assert [record["text"] for record in records()] == [str(number) for number in range(500)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_its_own_events_once(log: Path, records: Records) -> None:
    fork = """
pipeline.check_input("before")
child = os.fork()
if child == 0:
    for number in range(20): pipeline.check_input(f"child {number}")
    pipeline.close()
    os._exit(0)
for number in range(20): pipeline.check_input(f"parent {number}")
pipeline.close()
assert os.waitpid(child, 0)[1] == 0
"""
    run(START + fork, log)
    said = sorted(record["text"] for record in records())
    expected = [f"{who} {number}" for who in ("child", "parent") for number in range(20)]
    assert said == sorted(["before", *expected])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_closed_pipeline_writes_nothing(log: Path, records: Records) -> None:
    fork = """
pipeline.check_input("before")
pipeline.close()
child = os.fork()
pipeline.check_input("after")
pipeline.close()
if child == 0: os._exit(0)
os.waitpid(child, 0)
"""
    run(START + fork, log)
    assert [record["text"] for record in records()] == ["before"]


def test_opening_again_after_the_folder_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match="can't be written"):
        AuditSettings(str(tmp_path / "gone" / "audit.jsonl"), text="raw").open()
