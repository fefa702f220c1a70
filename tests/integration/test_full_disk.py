"""A disk that fills up, as a limit on the size of files: what was committed stays, the same command goes on."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwise.store import Store

pytestmark = pytest.mark.integration

CHATS = 600
TURNWISE = (sys.executable, "-m", "turnwise")


def limited(size: int | None, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that can write no file of more than so many bytes."""

    def limit() -> None:
        if size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    done = subprocess.run(command, check=False, preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def chats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data set, in the working directory."""
    monkeypatch.chdir(tmp_path)

    def line(n: int) -> dict[str, Any]:
        turns = [{"role": "user", "content": f"Hi {n} {'x' * 300}"}, {"role": "assistant", "content": "Ho"}]
        return {"id": f"c{n}", "label": "benign", "source": "s", "turns": turns, "metadata": {}}

    path = tmp_path / "chats.jsonl"
    path.write_text("".join(f"{json.dumps(line(n))}\n" for n in range(CHATS)))
    return path


@pytest.mark.parametrize("size", [0, 50_000, 400_000])
def test_an_import_keeps_what_it_committed(chats: Path, size: int) -> None:
    done = limited(size, *TURNWISE, "import", str(chats))
    assert done.returncode == 1, done
    assert "turnwise.db: disk I/O error: see whether the disk is full or failing; what was" in done.stderr
    again = limited(None, *TURNWISE, "import", str(chats), "--json")
    told = json.loads(again.stdout)
    assert again.returncode == 0
    assert told["imported"] + told["skipped"] == CHATS
    with Store("turnwise.db") as store:
        assert len(list(store.sequences())) == CHATS
    assert (told["skipped"] > 0) == (size == 400_000)


@pytest.mark.parametrize("size", [0, 40_000])
def test_an_evaluation_goes_on_where_it_stopped(chats: Path, size: int) -> None:
    limited(None, *TURNWISE, "import", str(chats))
    evaluate = (
        *TURNWISE,
        "evaluate",
        "--run",
        "r",
        "--observer",
        "scripted:0.2,0.4",
        "--principle",
        "reciprocity",
    )
    done = limited(size, *evaluate)
    assert done.returncode == 1, done
    assert "turnwise.db: disk I/O error: see whether the disk is full or failing; what was" in done.stderr
    again = limited(None, *evaluate, "--json")
    assert again.returncode == 0, again
    with Store("turnwise.db") as store:
        assert store.counts()["evaluations"] == CHATS
        assert store.query("F > 0.1", "r").rate.count == CHATS


GUARD = """
import json
from turnwise import GuardrailPipeline
with GuardrailPipeline({"guardrails": ["pii"], "audit": {"path": "audit.jsonl"}}) as pipeline:
    blocked = [pipeline.check_input(f"text {n}, my card is 4111 1111 1111 1111").blocked for n in range(40)]
    pipeline.close()
    status = pipeline.audit_status
print(json.dumps([all(blocked), status.written, status.unwritten, status.error]))
"""


def test_an_audit_that_can_not_be_written_stops_no_guard_and_is_told(chats: Path) -> None:
    done = limited(5_000, sys.executable, "-c", GUARD)
    assert done.returncode == 0, done
    blocked, written, unwritten, error = json.loads(done.stdout)
    assert blocked
    assert written + unwritten == 40
    assert unwritten > 0
    assert "File too large" in error
    asked = limited(None, *TURNWISE, "guard", "audit", "audit.jsonl", "--json")
    assert asked.returncode == 0, asked
    told = json.loads(asked.stdout)
    assert written <= told["count"] < 40
    assert len(told["unreadable"]) <= 1
