"""Values that somebody wrote, read with pydantic: what is wrong with one, where, and what would fit.

Of YAML the line of every key is known, so that an error can say it.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnwise._support.bounded import YamlError, bounded, load_yaml, yaml_nodes
from turnwise._support.visible import shown
from turnwise.errors import GuardError, TurnwiseError, UnknownNameError

if TYPE_CHECKING:
    import yaml
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import ErrorDetails

Place = tuple[str | int, ...]
"""Where a value stands: keys of mappings and places in lists, from 0, from the outside in."""

INITIATOR: Final = "initiator"  # trajectory of scores that don't say one


class GuardMetadataError(GuardError):
    """What a guard kept can't be read: it was changed, or another program wrote it."""


class Lines:
    """The line of each place of a YAML text, from 1; none where the values did not come from a file."""

    def __init__(self, source: str, lines: Mapping[Place, int] | None = None) -> None:
        self._source = source
        self._lines = dict(lines or {})

    def error(self, place: Place, problem: str) -> GuardError:
        """The error of a place: file, line and key, then the problem.

        >>> print(Lines("guard.yaml", {("name",): 3}).error(("name",), "it is empty"))
        guard.yaml, line 3, name: it is empty
        """
        known = next((place[:n] for n in range(len(place), -1, -1) if place[:n] in self._lines), None)
        where = [self._source] if self._source else []
        if known is not None:
            where.append(f"line {self._lines[known]}")
        if place:
            where.append(".".join(str(part + 1) if isinstance(part, int) else part for part in place))
        return GuardError(f"{', '.join(where)}: {problem}" if where else problem)

    @contextmanager
    def errors_at(self, place: Place) -> Iterator[None]:
        """Tell what goes wrong within as the error of a place."""
        try:
            yield
        except TurnwiseError as error:
            raise self.error(place, str(error)) from error


NO_LINES = Lines("")  # of values that did not come from a file


@cache
def _loader() -> type[yaml.SafeLoader]:
    """A loader that reads ``on``, ``off``, ``yes`` and ``no`` as text, as YAML 1.2 has it."""
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader, with fewer words for true and false."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, words) for tag, words in resolvers if first in "tTfF" or tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return bounded(Loader)


def read_yaml(text: str, source: str) -> tuple[Any, Lines]:
    """What a YAML text says, and the line of each place in it; a mapping with a key twice is an error."""
    try:
        node, data = yaml_nodes(text, _loader()), load_yaml(text, _loader())
    except YamlError as error:
        where = source if error.line is None else f"{source}, line {error.line}"
        raise GuardError(f"{where}: not readable as YAML: {error.reason}") from error
    lines: dict[Place, int] = {}
    if node is not None:
        _collect(node, (), lines, source)
    return data, Lines(source, lines)


def _collect(node: yaml.Node, place: Place, lines: dict[Place, int], source: str) -> None:
    import yaml

    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            inside = (*place, str(key.value))
            if key.value in seen:
                raise GuardError(
                    f"{source}, line {key.start_mark.line + 1}: {key.value!r} appears twice; keep one"
                )
            seen.add(key.value)
            lines[inside] = key.start_mark.line + 1
            _collect(value, inside, lines, source)
    elif isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            _collect(item, (*place, at), lines, source)


class Mistake(NamedTuple):
    """What pydantic finds wrong first: where, what stands there (None for nothing), and what would fit."""

    place: Place
    value: Any
    fits: str

    def told(self, where: str) -> str:
        """The mistake as a sentence; `where` names the value as a whole, empty for none.

        >>> Mistake(("rows", 0, "on"), "yes", "true or false").told("turn 1")
        "turn 1.rows[0].on is 'yes', not true or false"
        """
        for part in self.place:
            where += f"[{part}]" if isinstance(part, int) else f".{shown_key(part)}" if where else shown_key(part)
        if self.value is None:
            return f"{where or 'it'} is missing; it has to be {self.fits}"
        return f"{where or 'it'} is {shown(self.value)}, not {self.fits}"


_FITS = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "missing": "an object with all its keys",
    "model_type": "an object with keys",
    "dict_type": "an object with keys",
    "list_type": "a list",
    "tuple_type": "a list",
}
"""What would fit, by pydantic's name of the mistake, where its own words are a programmer's."""


def mistake_in(error: ValidationError, value: object) -> Mistake:
    """The first mistake in a value, with all that would fit there."""
    mistakes = [_mistake(one, value) for one in error.errors(include_url=False)]
    first = mistakes[0]
    fits = dict.fromkeys(one.fits for one in mistakes if one.place == first.place)
    return first._replace(fits=" or ".join(fits))


def _mistake(error: ErrorDetails, value: object) -> Mistake:
    """One mistake; pydantic's own names for parts of a type are no part of its place."""
    place: list[str | int] = []
    for part in error["loc"]:
        if isinstance(value, Mapping):
            if part not in value and error["input"] is not None:
                continue
            value = value.get(part)
        elif isinstance(value, list | tuple) and isinstance(part, int):
            value = value[part]
        else:
            continue
        place.append(part)
    fits = _FITS.get(error["type"]) or error["msg"].removeprefix("Input should be ")
    return Mistake(tuple(place), error["input"], fits)


def shown_key(name: str) -> str:
    """A key for a message: a plain name as it is, another one quoted and cut."""
    return name if name.isascii() and name.replace("_", "").isalnum() and len(name) < 64 else shown(name)


def checked(value: object, hint: Any, place: Place, lines: Lines) -> Any:
    """A value as its annotation has it, or a `GuardError` that says what would fit."""
    from pydantic import ValidationError

    try:
        return adapter_of(hint).validate_python(value)
    except ValidationError as error:
        mistake = mistake_in(error, value)
        raise lines.error((*place, *mistake.place), f"use {mistake.fits}, not {mistake.value!r}") from error


@cache
def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """What pydantic reads values of an annotation with."""
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def settings_of(kind: type[Any], data: object, place: Place, lines: Lines) -> Any:
    """A dataclass of settings from a mapping, each value checked against its annotation."""
    if not isinstance(data, Mapping):
        raise lines.error(place, f"give a mapping of settings, not {type(data).__name__}")
    check_keys(data, kind.__dataclass_fields__, place, lines)
    hints = typing.get_type_hints(kind)
    values = {key: checked(value, hints[key], (*place, key), lines) for key, value in data.items()}
    for name, setting in kind.__dataclass_fields__.items():
        if name not in data and setting.default is MISSING and setting.default_factory is MISSING:
            raise lines.error(place, f"{name} is missing; set it")
    try:
        return kind(**values)
    except GuardError as error:
        raise lines.error(place, str(error)) from error


def check_keys(data: Mapping[Any, Any], known: Iterable[str], place: Place, lines: Lines) -> None:
    """Refuse a mapping with an unknown key."""
    for key in data:
        if key not in known:
            raise lines.error((*place, str(key)), str(UnknownNameError("key", str(key), known)))
