"""Signs that say something together: none of them counts by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from turnwise._support.regex_sets import RegexSet, uncounted

_WINDOW = 320
"""Characters within which signs belong together."""

_STEP = 160


@dataclass(frozen=True, slots=True)
class Mix:
    """Signs that have to be near each other, and signs that must not be.

    `first` is the rarest of those `wanted`, without which nobody looks for the rest.
    """

    first: str
    wanted: frozenset[str]
    unless: frozenset[str] = frozenset()

    @classmethod
    def read(cls, line: str) -> Mix:
        """Read a line: names of signs, the rarest first, with a minus those that must not be there.

        >>> sorted(Mix.read("knows menace -friendly").wanted)
        ['knows', 'menace']
        """
        names = line.split()
        unless = frozenset(name[1:] for name in names if name.startswith("-"))
        wanted = [name for name in names if not name.startswith("-")]
        return cls(wanted[0], frozenset(wanted), unless)

    def holds(self, seen: frozenset[str]) -> bool:
        """Whether the signs that were seen make up this mix."""
        return self.wanted <= seen and self.unless.isdisjoint(seen)


@dataclass(frozen=True)
class Signs:
    """Says which mixes of signs are in a text, in time linear in its length.

    The patterns are the spellings of each sign (RE2, case ignored); the mixes go by the name of what they come to.
    """

    patterns: Mapping[str, Sequence[str]]
    mixes: Mapping[str, Sequence[Mix]]

    @property
    def first(self) -> tuple[str, ...]:
        """Patterns of which a text has one where it has any mix; without counts, so that they cost little."""
        names = dict.fromkeys(mix.first for mixes in self.mixes.values() for mix in mixes)
        return tuple(uncounted(pattern) for name in names for pattern in self.patterns[name])

    @cached_property
    def _set(self) -> RegexSet:
        return RegexSet(self.patterns, ignore_case=True)

    def found(self, text: str) -> set[str]:
        """The names of what the mixes in a text come to."""
        found: set[str] = set()
        for window in windows(text):
            seen = self._set.present(window)
            found.update(name for name, mixes in self.mixes.items() if any(mix.holds(seen) for mix in mixes))
        return found


def windows(text: str) -> Iterator[str]:
    """Overlapping pieces of a text that begin at words; a short text is one.

    >>> [len(window) for window in windows("one two three four " * 20)]
    [320, 214]
    """
    start = 0
    while True:
        end = start + _WINDOW
        yield text[start:end]
        if end >= len(text):
            return
        space = text.find(" ", start + _STEP, end)
        start = space + 1 if space >= 0 else start + _STEP
