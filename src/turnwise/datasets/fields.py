"""Fields and messages of a parsed record, with errors that a person understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from turnwise.datasets.files import parse_json
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


def kind(value: object) -> str:
    """Name the kind of a parsed value in words.

    >>> kind([]), kind(None)
    ('a list', 'null')
    """
    return _KINDS.get(type(value), type(value).__name__)


def as_object(value: object) -> Mapping[str, Any]:
    """Return a record that must be a JSON object.

    Raises:
        RecordError: it is something else.
    """
    if not isinstance(value, dict):
        raise RecordError(f"the record is {kind(value)}, not an object with fields")
    return value


def field(record: Mapping[str, Any], name: str, expected: type[Value]) -> Value:
    """Return a field that must be there and of a kind.

    Args:
        record: a JSON object.
        name: the field.
        expected: ``str``, ``list``, ``dict`` or ``int``.

    Raises:
        RecordError: it is missing or of another kind; the message says what is there.

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
    """Return a field that is an object where it is there; an empty one where it is missing or null.

    Raises:
        RecordError: it is something else.
    """
    return {} if record.get(name) is None else field(record, name, dict)


def optional_text(record: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is text where it is there; None where it is missing or null.

    Raises:
        RecordError: it is something else.
    """
    return None if record.get(name) is None else field(record, name, str)


def text_list(record: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that must be a list of texts with at least one in it.

    Raises:
        RecordError: it is missing, empty, or holds something else.
    """
    texts = field(record, name, list)
    if not texts:
        raise RecordError(f"field {name!r} is empty: a conversation without turns")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise RecordError(f"turn {number} is {kind(text)}, not text")
    return texts


def pick(record: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, Any]:
    """Return the fields that a record has among those named, as metadata.

    Args:
        record: a JSON object.
        names: fields that keep their name.
        renamed: fields by the name that they get.

    >>> pick({"task": "GR", "actor_name": "x"}, "task", "id", actor="actor_name")
    {'task': 'GR', 'actor': 'x'}
    """
    wanted = {**{name: name for name in names}, **renamed}
    return {new: record[old] for new, old in wanted.items() if record.get(old) is not None}


def checked_messages(messages: list[Any]) -> list[Any]:
    """Return OpenAI messages after checking that what a person or a system prompt says is text.

    An assistant may have no text: a mere tool call. The rest is checked where the conversation is built.

    Args:
        messages: the list that stands in the record.

    Raises:
        RecordError: the list is empty, or a text is missing; the message counts from 1.
    """
    if not messages:
        raise RecordError("the conversation is empty: a list without messages")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, dict):
            raise RecordError(f"message {number} is {kind(message)}, not an object with role and content")
        if message.get("content") is None and message.get("role") != "assistant":
            raise RecordError(f"message {number} has no text: content is missing or null")
    return messages


def message_list(record: Mapping[str, Any], column: str) -> list[Any]:
    """Return the messages of a column: a list, or the JSON of one, as a table has it.

    Raises:
        RecordError: the column is missing, or holds neither.

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


def roles_and_texts(messages: list[Any]) -> list[Any]:
    """Return messages with nothing but role and content, where a data set hangs other things on each of them.

    Raises:
        RecordError: as for `checked_messages`.
    """
    return [{key: message.get(key) for key in ("role", "content")} for message in checked_messages(messages)]
