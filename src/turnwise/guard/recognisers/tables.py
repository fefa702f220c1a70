"""Tables of this package in YAML: names of things, and the patterns (RE2) that they are known by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib import resources
from typing import Any

from turnwise.linear_regex import LinearRegex


@cache
def read_table(file: str) -> Mapping[str, Any]:
    """A YAML file of this package, read once."""
    import yaml

    text = resources.files("turnwise.guard.recognisers").joinpath(file).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data


def marked(parts: Mapping[str, str]) -> dict[str, str]:
    """Parts of patterns by the marks that stand for them: their names in braces."""
    return {f"{{{name}}}": part for name, part in parts.items()}


def filled(pattern: str, parts: dict[str, str]) -> str:
    """A pattern with parts put in for their marks; a part may hold marks of others that come before it.

    >>> filled("{greeting}, you", marked({"word": "hello", "greeting": "(oh )?{word}"}))
    '(oh )?hello, you'
    """
    for mark, part in reversed(parts.items()):
        pattern = pattern.replace(mark, part)
    return pattern


class PatternTable:
    """A file of patterns by name, made with its lists of words; it is read when one is first asked for.

    `words` are lists of alternatives by name, `hints` what a text has, at least, in which any pattern matters.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._regexes: dict[str, LinearRegex] = {}

    @cached_property
    def _parts(self) -> dict[str, str]:
        words = read_table(self._file)["words"]
        return marked({name: "|".join(alternatives) for name, alternatives in words.items()})

    @property
    def hints(self) -> tuple[str, ...]:
        """What a text has at least."""
        return tuple(filled(hint, self._parts) for hint in read_table(self._file)["hints"])

    def __getitem__(self, name: str) -> LinearRegex:
        """The expression that is a pattern."""
        regex = self._regexes.get(name)
        if regex is None:
            pattern = filled(read_table(self._file)["patterns"][name], self._parts)
            regex = self._regexes.setdefault(name, LinearRegex(pattern))
        return regex
