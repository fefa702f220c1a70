"""A scan that is killed at any moment goes on, and its findings are those of one that was never disturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_logs import SCRIPT, chats, content, lines

from turnwise.errors import FindingsError, LocationError
from turnwise.findings import open_findings
from turnwise.runs import plan_scan

pytestmark = pytest.mark.integration

PARTS, ROWS, JOBS = 24, 25, 2


def begin(folder: Path) -> subprocess.Popen[bytes]:
    """Begin the scan on two workers, in a session of its own."""
    given = [
        "scan",
        "logs.jsonl",
        "--out",
        "found",
        "--observer",
        SCRIPT,
        "-j",
        str(JOBS),
        "--part-rows",
        str(ROWS),
    ]
    program = f"from turnwise.cli import main; main({given!r})"
    return subprocess.Popen(
        [sys.executable, "-c", f"if __name__ == '__main__':\n    {program}"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def written(folder: Path) -> set[str]:
    """Return the files of sequences that are there: the parts that are whole."""
    place = folder / "found" / "sequences"
    return {file.name for file in place.glob("sequences-*.parquet")} if place.is_dir() else set()


def wait_for(folder: Path, parts: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until so many parts are written, or the process ended."""
    deadline = time.monotonic() + 40
    while len(written(folder)) < parts and process.poll() is None:
        assert time.monotonic() < deadline, "no part was written in time"
        time.sleep(0.002)


def test_a_scan_that_is_killed_again_and_again_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs.jsonl").write_bytes(lines(chats(PARTS * ROWS)))
    kills = 0
    for parts in (1, 9):
        process = begin(tmp_path)
        wait_for(tmp_path, parts, process)
        before = {name: (tmp_path / "found" / "sequences" / name).stat().st_mtime_ns for name in written(tmp_path)}
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        try:
            assert not open_findings(str(tmp_path / "found")).manifest.complete
        except (FindingsError, LocationError):
            assert not before
    process = begin(tmp_path)
    assert process.wait(timeout=50) == 0
    assert kills
    # What was whole when it was killed for the last time was not written again.
    after = {name: (tmp_path / "found" / "sequences" / name).stat().st_mtime_ns for name in written(tmp_path)}
    assert {name: after[name] for name in before} == before
    monkeypatch.chdir(tmp_path)
    plan_scan("logs.jsonl", tmp_path / "undisturbed", observer=SCRIPT, part_rows=ROWS).run()
    assert content(tmp_path / "found") == content(tmp_path / "undisturbed")


HANGS = """
import signal, sys, threading
from pathlib import Path
from turnwise.observers import ContextMode, ObserverInfo
from turnwise.runs import ProcessEngine, plan_scan

class Hangs:
    parameters = {}
    @property
    def info(self):
        return ObserverInfo("hangs", "1", (ContextMode.HISTORY,), "never answers")
    def start(self, conversation_id, context):
        Path("asked").touch()
        threading.Event().wait()
    def observe(self, state, turn, wanted):
        return []

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been begun with interrupts ignored
    try:
        plan_scan("logs.jsonl", "found", observer=Hangs(), part_rows=5).run(ProcessEngine(2))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_an_interrupt_does_not_wait_for_the_parts_under_way(tmp_path: Path) -> None:
    (tmp_path / "logs.jsonl").write_bytes(lines(chats(20)))
    (tmp_path / "hangs.py").write_text(HANGS)
    process = subprocess.Popen([sys.executable, "hangs.py"], cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 40
    while not (tmp_path / "asked").exists() and process.poll() is None:
        assert time.monotonic() < deadline, "no worker began"
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
