"""Named patterns: what they are, the collections that names are looked up in, and the YAML that defines them.

A file is a mapping from name to definition::

    lasting_doubt:
      expression: streak(x > limit) >= turns
      description: The observer could not tell, turn after turn.
      reference: our own
      parameters: {x: I, limit: 0.5, turns: 2}
      version: 1
      example:            # may be left out: T, I, F turn by turn, null for a gap
        reciprocity: [[0.8, 0.2, 0.1], [0.5, 0.7, 0.2], [0.5, 0.6, 0.2]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from turnwise._support.bounded import YamlError, read_yaml
from turnwise.errors import PatternError, ScoreError, UnknownNameError
from turnwise.patterns.expression import is_plain_name
from turnwise.patterns.tokeniser import is_built_in, unknown
from turnwise.plugins import Registry
from turnwise.scoring import Score, TurnScores

Triple = tuple[float, float, float]
"""T, I and F."""


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern with a name.

    Args:
        name: in snake_case; no word of the language.
        expression: its text; may use its parameters and other named patterns.
        description: what it catches and why, in a few sentences.
        reference: where it comes from.
        parameters: default by parameter, each an expression as text: a number, a series, a condition.
        version: changes whenever expression or defaults change.
        example: a conversation that it matches: T, I, F by principle, turn by turn with None for a gap.

    Raises:
        PatternError: the name is not allowed.
    """

    name: str
    expression: str
    description: str
    reference: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    version: str = "1"
    example: Mapping[str, tuple[Triple | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = [("pattern", self.name), *(("parameter", parameter) for parameter in self.parameters)]
        for what, name in words:
            if not is_plain_name(name):
                raise PatternError(f"the name of a {what} has letters, digits and _ only, not {name!r}")
            if is_built_in(name):
                raise PatternError(f"a {what} can't be called {name!r}, a word of patterns: choose another name")

    @property
    def usage(self) -> str:
        """How it is written with its parameters, each at its default."""
        given = ", ".join(f"{name}={default}" for name, default in self.parameters.items())
        return f"{self.name}({given})" if given else self.name

    def example_turns(self) -> tuple[TurnScores, ...]:
        """Return the turns of the example, for `match` or `Evaluator.run`; none where there is no example."""
        length = max(map(len, self.example.values()), default=0)
        return tuple(
            TurnScores(
                index + 1,
                {name: Score(*row) for name, turns in self.example.items() if (row := turns[index]) is not None},
            )
            for index in range(length)
        )


class Library:
    """Named patterns by name, with another collection behind them.

    Args:
        patterns: the patterns; a name that `behind` has as well is an error.
        behind: where names are looked up that are not among them; nothing by default.

    Raises:
        PatternError: two patterns of one name.

    >>> mine = NamedPattern("doubt", "streak(I > 0.5) >= turns", "Doubt that lasts.", "ours", {"turns": "2"})
    >>> Library([mine]).get("doubt").usage
    'doubt(turns=2)'
    """

    def __init__(self, patterns: Iterable[NamedPattern] = (), behind: Library | None = None) -> None:
        self._patterns: dict[str, NamedPattern] = {}
        self._behind = behind
        for pattern in patterns:
            if pattern.name in self:
                raise PatternError(f"there are two patterns called {pattern.name!r}; rename one")
            self._patterns[pattern.name] = pattern

    def names(self) -> tuple[str, ...]:
        """Return every name, sorted."""
        return tuple(sorted({*self._patterns, *(self._behind.names() if self._behind else ())}))

    def get(self, name: str) -> NamedPattern:
        """Return the pattern of that name.

        Raises:
            UnknownNameError: there is none.
        """
        if name in self._patterns:
            return self._patterns[name]
        if self._behind is not None and name in self._behind:
            return self._behind.get(name)
        raise UnknownNameError("pattern", name, self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._patterns or (self._behind is not None and name in self._behind)

    def __iter__(self) -> Iterator[NamedPattern]:
        return (self.get(name) for name in self.names())


class _Installed(Library):
    """The patterns that installed packages add through the entry-point group ``turnwise.patterns``."""

    def __init__(self) -> None:
        super().__init__()
        self._registry: Registry[NamedPattern] = Registry(
            "pattern", "turnwise.patterns", lambda part: isinstance(part, NamedPattern)
        )
        self._names: tuple[str, ...] | None = None

    def names(self) -> tuple[str, ...]:
        # Looking through the installed packages takes milliseconds, and every unknown word asks.
        if self._names is None:
            self._names = self._registry.names()
        return self._names

    def get(self, name: str) -> NamedPattern:
        return self._registry.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names()


@cache
def default_library() -> Library:
    """Return the patterns that ship with turnwise and those of installed packages.

    >>> "gradual_drift" in default_library()
    True
    """
    return Library(shipped_patterns(), _Installed())


SHIPPED = "shipped.yaml"

_NEEDED = ("expression", "description")
_KEYS = (*_NEEDED, "reference", "parameters", "version", "example")


@cache
def shipped_patterns() -> tuple[NamedPattern, ...]:
    """Return the named patterns that ship with turnwise, in the order of their file."""
    text = resources.files("turnwise.patterns").joinpath(SHIPPED).read_text(encoding="utf-8")
    return read_patterns(text, SHIPPED)


def read_patterns(text: str, source: str) -> tuple[NamedPattern, ...]:
    """Return the named patterns that a YAML text defines, in its order; their expressions are not read yet."""
    try:
        data = read_yaml(text)
    except YamlError as error:
        raise PatternError(f"{source}: not readable as YAML: {error}") from error
    if not isinstance(data, dict) or not data:
        raise PatternError(f"{source}: a file of patterns must be a mapping from name to definition")
    return tuple(_read(name, definition, source) for name, definition in data.items())


def _read(name: object, definition: Any, source: str) -> NamedPattern:
    where = f"{source}, pattern {name!r}"
    if not isinstance(name, str) or not isinstance(definition, dict):
        raise PatternError(f"{where}: a pattern must be a name and a mapping with {', '.join(_KEYS)}")
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
        raise PatternError("an example must be a list of turns for each principle")
    if len({len(turns) for turns in data.values()}) > 1:
        raise PatternError("the principles of an example must have equally many turns")
    return {str(principle): tuple(map(_read_triple, turns)) for principle, turns in data.items()}


def _read_triple(value: Any) -> Triple | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise PatternError(f"a turn of an example must be [T, I, F] or null, not {value!r}")
    score = Score(*value)
    return score.T, score.I, score.F
