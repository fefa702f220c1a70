"""Events of hooks of coding agents (Claude Code, Codex) under guard, and the helper that stays to check them."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.conversation import WITHHELD_RESULT, Conversation
from turnwise.errors import TurnwiseError
from turnwise.guard import GuardrailPipeline, PipelineResult, SqliteStateStore
from turnwise.guard.tool_texts import Arguments
from turnwise.integrations.hook_client import MOST, Event, HookSettings, answer_to, is_codex, own_folder

DEFAULT_PRESET: Final = "agent"

_IDLE_SECONDS = 1_800.0
_KEPT: Final = frozenset({"type", "filePath", "mimeType", "mode"})
"""Keys of a result whose values say how to read it, and stay in a withheld one."""


def answer(pipeline: GuardrailPipeline, event: Event, agent: str = "auto") -> Event:
    """Check what an event is about, and return the answer to it; an empty one leaves all as it is.

    Args:
        pipeline: what checks; it has a state store, in which a session of the agent is a conversation.
        event: what the agent gives its hook: ``UserPromptSubmit``, ``PreToolUse``, ``PermissionRequest`` or
            ``PostToolUse``; others are let through.
        agent: ``claude``, ``codex``, or ``auto``.

    Raises:
        TurnwiseError: it can't be checked.

    >>> from turnwise.guard import MemoryStateStore
    >>> pipeline = GuardrailPipeline({"guardrails": ["actions"]}, state_store=MemoryStateStore())
    >>> call = {"tool_name": "Bash", "tool_input": {"command": "git push -f"}, "session_id": "s1"}
    >>> answer(pipeline, {"hook_event_name": "PreToolUse", **call})["hookSpecificOutput"]["permissionDecision"]
    'ask'
    """
    name = event.get("hook_event_name")
    chat = _conversation(pipeline, str(event.get("session_id") or "none"))
    tool, call_id = str(event.get("tool_name") or ""), event.get("tool_use_id")
    call_id = call_id if isinstance(call_id, str) and call_id else None
    if name == "UserPromptSubmit":
        result = pipeline.check_input(str(event.get("prompt") or ""), conversation=chat)
        return answer_to(event, "deny", _told(result), agent) if result.blocked else {}
    if name in ("PreToolUse", "PermissionRequest"):
        given = json.dumps(event.get("tool_input") or {})
        if name == "PreToolUse":
            result = pipeline.check_tool_call(tool, given, conversation=chat, call_id=call_id)
        else:  # of a call that was checked before
            result = pipeline.check_tool_call(tool, given)
        if result.blocked:
            return answer_to(event, "ask" if result.asks else "deny", _told(result), agent)
        found = [f"{name}: {detail.reason}" for name, detail in result.details.items() if detail.redactions]
        return answer_to(event, "ask", f"turnwise: {'; '.join(found)}", agent) if found else {}
    if name == "PostToolUse":
        return _answer_to_result(pipeline, event, chat, call_id, agent)
    return {}


def _answer_to_result(
    pipeline: GuardrailPipeline, event: Event, chat: Conversation, call_id: str | None, agent: str
) -> Event:
    response = event.get("tool_response")
    texts = Arguments(json.dumps(response))
    tool = str(event.get("tool_name") or "")
    result = pipeline.check_tool_result(texts.text, conversation=chat, call_id=call_id, name=tool)
    redactions = [detail.redactions for detail in result.details.values() if detail.redactions]
    if not result.blocked and not redactions:
        return {}
    reason = (
        f"{WITHHELD_RESULT} {_told(result)}" if result.blocked else "turnwise: secrets are left out of the result"
    )
    codex = is_codex(event, agent)
    said = answer_to(event, "deny", reason, agent) if result.blocked or codex else {}
    if not codex:
        updated = _withheld(response) if result.blocked else json.loads(texts.redacted(redactions))
        said["hookSpecificOutput"] = {"hookEventName": "PostToolUse", "updatedToolOutput": updated}
    return said


def _withheld(value: Any, key: str = "") -> Any:
    """A result of the same form without what it says."""
    if isinstance(value, dict):
        return {name: _withheld(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_withheld(item) for item in value]
    return WITHHELD_RESULT if isinstance(value, str) and value and key not in _KEPT else value


def _told(result: PipelineResult) -> str:
    return f"turnwise: {'; '.join(result.reasons) or 'no reason was given'}"


def _conversation(pipeline: GuardrailPipeline, session: str) -> Conversation:
    name = f"hook-{session}"
    found = pipeline.find_conversation(name)
    return found or Conversation.human_ai("user", "agent", conversation_id=name)


# The helper


def answer_here(raw: bytes, settings: HookSettings) -> bytes:
    """The answer to an event, from a pipeline of this process: where there are no Unix sockets."""
    with _pipeline(settings) as pipeline:
        return _answered(pipeline, raw, settings.agent)


def _answered(pipeline: GuardrailPipeline, raw: bytes, agent: str) -> bytes:
    try:
        event = read_json(raw)
        if not isinstance(event, dict):
            raise ValueError("the event is no object")
        return json.dumps(answer(pipeline, event, agent)).encode()
    except (TurnwiseError, ValueError, RecursionError) as error:
        return json.dumps({"error": str(error)}).encode()


@contextmanager
def _pipeline(settings: HookSettings) -> Iterator[GuardrailPipeline]:
    place = own_folder() / "hook.db"
    with SqliteStateStore(place, limit=10_000) as store:
        if settings.config is not None:
            pipeline = GuardrailPipeline(settings.config, state_store=store)
        else:
            pipeline = GuardrailPipeline.from_preset(settings.preset or DEFAULT_PRESET, state_store=store)
        with pipeline:
            yield pipeline


def stay(settings: HookSettings, idle: float = _IDLE_SECONDS) -> None:
    """Answer events at the socket of some settings until nobody asks for a while, unless another helper does."""
    import fcntl

    place = settings.socket
    lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    with suppress(BlockingIOError), os.fdopen(lock, "w") as file:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        with _pipeline(settings) as pipeline:
            pipeline.check_tool_call("Bash", '{"command": "ls"}')  # what is read at the first check is read now
            place.unlink(missing_ok=True)
            before = os.umask(0o177)
            helper = _Helper(str(place), pipeline)
            os.umask(before)
            Thread(target=helper.serve_forever, args=(0.05,), daemon=True).start()
            while time.monotonic() - helper.asked < idle and place.exists():
                time.sleep(min(1.0, idle / 4))
            place.unlink(missing_ok=True)
            helper.shutdown()
            helper.server_close()  # waits for answers under way


class _HookQuestion(socketserver.StreamRequestHandler):
    timeout = 30.0
    server: _Helper

    def handle(self) -> None:
        self.server.asked = time.monotonic()
        if not _is_ours(self.connection):
            return
        agent = self.rfile.readline(20).decode("ascii", "replace").strip()
        raw = self.rfile.read(MOST + 1)
        if len(raw) <= MOST:
            self.wfile.write(_answered(self.server.pipeline, raw, agent))


if hasattr(socket, "AF_UNIX"):

    class _Helper(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        request_queue_size = 64

        def __init__(self, path: str, pipeline: GuardrailPipeline) -> None:
            self.pipeline = pipeline
            self.asked = time.monotonic()
            super().__init__(path, _HookQuestion)


def _is_ours(connection: socket.socket) -> bool:
    """Whether a process of the same user asks, where the system tells; the socket's folder is closed to others."""
    peer = getattr(socket, "SO_PEERCRED", None)
    if peer is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, peer, struct.calcsize("3i")))
    return bool(user == os.getuid())


if __name__ == "__main__":
    preset, config = sys.argv[1:3]
    stay(HookSettings(preset or None, config or None), *map(float, sys.argv[3:]))
