"""JSON values and times: what metadata may hold, so that a conversation survives a file unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from turnwise._support.visible import shown
from turnwise.errors import ConversationError

MAX_DEPTH = 100
"""Levels of nesting that metadata may have; deeper values are refused before they exhaust the stack."""

_AS_THEY_ARE = frozenset((str, bool, int))


def json_copy(value: object, where: str, depth: int = 0) -> Any:
    """A deep copy of a value as JSON gives it back; `where` names it in messages, `depth` is the levels above it.

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
        raise ConversationError(f"{where} is nested too deeply: at most {MAX_DEPTH} levels are read")
    if isinstance(value, Mapping):
        return json_object(value, where, depth)
    if isinstance(value, list | tuple):
        return [json_copy(item, where, depth + 1) for item in value]
    raise ConversationError(f"{where} holds a {type(value).__name__}: use JSON values only")


def json_object(value: object, where: str, depth: int = 0) -> dict[str, Any]:
    """A deep copy of a mapping with text keys and JSON values, empty for None; arguments as for `json_copy`."""
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
    """Refuse an object with unknown or missing keys, rather than drop some in silence; `what` is for messages."""
    if not isinstance(data, Mapping):
        raise ConversationError(f"{what} must be an object with keys, not {type(data).__name__}")
    for key in data:
        if key not in known:
            raise ConversationError(f"{what} has no key {shown(key)}; known: {', '.join(known)}")
    for key in needed:
        if key not in data:
            raise ConversationError(f"{what} needs the key {key!r}; here are {', '.join(data) or 'none'}")


def as_utc(stamp: object, where: str) -> datetime:
    """A time of any zone in UTC; one without a zone, or that UTC can't hold, is refused.

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
        raise ConversationError(f"{where} {stamp} is out of range in UTC; use a later or earlier time") from None


def read_utc(text: object, where: str) -> datetime | None:
    """The time that ISO 8601 text with a time zone tells; None for None.

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
