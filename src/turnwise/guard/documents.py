"""Slotted objects that read like JSON objects, and results, which are dicts of JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from math import isfinite
from operator import attrgetter
from types import NoneType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

from turnwise.guard.guardrail import Redaction
from turnwise.scoring import Score
from turnwise.sessions import Stance


class Slotted:
    """Base by which records are told from other values; asking an abstract class would take a call of its own."""

    __slots__ = ()


_DEPTH = 12
"""Levels of nesting that are kept of what foreign code gave."""

_JSON = frozenset((bool, float, int, str, NoneType))
_WITH_TO_DICT = (Slotted, Stance, Score, Redaction)
_AS_IT_IS = (bool, float, int, Slotted)

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(kind: Kind) -> Kind:
    """Make a class a record: a frozen, slotted dataclass that reads like a JSON object, and is written as one."""
    built: Any = dataclass(frozen=True, slots=True, eq=False)(kind)
    derived: tuple[str, ...] = getattr(built, "derived", ())
    hidden: tuple[str, ...] = getattr(built, "hidden", ())
    built.own = tuple(each.name for each in fields(built))
    built.public = tuple(name for name in built.own if name not in hidden) + derived
    built.read = staticmethod(attrgetter(*built.public))
    # Web frameworks take dataclasses apart by their fields. These are mappings, and are asked for their keys.
    del built.__dataclass_fields__, built.__dataclass_params__
    made: Kind = built
    return made


class _Fields(Slotted):
    __slots__ = ()

    own: ClassVar[tuple[str, ...]] = ()
    """Names of the fields."""

    public: ClassVar[tuple[str, ...]] = ()
    """The keys: fields that are not hidden, and what is derived from them."""

    read: ClassVar[staticmethod[[object], tuple[Any, ...]]]
    """Returns the values of the keys."""

    def json_values(self) -> dict[str, Any]:
        values = zip(self.public, self.read(self), strict=True)
        return {name: value if type(value) in _JSON else plain(value) for name, value in values}

    def replaced(self, **changes: object) -> Self:
        """One like it, with other values for some fields."""
        return type(self)(**({name: getattr(self, name) for name in self.own} | changes))

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.own)


class Record(_Fields, Mapping[str, Any]):
    """A slotted mapping from field to JSON value or record; dicts would take three times the memory."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        if key not in self.public:
            raise KeyError(key)
        value = getattr(self, key)
        # A record reads like a JSON object; making it one at every look would cost more than the look.
        return value if isinstance(value, _AS_IT_IS) else plain(value)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self[key] if key in self.public else default

    def __contains__(self, key: object) -> bool:
        return key in self.public

    def __iter__(self) -> Iterator[str]:
        return iter(self.public)

    def __len__(self) -> int:
        return len(self.public)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.json_values()


class Document(_Fields, dict[str, Any]):
    """A record that is a read-only dict of its JSON values.

    The values are in the dict itself, made once: encoders such as orjson and pydantic don't ask its methods.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        _teach_yaml()
        dict.update(self, self.json_values())

    def to_dict(self) -> dict[str, Any]:
        """A dict of your own, of JSON values."""
        return self.json_values()

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is read-only; to_dict() gives a dict of your own")

    __setitem__ = __delitem__ = __ior__ = _refused
    update = setdefault = pop = popitem = clear = _refused

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        as_dict = core_schema.plain_serializer_function_ser_schema(cls.to_dict)
        return core_schema.is_instance_schema(cls, serialization=as_dict)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "object", "title": cls.__name__}


@cache
def _teach_yaml() -> None:
    """Tell PyYAML how to write documents; by itself it writes no subclass of dict."""
    from yaml.representer import Representer, SafeRepresenter  # what its dumpers inherit from

    for kind in (SafeRepresenter, Representer):
        kind.add_multi_representer(Document, lambda dumper, value: dumper.represent_dict(value.to_dict()))


def plain(value: Any) -> Any:
    """A value of a record as JSON has it."""
    kind = type(value)
    if kind in _JSON:
        return value
    if kind is tuple or kind is list:
        return [plain(item) for item in value] if value else []
    if isinstance(value, _WITH_TO_DICT):
        return value.to_dict()  # type: ignore[union-attr]
    if kind is dict or isinstance(value, Mapping):
        return {key: item if type(item) in _JSON else plain(item) for key, item in value.items()}
    return value.isoformat() if isinstance(value, datetime) else as_json(value)


def as_json(value: Any, depth: int = 0) -> Any:
    """A value from foreign code as JSON has it; what JSON lacks becomes null, or the name of its type."""
    if isinstance(value, str | bool | int):
        return value if isinstance(value, bool) else str.__str__(value) if isinstance(value, str) else int(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if value is None or depth >= _DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item, depth + 1) for item in value]
    return type(value).__name__
