"""All missing requests of a run as one batch: submitted once, whatever is killed, and read like kept replies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_server import BatchServer

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import UsageError
from turnwise.observers import Context, Request
from turnwise.observers.llm import Batch, BatchDone, LlmSettings, resolve
from turnwise.principles import load_principle
from turnwise.scoring import MemoryJournal, Reply
from turnwise.store import Store

REQUESTS = 300
SPEC = "llm:openai/gpt-4.1-mini"


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store(tmp_path / "s.db", create=True) as made:
        made.add_sequences(
            Sequence(f"s{n}", Label.BENIGN, "made", Conversation.from_turns([(f"Question {n}?", None)]))
            for n in range(REQUESTS)
        )
    return tmp_path / "s.db"


def start(store: Path, server: BatchServer, *more: str) -> subprocess.Popen[str]:
    options = ["--store", str(store), "--run", "r", "--observer", SPEC, "--base-url", server.url]
    options += ["--principle", "reciprocity", "--batch", str(state_of(store)), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "turnwise", "evaluate", *options],
        env={**os.environ, "OPENAI_API_KEY": "sk-1", "XDG_CONFIG_HOME": str(store.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(store: Path, server: BatchServer, *more: str) -> tuple[int, str]:
    process = start(store, server, *more)
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


def state_of(store: Path) -> Path:
    return store.with_name("batch.json")


def scores(store: Path) -> int:
    with Store(store) as opened:
        ((_, tally),) = opened.tallies()
        return tally.evaluations


def test_a_batch_that_is_killed_after_it_was_submitted_is_collected_and_not_submitted_again(
    store: Path, server: BatchServer
) -> None:
    process = start(store, server)
    until = time.monotonic() + 60
    while '"batch": "batch-0"' not in (state_of(store).read_text() if state_of(store).exists() else ""):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.communicate()
    server.done = True
    code, out = finish(store, server)
    assert code == 0, out
    assert f"the batch gave {REQUESTS} replies to {REQUESTS} requests" in out
    assert (len(server.files), len(server.batches), server.calls) == (1, 1, 0)
    assert scores(store) == REQUESTS
    assert not list(store.parent.glob("batch.json*"))
    with Store(store) as opened:
        (kept,) = opened.journal.stats()
    assert kept.replies == REQUESTS
    assert kept.cost_usd == pytest.approx(REQUESTS * (1000 * 0.40 + 100 * 1.60) / 1e6 / 2)
    code, out = finish(store, server)  # nothing is missing, so nothing is submitted
    assert (code, len(server.batches), server.calls) == (0, 1, 0), out


def test_a_submission_whose_answer_was_lost_is_found_again(store: Path, server: BatchServer) -> None:
    server.done = server.lose = True
    code, out = finish(store, server)
    assert code == 1
    assert "the same command continues" in out
    code, out = finish(store, server)
    assert (code, len(server.batches), server.calls, scores(store)) == (0, 1, 0, REQUESTS), out


def test_what_a_batch_did_not_answer_is_asked_for_one_by_one(store: Path, server: BatchServer) -> None:
    server.done, server.failing = True, frozenset({"0", "7"})
    code, out = finish(store, server)
    assert (code, len(server.batches), server.calls, scores(store)) == (0, 1, 2, REQUESTS), out


def test_a_batch_that_fails_is_told_and_the_next_command_makes_another(store: Path, server: BatchServer) -> None:
    server.failed = True
    code, out = finish(store, server)
    assert code == 1
    assert "batch batch-0 is failed without a reply: the file is not to my liking" in out
    assert not list(store.parent.glob("batch.json*"))
    server.failed, server.done = False, True
    code, out = finish(store, server)
    assert (code, len(server.batches), server.calls, scores(store)) == (0, 2, 0, REQUESTS), out


class Killed(MemoryJournal):
    """A journal of a process that is killed after some replies."""

    left = 100

    def record(self, reply: Reply) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        super().record(reply)


def test_a_kill_while_replies_are_collected_keeps_none_twice(tmp_path: Path, server: BatchServer) -> None:
    server.done = True
    endpoint = resolve("openai/gpt-4.1-mini", LlmSettings(base_url=server.url))
    wanted = [Request(load_principle("reciprocity"), Side.PROMPT)]
    asked = [(wanted, (Turn(1, f"Question {n}?"),), 1, Context.parse("turn")) for n in range(REQUESTS)]
    journal = Killed()
    batch = Batch(endpoint, tmp_path / "b.json", journal, environ={"OPENAI_API_KEY": "sk-1"})
    with pytest.raises(KeyboardInterrupt):
        batch.run(asked)
    journal.left = REQUESTS
    assert batch.run(asked).replies == REQUESTS
    assert len(journal.replies) == len({reply.nonce for reply in journal.replies}) == REQUESTS
    assert len(server.batches) == 1
    assert "sk-1" not in "".join(one.decode() for one in server.files.values())
    assert batch.run(asked) == BatchDone(0, 0, 0.0)


def test_a_state_of_another_model_is_refused(tmp_path: Path, server: BatchServer) -> None:
    environ = {"OPENAI_API_KEY": "sk-1"}
    wanted = [Request(load_principle("reciprocity"), Side.PROMPT)]
    asked = [(wanted, (Turn(1, "Question?"),), 1, Context.parse("turn"))]

    def killed(seconds: float) -> None:
        raise KeyboardInterrupt

    for model in ("gpt-4.1-mini", "gpt-4o"):
        endpoint = resolve(f"openai/{model}", LlmSettings(base_url=server.url))
        batch = Batch(endpoint, tmp_path / "b.json", MemoryJournal(), environ=environ, wait=killed)
        with pytest.raises(KeyboardInterrupt if model == "gpt-4.1-mini" else UsageError):
            batch.run(asked)
    assert "sk-1" not in (tmp_path / "b.json").read_text()
    assert len(server.batches) == 1


def test_what_a_batch_cost_is_taken_from_the_budget(store: Path, server: BatchServer) -> None:
    server.done, server.failing, server.completion_tokens = True, frozenset({str(REQUESTS - 1)}), 2400
    code, out = finish(store, server, "--budget", "0.4")
    assert (code, server.calls, scores(store)) == (1, 0, REQUESTS - 1), out
    assert "is used up" in out


def test_a_batch_keeps_within_the_budget(store: Path, server: BatchServer) -> None:
    code, out = finish(store, server, "--budget", "0.01")
    assert (code, server.files, state_of(store).exists()) == (1, {}, False)
    assert "nothing was submitted" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--observer", "local"), "--batch needs one --observer"),
        (("--no-cache",), "leave out --no-cache: --batch"),
        ((), "is no state of a batch"),
    ],
)
def test_wrong_use_is_named(store: Path, server: BatchServer, options: tuple[str, ...], said: str) -> None:
    state_of(store).write_text("[]")
    code, out = finish(store, server, *options)
    assert (code, server.files) == (2, {})
    assert said in " ".join(out.replace("│", " ").split())
