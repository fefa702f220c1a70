"""Regular expressions over text of others: linear time on every text (RE2)."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from turnwise.characters import codes_of, kinds_of, text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MEMORY = 64 << 20
"""Bytes that an expression may take; it grows only as expression and text need it."""

SPACE = r"\s\v\x1c-\x1f\x85\pZ"
"""White space as `str.isspace` has it, to stand in a class of characters; RE2's ``\\s`` is ASCII only."""

WORD = r"\w\xc0-\x{1fff}\x{2c00}-\x{2fff}\x{3040}-\x{10ffff}"
"""Letters, digits and ``_`` of all scripts, to stand in a class of characters.

They go by blocks, without those of signs and punctuation: one by one they are thousands of steps of an automaton.
"""


Spans = Sequence[tuple[int, int]]


class Match:
    """Where an expression matches.

    Args:
        start: characters before the match.
        end: characters up to its end.
        data: the text in UTF-8.
        spans: bytes of it before and up to the end of the match and of each group; (-1, -1) for one without part.
        names: numbers of the groups with a name.
    """

    __slots__ = ("_data", "_names", "_spans", "end", "start")

    def __init__(self, start: int, end: int, data: bytes, spans: Spans, names: Mapping[str, int]) -> None:
        self.start, self.end = start, end
        self._data, self._spans, self._names = data, spans, names

    def __getitem__(self, group: int | str) -> str:
        """Return the text of a group; empty where it has no part in the match. Group 0 is the whole match."""
        start, end = self._spans[self._names[group] if isinstance(group, str) else group]
        return _text(self._data[start:end]) if start < end else ""


class LinearRegex:
    r"""A regular expression that takes linear time on every text; it is compiled when it is first used.

    Source of the syntax: RE2. It has no lookaround and no backreferences; ``\b``, ``\d``, ``\s`` and ``\w``
    know ASCII only. Flags stand in the expression, such as ``(?i)``. Halves of surrogate pairs are characters
    like others.

    Args:
        pattern: the expression; for all methods but `search` and `match` one that matches no empty text.

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
    def _engine(self) -> tuple[Callable[[Any, bytes, int, int], Spans], Any]:
        """The function under the library's own methods, and its argument for a search.

        Their generators and objects take four times as long as most searches, which are many and short.
        """
        engine = self._compiled._regexp
        return engine.Match, type(engine).Anchor

    def search(self, text: str, *, at_start: bool = False) -> Match | None:
        """Return the first match, or None.

        Args:
            text: the text.
            at_start: whether it has to be at the beginning of the text.
        """
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
        """Return the match at the beginning of a text, or None."""
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
        """Yield the bytes at which the expression matches, at a fraction of the cost of `spans`.

        Args:
            data: ASCII, or text in UTF-8.
            at: where to begin.
            shared: bytes at the end of a match that may belong to the next as well; the shortest has more.

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


_CLASS = LinearRegex(
    r"\\[pP](?:\{\^?\w+\}|\w)|(?:[!-~]-)?(?:\\x\{[0-9A-Fa-f]+\}|\\x[0-9A-Fa-f]{2}|[[:^ascii:]])"
    r"(?:-(?:\\x\{[0-9A-Fa-f]+\}|[[:^ascii:]]))?"
)
"""What tells characters outside ASCII apart: classes, ranges, and characters."""

_BY_KIND = frozenset(rf"\p{brackets}" for name in "LMNZ" for brackets in (name, f"{{{name}}}"))
"""Classes that hold all characters of a kind, or none."""

_SHORT, _PLAIN = 1_000, 1.1
"""Bytes, and bytes for each character, up to which a text has few characters outside ASCII."""


def has_many_bytes(text: str) -> bool:
    """Tell whether a text is worth an `Alphabet`: long, and with many characters outside ASCII."""
    return not text.isascii() and len(text.encode("utf-8", "replace")) > _SHORT + _PLAIN * len(text)


class Alphabet:
    """The characters that expressions tell apart; one of each kind stands for all others.

    An automaton for texts of very many characters, as they are in UTF-8, would be large and slow.

    Args:
        patterns: the expressions; RE2 syntax.

    >>> Alphabet([r"\\pL\\d", "caf\u00e9"]).squeeze("\u4e00\u4e01 \u2500\u2501 \u00e9")
    '\u02b9\u02b9 \x80\x80 \u00e9'
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        found = {found[0] for pattern in patterns for found in _CLASS.finditer(pattern)} - _BY_KIND
        # A hyphen between two words is no range.
        self._classes = {each if each[0] <= each[-1] else each.replace("-", "") for each in found}

    @cached_property
    def _forms(self) -> tuple[NDArray[np.bool_], NDArray[np.uint32]]:
        """Which code points stay, and what stands for one of each kind."""
        import numpy as np

        stays = np.zeros(sys.maxunicode + 1, bool)
        stays[:128] = True
        own = LinearRegex(f"(?i)[a-z\x85{''.join(sorted(self._classes))}]+")
        for start, end in ((128, 0xD800), (0xE000, sys.maxunicode + 1)):
            for ((first, behind),) in own.spans(text_of(np.arange(start, end, dtype=np.uint32))):
                stays[start + first : start + behind] = True
        # short in UTF-8, and without another form
        short = [chr(code) for code in np.flatnonzero(~stays[:0x1000]).tolist()]
        plain = "".join(each for each in short if unicodedata.normalize("NFKD", each) == each)
        others = np.full(256, 0xA0, np.uint32)
        for kind, character in zip(kinds_of(plain)[::-1], plain[::-1], strict=True):
            others[kind] = ord(character)
        return stays, others

    def squeeze(self, text: str) -> str:
        """Return a text of the same length in which the expressions match where they do in the given one."""
        import numpy as np

        if text.isascii():
            return text
        stays, others = self._forms
        codes = codes_of(text)
        return text_of(np.where(stays[codes], codes, others[np.frombuffer(kinds_of(text), np.uint8)]))


class RegexSet:
    """Tells which expressions match somewhere in a text, all at once and in linear time (an RE2 set).

    Args:
        patterns: expressions by name; RE2 syntax.
        ignore_case: whether upper and lower case are equal.

    >>> sorted(RegexSet({"number": ["[0-9]+"], "mail": ["@"], "link": ["://"]}).present("a@b 12"))
    ['mail', 'number']
    """

    def __init__(self, patterns: Mapping[str, Sequence[str]], *, ignore_case: bool = False) -> None:
        import re2

        options = re2.Options()
        options.max_mem = _MEMORY
        options.never_capture = True
        options.case_sensitive = not ignore_case
        self._names: list[str] = []
        self._set = re2.Set.SearchSet(options)
        for name, several in patterns.items():
            for pattern in several:
                self._set.Add(pattern)
                self._names.append(name)
        self._set.Compile()
        self._alphabet = Alphabet(pattern for several in patterns.values() for pattern in several)
        self._match = self._set._set.Match  # under the library's own method, as in `LinearRegex`

    def present(self, text: str) -> frozenset[str]:
        """Return the names of the expressions that match somewhere in a text."""
        if has_many_bytes(text):
            text = self._alphabet.squeeze(text)
        found = self._match(text.encode("utf-8", "replace"))
        return frozenset([self._names[index] for index in found]) if found else frozenset()


_FEW = 100
"""Different characters up to which replacing one after the other is faster than a table."""


def replace_characters(text: str, forms: Mapping[str, str]) -> str:
    """Return a text with some of its characters replaced, at most a few microseconds for each 1,000 characters.

    Args:
        text: the text.
        forms: what stands for a character; no form holds a character that is replaced.

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
