"""Detectors as text or mapping: reading and writing ``cusum:drift=0.05,limit=0.2``, or what a YAML file holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from turnwise.detectors.protocol import Detector
from turnwise.errors import DetectorError

_OPEN, _CLOSE = "[{", "]}"
_QUOTES = "'\""
_DEEPEST = 20
"""Brackets within brackets; more is a slip, not a detector."""

_NAMED = re.compile(r"\s*\w+\s*=(?!=)")
"""How a text with named parameters begins. An expression may have ``==`` there, never a lone ``=``."""


def read_parameters(
    spec: str, name: str, text: str, known: Mapping[str, Any], whole: str | None
) -> dict[str, Any]:
    """The parameters behind the colon; where none is named, `whole` takes the text as it stands."""
    if whole is not None and not _NAMED.match(text):
        return {whole: text.strip()}
    values: dict[str, Any] = {}
    for part in split_outside(text, ",", spec):
        parameter, equals, value = (piece.strip() for piece in part.partition("="))
        if not (parameter and equals and value):
            raise DetectorError(
                f"detector {spec!r}: {part.strip()!r} is not parameter=value; "
                f"write it as {name}:parameter=value,... with the parameters {', '.join(known) or 'none'}"
            )
        if parameter in values:
            raise DetectorError(f"detector {spec!r}: {parameter} is given twice; give it once")
        values[parameter] = _read_value(spec, parameter, value)
    return values


def split_outside(text: str, mark: str, spec: str) -> Iterator[str]:
    """The parts of a text between marks, each one character, that stand in no bracket or quotes.

    >>> list(split_outside("k=2,members=[cusum:drift=0.1,limit=1; slope]", ",", ""))
    ['k=2', 'members=[cusum:drift=0.1,limit=1; slope]']
    """
    begun, expected, quote = 0, [], ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in _OPEN:
            expected.append(_CLOSE[_OPEN.index(character)])
            if len(expected) > _DEEPEST:
                raise DetectorError(f"a detector of {len(spec)} characters is too deep: nest at most {_DEEPEST}")
        elif character in _CLOSE:
            if not expected or expected.pop() != character:
                raise DetectorError(f"detector {spec!r}: {character!r} closes no bracket; remove it")
        elif character == mark and not expected:
            yield text[begun:place]
            begun = place + 1
    if quote or expected:
        raise DetectorError(f"detector {spec!r}: {quote or expected[-1]!r} is missing at the end; add it")
    yield text[begun:]


def _read_value(spec: str, parameter: str, text: str) -> Any:
    first, last = text[0], text[-1]
    if text.lower() == "none":
        return None
    if first in _QUOTES and last == first and len(text) > 1:
        return text[1:-1]
    if first == "[" and last == "]":
        items = [item.strip() for item in split_outside(text[1:-1], ";", spec)]
        return [_read_item(item) for item in items if item]
    if first == "{" and last == "}":
        return dict(_read_entries(spec, parameter, text[1:-1]))
    number = _read_item(text)
    if isinstance(number, str):
        raise DetectorError(f"detector {spec!r}: {parameter} must be a number or none, not {text!r}")
    return number


def _read_entries(spec: str, parameter: str, text: str) -> Iterator[tuple[str, float | int]]:
    for part in filter(str.strip, split_outside(text, ";", spec)):
        key, colon, value = (piece.strip() for piece in part.partition(":"))
        number = _read_item(value)
        if not (key and colon) or isinstance(number, str):
            raise DetectorError(f"detector {spec!r}: {part.strip()!r} in {parameter} must be like name:number")
        yield key, number


def _read_item(text: str) -> float | int | str:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def format_spec(detector: Detector) -> str:
    """Return the specification that builds an equal detector: the parameters that are not at their default.

    Args:
        detector: a dataclass with its parameters as fields, as the detectors of turnwise are; of any other
            only the name is known.

    >>> from turnwise.detectors import build_detector
    >>> format_spec(build_detector("slope:limit=0.10, window=5"))
    'slope:window=5'
    """
    given = _given(detector)
    whole = getattr(detector, "whole_argument", None)
    if whole is not None and list(given) == [whole]:
        return f"{detector.name}:{given[whole]}"
    written = [f"{name}={write_value(_written(value, format_spec))}" for name, value in given.items()]
    return f"{detector.name}:{','.join(written)}" if written else detector.name


def to_mapping(detector: Detector) -> dict[str, Any]:
    """Return the mapping that builds an equal detector, plain values as a YAML file holds them.

    Args:
        detector: as for `format_spec`.

    >>> from turnwise.detectors import build_detector
    >>> to_mapping(build_detector("cusum:limit=0.2"))
    {'detector': 'cusum', 'limit': 0.2}
    """
    given = {name: _written(value, to_mapping) for name, value in _given(detector).items()}
    return {"detector": detector.name, **given}


def _given(detector: Detector) -> dict[str, Any]:
    """The parameters that are not at their default, by name."""
    if not is_dataclass(detector):
        return {}
    # In the order in which the constructor takes them: those that are given by name alone come last.
    ordered = sorted(fields(detector), key=lambda field: field.kw_only)
    return {
        field.name: value
        for field in ordered
        if field.init and (value := getattr(detector, field.name)) != field.default
    }


def _written(value: Any, write: Callable[[Detector], Any]) -> Any:
    """A value with the detectors in it written; tuples become lists."""
    if isinstance(value, tuple):
        return [write(item) if hasattr(item, "with_threshold") else item for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def write_value(value: Any) -> str:
    """A parameter's value as it stands in a specification; texts stand in quotes.

    >>> write_value({"peak": 4.0}), write_value(["cusum", "slope:window=5"]), write_value(None)
    ('{peak:4.0}', '[cusum;slope:window=5]', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, str):
        return f'"{value}"' if "'" in value else f"'{value}'"
    if isinstance(value, Mapping):
        return "{" + ";".join(f"{key}:{item!r}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ";".join(item if isinstance(item, str) else repr(item) for item in value) + "]"
    return repr(value)
