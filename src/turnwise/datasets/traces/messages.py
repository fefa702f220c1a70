"""Messages in the shapes that providers and recorders use, as OpenAI has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from turnwise._support.visible import shown
from turnwise.conversation.message_entries import arguments_text
from turnwise.datasets.protocol import RecordError
from turnwise.datasets.records import parse_json

Message = dict[str, Any]

_DEEPEST: Final = 12
"""Levels of lists and objects around a message."""

_ROLES: Final = {
    **dict.fromkeys(("user", "human", "prompter", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "bot", "aimessage", "aimessagechunk"), "assistant"),
    **dict.fromkeys(("system", "systemmessage", "systemmessagechunk"), "system"),
    "developer": "developer",
    **dict.fromkeys(("tool", "function", "toolmessage", "functionmessage", "toolmessagechunk"), "tool"),
}
_BY_TYPE: Final = frozenset(("human", "ai", "system", "tool", "function", "aimessagechunk"))
"""Types by which LangChain says who speaks."""

_TEXTS: Final = frozenset(("text", "input_text", "output_text", "refusal", "summary_text"))
_CALLS: Final = frozenset(("tool_use", "tool_call", "server_tool_use", "server_tool_call"))
_RESULTS: Final = frozenset(("tool_result", "tool_call_response", "server_tool_call_response"))
_THOUGHTS: Final = frozenset(("thinking", "redacted_thinking", "reasoning", "reasoning_text", "compaction"))
_PARTS: Final = (
    _TEXTS | _CALLS | _RESULTS | _THOUGHTS | {"image", "image_url", "input_image", "audio", "file", "blob"}
)
_ITEMS: Final = ("_call", "_call_output")
"""How types of the Responses API end that are calls of tools and what they gave back."""
_ITEM_THOUGHTS: Final = frozenset(("reasoning", "compaction", "item_reference"))

_ASKED: Final = ("input", "inputs", "question", "query", "prompt", "prompts", "user_input", "text", "content")
_ANSWERED: Final = (
    *("output", "outputs", "answer", "response", "completion", "result", "output_text", "text", "content"),
)
"""Fields that hold what was said where a function, not a model, was recorded."""


def messages_of(value: Any, role: str = "user", depth: int = 0) -> list[Message]:
    """The messages that a recorded input or output holds; a text without a role is said by `role`.

    Reasoning is left out; of images and sounds only their type is kept. RecordError for a role nobody knows.

    >>> messages_of([{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}])
    [{'role': 'user', 'content': 'Hi'}]
    """
    if depth > _DEEPEST:
        raise RecordError(f"messages are nested more than {_DEEPEST} levels deep")
    if value is None or value == "":
        return []
    if isinstance(value, str):
        parsed = parsed_text(value)
        told = (isinstance(parsed, dict) and _is_known(parsed, role)) or _has_objects(parsed)
        return messages_of(parsed, role, depth + 1) if told else [{"role": role, "content": value}]
    if isinstance(value, list):
        if value and all(_is_part(item) for item in value):
            return _message({"content": value}, role)
        return [message for item in value for message in messages_of(item, role, depth + 1)]
    if isinstance(value, dict):
        return _of_object(value, role, depth + 1)
    return [{"role": role, "content": text_of(value)}]


def parsed_text(text: str) -> Any:
    """The object or list that a text is JSON of; None for any other text."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return parse_json(text)
    except RecordError:
        return None


def text_of(value: Any) -> str:
    """A value as text: a text as it is, text parts joined, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_part(part) for part in value):
        return "\n".join(text for text in map(_part_text, value) if text is not None)
    if isinstance(value, dict) and _kind(value) in _TEXTS and isinstance(value.get("text"), str):
        return str(value["text"])
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def call_of(name: object, arguments: Any, identity: object = None) -> dict[str, Any]:
    """A call of a tool as it stands in an assistant's message; arguments are text, an object or nothing."""
    if not isinstance(name, str) or not name:
        raise RecordError("a call of a tool has no name")
    if isinstance(arguments, dict):
        arguments = arguments_text(arguments)
    told = {"type": "function", "function": {"name": name, "arguments": text_of(arguments) or "{}"}}
    return {"id": identity, **told} if isinstance(identity, str) and identity else told


def result_of(content: Any, identity: object = None, name: object = None) -> Message:
    made: Message = {"role": "tool", "content": text_of(content)}
    if isinstance(identity, str) and identity:
        made["tool_call_id"] = identity
    if isinstance(name, str) and name:
        made["name"] = name
    return made


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) or _has_objects(item) for item in value[:3])


def _is_known(value: Mapping[str, Any], role: str) -> bool:
    known = ("role", "message", "messages", "choices", "generations", "kwargs", "message.role", "contents")
    fields = _ASKED if role == "user" else _ANSWERED
    return any(key in value for key in (*known, *fields)) or (_kind(value) or "").endswith(_ITEMS)


def _of_object(value: Mapping[str, Any], role: str, depth: int) -> list[Message]:  # noqa: PLR0911 - one a shape
    kind = _kind(value) or ""
    if "role" in value or "message.role" in value:
        return _message(value, role)
    if isinstance(value.get("kwargs"), dict):  # LangChain's serialised constructor
        names = value.get("id")
        said = {**value["kwargs"], "type": names[-1] if isinstance(names, list) and names else None}
        return _message(said, role)
    if kind.lower() in _BY_TYPE and ("content" in value or "data" in value):
        return _message({**value["data"], "type": kind} if isinstance(value.get("data"), dict) else value, role)
    if (item := _item(kind, value)) is not None:
        return item
    for many in ("choices", "generations"):  # the first candidate is what was said
        if isinstance(value.get(many), list):
            return messages_of(value[many][:1], "assistant", depth)
    if isinstance(value.get("message"), dict):
        return messages_of(value["message"], role, depth)
    lead = messages_of(next((value[key] for key in ("system", "instructions") if value.get(key)), None), "system")
    if isinstance(value.get("messages"), list):
        return lead + messages_of(value["messages"], role, depth)
    if isinstance(value.get("contents"), list):  # Gemini's request
        return lead + messages_of(value["contents"], role, depth)
    if _is_part(value):
        return _message({"content": [value]}, role)
    for key in _ASKED if role == "user" else _ANSWERED:
        if value.get(key) not in (None, "", [], {}):
            return lead + messages_of(value[key], role, depth)
    return [{"role": role, "content": text_of(value)}] if value else []


def _item(kind: str, value: Mapping[str, Any]) -> list[Message] | None:
    """An item of OpenAI's Responses API that is no message; None where it is none."""
    if kind in _ITEM_THOUGHTS or kind.startswith("mcp_list") or kind.startswith("mcp_approval"):
        return []
    if kind.endswith("_call") and kind not in _CALLS:
        told = first_of(value, "arguments", "input", "action", "queries", "code")
        name = value.get("name") or kind.removesuffix("_call")
        made = {"role": "assistant", "content": None, "tool_calls": [call_of(name, told, value.get("call_id"))]}
        given = value.get("output")  # a call that the provider ran itself holds its result
        return [made] if given is None else [made, result_of(given, value.get("call_id"))]
    if kind.endswith("_call_output"):
        given = value.get("output")
        if isinstance(given, dict) and "content" in given:
            given = given["content"]
        return [result_of(given, value.get("call_id"))]
    return None


def _mere_text(raw: Mapping[str, Any]) -> str | None:
    """The text of a message that has but that, as most have: they are read faster than others."""
    content = raw.get("content")
    if content is None and isinstance(parts := raw.get("parts"), list) and len(parts) == 1:
        part = parts[0]
        content = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
    return content if isinstance(content, str) else None


def _message(raw: Mapping[str, Any], default: str) -> list[Message]:
    if len(raw) == 2 and raw.get("role") in ("user", "assistant", "system"):
        text = _mere_text(raw)
        if text is not None:
            return [{"role": raw["role"], "content": text}]
    raw = _plain(raw, "message.")
    who = raw.get("role") or raw.get("type") or default
    role = _ROLES.get(who.lower()) if isinstance(who, str) else None
    if role is None:
        raise RecordError(f"unknown role {shown(who)}; known: {', '.join(sorted({*_ROLES.values()}))}")
    content = first_of(raw, "parts", "contents", "content")
    texts, others, calls, results = ([content], [], [], []) if isinstance(content, str) else _parts(content)
    if role == "tool" and not results:
        identity = raw.get("tool_call_id") or raw.get("call_id") or raw.get("id")
        return [result_of(content, identity, raw.get("name"))]
    if role == "assistant":  # LangChain has those of Anthropic in both places
        there = {call.get("id") for call in calls} - {None}
        calls += [call for call in _calls(raw) if call.get("id") not in there]
    if role == "assistant" and isinstance(raw.get("refusal"), str) and not texts:
        texts.append(raw["refusal"])
    if not (texts or others or calls) and (results or role == "tool"):
        return results
    spoken: Any = "\n".join(texts) or (None if calls else "")
    if others:
        spoken = [*({"type": "text", "text": text} for text in texts), *others]
    made: Message = {"role": role, "content": spoken}
    if calls and role == "assistant":
        made["tool_calls"] = calls
    return [*results, made] if role != "assistant" else [made, *results]


def _plain(raw: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    """An object whose keys repeat what it is, as OpenInference has them, without that."""
    if "role" in raw or "type" in raw or "function" in raw:
        return raw
    inner = raw.get(prefix.rstrip("."))
    if isinstance(inner, dict):
        return inner
    if not any(isinstance(key, str) and key.startswith(prefix) for key in raw):
        return raw
    return {key.removeprefix(prefix): value for key, value in raw.items()}


def _parts(content: Any) -> tuple[list[str], list[Message], list[dict[str, Any]], list[Message]]:
    """Texts, other parts, calls and results in a message's content."""
    texts: list[str] = []
    others: list[Message] = []
    calls: list[dict[str, Any]] = []
    results: list[Message] = []
    for one in content if isinstance(content, list) else [] if content is None else [content]:
        if not isinstance(one, dict):
            texts.append(text_of(one))
            continue
        part = _plain(one, "message_content.")
        kind, text = _kind(part), _part_text(part)
        run = _either(part, "function_call", "functionCall")
        given = _either(part, "function_response", "functionResponse")
        if text is not None:
            texts.append(text)
        elif kind in _CALLS:
            told = first_of(part, "input", "arguments", "args", "server_tool_call")
            calls.append(call_of(part.get("name"), told, part.get("id")))
        elif kind in _RESULTS:
            told = first_of(part, "content", "response", "result", "server_tool_call_response")
            results.append(result_of(told, part.get("tool_use_id") or part.get("id"), part.get("name")))
        elif run is not None:
            calls.append(call_of(run.get("name"), first_of(run, "args", "arguments"), run.get("id")))
        elif given is not None:
            results.append(result_of(given.get("response"), given.get("id"), given.get("name")))
        elif kind not in _THOUGHTS:
            others.append({"type": kind or "unknown"})
    return texts, others, calls, results


def first_of(value: Mapping[str, Any], *keys: str) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _either(value: Mapping[str, Any], *keys: str) -> Mapping[str, Any] | None:
    return next((value[key] for key in keys if isinstance(value.get(key), dict)), None)


def _kind(value: Mapping[str, Any]) -> str | None:
    """The type that an object names; None where it names none, empty where it is no text."""
    kind = value.get("type")
    return kind if kind is None or isinstance(kind, str) else ""


def _part_text(part: Mapping[str, Any]) -> str | None:
    kind = _kind(part)
    if kind is not None and kind not in _TEXTS:
        return None
    return next((part[key] for key in ("text", "content", "refusal") if isinstance(part.get(key), str)), None)


def _is_part(value: Any) -> bool:
    if not isinstance(value, dict) or "role" in value:
        return False
    return _kind(value) in _PARTS and not ({"summary", "encrypted_content"} & value.keys())


def _calls(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls that stand beside an assistant's content."""
    beside = raw.get("additional_kwargs")
    listed = raw.get("tool_calls") or (beside.get("tool_calls") if isinstance(beside, dict) else None)
    listed = parsed_text(listed) if isinstance(listed, str) else listed
    made = [_call(_plain(one, "tool_call.")) for one in objects(listed)]
    alone = raw.get("function_call")
    if isinstance(alone, dict):
        made.append(call_of(alone.get("name"), alone.get("arguments")))
    if raw.get("function_call_name"):
        made.append(call_of(raw["function_call_name"], raw.get("function_call_arguments_json")))
    return made


def objects(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _call(raw: Mapping[str, Any]) -> dict[str, Any]:
    told = raw.get("function")
    told = told if isinstance(told, dict) else _plain(raw, "function.")
    return call_of(told.get("name"), first_of(told, "arguments", "args", "input"), raw.get("id"))
