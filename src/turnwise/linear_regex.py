"""Regular expressions over text of others: linear time on every text (RE2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

_MEMORY = 64 << 20
"""Bytes that an expression may take; it grows only as expression and text need it."""

SPACE = r"\s\v\x1c-\x1f\x85\pZ"
"""White space as `str.isspace` has it, to stand in a class of characters; RE2's ``\\s`` is ASCII only."""

WORD = r"\w\xc0-\x{1fff}\x{2c00}-\x{2fff}\x{3040}-\x{10ffff}"
"""Letters, digits and ``_`` of all scripts, to stand in a class of characters.

They go by blocks, without those of signs and punctuation: one by one they are thousands of steps of an automaton.
"""


class Match:
    """Where an expression matches.

    Args:
        start: characters before the match.
        end: characters up to its end.
        found: RE2's match, of the text in UTF-8.
        names: numbers of the groups with a name, which RE2 would look up each time.
    """

    __slots__ = ("_found", "_names", "end", "start")

    def __init__(self, start: int, end: int, found: Any, names: Mapping[str, int]) -> None:
        self.start, self.end = start, end
        self._found, self._names = found, names

    def __getitem__(self, group: int | str) -> str:
        """Return the text of a group; empty where it has no part in the match. Group 0 is the whole match."""
        said: bytes | None = self._found[self._names[group] if isinstance(group, str) else group]
        return _text(said) if said else ""


class LinearRegex:
    r"""A regular expression that takes linear time on every text; it is compiled when it is first used.

    Source of the syntax: RE2. It has no lookaround and no backreferences; ``\b``, ``\d``, ``\s`` and ``\w``
    know ASCII only. Flags stand in the expression, such as ``(?i)``. Halves of surrogate pairs are characters
    like others.

    Args:
        pattern: the expression; for `finditer`, `sub` and `split` one that matches no empty text.

    >>> LinearRegex("(?i)a+").search("baAc")[0]
    'aA'
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def _compiled(self) -> Any:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        return re2.compile(self.pattern, options)

    @cached_property
    def _names(self) -> dict[str, int]:
        return dict(self._compiled.groupindex)

    @cached_property
    def _groups(self) -> int:
        groups: int = self._compiled.groups
        return groups

    def search(self, text: str) -> Match | None:
        """Return the first match, or None."""
        data = _utf8(text)
        found = self._compiled.search(data)
        return None if found is None else next(self._matches(data, len(text), [found]))

    def match(self, text: str) -> Match | None:
        """Return the match at the beginning of a text, or None."""
        data = _utf8(text)
        found = self._compiled.match(data)
        return None if found is None else next(self._matches(data, len(text), [found]))

    def finditer(self, text: str) -> Iterator[Match]:
        """Yield the matches from left to right; none overlaps another."""
        data = _utf8(text)
        return self._matches(data, len(text), self._compiled.finditer(data))

    def spans(self, text: str, *, overlapping: bool = False) -> Iterator[Sequence[tuple[int, int]]]:
        """Yield where the expression matches: the offsets of the whole, then of each group.

        Args:
            text: the text.
            overlapping: whether what a match looks at behind its last group can belong to the next match as well;
                a match in which no group took part is taken whole.

        Yields:
            Pairs of offsets; (-1, -1) for a group that took no part.

        >>> list(LinearRegex("(?:^|é)(a)(?:é|$)").spans("aéa", overlapping=True))
        [((0, 2), (0, 1)), ((1, 3), (2, 3))]
        """
        data = _utf8(text)
        groups = range(self._groups + 1)
        matches = self._overlapping(data) if overlapping else self._compiled.finditer(data)
        found = (tuple(map(match.span, groups)) for match in matches)
        if len(data) == len(text):  # ASCII: a byte is a character
            yield from found
            return
        offset = before = 0
        for spans in found:
            start = spans[0][0]
            offset, before = offset + len(_text(data[before:start])), start
            yield tuple(
                (-1, -1)
                if first < 0
                else (offset + len(_text(data[start:first])), offset + len(_text(data[start:last])))
                for first, last in spans
            )

    def _overlapping(self, data: bytes) -> Iterator[Any]:
        search, groups = self._compiled.search, range(1, self._groups + 1)
        match = search(data)
        while match is not None:
            yield match
            taken = max(map(match.end, groups))
            match = search(data, taken if taken > 0 else match.end())

    def sub(self, replace: Callable[[Match], str], text: str) -> str:
        """Return a text with each match replaced by what a function gives for it.

        >>> LinearRegex("[0-9]+").sub(lambda found: f"<{found[0]}>", "a1b23")
        'a<1>b<23>'
        """
        pieces: list[str] = []
        at = 0
        for found in self.finditer(text):
            pieces += text[at : found.start], replace(found)
            at = found.end
        return "".join([*pieces, text[at:]])

    def split(self, text: str) -> list[str]:
        """Return what stands between the matches, and between each two of those the first group of the match.

        >>> LinearRegex("([+-])").split("1+2-3")
        ['1', '+', '2', '-', '3']
        """
        pieces: list[str] = []
        at = 0
        for found in self.finditer(text):
            pieces += text[at : found.start], found[1]
            at = found.end
        return [*pieces, text[at:]]

    def _matches(self, data: bytes, length: int, found: Iterable[Any]) -> Iterator[Match]:
        """Yield matches with their places in characters, each counted from the one before."""
        if len(data) == length:  # ASCII: a byte is a character
            for match in found:
                first, last = match.span()
                yield Match(first, last, match, self._names)
            return
        at = place = 0
        for match in found:
            first, last = match.span()
            start = place + len(_text(data[at:first]))
            at, place = last, start + len(_text(data[first:last]))
            yield Match(start, place, match, self._names)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
