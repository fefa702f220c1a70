"""Attributes of a span or of an event, by OpenTelemetry's conventions for GenAI or by OpenInference, as a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from turnwise.datasets.traces.messages import Message, first_of, messages_of, parsed_text
from turnwise.datasets.traces.step import CALL, EVENT, FRAME, LINK, Step, name_of, tool_step

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
) -> Step:
    """The step of a span; events are pairs of name and attributes, `known` what `Step` has beside messages."""
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
    given, said = _messages(told, (_GIVEN, _SAID))
    for event, beside in events:
        if event in EVENTS:
            (said if event == "gen_ai.choice" else given).extend(event_messages(event, beside))
        elif event in _WHOLE:
            more = _messages(unflattened(beside, _PREFIXES), (_GIVEN, _SAID))
            given, said = given or more[0], said or more[1]
    is_call = bool(kinds & _CALLS) or ((given or said) and not kinds)
    if not (given or said):
        given = messages_of(told.get("input.value") or told.get("traceloop.entity.input"))
        said = messages_of(told.get("output.value") or told.get("traceloop.entity.output"), "assistant")
    if is_call:
        return Step(kind=CALL, agent=agent, input=given, output=said, **known)
    is_agent = bool(kinds & _AGENTS)
    if kinds & _OTHERS or not (given or said or is_agent):
        return Step(kind=LINK, **known)
    return Step(
        kind=FRAME, agent=(agent or name or "agent") if is_agent else "", input=given, output=said, **known
    )


def event_step(event: str, attributes: Mapping[str, Any], body: Any, **known: Any) -> Step | None:
    """The step of an event that stands by itself, as a log record; None for one that is no message."""
    beside = {**attributes, **body} if isinstance(body, dict) else {**attributes, "content": body}
    if event in EVENTS:
        messages = event_messages(event, beside)
        parts = ([], messages) if event == "gen_ai.choice" else (messages, [])
    elif event in _WHOLE:
        parts = _messages(unflattened(beside, _PREFIXES), (_GIVEN, _SAID))
    else:
        return None
    known |= {"conversation": name_of(attributes, *_CONVERSATION), "model": name_of(attributes, *_MODEL)}
    return Step(kind=EVENT, input=parts[0], output=parts[1], **known)


def event_messages(event: str, attributes: Mapping[str, Any]) -> list[Message]:
    """The messages of an event that is one."""
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
    (
        "message",
        "contents",
        "message_content",
        "tool_calls",
        "tool_call",
        "function",
        "image",
    )
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


def _messages(
    told: Mapping[str, Any], keys: tuple[tuple[str, ...], tuple[str, ...]]
) -> tuple[list[Message], list[Message]]:
    given = messages_of(first_of(told, *keys[0]))
    said = messages_of(first_of(told, *keys[1]), "assistant")
    lead = messages_of(told.get("gen_ai.system_instructions"), "system")
    return lead + given, said
