"""Slotted objects that read like JSON objects, and are written as such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

from turnwise.guard.guardrail import Redaction
from turnwise.scoring import Score
from turnwise.sessions import Stance

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values


class Slotted:
    """Tells a record from other values; asking an abstract class would take a call of its own."""

    __slots__ = ()


_AS_IT_IS = (bool, float, int, Slotted)

HINT = "call to_dict() for the values"
"""The one key that the dict under a record has: JSON encoders take an empty dict for ``{}`` without asking it."""

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(kind: Kind) -> Kind:
    """Make a class a record: a frozen, slotted dataclass that reads like a JSON object, and is written as one."""
    built: Any = dataclass(frozen=True, slots=True, eq=False)(kind)
    derived: tuple[str, ...] = getattr(built, "derived", ())
    hidden: tuple[str, ...] = getattr(built, "hidden", ())
    built.own = tuple(each.name for each in fields(built))
    built.public = tuple(name for name in built.own if name not in hidden) + derived
    # Web frameworks take dataclasses apart by their fields. These are dicts, and are asked for their keys.
    del built.__dataclass_fields__, built.__dataclass_params__
    made: Kind = built
    return made


class Record(Slotted, Mapping[str, Any]):
    """A slotted object that is also a mapping from field to JSON value, or to another record."""

    __slots__ = ()

    own: ClassVar[tuple[str, ...]] = ()
    """Names of the fields."""

    public: ClassVar[tuple[str, ...]] = ()
    """The keys: fields that are not hidden, and what is derived from them."""

    def __getitem__(self, key: str) -> Any:
        if key not in self.public:
            raise KeyError(key)
        value = getattr(self, key)
        # A record reads like a JSON object; making it one at every look would cost more than the look.
        return value if isinstance(value, _AS_IT_IS) else plain(value)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        if key not in self.public:
            return default
        value = getattr(self, key)
        return value if isinstance(value, _AS_IT_IS) else plain(value)

    def __contains__(self, key: object) -> bool:
        return key in self.public

    def __iter__(self) -> Iterator[str]:
        return iter(self.public)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.public)

    def __len__(self) -> int:
        return len(self.public)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {name: plain(getattr(self, name)) for name in self.public}

    def replaced(self, **changes: object) -> Self:
        """Return one like it, with other values for some fields."""
        return type(self)(**({name: getattr(self, name) for name in self.own} | changes))

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.own)


class Document(Record, dict[str, Any]):
    """A record that is also a read-only dict, for those that are handed out or kept with a turn.

    It becomes JSON values when it is looked at as a whole: by ``json.dumps``, ``dict`` or `to_dict`. Encoders that
    read dicts behind their backs, such as orjson, are given what `to_dict` returns.
    """

    __slots__ = ()

    # Runs in C, with the hint that each takes as its last argument: one is made at every check.
    __post_init__ = dict.setdefault

    def keys(self) -> dict_keys[str, Any]:
        """Return the keys."""
        return dict.fromkeys(self.public).keys()

    def values(self) -> dict_values[str, Any]:
        """Return the values as JSON has them."""
        return self.to_dict().values()

    def items(self) -> dict_items[str, Any]:
        """Return keys and values as JSON has them."""
        return self.to_dict().items()

    def copy(self) -> dict[str, Any]:
        """Return it as a dict of one's own, of JSON values."""
        return self.to_dict()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self.to_dict() == other.to_dict()
        return self.to_dict() == other if isinstance(other, Mapping) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return {**self.to_dict(), **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return {**other, **self.to_dict()}

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is read-only; to_dict() gives a dict of your own")

    __setitem__ = __delitem__ = __ior__ = _refused
    update = setdefault = pop = popitem = clear = _refused


def plain(value: Any) -> Any:
    """Return a value of a record as JSON has it."""
    if value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, Slotted | Stance | Score):
        return value.to_dict()  # type: ignore[union-attr]
    if isinstance(value, Redaction):
        return {
            "start": value.start,
            "end": value.end,
            "kind": value.kind,
            "placeholder": value.placeholder,
        }
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value]
