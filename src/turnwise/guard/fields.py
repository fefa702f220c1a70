"""Reads values that anybody may have written as the types that they should have.

What can't be read is a `GuardMetadataError` that says what is wrong, and where. Unknown keys are passed over; a
missing one has its default where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from turnwise._support.visible import shown
from turnwise.errors import GuardError

_Member = TypeVar("_Member", bound=StrEnum)


class GuardMetadataError(GuardError):
    """What a guard kept can't be read: it was changed, or another program wrote it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value and where it stands, with one method for each type that it may have. None stands for missing.

    >>> Field({"blocked": "yes"}, "check").get("blocked").flag()
    Traceback (most recent call last):
        ...
    turnwise.guard.fields.GuardMetadataError: check.blocked is 'yes', not true or false
    """

    value: Any
    where: str

    def wrong(self, expected: str) -> NoReturn:
        """Raise the error that it is not what it should be."""
        if self.value is None:
            raise GuardMetadataError(f"{self.where or 'it'} is missing; it has to be {expected}")
        raise GuardMetadataError(f"{self.where or 'it'} is {shown(self.value)}, not {expected}")

    def mapping(self) -> Mapping[str, Any]:
        """An object with keys; an empty one where it is missing."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            self.wrong("an object with keys")
        return self.value

    def get(self, key: str) -> Field:
        """The value of a key of an object."""
        return Field(self.mapping().get(key), f"{self.where}.{key}" if self.where else key)

    def pairs(self) -> Iterator[tuple[str, Field]]:
        """Yield the keys of an object with their values."""
        for key, value in self.mapping().items():
            yield str(key), Field(value, f"{self.where}.{shown_key(str(key))}")

    def items(self) -> Iterator[Field]:
        """Yield the items of a list; none where it is missing."""
        if not isinstance(self.value, list | tuple | None):
            self.wrong("a list")
        for place, item in enumerate(self.value or ()):
            yield Field(item, f"{self.where}[{place}]")

    def text(self, default: str | None = None) -> str:
        """A text; the default, where there is one, if it is missing."""
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, str):
            self.wrong("text")
        return self.value

    def optional(self) -> str | None:
        """A text, or None where it is missing."""
        return None if self.value is None else self.text()

    def flag(self) -> bool:
        """True or false; false where it is missing."""
        if self.value is not None and not isinstance(self.value, bool):
            self.wrong("true or false")
        return bool(self.value)

    def whole(self) -> int:
        """A whole number from 0; 0 where it is missing."""
        if self.value is None:
            return 0
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 0:
            self.wrong("a whole number from 0")
        return self.value

    def number(self, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number in a range."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.wrong("a number")
        if not (abs(self.value) <= 1e300 and least <= self.value <= most):
            self.wrong("a number in range")
        return float(self.value)

    def limit(self) -> float | None:
        """A threshold; None, also for infinity, where it is never reached."""
        endless = isinstance(self.value, float) and math.isinf(self.value)
        return None if self.value is None or endless else self.number()

    def time(self) -> datetime:
        """A time in UTC; one without a zone is taken for UTC."""
        if self.value is None:
            self.wrong("a time such as 2025-01-31T12:00:00+00:00")
        try:
            time = self.value if isinstance(self.value, datetime) else datetime.fromisoformat(self.value)
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            self.wrong("a time such as 2025-01-31T12:00:00+00:00")

    def member(self, kind: type[_Member], default: _Member) -> _Member:
        """A member of an enum by its value; the default where it is missing."""
        if self.value is None:
            return default
        try:
            return kind(self.value)
        except ValueError:
            self.wrong(f"one of {', '.join(kind)}")


def shown_key(name: str) -> str:
    """A key for a message: a plain name as it is, another one quoted and cut."""
    return name if name.isascii() and name.replace("_", "").isalnum() and len(name) < 64 else shown(name)
