"""YAML with the line of every key, so that an error can say where it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from turnwise._support.bounded import YamlError, bounded, load_yaml, yaml_nodes
from turnwise.errors import GuardError

if TYPE_CHECKING:
    import yaml

Place = tuple[str | int, ...]
"""Where a value stands: keys of mappings and places in lists, from 0, from the outside in."""


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


NO_LINES = Lines("")
"""Of values that did not come from a file."""


@cache
def _loader() -> type[yaml.SafeLoader]:
    """A loader that reads true and false as such, and ``on``, ``off``, ``yes`` and ``no`` as text.

    So YAML 1.2 has it; else the key ``on`` would be the value true.
    """
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
