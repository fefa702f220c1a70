"""Recorded steps of a conversation: what a model was sent and said, or what a tool did; and those that spans tell.

Attributes of spans and events follow OpenTelemetry's conventions for GenAI, or OpenInference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from turnwise.datasets.protocol import RecordError
from turnwise.datasets.traces.messages import Message, call_of, first_of, messages_of, parsed_text, result_of

CALL: Final = "call"
"""A call of a model: `input` is all that it was sent, `output` what it said."""
FRAME: Final = "frame"
"""An agent, chain or whole trace: what it was given and gave back counts where no call of a model was kept."""
TOOL: Final = "tool"
"""A tool that ran: `input` is its call, `output` its result."""
EVENT: Final = "event"
"""A part of a call that was recorded by itself; those with the same span are one call."""
SAID: Final = "said"
"""What a transcript adds: `input` alone, nothing is repeated."""
LINK: Final = "link"
"""Says only where a span hangs, or to which conversation a trace belongs."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 1 << 62
_UNITS: Final = ((10**17, 1), (10**14, 10**3), (10**11, 10**6))
"""From how much on a time that is a mere number is in nano-, micro- or milliseconds; below it is in seconds."""


@dataclass(slots=True)
class TraceStep:
    """A step; texts that are not known are empty."""

    kind: str
    trace: str
    span: str = ""
    parent: str = ""
    conversation: str = ""  # the id that groups traces
    time: int | None = None
    end: int | None = None
    model: str = ""
    agent: str = ""  # its name, where the step is one itself
    thread: str = ""  # the transcript of a sub-agent
    edited: bool = False  # history was replaced from here on
    input: list[Message] = field(default_factory=list)
    output: list[Message] = field(default_factory=list)


def tool_step(name: Any, arguments: Any, result: Any, identity: Any = None, **known: Any) -> TraceStep:
    call = {"role": "assistant", "content": None, "tool_calls": [call_of(name, arguments, identity)]}
    output = [] if result is None else [result_of(result, identity)]
    return TraceStep(kind=TOOL, input=[call], output=output, **known)


def name_of(record: Mapping[str, Any], *fields: str, needed: bool = False) -> str:
    """The id in the first of some fields that has one, text or a whole number; RecordError where it is needed."""
    for name in fields:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    if needed:
        raise RecordError(f"{' or '.join(map(repr, fields))} is missing: an id is needed there")
    return ""


def time_of(value: Any) -> int | None:
    """Nanoseconds since 1970 of an ISO 8601 text, UTC where it has no zone, or of a number; None for others.

    >>> time_of("1970-01-01T00:00:01Z"), time_of(1_700_000_000_000), time_of("soon")
    (1000000000, 1700000000000000000, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) < 20 else None
    elif isinstance(value, str):
        try:
            stamp = datetime.fromisoformat(value)
            stamp = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp
            return max(0, (stamp - _EPOCH) // timedelta(microseconds=1) * 1000)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    unit = next((unit for least, unit in _UNITS if value >= least), 10**9)
    nanoseconds = int(value * unit)
    return nanoseconds if 0 < nanoseconds < _LATEST else None


def stamp_of(nanoseconds: int | None) -> datetime | None:
    return None if nanoseconds is None else _EPOCH + timedelta(microseconds=nanoseconds // 1000)


# Spans and events

_CONVERSATION: Final = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
)
_MODEL: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOLS: Final = frozenset(("execute_tool", "TOOL", "tool"))
_CALLS: Final = frozenset(("chat", "generate_content", "text_completion", "LLM", "completion"))
_AGENTS: Final = frozenset(("invoke_agent", "create_agent", "AGENT", "agent"))
_OTHERS: Final = frozenset(
    ("EMBEDDING", "RETRIEVER", "RERANKER", "GUARDRAIL", "EVALUATOR", "PROMPT", "embeddings", "retrieval")
)
"""Kinds of spans that hold no conversation, though they have inputs and outputs."""

_GIVEN: Final = ("gen_ai.input.messages", "gen_ai.input_messages", "llm.input_messages", "gen_ai.prompt")
_SAID: Final = ("gen_ai.output.messages", "gen_ai.output_messages", "llm.output_messages", "gen_ai.completion")
_PREFIXES: Final = ("llm.input_messages", "llm.output_messages", "gen_ai.prompt", "gen_ai.completion")
"""Attributes that are lists, flattened with the index in their names."""

_MOST: Final = 100_000
"""Items that a flattened list may have."""

EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""Events that are one message each, with who says it."""

_WHOLE: Final = frozenset(
    ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion")
)
"""Events with the attributes of a span."""


def span_step(
    attributes: Mapping[str, Any], name: str, events: Iterable[tuple[str, Mapping[str, Any]]] = (), **known: Any
) -> TraceStep:
    """The step of a span; events are pairs of name and attributes, `known` what else a `TraceStep` has."""
    told = unflattened(attributes, _PREFIXES)
    known |= {"conversation": name_of(told, *_CONVERSATION), "model": name_of(told, *_MODEL)}
    kinds = {
        value
        for key in ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind")
        if isinstance(value := told.get(key), str)
    }
    agent = name_of(told, "gen_ai.agent.name", "agent.name", "graph.node.id")
    if kinds & _TOOLS or ("gen_ai.tool.name" in told and not kinds & (_CALLS | _AGENTS)):
        return tool_step(
            name_of(told, "gen_ai.tool.name", "tool.name", "traceloop.entity.name") or name or "unknown",
            first_of(
                told, "gen_ai.tool.call.arguments", "input.value", "tool.parameters", "traceloop.entity.input"
            ),
            first_of(told, "gen_ai.tool.call.result", "output.value", "traceloop.entity.output"),
            name_of(told, "gen_ai.tool.call.id", "tool_call.id", "tool.id"),
            **known,
        )
    given, said = _messages(told)
    for event, beside in events:
        if event in EVENTS:
            (said if event == "gen_ai.choice" else given).extend(event_messages(event, beside))
        elif event in _WHOLE:
            more = _messages(unflattened(beside, _PREFIXES))
            given, said = given or more[0], said or more[1]
    is_call = bool(kinds & _CALLS) or ((given or said) and not kinds)
    if not (given or said):
        given = messages_of(told.get("input.value") or told.get("traceloop.entity.input"))
        said = messages_of(told.get("output.value") or told.get("traceloop.entity.output"), "assistant")
    if is_call:
        return TraceStep(kind=CALL, agent=agent, input=given, output=said, **known)
    is_agent = bool(kinds & _AGENTS)
    if kinds & _OTHERS or not (given or said or is_agent):
        return TraceStep(kind=LINK, **known)
    return TraceStep(
        kind=FRAME, agent=(agent or name or "agent") if is_agent else "", input=given, output=said, **known
    )


def event_step(event: str, attributes: Mapping[str, Any], body: Any, **known: Any) -> TraceStep | None:
    """The step of an event that stands by itself, as a log record; None for one that is no message."""
    beside = {**attributes, **body} if isinstance(body, dict) else {**attributes, "content": body}
    if event in EVENTS:
        messages = event_messages(event, beside)
        parts = ([], messages) if event == "gen_ai.choice" else (messages, [])
    elif event in _WHOLE:
        parts = _messages(unflattened(beside, _PREFIXES))
    else:
        return None
    known |= {"conversation": name_of(attributes, *_CONVERSATION), "model": name_of(attributes, *_MODEL)}
    return TraceStep(kind=EVENT, input=parts[0], output=parts[1], **known)


def event_messages(event: str, attributes: Mapping[str, Any]) -> list[Message]:
    role = EVENTS[event]
    message = attributes.get("message", attributes)
    if not isinstance(message, dict):
        return messages_of(message, role)
    keep = ("content", "tool_calls", "id", "tool_call_id", "name", "role")
    said = {key: message[key] for key in keep if message.get(key) is not None}
    content = said.get("content")
    if isinstance(content, str) and content.lstrip()[:1] == "[":  # attributes of events are texts
        said["content"] = parsed_text(content) or content
    return messages_of({"role": role, **said}, role)


def unflattened(attributes: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Attributes with those lists whole that were flattened: ``llm.input_messages.0.message.role`` and the like.

    >>> unflattened({"a": 1, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi"}, ("gen_ai.prompt",))
    {'a': 1, 'gen_ai.prompt': [{'role': 'user', 'content': 'Hi'}]}
    """
    plain: dict[str, Any] = {}
    lists: dict[str, dict[int, Any]] = {}
    for key, value in attributes.items():
        prefix = next((one for one in prefixes if key.startswith(f"{one}.")), None)
        index, _, rest = key[len(prefix) + 1 :].partition(".") if prefix else ("", "", "")
        if prefix is None or not _is_index(index):
            plain[key] = value
        else:
            _put(lists.setdefault(prefix, {}), int(index), rest, value)
    return {**plain, **{prefix: _listed(items) for prefix, items in lists.items()}}


_MARKS: Final = frozenset(
    ("message", "contents", "message_content", "tool_calls", "tool_call", "function", "image")
)
"""Steps on the way into a flattened item; all further ones are one key."""


def _put(items: dict[Any, Any], at: Any, rest: str, value: Any) -> None:
    while rest:
        head, _, tail = rest.partition(".")
        inner = items.setdefault(at, {})
        if not isinstance(inner, dict):
            return
        if _is_index(head):
            items, at, rest = inner, int(head), tail
        elif head in _MARKS and tail:
            items, at, rest = inner, head, tail
        else:
            inner[rest] = value
            return
    items[at] = value


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7 and int(text) < _MOST


def _listed(value: Any) -> Any:
    """Objects whose keys are all indexes as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_listed(value[key]) for key in sorted(value)]
    return {str(key): _listed(one) for key, one in value.items()}


def _messages(told: Mapping[str, Any]) -> tuple[list[Message], list[Message]]:
    given = messages_of(first_of(told, *_GIVEN))
    said = messages_of(first_of(told, *_SAID), "assistant")
    lead = messages_of(told.get("gen_ai.system_instructions"), "system")
    return lead + given, said
