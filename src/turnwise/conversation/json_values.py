"""JSON values and times: what metadata may hold, so that a conversation survives a file unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from turnwise.errors import ConversationError
from turnwise.visible import shown

MAX_DEPTH = 100
"""Levels of nesting that metadata may have; deeper values are refused before they exhaust the stack."""

_AS_THEY_ARE = frozenset((str, bool, int))


def json_copy(value: object, where: str, depth: int = 0) -> Any:
    """Return a deep copy of a value as JSON gives it back: dicts with text keys, lists, text, numbers.

    Args:
        value: the value; a tuple becomes a list, as JSON would make it.
        where: what the value belongs to, for messages.
        depth: levels of nesting above the value.

    Raises:
        ConversationError: JSON has no such value, or it is nested deeper than `MAX_DEPTH`.

    >>> json_copy({"tags": ("a", "b")}, "metadata")
    {'tags': ['a', 'b']}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConversationError(f"{where} holds {value}: JSON has finite numbers only")
        return value
    if depth >= MAX_DEPTH:
        raise ConversationError(f"{where} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return json_object(value, where, depth)
    if isinstance(value, list | tuple):
        return [json_copy(item, where, depth + 1) for item in value]
    raise ConversationError(f"{where} holds a {type(value).__name__}: use JSON values only")


def json_object(value: object, where: str, depth: int = 0) -> dict[str, Any]:
    """Return a deep copy of a mapping with text keys and JSON values.

    Args:
        value: the mapping; None stands for an empty one.
        where: what the mapping belongs to, for messages.
        depth: levels of nesting above the mapping.

    Raises:
        ConversationError: no mapping, a key that is no text, or a value that JSON does not have.
    """
    if value is None:
        return {}
    if not isinstance(value, (dict, Mapping)):
        raise ConversationError(f"{where} is {type(value).__name__}, not an object with keys")
    copied: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise ConversationError(f"{where} has the key {shown(key)}: JSON has text keys only")
        copied[key] = item if type(item) in _AS_THEY_ARE else json_copy(item, where, depth + 1)
    return copied


def check_keys(data: object, what: str, known: Iterable[str], needed: Iterable[str]) -> None:
    """Refuse an object whose keys are not those that it should have, rather than drop some in silence.

    Args:
        data: what should be an object.
        what: what it should be, for messages.
        known: the keys that it may have.
        needed: the keys that it must have.

    Raises:
        ConversationError: no mapping, or a key that is unknown or missing.
    """
    if not isinstance(data, Mapping):
        raise ConversationError(f"{what} must be an object with keys, not {type(data).__name__}")
    for key in data:
        if key not in known:
            raise ConversationError(f"{what} has no key {shown(key)}; known: {', '.join(known)}")
    for key in needed:
        if key not in data:
            raise ConversationError(f"{what} needs the key {key!r}; here are {', '.join(data) or 'none'}")


def as_utc(stamp: object, where: str) -> datetime:
    """Return a time in UTC.

    Args:
        stamp: an aware datetime of any zone.
        where: what the time belongs to, for messages.

    Raises:
        ConversationError: no datetime, one without a zone, or one that UTC can't hold.

    >>> from datetime import timedelta, timezone
    >>> as_utc(datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=1))), "turn 1").isoformat()
    '2024-12-31T23:00:00+00:00'
    """
    if not isinstance(stamp, datetime):
        raise ConversationError(f"{where} is {type(stamp).__name__}, not a datetime")
    if stamp.tzinfo is UTC:
        return stamp
    if stamp.utcoffset() is None:
        raise ConversationError(f"{where} {stamp} has no time zone; add one, such as UTC")
    try:
        return stamp.astimezone(UTC)
    except OverflowError:
        raise ConversationError(f"{where} {stamp} is out of range in UTC") from None


def read_utc(text: object, where: str) -> datetime | None:
    """Return the time that a JSON value tells; None for null.

    Args:
        text: ISO 8601 with a time zone, or None.
        where: what the time belongs to, for messages.

    Raises:
        ConversationError: the value tells no time, or one without a zone.

    >>> read_utc("2025-01-31T12:00:00Z", "turn 1")
    datetime.datetime(2025, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    if text is None:
        return None
    try:
        stamp = datetime.fromisoformat(text)  # type: ignore[arg-type]  # what is no text is refused below
    except (TypeError, ValueError):
        raise ConversationError(
            f"{where} is {shown(text)}; use ISO 8601 with a time zone, such as 2025-01-31T12:00:00+00:00"
        ) from None
    return as_utc(stamp, where)
