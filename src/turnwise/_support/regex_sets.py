"""Many expressions at once: which of them match in a text, or may match (RE2)."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from turnwise._support.characters import codes_of, kinds_of, text_of
from turnwise.linear_regex import MEMORY, LinearRegex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# what tells characters outside ASCII apart: classes, ranges, and characters
_CLASS = LinearRegex(
    r"\\[pP](?:\{\^?\w+\}|\w)|(?:[!-~]-)?(?:\\x\{[0-9A-Fa-f]+\}|\\x[0-9A-Fa-f]{2}|[[:^ascii:]])"
    r"(?:-(?:\\x\{[0-9A-Fa-f]+\}|[[:^ascii:]]))?"
)

# classes that hold all characters of a kind, or none
_BY_KIND = frozenset(rf"\p{brackets}" for name in "LMNZ" for brackets in (name, f"{{{name}}}"))

# bytes, and bytes for each character, up to which a text has few characters outside ASCII
_SHORT, _PLAIN = 1_000, 1.1


def has_many_bytes(text: str, data: bytes) -> bool:
    """Whether a text, `data` in UTF-8, is worth an `Alphabet`: long, with many characters outside ASCII."""
    return len(data) > _SHORT + _PLAIN * len(text)


class Alphabet:
    """The characters that expressions tell apart; one of each kind stands for others: automata stay small.

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
        """A text of the same length in which the expressions match where they do in the given one."""
        import numpy as np

        if text.isascii():
            return text
        stays, others = self._forms
        codes = codes_of(text)
        return text_of(np.where(stays[codes], codes, others[np.frombuffer(kinds_of(text), np.uint8)]))


class RegexSet:
    """Tells which expressions match somewhere in a text, all at once and in linear time (an RE2 set).

    >>> sorted(RegexSet({"number": ["[0-9]+"], "mail": ["@"], "link": ["://"]}).present("a@b 12"))
    ['mail', 'number']
    """

    def __init__(self, patterns: Mapping[str, Sequence[str]], *, ignore_case: bool = False) -> None:
        import re2

        options = re2.Options()
        options.max_mem = MEMORY
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
        data = text.encode("utf-8", "replace")
        if has_many_bytes(text, data):
            data = self._alphabet.squeeze(text).encode("utf-8", "replace")
        return self.present_in(data)

    def present_in(self, data: bytes) -> frozenset[str]:
        """The names of the expressions that match somewhere in a text in UTF-8."""
        found = self._match(data)
        return frozenset([self._names[index] for index in found]) if found else frozenset()


# An automaton has a state for each mixture of counts that it meets, so that some texts make it very large.
_COUNT = LinearRegex(r"([^\\])\{[0-9]+,[0-9]{2,}\}")


class RegexFilter:
    r"""Tells which of many expressions may match in a text, by the words that each needs (RE2's own filter).

    >>> RegexFilter([r"\bcurl +\w", "[0-9]+", r"(?i)\bselect\b"]).possible(b"SELECT 1")
    [1, 2]
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        import re2

        options = re2.Options()
        options.max_mem = MEMORY
        by_words = re2.Filter()
        for pattern in patterns:
            by_words.Add(pattern, options)
        by_words.Compile()
        self._by_words = by_words._filter.Match  # under the library's own method, as in `LinearRegex`
        without_words = by_words.Match(b"", potential=True) or []
        self._without_words = frozenset(without_words)
        self._others = RegexSet({str(index): [uncounted(patterns[index])] for index in without_words})

    def possible(self, data: bytes) -> list[int]:
        """The indices, in order, of the expressions that may match in a text in UTF-8."""
        by_words = set(self._by_words(data, True)) - self._without_words
        return sorted([*by_words, *map(int, self._others.present_in(data))])


def uncounted(pattern: str) -> str:
    """An expression that matches wherever a given one does, without limits of ten times and more.

    >>> uncounted("b{,20}[a-z]{0,40} x{2,4}")
    'b{,20}[a-z]* x{2,4}'
    """
    return _COUNT.sub(lambda found: f"{found[1]}*", pattern)
