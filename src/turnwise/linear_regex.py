"""Regular expressions over texts of others: linear time on every text (RE2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

MEMORY = 64 << 20  # bytes that an expression may take; it grows only as expression and text need it

# white space as `str.isspace` has it, to stand in a class of characters; RE2's ``\s`` is ASCII only
SPACE = r"\s\v\x1c-\x1f\x85\pZ"

# Letters, digits and ``_`` of all scripts, to stand in a class of characters. They go by blocks, without those
# of signs and punctuation: one by one they are thousands of steps of an automaton.
WORD = r"\w\xc0-\x{1fff}\x{2c00}-\x{2fff}\x{3040}-\x{10ffff}"


Spans = Sequence[tuple[int, int]]


class Match:
    """Where an expression matches: `start` and `end` count characters, `spans` bytes of the text in UTF-8.

    The first of `spans` is the whole match, the others are its groups; (-1, -1) for a group that took no part.
    """

    __slots__ = ("_data", "_names", "_spans", "end", "start")

    def __init__(self, start: int, end: int, data: bytes, spans: Spans, names: Mapping[str, int]) -> None:
        self.start, self.end = start, end
        self._data, self._spans, self._names = data, spans, names

    def __getitem__(self, group: int | str) -> str:
        """The text of a group, empty where it took no part in the match. Group 0 is the whole match."""
        start, end = self._spans[self._names[group] if isinstance(group, str) else group]
        return _text(self._data[start:end]) if start < end else ""


class LinearRegex:
    r"""A regular expression that takes linear time on every text; it is compiled when it is first used.

    Source of the syntax: RE2. It has no lookaround and no backreferences; ``\b``, ``\d``, ``\s`` and ``\w``
    know ASCII only. Flags stand in the expression, such as ``(?i)``. Halves of surrogate pairs are characters
    like others. For all methods but `search` and `match` the expression must match no empty text.

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
        options.max_mem = MEMORY
        return re2.compile(self.pattern, options)

    @cached_property
    def _names(self) -> dict[str, int]:
        return dict(self._compiled.groupindex)

    @cached_property
    def _engine(self) -> tuple[Callable[[Any, bytes, int, int], Spans], Any]:
        """The function below the library's methods, which take four times as long, and its anchors."""
        engine = self._compiled._regexp
        return engine.Match, type(engine).Anchor

    def search(self, text: str, *, at_start: bool = False) -> Match | None:
        """The first match, or None; with `at_start` it has to be at the beginning of the text."""
        data = text.encode("utf-8", "surrogatepass")
        match, anchors = self._engine
        found = match(anchors.ANCHOR_START if at_start else anchors.UNANCHORED, data, 0, len(data))
        start, end = found[0]
        if start < 0:
            return None
        if len(data) != len(text):
            start, end = len(_text(data[:start])), len(_text(data[:end]))
        return Match(start, end, data, found, self._names)

    def match(self, text: str) -> Match | None:
        """The match at the beginning of a text, or None."""
        return self.search(text, at_start=True)

    def finditer(self, text: str) -> Iterator[Match]:
        """Yield the matches from left to right; none overlaps another."""
        data = _utf8(text)
        names = self._names
        if len(data) == len(text):  # ASCII: a byte is a character
            for spans in self._found(data):
                yield Match(*spans[0], data, spans, names)
            return
        at = place = 0
        for spans in self._found(data):
            first, last = spans[0]
            start = place + len(_text(data[at:first]))
            at, place = last, start + len(_text(data[first:last]))
            yield Match(start, place, data, spans, names)

    def spans(self, text: str, *, overlapping: bool = False) -> Iterator[Spans]:
        """Yield the offsets of each match and its groups; with `overlapping` two may share what is behind a group.

        >>> list(LinearRegex("(?:^|é)(a)(?:é|$)").spans("aéa", overlapping=True))
        [((0, 2), (0, 1)), ((1, 3), (2, 3))]
        """
        data = _utf8(text)
        found = self._found(data, overlapping)
        if len(data) == len(text):
            yield from found
            return
        offset = before = 0
        for spans in found:
            start, end = spans[0]
            offset, before = offset + len(_text(data[before:start])), start
            if data[start:end].isascii():
                gain = offset - start
                yield [(-1, -1) if first < 0 else (first + gain, last + gain) for first, last in spans]
                continue
            yield tuple(
                (-1, -1)
                if first < 0
                else (offset + len(_text(data[start:first])), offset + len(_text(data[start:last])))
                for first, last in spans
            )

    def places(self, data: bytes, at: int = 0, *, shared: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the bytes of ASCII or UTF-8 at which the expression matches, at a fraction of the cost of `spans`.

        The last `shared` bytes of a match may belong to the next as well; the shortest match has more.

        >>> list(LinearRegex("aba").places(b"ababa", shared=1))
        [(0, 3), (2, 5)]
        """
        match, anchors = self._engine
        anchor, length = anchors.UNANCHORED, len(data)
        while True:
            place = match(anchor, data, at, length)[0]
            if place[1] < 0:
                return
            yield place
            at = place[1] - shared

    def _found(self, data: bytes, overlapping: bool = False) -> Iterator[Spans]:
        match, anchors = self._engine
        anchor, at, length = anchors.UNANCHORED, 0, len(data)
        while True:
            spans = match(anchor, data, at, length)
            at = spans[0][1]
            if at < 0:
                return
            yield spans
            if overlapping:
                taken = max(spans[1:], key=itemgetter(1))[1]
                at = taken if taken > 0 else at

    def sub(self, replace: Callable[[Match], str], text: str) -> str:
        """A text with each match replaced by what a function gives for it.

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
        """What stands between the matches, and between each two of those the first group of the match.

        >>> LinearRegex("([+-])").split("1+2-3")
        ['1', '+', '2', '-', '3']
        """
        pieces: list[str] = []
        at = 0
        for found in self.finditer(text):
            pieces += text[at : found.start], found[1]
            at = found.end
        return [*pieces, text[at:]]


_FEW = 100  # different characters up to which replacing one after the other is faster than a table


def replace_characters(text: str, forms: Mapping[str, str]) -> str:
    """A text with some characters replaced, in a few microseconds for each 1,000; no form holds a replaced one.

    >>> replace_characters("a\u00a0b", {"\u00a0": " "})
    'a b'
    """
    if len(forms) > _FEW:
        return text.translate({ord(character): form for character, form in forms.items()})
    for character, form in forms.items():
        text = text.replace(character, form)
    return text


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
