"""One message of a list, OpenAI's or ShareGPT's: its role, its calls and results of tools, what is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from turnwise._support.visible import shown
from turnwise.conversation.json_values import json_object
from turnwise.errors import ConversationError


class Role(StrEnum):
    """Who a message is from."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    FUNCTION = "function"


ROLES: Final = frozenset(Role)
"""All roles; a text is looked up here because Python 3.11 can't look one up in the enumeration."""

_SHAREGPT_CALL: Final = "function_call"  # speaker of an entry that is the call of a tool, not words to the user
_SHAREGPT_RESULTS: Final = ("tool", "function", "observation")

SPEAKERS: Final[Mapping[str, Role]] = {
    **dict.fromkeys(("human", "user"), Role.USER),
    **dict.fromkeys(("gpt", "chatgpt", "bard", "bing", "assistant", "bot", "model"), Role.ASSISTANT),
    _SHAREGPT_CALL: Role.ASSISTANT,
    "system": Role.SYSTEM,
    **dict.fromkeys(_SHAREGPT_RESULTS, Role.TOOL),
}
"""Names that ShareGPT data sets use, with whom they stand for."""

_SHAREGPT_NAMES: Final[Mapping[Role, str]] = {
    Role.SYSTEM: "system",
    Role.DEVELOPER: "system",
    Role.USER: "human",
    Role.ASSISTANT: "gpt",
    Role.TOOL: "tool",
    Role.FUNCTION: "tool",
}

TEXT_PARTS: Final[Mapping[str, str]] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
"""Types of content parts that say something, with the key of what they say."""

CALL_KEYS: Final = ("tool_calls", "function_call")  # keys of a message that hold calls of tools, which are read

SPEAKING_KEYS: Final = (
    "refusal",
    "tool_calls",
    "function_call",
    "audio",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking",
)
"""Keys of a message beside its content under which it may say more."""

UNKNOWN_TOOL: Final = "unknown"  # name of the tool in the call that stands in for one that nobody told of
_KIND = 30  # characters that the type of a content part has at most where it is named


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """One message, with a copy as it came; `text` is None where it has no words, such as a mere tool call."""

    role: Role
    text: str | None
    raw: Any


def read_openai(raw: object) -> MessageEntry:
    """Read an OpenAI chat message; errors don't say which one it was."""
    if not isinstance(raw, Mapping):
        raise ConversationError(f"a message must be an object with role and content, not {type(raw).__name__}")
    role = raw.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise ConversationError(f"unknown role {shown(role)}; known: {', '.join(Role)}")
    text = _text(raw, Role(role))
    return MessageEntry(Role(role), text, json_object(raw, "the message"))


def write_openai(role: Role, text: str) -> dict[str, Any]:
    """A text as an OpenAI chat message."""
    return {"role": role.value, "content": text}


def read_sharegpt(raw: object) -> MessageEntry:
    """Read a ShareGPT entry, or an OpenAI message in its place; errors don't say which one it was."""
    if not isinstance(raw, Mapping):
        raise ConversationError(f"a message must be an object with from and value, not {type(raw).__name__}")
    if "from" not in raw and "role" in raw:
        return read_openai(raw)
    speaker, value = raw.get("from"), raw.get("value")
    if not isinstance(speaker, str) or speaker.lower() not in SPEAKERS:
        raise ConversationError(f"unknown speaker {shown(speaker)}; known: {', '.join(SPEAKERS)}")
    if not isinstance(value, str):
        raise ConversationError(f"value is {type(value).__name__}, not text")
    speaker = speaker.lower()
    return MessageEntry(
        SPEAKERS[speaker], None if speaker == _SHAREGPT_CALL else value, json_object(raw, "the entry")
    )


def write_sharegpt(role: Role, text: str) -> dict[str, Any]:
    """A text as a ShareGPT entry."""
    return {"from": _SHAREGPT_NAMES[role], "value": text}


def _text(message: Mapping[str, Any], role: Role) -> str | None:
    if "content" not in message and role is not Role.ASSISTANT:
        raise ConversationError(f"a {role} message needs content: text, a list of parts, or null")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_part(place, part) for place, part in enumerate(content, start=1)]
        said = [part for part in parts if part is not None]
        return "\n".join(said) if said else None
    if content is None:
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else None
    raise ConversationError(f"content is {type(content).__name__}; use text, a list of parts, or null")


def _part(place: int, part: object) -> str | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise ConversationError(f"content part {place} is not an object with a type, such as text")
    if kind not in TEXT_PARTS:
        return None
    text = part.get(TEXT_PARTS[kind])
    if not isinstance(text, str):
        raise ConversationError(f"content part {place}: {TEXT_PARTS[kind]} is {type(text).__name__}, not text")
    return text


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
    if message.get("from") == _SHAREGPT_CALL and isinstance(message.get("value"), str):
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


def has_calls(message: object) -> bool:
    """Whether a message holds a call of a tool."""
    return next(read_calls(message), None) is not None


def has_results(message: object) -> bool:
    """Whether a message holds a result of a tool."""
    return next(read_results(message), None) is not None


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


def _told_call(text: str) -> tuple[str, str]:
    """Name and arguments of a call that is one text, such as ``{"name": ..., "arguments": ...}``."""
    from turnwise._support.bounded import read_json

    try:
        told = _named(read_json(text), "arguments")
    except ValueError:
        told = None
    return told or (UNKNOWN_TOOL, text)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON text that UTF-8 can hold: halves of surrogate pairs are escaped."""
    text = json.dumps(arguments, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(arguments)
    return text


def _identity(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_result(part: Mapping[str, Any]) -> bool:
    return bool(_identity(part.get("tool_use_id"))) and isinstance(part.get("content"), str | list | None)


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    content = message.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, Mapping):
            yield index, part


def _joined(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if is_text(part))
    return content if isinstance(content, str) else ""


def is_text(part: object) -> bool:
    """Return whether a content part has text."""
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


def is_thinking(part: object) -> bool:
    """Return whether a content part is Anthropic's thinking, which goes back as it came: it is signed."""
    return isinstance(part, Mapping) and part.get("type") in ("thinking", "redacted_thinking")


def unread(message: Mapping[str, Any]) -> list[str]:
    """What a valid message holds beside the text that is read of it, each by its place.

    >>> picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    >>> unread({"role": "user", "content": [{"type": "text", "text": "Look:"}, picture]})
    ['content part 2 (image_url)']
    """
    content = message.get("content")
    found = []
    for place, part in enumerate(content if isinstance(content, list) else (), start=1):
        kind = part["type"]
        if kind not in TEXT_PARTS:
            # A type is text of others: one that does not look like a type is not repeated.
            left = _unread_part(part, message.get("role"))
            if left is not None:
                plain = len(left) <= _KIND and left.replace(" ", "_").isidentifier()
                found.append(f"content part {place} ({left if plain else 'of an unknown type'})")
    for key in SPEAKING_KEYS:
        said = key == "refusal" and content is None
        if message.get(key) and not said and key not in CALL_KEYS:
            found.append(key)
    if not isinstance(message.get("name"), str | None):
        found.append("name")
    if message.get("role") != Role.ASSISTANT:
        return found + [key for key in CALL_KEYS if message.get(key)]
    return found + _unread_calls(message)


def _unread_part(part: Mapping[str, Any], role: object) -> str | None:
    """What nobody reads of a content part that is no text, by its type; None where all of it is read."""
    kind: str = part["type"]
    if kind == "tool_use" and role == "assistant" and _named(part, "input") is not None:
        return None
    if kind == "tool_result" and role in ("user", "assistant") and _is_result(part):
        content = part.get("content")
        whole = not isinstance(content, list) or all(map(is_text, content))
        return None if whole else "tool_result beyond its text"
    return kind


def _unread_calls(message: Mapping[str, Any]) -> list[str]:
    """The keys of a message that hold calls that can't be read."""
    found = []
    listed = message.get("tool_calls")
    if listed and not (isinstance(listed, list) and all(_function(raw) is not None for raw in listed)):
        found.append("tool_calls")
    if message.get("function_call") and _named(message["function_call"], "arguments") is None:
        found.append("function_call")
    return found
