"""A run that is killed while it pays: what was kept is not bought again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from chat_server import ChatServer, scores_by_text

from turnwise.conversation import Sequence
from turnwise.store import Store

SEQUENCES, TURNS, PRINCIPLES, JOBS = 8, 3, 2, 4
CALLS = SEQUENCES * TURNS * PRINCIPLES
KEY = "sk-planted-3mB6tXs0Wd"

EVALUATE = """
import sys
from turnwise.runs import evaluate
from turnwise.observers import LlmObserver, LlmSettings
from turnwise.principles import Principle
from turnwise.store import Store

path, url, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
principles = [Principle(name, "1", "s", "t", "i", "f", "judge it") for name in ("p", "q")]
observer = LlmObserver("openai/gpt-4.1-mini", LlmSettings(base_url=url))
with Store(path) as store:
    summary = evaluate(store, "r", observer, principles=principles, jobs=jobs)
print(summary.evaluations, summary.skipped)
"""


def test_a_kill_loses_only_what_is_in_flight(path: Path, make_sequence: Callable[..., Sequence]) -> None:
    with Store(path, create=True) as store:
        store.add_sequences(
            make_sequence(f"s{number}", *((f"{number} asks {turn}", f"reply {turn}") for turn in range(TURNS)))
            for number in range(SEQUENCES)
        )
    asked: Counter[str] = Counter()
    lock = threading.Lock()
    victim: list[int] = []

    def answer(body: dict[str, Any]) -> str:
        text = scores_by_text(body)  # hangs on all of the request but its nonce
        with lock:
            asked[text] += 1
            if victim and asked.total() == 20:
                os.kill(victim.pop(), signal.SIGKILL)
        return text

    def evaluate(server: ChatServer, *, kill: bool) -> tuple[int, str, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", EVALUATE, str(path), server.url, str(JOBS)],
            env={**os.environ, "OPENAI_API_KEY": KEY, "XDG_CONFIG_HOME": str(path.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if kill:
            victim.append(process.pid)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    with ChatServer(answer, key=KEY) as server:
        code, _, _ = evaluate(server, kill=True)
        assert code == -signal.SIGKILL
        with closing(sqlite3.connect(path)) as rows:
            ((kept, requests),) = rows.execute("SELECT count(*), count(DISTINCT request_key) FROM replies")
        lost = asked.total() - kept
        assert kept == requests
        # Beside the requests on the wire, a reply may be on its way into the journal in the spare thread.
        assert 1 <= lost <= JOBS + 1
        code, out, err = evaluate(server, kill=False)
        assert (code, err) == (0, "")
    made, there = map(int, out.split())
    assert made + there == CALLS == len(asked)
    assert asked.total() == CALLS + lost
    with Store(path) as store:
        assert store.counts()["evaluations"] == CALLS
        assert store.counts()["failures"] == 0
    assert not any(KEY.encode() in file.read_bytes() for file in path.parent.glob("work.db*"))
