"""The words that a text must hold for an expression to match in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, product
from typing import Any, NamedTuple

_MOST = 400
"""Texts that a part of an expression matches, at most, to be told one by one."""

_LARGEST_CLASS = 12
"""Characters of a class, at most, to be told one by one."""

_RARE = 4
"""Characters from which a word is rare enough."""

_LOOKED_FOR = 3
"""Groups of words of an expression that are looked for."""

Words = frozenset[str]
"""Words of which there is one."""


class _Part(NamedTuple):
    """A part of an expression.

    Args:
        whole: all that it matches; None for more than can be told.
        inside: words that are in whatever it matches, of each group one.
    """

    whole: Words | None
    inside: tuple[Words, ...] = ()

    def groups(self) -> tuple[Words, ...]:
        """Return words of which there is one of each group, the rarest first."""
        every = {words for words in (self.whole, *self.inside) if words and "" not in words}
        first, *others = sorted(every, key=_rarity, reverse=True) or [None]
        # Short words are in most texts, and signs are found at once.
        others = [words for words in others if all(len(each) > 2 or not (each.isalnum() or each == " ") for each in words)]
        return () if first is None else (first, *others[: _LOOKED_FOR - 1])


def _rarity(words: Words) -> tuple[int, int, list[str]]:
    return min(_RARE, *map(len, words), _RARE), -len(words), sorted(words)


_NOTHING, _ANYTHING = _Part(frozenset({""})), _Part(None)


def needed_words(pattern: str) -> tuple[Words, ...]:
    r"""Return words, case folded, of which a text with folded case holds one of each group where a pattern matches.

    Args:
        pattern: the expression; RE2 syntax.

    Returns:
        Groups of words, the rarest first; none where the expression needs none.

    >>> [sorted(words) for words in needed_words(r"\b(?:drop|forget)\s+(?:all\s+)?(?:my\s)?[A-Z]+[@#]")]
    [['drop', 'forget'], ['#', '@']]
    """
    return _Parser(pattern).alternatives().groups()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._rest = pattern

    def _take(self, *marks: str) -> str:
        """Return which of some marks comes next, and go on behind it; empty where none does."""
        found = next(filter(self._rest.startswith, marks), "")
        self._rest = self._rest[len(found) :]
        return found

    def _next(self, length: int = 1) -> str:
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    def alternatives(self) -> _Part:
        """Read up to the end of the group."""
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        inside = _union(next(iter(part.groups()), None) for part in parts)
        return _Part(_union(part.whole for part in parts), (inside,) if inside else ())

    def _sequence(self) -> _Part:
        whole: Words | None = frozenset({""})
        inside: list[Words] = []
        is_whole = True
        while self._rest and self._rest[0] not in "|)":
            part = self._repeated()
            inside += part.inside
            joined = _joined(whole, part.whole)
            if joined is None:
                is_whole = False
                inside += [whole] if whole else []
            whole = part.whole if joined is None else joined
        if is_whole:
            return _Part(whole, tuple(inside))
        return _Part(None, _Part(whole, tuple(inside)).groups())

    def _repeated(self) -> _Part:
        part = self._one()
        least, most = 1, 1
        if self._take("*"):
            least, most = 0, 2
        elif self._take("+"):
            most = 2
        elif self._take("?"):
            least = 0
        elif self._rest.startswith("{") and (counts := self._rest[1:].partition("}")[0]).replace(",", "").isdigit():
            self._next(len(counts) + 2)
            first, comma, last = counts.partition(",")
            least, most = int(first), int(last or first) + (comma != "" and not last)
        self._take("?", "+")
        if (least, most) == (1, 1):
            return part
        if (least, most) == (0, 1):
            return _Part(_union((part.whole, _NOTHING.whole)))
        return _Part(None, part.groups()) if least else _ANYTHING

    def _one(self) -> _Part:
        mark = self._next()
        if mark == "(":
            if self._take("?"):
                flags = next(at for at, each in enumerate(self._rest) if each in ":)>")
                if self._next(flags + 1).endswith(")"):
                    return _NOTHING
            part = self.alternatives()
            self._next()
            return part
        if mark == "[":
            return self._class()
        if mark == "\\":
            return self._escape()
        if mark in "^$":
            return _NOTHING
        return _ANYTHING if mark == "." else _Part(frozenset({mark.casefold()}))

    def _escape(self) -> _Part:
        mark = self._next()
        if mark in "bBAz":
            return _NOTHING
        if mark in "pP":
            self._next(self._rest.index("}") + 1 if self._rest.startswith("{") else 1)
            return _ANYTHING
        if mark == "x":
            digits = self._next(self._rest.index("}") + 1 if self._rest.startswith("{") else 2).strip("{}")
            return _Part(frozenset({chr(int(digits, 16)).casefold()}))
        if mark in _CONTROLS:
            return _Part(frozenset({_CONTROLS[mark]}))
        return _ANYTHING if mark.isalnum() else _Part(frozenset({mark}))

    def _class(self) -> _Part:
        known = not self._take("^")
        characters: set[str] = set()
        is_first = True
        while is_first or not self._rest.startswith("]"):
            is_first = False
            if self._take("[:"):
                self._next(self._rest.index(":]") + 2)
                known = False
                continue
            first = last = self._member()
            if self._rest.startswith("-") and not self._rest.startswith("-]"):
                self._next()
                last = self._member()
            if first and last and ord(last) - ord(first) < _LARGEST_CLASS:
                characters.update(map(chr, range(ord(first), ord(last) + 1)))
            else:
                known = False
        self._next()
        known = known and len(characters) <= _LARGEST_CLASS
        return _Part(frozenset(map(str.casefold, characters))) if known else _ANYTHING

    def _member(self) -> str:
        """Return a character of a class; empty for a class of its own."""
        mark = self._next()
        if mark != "\\":
            return mark
        whole = self._escape().whole
        return min(whole) if whole else ""


_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


def _union(several: Iterable[Words | None]) -> Words | None:
    together: Words = frozenset()
    for words in several:
        if words is None or len(together) > _MOST:
            return None
        together |= words
    return together


def _joined(first: Words | None, second: Words | None) -> Words | None:
    if first is None or second is None or len(first) * len(second) > _MOST:
        return None
    return frozenset(map("".join, product(first, second)))


class WordFilter:
    r"""Tells which expressions may match in a text, by the words that they need, in one pass (Aho-Corasick).

    Args:
        patterns: the expressions; RE2 syntax.

    >>> WordFilter([r"rm +-\w", "[0-9]+", r"(?i)\bselect\b"]).possible("SELECT 1")
    [1, 2]
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._owners: list[int] = []  # expressions by group of words
        self._groups: dict[str, list[int]] = {}
        self._needed: list[int] = []
        self._signs: list[list[Words]] = []
        for index, pattern in enumerate(patterns):
            groups = needed_words(pattern)
            signs = [words for words in groups if max(map(len, words)) == 1]
            words_first = sorted(groups, key=signs.__contains__)
            self._needed.append(max(1, len(groups) - len(signs)) if groups else 0)
            self._signs.append(words_first[self._needed[-1] :])
            for words in words_first[: self._needed[-1]]:
                for word in words:
                    self._groups.setdefault(word, []).append(len(self._owners))
                self._owners.append(index)
        self._always = [index for index, count in enumerate(self._needed) if not count]
        self._every_sign = {sign for several in self._signs for words in several for sign in words}

    @cached_property
    def _search(self) -> tuple[Any, Sequence[Sequence[int]], Sequence[str]]:
        """What finds words, the groups of each, and those of one character, which are found at once."""
        import ahocorasick_rs

        words = [word for word in self._groups if len(word) > 1]
        signs = [word for word in self._groups if len(word) == 1]
        return ahocorasick_rs.BytesAhoCorasick([*map(str.encode, words)]), [*map(self._groups.get, words)], signs

    def possible(self, text: str) -> list[int]:
        """Return the places, among the expressions, of those that may match in a text, in order."""
        automaton, groups, first_signs = self._search
        folded = text.casefold()
        matches = automaton.find_matches_as_indexes(folded.encode("utf-8", "surrogatepass"), overlapping=True)
        found = set(chain.from_iterable(map(groups.__getitem__, {word for word, _, _ in matches})))
        found.update(group for sign in first_signs if sign in folded for group in self._groups[sign])
        counts = Counter(map(self._owners.__getitem__, found))
        signs = {sign for sign in self._every_sign if sign in folded}
        possible = [index for index, count in counts.items() if count == self._needed[index]]
        possible = [index for index in possible if not any(map(signs.isdisjoint, self._signs[index]))]
        return sorted(possible + self._always)
