"""Transcripts that coding agents keep: sessions of Claude Code and rollouts of Codex."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from turnwise.datasets.layout import FileHead, data_stem
from turnwise.datasets.records import as_object
from turnwise.datasets.traces.loader import TraceFormat, first_object
from turnwise.datasets.traces.messages import Message, messages_of
from turnwise.datasets.traces.steps import SAID, TraceStep, name_of, time_of

_NOT_TYPED: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<collaboration_mode>",
    "<skills_instructions>",
    "<recommended_plugins>",
    "<subagent_notification>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
)
"""How texts begin that Codex sends in the user's name; no user typed them."""

_LINES: Final = (
    {"uuid", "parentUuid", "message", "isSidechain"},
    {"messageId", "snapshot"},
    {"summary", "leafUuid"},
    {"operation", "sessionId"},
    {"permissionMode", "sessionId"},
)
"""Fields of lines with which sessions of Claude Code begin."""

_NOTES: Final = ("<local-command-", "[Request interrupted by user", "<system-reminder>", "<task-notification>")
"""The same for Claude Code."""


def _is_claude_code(head: FileHead) -> bool:
    lines = [one for one in head.records if isinstance(one, dict)]
    return any(fields <= one.keys() for one in lines for fields in _LINES)


class _Session:
    """One file of a session, read line by line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: dict[str, str] = {}
        self._asked: set[str] = set()
        self._time: int | None = None

    def read(self, record: Any) -> Iterator[TraceStep]:
        line = as_object(record)
        kind = name_of(line, "type", needed=True)
        message = line.get("message")
        if kind not in ("user", "assistant") or not isinstance(message, dict):
            return
        if line.get("isApiErrorMessage"):
            return
        said = messages_of({**message, "role": message.get("role") or kind}, kind)
        sent = bool(line.get("isMeta") or line.get("isCompactSummary"))  # in the user's name, and typed by nobody
        said = [_as_typed(one, ("",) if sent else _NOTES, "system") for one in said]
        said = [one for one in said if one["content"] or "tool_calls" in one or one["role"] == "tool"]
        span, parent = name_of(line, "uuid"), name_of(line, "parentUuid", "logicalParentUuid")
        thread = ""
        if line.get("isSidechain") is True:
            thread = name_of(line, "agentId") or self._threads.get(parent, span)
        self._threads[span] = thread
        typed = any(one["role"] == "user" for one in said)
        edited = bool(line.get("isCompactSummary")) or (typed and parent in self._asked)
        if typed and parent:
            self._asked.add(parent)
        self._time = time_of(line.get("timestamp")) or self._time
        session = name_of(line, "sessionId") or self._name
        if said:
            yield TraceStep(
                kind=SAID,
                trace=session,
                span=span,
                parent=parent,
                conversation=session,
                time=self._time,
                model=name_of(message, "model"),
                thread=thread,
                edited=edited,
                input=said,
            )


def _is_codex(head: FileHead) -> bool:
    first = first_object(head)
    kinds = ("session_meta", "response_item", "turn_context", "event_msg")
    return first.get("type") in kinds and "timestamp" in first and isinstance(first.get("payload"), dict)


class _Rollout:
    """One rollout, read line by line."""

    def __init__(self, name: str) -> None:
        self._session = name
        self._known = False
        self._model = ""
        self._edited = False
        self._time: int | None = None

    def read(self, record: Any) -> Iterator[TraceStep]:
        line = as_object(record)
        kind, payload = line.get("type"), line.get("payload")
        self._time = time_of(line.get("timestamp")) or self._time
        if not isinstance(payload, dict):  # the first rollouts had items without an envelope
            item = line if _is_item(line) else None
            if kind is None and "id" in line and "timestamp" in line:
                self._name(line)
            elif item is None and "record_type" not in line:
                name_of(line, "type", needed=True)
        elif kind == "session_meta":
            self._name(payload)
            return
        elif kind == "turn_context":
            self._model = name_of(payload, "model") or self._model
            return
        elif kind == "compacted":
            self._edited = True
            return
        else:
            item = payload if kind == "response_item" and _is_item(payload) else None
        said = [] if item is None else messages_of([item], "assistant")
        if said:
            yield TraceStep(
                kind=SAID,
                trace=self._session,
                conversation=self._session,
                time=self._time,
                model=self._model,
                edited=self._edited,
                input=[_as_typed(one, _NOT_TYPED, "developer") for one in said],
            )
            self._edited = False

    def _name(self, payload: Mapping[str, Any]) -> None:
        # A rollout that was forked holds the session it comes from behind its own.
        if not self._known:
            self._session = name_of(payload, "id", "session_id") or self._session
            self._known = True


def _is_item(value: Mapping[str, Any]) -> bool:
    kind = name_of(value, "type")
    return kind == "message" or kind.endswith(("_call", "_call_output"))


def _as_typed(message: Message, not_typed: tuple[str, ...], role: str) -> Message:
    """A message, in another role where it is the user's by name alone."""
    content = message.get("content")
    first = content[0].get("text", "") if isinstance(content, list) else content or ""
    injected = message["role"] == "user" and first.lstrip().startswith(not_typed)
    return {**message, "role": role} if injected else message


def _session_reader(path: str) -> Callable[[Any], Iterator[TraceStep]]:
    place = PurePath(path)
    session = place.parent.parent.name if place.parent.name == "subagents" else place.stem
    return _Session(session).read


CLAUDE_CODE: Final = TraceFormat(
    name="claude_code",
    title="transcripts of Claude Code",
    source="sessions under ~/.claude/projects",
    url="https://code.claude.com/docs/en/sessions",
    shape="a .jsonl file for each session, or a folder with such files at any depth",
    pattern="*.jsonl",
    told_by=_is_claude_code,
    reader=_session_reader,
)
"""Reads sessions, a line for each message or part of one; sub-agents have conversations of their own."""

CODEX: Final = TraceFormat(
    name="codex",
    title="rollouts of Codex",
    source="sessions under ~/.codex/sessions",
    url="https://developers.openai.com/codex/cli/",
    shape="a rollout-*.jsonl file for each session, or a folder with such files at any depth",
    pattern="rollout-*.jsonl*",
    told_by=_is_codex,
    reader=lambda path: _Rollout(data_stem(path)).read,
)
"""Reads rollouts: a file for each session, items as the Responses API has them."""
