"""Parsed values and their fields, with errors that a person understands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from typing import Any, TypeVar

from turnwise.bounded import ShallowStream, read_json
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
    """Parse one JSON text, with NaN and Infinity read as null: pandas writes them where a value is missing.

    Args:
        text: the JSON; bytes are UTF-8.

    Raises:
        RecordError: it is not UTF-8 or not JSON, and the message says where; or it goes past a bound of
            `turnwise.bounded`.

    >>> parse_json('{"score": NaN}')
    {'score': None}
    """
    try:
        return read_json(text, nan_is_null=True)
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {error.start + 1} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:
        raise RecordError(f"JSON that can't be read: {error}") from None


def json_items(stream: BufferedIOBase, prefix: str) -> Iterator[Any]:
    """Yield values of a JSON text as they are read, so that memory holds one at a time.

    Args:
        stream: the JSON, in UTF-8.
        prefix: ``"item"`` for the items of an array, ``""`` for whole values that follow each other.

    Raises:
        RecordError: the JSON breaks, or is nested too deep; what follows can't be read.
    """
    import ijson  # type: ignore[import-untyped]

    try:
        yield from ijson.items(ShallowStream(stream), prefix, use_float=True, multiple_values=True)
    except (ijson.JSONError, ValueError) as error:
        raise RecordError(str(error).splitlines()[0]) from None


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
        raise RecordError(f"field {name!r} is missing; fields there: {there}")
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
