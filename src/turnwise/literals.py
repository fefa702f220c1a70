"""The words that a text must hold for an expression to match in it."""

from __future__ import annotations

import string
from itertools import product
from typing import NamedTuple

_MOST = 400
"""Texts that a part of an expression matches, at most, to be told one by one."""

_LARGEST_CLASS = 12
"""Characters of a class, at most, to be told one by one."""

_LONG = 4
"""Characters from which a word is rare enough."""

Words = frozenset[str] | None
"""Words of which there is one; None where nothing is known of them."""


class _Part(NamedTuple):
    """A part of an expression.

    Args:
        whole: all that it matches.
        inside: what is in all that it matches.
    """

    whole: Words
    inside: Words = None

    def words(self) -> Words:
        return max(self.whole, self.inside, key=_rarity)


def _rarity(words: Words) -> tuple[int, int]:
    return (min(_LONG, *map(len, words)) if len(words) > 1 else len(min(words)), -len(words)) if words else (0, 0)


_NOTHING, _ANYTHING = _Part(frozenset({""})), _Part(None)


def needed_words(pattern: str) -> frozenset[str]:
    r"""Return words of which a text holds one, both with case folded, wherever an expression matches in it.

    Args:
        pattern: the expression; RE2 syntax.

    Returns:
        The words; empty where the expression needs none.

    >>> sorted(needed_words(r"\b(?:drop|forget)\s+(?:all\s+)?rules?\b")), sorted(needed_words("(?i)[a-z]+[@#]"))
    (['drop', 'forget'], ['#', '@'])
    """
    words = _Parser(pattern).alternatives().words()
    return words if words and "" not in words else frozenset()


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
        return parts[0] if len(parts) == 1 else _Part(_union(*(each.whole for each in parts)), _union(*(each.words() for each in parts)))

    def _sequence(self) -> _Part:
        whole: Words = frozenset({""})
        inside: Words = None
        is_whole = True
        while self._rest and self._rest[0] not in "|)":
            part = self._repeated()
            joined = _joined(whole, part.whole)
            inside = max(inside, part.inside, whole if joined is None else None, key=_rarity)
            is_whole &= joined is not None
            whole = part.whole if joined is None else joined
        return _Part(whole, inside) if is_whole else _Part(None, max(inside, whole, key=_rarity))

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
            return _Part(_union(part.whole, _NOTHING.whole))
        return _Part(None, part.words()) if least else _ANYTHING

    def _one(self) -> _Part:
        mark = self._next()
        if mark == "(":
            if self._take("?"):
                flags = self._rest[: next(at for at, each in enumerate(self._rest) if each in ":)>")]
                self._next(len(flags))
                if self._next() == ")":
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
        if mark in "ntrfva":
            return _Part(frozenset({"\n\t\r\f\v\a"["ntrfva".index(mark)]}))
        return _ANYTHING if mark.isalnum() else _Part(frozenset({mark}))

    def _class(self) -> _Part:
        excluded = bool(self._take("^"))
        characters: set[str] = set()
        known = True
        first = True
        while first or not self._rest.startswith("]"):
            first = False
            if self._take("[:"):
                self._next(self._rest.index(":]") + 2)
                known = False
                continue
            start = self._member()
            if self._rest.startswith("-") and not self._rest.startswith("-]"):
                self._next()
                end = self._member()
                if start is None or end is None or ord(end) - ord(start) > _LARGEST_CLASS:
                    known = False
                else:
                    characters.update(map(chr, range(ord(start), ord(end) + 1)))
            elif start is None:
                known = False
            else:
                characters.add(start)
        self._next()
        if excluded or not known or len(characters) > _LARGEST_CLASS:
            return _ANYTHING
        return _Part(frozenset(each.casefold() for each in characters))

    def _member(self) -> str | None:
        mark = self._next()
        if mark != "\\":
            return mark
        whole = self._escape().whole
        return min(whole) if whole else None


def _union(*several: Words) -> Words:
    together: frozenset[str] = frozenset()
    for words in several:
        if words is None or len(together) > _MOST:
            return None
        together |= words
    return together


def _joined(first: Words, second: Words) -> Words:
    if first is None or second is None or len(first) * len(second) > _MOST:
        return None
    return frozenset(map("".join, product(first, second)))
