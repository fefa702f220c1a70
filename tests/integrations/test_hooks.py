"""Hooks of coding agents: what Claude Code and Codex are answered, by a helper that stays."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.guard import GuardrailPipeline, MemoryStateStore
from turnwise.integrations.hooks import answer

CONFIG: dict[str, Any] = {
    "guardrails": [
        "actions",
        {"keywords": {"keywords": ["swordfish"], "on": "all"}},
        {"secrets": {"action": "redact", "on": "tools"}},
    ]
}
KEY = "AKIA" + "IOSFODNN7EXAMPLF"
CODEX = {"model": "gpt-6-codex", "turn_id": "t"}

Answered = Callable[..., dict[str, Any]]


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s1", "hook_event_name": name, "cwd": "/tmp", "transcript_path": None, **more}


def before(command: str, **more: Any) -> dict[str, Any]:
    return event("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id="t1", **more)


def after(response: Any, **more: Any) -> dict[str, Any]:
    return event("PostToolUse", tool_name="Bash", tool_input={}, tool_response=response, tool_use_id="t1", **more)


@pytest.fixture
def pipeline() -> Iterator[GuardrailPipeline]:
    with GuardrailPipeline(CONFIG, state_store=MemoryStateStore()) as one:
        yield one


@pytest.mark.parametrize(
    ("command", "more", "decision"),
    [
        ("rm -rf ./build", {}, None),
        ("git push --force", {}, "ask"),
        ("rm -rf /", {}, "deny"),
        ("echo swordfish", {}, "deny"),
        (f"export KEY={KEY}", {}, "ask"),
        ("git push --force", CODEX, "deny"),  # Codex takes no question from a hook, and would run it
        ("rm -rf ./build", CODEX, None),
    ],
)
def test_calls(pipeline: GuardrailPipeline, command: str, more: dict[str, Any], decision: str | None) -> None:
    said = answer(pipeline, before(command, **more))
    assert (said.get("hookSpecificOutput") or {}).get("permissionDecision") == decision
    if decision is None:
        assert said == {}
    else:
        reason = said["hookSpecificOutput"]["permissionDecisionReason"]
        assert reason.startswith("turnwise: ") and KEY not in reason


def test_prompts_results_and_requests_for_permission(pipeline: GuardrailPipeline) -> None:
    assert answer(pipeline, event("UserPromptSubmit", prompt="Hello there")) == {}
    blocked = answer(pipeline, event("UserPromptSubmit", prompt="the swordfish"))
    assert blocked == {"decision": "block", "reason": "turnwise: keywords: 'swordfish'"}
    output = {"stdout": "all is well", "stderr": "", "interrupted": False}
    assert answer(pipeline, after(output)) == {}
    said = answer(pipeline, after({**output, "stdout": "a swordfish"}))
    assert said["decision"] == "block" and said["reason"].startswith("[tool result withheld]")
    updated = said["hookSpecificOutput"]["updatedToolOutput"]
    assert updated == {**output, "stdout": "[tool result withheld]"}
    said = answer(pipeline, after({**output, "stdout": f"the key {KEY}, and more"}))
    assert "decision" not in said and KEY not in json.dumps(said) and "and more" in json.dumps(said)
    said = answer(pipeline, after("a swordfish", **CODEX))
    assert said.keys() == {"decision", "reason"} and said["decision"] == "block"
    permission = {"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}
    said = answer(pipeline, event("PermissionRequest", **permission))
    assert said["hookSpecificOutput"]["decision"]["behavior"] == "deny"
    permission = {"tool_name": "Bash", "tool_input": {"command": "git push -f"}}
    assert answer(pipeline, event("PermissionRequest", **permission)) == {}
    assert answer(pipeline, event("SessionStart", source="startup")) == {}


def test_a_session_is_a_conversation(pipeline: GuardrailPipeline) -> None:
    answer(pipeline, event("UserPromptSubmit", prompt="List the files"))
    answer(pipeline, before("ls"))
    answer(pipeline, after("a.txt"))
    chat = pipeline.load_conversation("hook-s1")
    assert [one.name for one in chat.turn(1).tool_calls] == ["Bash"]
    assert "a.txt" in chat.turn(1).tool_results[0].content
    assert pipeline.find_conversation("hook-s2") is None


# The command, and the helper that it starts

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "guard.yaml"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture
def ask(tmp_path: Path, config: Path) -> Iterator[Answered]:
    """Return a function that runs ``turnwise hook`` in a process of its own."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}

    def run(given: Any, *options: str, code: int = 0, settings: Path = config) -> dict[str, Any]:
        raw = given if isinstance(given, bytes) else json.dumps(given).encode()
        command = [sys.executable, "-m", "turnwise", "hook", "--config", str(settings), *options]
        done = subprocess.run(command, input=raw, capture_output=True, env=environment, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout else {"stderr": done.stderr.decode()}

    yield run
    for place in sockets(tmp_path):
        place.unlink()  # by which the helper ends


def sockets(folder: Path) -> list[Path]:
    return [*folder.glob("turnwise*/*.sock")]


@UNIX
def test_the_helper_is_started_once_and_keeps_the_session(ask: Answered, tmp_path: Path) -> None:
    assert ask(event("UserPromptSubmit", prompt="List the files")) == {}
    (place,) = sockets(tmp_path)
    born = place.stat().st_ino
    assert ask(before("git push --force"))["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert ask(after("a.txt")) == {}
    assert place.stat().st_ino == born
    assert stat.S_IMODE(place.stat().st_mode) == 0o600 and stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    database = tmp_path / "turnwise" / "hook.db"
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


@UNIX
def test_another_configuration_has_another_helper(ask: Answered, config: Path, tmp_path: Path) -> None:
    assert ask(before("git reset --hard"))["hookSpecificOutput"]["permissionDecision"] == "ask"
    config.write_text(json.dumps({"guardrails": [{"actions": {"delete": "allow"}}]}))
    assert ask(before("git reset --hard")) == {}
    assert len(sockets(tmp_path)) == 2


@UNIX
@pytest.mark.parametrize(("on_error", "decision"), [("ask", "ask"), ("deny", "deny"), ("allow", None)])
def test_without_a_helper_the_option_decides(
    ask: Answered, tmp_path: Path, on_error: str, decision: str | None
) -> None:
    def failed(given: Any) -> dict[str, Any]:
        return ask(given, "--on-error", on_error, settings=tmp_path / "missing.yaml")

    said = failed(before("ls"))
    if decision is None:
        assert "turnwise could not check this" in said["systemMessage"] and len(said) == 1
    else:
        assert said["hookSpecificOutput"]["permissionDecision"] == decision
    said = failed(event("UserPromptSubmit", prompt="Hello"))
    assert said.get("decision") == ("block" if on_error == "deny" else None)
    unread = ask(b"no JSON", "--on-error", on_error, code=0 if on_error == "allow" else 2)
    assert "turnwise could not check this" in unread["stderr"]


@UNIX
def test_a_helper_that_was_killed_is_started_again(ask: Answered, tmp_path: Path) -> None:
    assert ask(before("ls")) == {}
    (place,) = sockets(tmp_path)
    helper = int(place.with_suffix(".lock").read_text())
    os.kill(helper, signal.SIGKILL)
    time.sleep(0.2)
    assert ask(before("rm -rf /"))["hookSpecificOutput"]["permissionDecision"] == "deny"


@UNIX
def test_a_helper_ends_when_nobody_asks(tmp_path: Path, config: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "turnwise.integrations.hooks", "", str(config), "0.4"]
    helper = subprocess.Popen(command, env=environment)
    assert helper.wait(60) == 0
    assert sockets(tmp_path) == []


def test_wrong_use_is_told(cli: Any) -> None:
    assert cli("hook", "--on-error", "maybe").code == 2
    assert cli("hook", "--preset", "agent", "--config", "x.yaml").code == 2
