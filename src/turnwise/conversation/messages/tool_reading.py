"""Calls and results of tools in one message, in all the shapes of providers and data sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

UNKNOWN_TOOL: Final = "unknown"
"""Name of the tool in the call that stands in for one that nobody told of."""

_SHAREGPT_CALLS: Final = frozenset({"function_call"})
_SHAREGPT_RESULTS: Final = frozenset({"tool", "function", "observation"})


class RawStep(NamedTuple):
    """A call or result as its message holds it: key and index there, id, name of the tool, and text."""

    key: str
    at: int | None
    call_id: str | None
    name: str
    text: str


def read_calls(message: object) -> Iterator[RawStep]:
    """The calls of one message that can be read."""
    if not isinstance(message, Mapping):
        return
    if message.get("from") in _SHAREGPT_CALLS and isinstance(message.get("value"), str):
        yield RawStep("value", None, None, *_told_call(message["value"]))
    if message.get("role") != "assistant":
        return
    listed = message.get("tool_calls")
    for index, raw in enumerate(listed if isinstance(listed, list) else ()):
        told = _function(raw)
        if told is not None:
            yield RawStep("tool_calls", index, _identity(raw.get("id")), *told)
    told = _named(message.get("function_call"), "arguments")
    if told is not None:
        yield RawStep("function_call", None, None, *told)
    if isinstance(message.get("call"), str):
        yield RawStep("call", None, None, *_told_call(message["call"]))
    for index, part in _parts(message):
        if part.get("type") == "tool_use":
            told = _named(part, "input")
            if told is not None:
                yield RawStep("content", index, _identity(part.get("id")), *told)


def read_results(message: object) -> Iterator[RawStep]:
    """The results of one message that can be read."""
    if not isinstance(message, Mapping):
        return
    if message.get("from") in _SHAREGPT_RESULTS and isinstance(message.get("value"), str):
        yield RawStep("value", None, None, "", message["value"])
    role, name = message.get("role"), message.get("name")
    if role in ("tool", "function"):
        known = name if isinstance(name, str) else ""
        yield RawStep(
            "content", None, _identity(message.get("tool_call_id")), known, _joined(message.get("content"))
        )
    elif role in ("user", "assistant"):
        for index, part in _parts(message):
            if part.get("type") == "tool_result" and _is_result(part):
                yield RawStep("content", index, part["tool_use_id"], "", _joined(part.get("content")))


def has_results(message: object) -> bool:
    """Whether a message holds a result of a tool."""
    return next(read_results(message), None) is not None


def has_calls(message: object) -> bool:
    """Whether a message holds a call of a tool."""
    return next(read_calls(message), None) is not None


def unread_calls(message: Mapping[str, Any]) -> list[str]:
    """The keys of a message that hold calls that can't be read."""
    found = []
    listed = message.get("tool_calls")
    if listed and not (isinstance(listed, list) and all(_function(raw) is not None for raw in listed)):
        found.append("tool_calls")
    if message.get("function_call") and _named(message["function_call"], "arguments") is None:
        found.append("function_call")
    return found


def unread_part(part: Mapping[str, Any], role: object) -> str | None:
    """What nobody reads of a content part that is no text, by its type; None where all of it is read."""
    kind: str = part["type"]
    if kind == "tool_use" and role == "assistant" and _named(part, "input") is not None:
        return None
    if kind == "tool_result" and role in ("user", "assistant") and _is_result(part):
        content = part.get("content")
        whole = not isinstance(content, list) or all(map(is_text, content))
        return None if whole else "tool_result beyond its text"
    return kind


def _is_result(part: Mapping[str, Any]) -> bool:
    return bool(_identity(part.get("tool_use_id"))) and isinstance(part.get("content"), str | list | None)


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    content = message.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, Mapping):
            yield index, part


def _function(raw: object) -> tuple[str, str] | None:
    if not isinstance(raw, Mapping):
        return None
    return _named(raw.get("function"), "arguments") or _named(raw.get("custom"), "input")


def _named(raw: object, key: str) -> tuple[str, str] | None:
    """Name and arguments of a call; None where they can't be read."""
    if not isinstance(raw, Mapping) or not _identity(raw.get("name")):
        return None
    arguments = raw.get(key)
    if isinstance(arguments, Mapping):
        return raw["name"], arguments_text(arguments)
    return (raw["name"], arguments) if isinstance(arguments, str) else None


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON text that UTF-8 can hold: halves of surrogate pairs are escaped."""
    text = json.dumps(arguments, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(arguments)
    return text


def _told_call(text: str) -> tuple[str, str]:
    """Name and arguments of a call that is one text, such as ``{"name": ..., "arguments": ...}``."""
    from turnwise._support.bounded import read_json

    try:
        told = _named(read_json(text), "arguments")
    except ValueError:
        told = None
    return told or (UNKNOWN_TOOL, text)


def _identity(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def is_text(part: object) -> bool:
    """Return whether a content part has text."""
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


def _joined(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if is_text(part))
    return content if isinstance(content, str) else ""
