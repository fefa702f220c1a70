"""The types of the record's columns: how values are written, and what is refused where they are read.

Whatever is read through SQLAlchemy is checked here; `turnwise.store.damaged_rows` says where a bad value is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from math import inf
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Float, Integer, String, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from turnwise._support.visible import shown


class UnreadableValueError(ValueError):
    """A stored value that is not what its column holds, `kind`: something else than turnwise changed the file."""

    def __init__(self, value: object, kind: str) -> None:
        super().__init__(f"{shown(value)} is not {kind}")


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept as ISO 8601 text in UTC, which sorts as text as it does as time."""

    impl = String(32)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use PostgreSQL's own type of time there, so that analysts can calculate with it."""
        return dialect.type_descriptor(self.impl if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | datetime | None:
        """Write a time; a naive one is refused, since nobody can tell what it means."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value} has no time zone")
        in_utc = value.astimezone(UTC)
        return in_utc.isoformat(timespec="microseconds") if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.astimezone(UTC) if isinstance(value, datetime) else read_time(value)


def read_time(text: str) -> datetime:
    """The aware time that a text says; UnreadableValueError where it is none, or has no zone."""
    try:
        time = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise UnreadableValueError(text, "a time") from None
    if time.tzinfo is None:
        raise UnreadableValueError(text, "a time with a zone")
    return time


class _PostgresqlText(TypeDecorator[str]):
    """Any text in PostgreSQL, which has no NUL: that is written as ``␀0``, and ``␀`` itself as ``␀␀``."""

    impl = Text
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(collation="C")  # sorts by code points, as SQLite does, whatever the database's language

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or ("\0" not in value and "␀" not in value):
            return value
        return value.replace("␀", "␀␀").replace("\0", "␀0")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or "␀" not in value:
            return value
        return "␀".join(part.replace("␀0", "\0") for part in value.split("␀␀"))


def text_type(length: int | None = None) -> TypeEngine[str]:
    """The type of a text; SQLite is told a length and does not mind a longer one."""
    return (String(length) if length else Text()).with_variant(_PostgresqlText(), "postgresql")


def count_type() -> TypeEngine[int]:
    """The type of whole numbers that never meet a limit: 64 bits."""
    return Integer().with_variant(BigInteger(), "postgresql")


def read_stored_json(text: str) -> Any:
    """The value in a column of JSON; UnreadableValueError where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise UnreadableValueError(text, "JSON") from None


class CheckedType(TypeDecorator[Any]):
    """A type of which not every value is allowed; `optional` says whether null is."""

    impl: Any = Integer
    what: str
    """What a value is, with its article."""

    fits: Callable[[Any], bool]
    """Whether a value that is not null is allowed."""

    def __init__(self, *, optional: bool = False) -> None:
        super().__init__()
        self.optional = optional

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        optional, fits = self.optional, self.fits

        def read(value: Any) -> Any:
            if optional if value is None else fits(value):
                return value
            raise UnreadableValueError(value, self.what)

        return read


class Share(CheckedType):
    """A number from 0 to `most`: T, I or F, or an amount without an upper limit."""

    impl: Any = Float
    cache_ok = True

    def __init__(self, most: float = 1.0, *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.most = most
        self.what = "a number in [0, 1]" if most == 1 else "a number from 0"
        self.fits = lambda value: type(value) in (float, int) and 0 <= value <= most


class Whole(CheckedType):
    """A whole number from `least`."""

    cache_ok = True

    def __init__(self, least: int, *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.least = least
        self.what = f"a whole number from {least}"
        self.fits = lambda value: type(value) is int and value >= least


class Word(CheckedType):
    """One of `words`, which have `length` characters at most."""

    impl: Any = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum], length: int, *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.impl = text_type(length)
        self.words = words
        self.length = length
        self.what = f"one of {', '.join(words)}"
        self.fits = tuple(map(str, words)).__contains__


def amount_type() -> TypeEngine[float]:
    """The type of seconds or dollars, null where they are not known."""
    return Share(inf, optional=True)
