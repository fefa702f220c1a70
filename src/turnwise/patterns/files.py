"""Named patterns in YAML files: those that ship, and a user's own.

A file is a mapping from name to definition::

    lasting_doubt:
      expression: streak(x > limit) >= turns
      description: The observer could not tell, turn after turn.
      reference: our own
      parameters: {x: I, limit: 0.5, turns: 2}
      version: 1
      example:            # may be left out: T, I, F turn by turn, null for a gap
        reciprocity: [[0.8, 0.2, 0.1], [0.5, 0.7, 0.2], [0.5, 0.6, 0.2]]

Only this module of the package reads files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from turnwise.bounded import YamlError, read_yaml
from turnwise.errors import PatternError, ScoreError
from turnwise.paths import to_path
from turnwise.patterns.named import Library, NamedPattern, Triple, default_library
from turnwise.patterns.reader import unknown
from turnwise.scoring import Score

SHIPPED = "shipped.yaml"

_NEEDED = ("expression", "description")
_KEYS = (*_NEEDED, "reference", "parameters", "version", "example")


@cache
def shipped_patterns() -> tuple[NamedPattern, ...]:
    """Return the named patterns that ship with turnwise, in the order of their file."""
    text = resources.files("turnwise.patterns").joinpath(SHIPPED).read_text(encoding="utf-8")
    return read_patterns(text, SHIPPED)


def load_patterns(path: str | Path, behind: Library | None = None) -> Library:
    """Return the named patterns of a file, with those that ship and those of installed packages behind them.

    Args:
        path: a YAML file; the shape is at the top of this module.
        behind: the patterns behind them; `default_library` by default.

    Raises:
        PatternError: the file can't be read, or a pattern in it; the message names file and pattern.
    """
    try:
        text = to_path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatternError(f"{path}: the file of patterns can't be read: {error}") from error
    library = Library(read_patterns(text, str(path)), default_library() if behind is None else behind)
    try:
        library.check()
    except PatternError as error:
        raise PatternError(f"{path}: {error}") from error
    return library


def read_patterns(text: str, source: str) -> tuple[NamedPattern, ...]:
    """Return the named patterns that a YAML text defines, in its order.

    Args:
        text: the YAML text.
        source: where it is from, for messages.

    Raises:
        PatternError: it is no YAML, or not of the right shape; expressions are not read yet.
    """
    try:
        data = read_yaml(text)
    except YamlError as error:
        raise PatternError(f"{source}: not readable as YAML: {error}") from error
    if not isinstance(data, dict) or not data:
        raise PatternError(f"{source}: a file of patterns is a mapping from name to definition")
    return tuple(_read(name, definition, source) for name, definition in data.items())


def _read(name: object, definition: Any, source: str) -> NamedPattern:
    where = f"{source}, pattern {name!r}"
    if not isinstance(name, str) or not isinstance(definition, dict):
        raise PatternError(f"{where}: a pattern is a name and a mapping with {', '.join(_KEYS)}")
    for key in definition:
        if key not in _KEYS:
            raise PatternError(f"{where}: {unknown('key', str(key), _KEYS)}")
    for key in _NEEDED:
        if not isinstance(definition.get(key), str):
            raise PatternError(f"{where}: it needs {key}, a text")
    parameters = definition.get("parameters") or {}
    if not isinstance(parameters, dict) or not all(
        isinstance(key, str) and isinstance(value, (str, int, float)) and not isinstance(value, bool)
        for key, value in parameters.items()
    ):
        raise PatternError(
            f"{where}: parameters are names with a default each: a number or an expression (quote names that YAML "
            "reads as something else, such as y or on)"
        )
    try:
        return NamedPattern(
            name=name,
            expression=definition["expression"].strip(),
            description=" ".join(definition["description"].split()),
            reference=" ".join(str(definition.get("reference", "")).split()),
            parameters={key: str(value) for key, value in parameters.items()},
            version=str(definition.get("version", "1")),
            example=_read_example(definition.get("example") or {}),
        )
    except (PatternError, ScoreError) as error:
        raise PatternError(f"{where}: {error}") from error


def _read_example(data: Any) -> Mapping[str, tuple[Triple | None, ...]]:
    if not isinstance(data, dict) or not all(isinstance(turns, list) for turns in data.values()):
        raise PatternError("an example is a list of turns by principle")
    if len({len(turns) for turns in data.values()}) > 1:
        raise PatternError("the principles of an example have equally many turns")
    return {str(principle): tuple(map(_read_triple, turns)) for principle, turns in data.items()}


def _read_triple(value: Any) -> Triple | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise PatternError(f"a turn of an example is [T, I, F] or null, not {value!r}")
    score = Score(*value)
    return score.T, score.I, score.F
