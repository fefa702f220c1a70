"""JSON values, fields and messages of a record, with errors that a person understands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from turnwise._support.bounded import read_json
from turnwise.datasets.files import NOT_UTF8
from turnwise.datasets.protocol import RecordError

Value = TypeVar("Value")

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def parse_json(text: str | bytes) -> Any:
    """Parse one JSON text, with NaN and Infinity as null: pandas writes them where a value is missing.

    A RecordError says where it isn't UTF-8 or JSON, or which bound of `turnwise._support.bounded` it breaks.

    >>> parse_json('{"score": NaN}')
    {'score': None}
    """
    try:
        return read_json(text, nan_is_null=True)
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {error.start + 1} is {NOT_UTF8}") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:
        raise RecordError(f"the JSON can't be read: {error}") from None


def kind(value: object) -> str:
    """The kind of a parsed value in words.

    >>> kind([]), kind(None)
    ('a list', 'null')
    """
    return _KINDS.get(type(value), type(value).__name__)


def as_object(value: object) -> Mapping[str, Any]:
    """Return a record that must be a JSON object, else raise RecordError."""
    if not isinstance(value, dict):
        raise RecordError(f"the record is {kind(value)}, not an object with fields")
    return value


def field(record: Mapping[str, Any], name: str, expected: type[Value]) -> Value:
    """Return a field that must be there and of a type; the RecordError says what is there instead.

    >>> field({"turns": ["a"]}, "turns", list)
    ['a']
    """
    if name not in record:
        there = ", ".join(list(record)[:8]) or "none"
        raise RecordError(f"field {name!r} is missing; the record has: {there}")
    value = record[name]
    if not isinstance(value, expected) or isinstance(value, bool):
        raise RecordError(f"field {name!r} is {kind(value)}, not {_KINDS[expected]}")
    return value


def optional_object(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that must be an object; an empty one where it is missing or null."""
    return {} if record.get(name) is None else field(record, name, dict)


def optional_text(record: Mapping[str, Any], name: str) -> str | None:
    """Return a field that must be text; None where it is missing or null."""
    return None if record.get(name) is None else field(record, name, str)


def filled_list(record: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field that must be a list with at least one item."""
    items: list[Any] = field(record, name, list)
    if not items:
        raise RecordError(f"field {name!r} is empty: a conversation without turns")
    return items


def text_list(record: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that must be a list of texts, at least one."""
    texts = filled_list(record, name)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise RecordError(f"turn {number} is {kind(text)}, not text")
    return texts


def pick(record: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, Any]:
    """Return those of the named fields that a record has and that aren't null; ``new="old"`` renames one.

    >>> pick({"task": "GR", "actor_name": "x"}, "task", "id", actor="actor_name")
    {'task': 'GR', 'actor': 'x'}
    """
    wanted = {**{name: name for name in names}, **renamed}
    return {new: record[old] for new, old in wanted.items() if record.get(old) is not None}


def checked_messages(messages: list[Any]) -> list[Any]:
    """Check that OpenAI messages have text, save an assistant's, which may be a mere tool call.

    The rest is checked where the conversation is built.
    """
    if not messages:
        raise RecordError("the conversation is empty: it needs at least one message")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, dict):
            raise RecordError(f"message {number} is {kind(message)}, not an object with role and content")
        if message.get("content") is None and message.get("role") != "assistant":
            raise RecordError(f"message {number} needs text: its content is missing or null")
    return messages


def message_list(record: Mapping[str, Any], column: str) -> list[Any]:
    """Return the messages in a column: a list, or the JSON of one, as tables have it.

    >>> message_list({"chat": '["Hi", "Hello"]'}, "chat")
    ['Hi', 'Hello']
    """
    value = record.get(column)
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return field(record, column, list)
    try:
        return field({column: parse_json(value)}, column, list)
    except RecordError as error:
        raise RecordError(f"column {column!r}: {error}") from None
