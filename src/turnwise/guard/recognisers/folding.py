"""Text in a plain form to search in, with the way back to the offsets of the original."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from operator import add

from turnwise.linear_regex import replace_characters

_CONTROLS = frozenset(map(chr, (*range(9), *range(14, 32), *range(127, 133), *range(134, 160))))
"""Control characters, but white space."""

_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Characters that show nothing though Unicode does not call them formatting."""

_BLANK = "\u2800"
"""The braille pattern without dots, which passes for a space."""

_DASHES = frozenset("\u2043\u2212\u02d7\u2796")
"""Characters that pass for a hyphen though Unicode does not call them dashes."""

_REPLACED = 16
"""Different characters up to which looking for one after the other is faster than looking at all."""

_CHARACTERS = 1 << 17
"""Characters whose form is remembered: all that have one, so that a text of very many costs time only once."""


_ALL_ONE: Mapping[str, int] = {}
"""Widths where each character has one."""


class Folded:
    """A text in plain form.

    Args:
        original: the text as it was.
        plain: the text to search in.
        widths: characters of the plain text by character of the original, of those that have not one.
        joined: whether runs of spaces became one space, and those at both ends none.
    """

    def __init__(
        self, original: str, plain: str, widths: Mapping[str, int] = _ALL_ONE, joined: bool = False
    ) -> None:
        self.original = original
        self.plain = plain
        self._widths = widths
        self._joined = joined

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in the original of a stretch of the plain text that is not empty."""
        if self._joined:
            return bisect_right(self._begins, start) - 1, bisect_right(self._begins, end - 1)
        if not self._widths:
            return start, end
        return self._character(start), self._character(end - 1) + 1

    def place(self, at: int, *, begun: bool) -> int:
        """Return where a character of the original begins in the plain text; no spaces were joined."""
        places, begins = self._uneven
        index = bisect_left(places, at) - 1
        if index < 0:
            return at
        place = places[index]
        return begins[index] + self._widths[self.original[place]] + at - place - 1

    def _character(self, at: int) -> int:
        """Return which character of the original one of the plain text came from; no spaces were joined."""
        places, begins = self._uneven
        index = bisect_right(begins, at) - 1
        if index < 0:
            return at
        place = places[index]
        behind = at - begins[index] - self._widths[self.original[place]]
        return place if behind < 0 else place + 1 + behind

    @cached_property
    def _uneven(self) -> tuple[list[int], list[int]]:
        """Where the characters are that have not one in the plain text, and where each of them begins in that."""
        widths = self._widths
        if not widths:
            return [], []
        if len(widths) <= _REPLACED:
            places = sorted(chain.from_iterable(_places(self.original, character) for character in widths))
        else:
            places = [at for at, character in enumerate(self.original) if character in widths]
        grown = accumulate((widths[self.original[at]] - 1 for at in places), initial=0)
        return places, list(map(add, places, grown))

    @cached_property
    def _begins(self) -> list[int]:
        """Where each character of the original begins in the plain text, whose spaces were joined."""
        begins, at, pending = [], 0, False
        widths = self._widths
        for character in self.original:
            width = widths.get(character, 1)
            if width == 1 and character.isspace():
                begins.append(at)
                pending = at > 0
                continue
            if width and pending:
                at, pending = at + 1, False
            begins.append(at)
            at += width
        return begins


def _places(text: str, mark: str) -> Iterator[int]:
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1)


class Folding:
    """A way to make text plain, character by character.

    Args:
        character: plain form of a character outside ASCII; empty for one that shows nothing.
        ascii_text: plain form of a text in ASCII, of the same length.
        join_spaces: whether runs of white space become one space.

    >>> folded = PLAIN.fold("no. \uff14\u200b\uff11")
    >>> folded.plain, folded.span(4, 6)
    ('no. 41', (4, 7))
    """

    def __init__(
        self,
        character: Callable[[str], str],
        ascii_text: Callable[[str], str] = str,
        join_spaces: bool = False,
    ) -> None:
        self._character = character
        self._ascii_text = ascii_text
        self._join_spaces = join_spaces

    def fold(self, text: str) -> Folded:
        """Return a text in plain form."""
        if text.isascii() and (text.isprintable() or not _CONTROLS.intersection(text)):
            plain, widths = self._ascii_text(text), _ALL_ONE
        else:
            changed = {}
            for character in set(text):
                if character in _CONTROLS:
                    changed[character] = ""
                elif not character.isascii() and (form := self._fold(character)) != character:
                    changed[character] = form
            plain = self._ascii_text(replace_characters(text, changed))
            widths = {character: len(form) for character, form in changed.items() if len(form) != 1}
        if self._join_spaces:
            joined = " ".join(plain.split())
            return Folded(text, joined, widths, joined=joined != plain)
        return Folded(text, plain, widths)

    def _fold(self, character: str) -> str:
        if "\ud800" <= character <= "\udfff":
            return "\ufffd"  # half a character, which can't be encoded
        if (
            "\u3400" <= character < "\ud800"
            or "\U00020000" <= character < "\U000e0000"
            or character >= "\U000e1000"
        ):
            return character  # ideographs and Hangul have no other form, and a text can have very many of them
        form = self._character(character)
        return character if " " in form and not character.isspace() else form  # such as ´, a space and an accent


@lru_cache(maxsize=_CHARACTERS)
def plain_character(character: str) -> str:
    """Return a character as a reader takes it: digits and dashes of all scripts in ASCII, what is unseen empty.

    Source: Unicode Standard Annex 15 (NFKC); superscripts stay, because ``10²`` is not 102.

    >>> [plain_character(each) for each in "４٣–\u200b²"]
    ['4', '3', '-', '', '²']
    """
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me") or character in _UNSEEN:
        return ""
    if category == "Pd" or character in _DASHES:
        return "-"
    if category == "Zs" or character == _BLANK:
        return " "
    if unicodedata.decomposition(character).startswith(("<super>", "<sub>", "<fraction>")):
        return character
    digit = unicodedata.digit(character, None)  # of any script, circled, in brackets or with a full stop
    return unicodedata.normalize("NFKC", character) if digit is None else str(digit)


@lru_cache(maxsize=_CHARACTERS)
def caseless_character(character: str) -> str:
    """Return a character without case and in its parts, so that precomposed and combining accents are equal.

    Source: Unicode Standard, section 3.13 (caseless matching), with NFKD.

    >>> [caseless_character(each) for each in "ÉＡß"] == ["e\u0301", "a", "ss"]
    True
    """
    if unicodedata.category(character) == "Cf":
        return ""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())


@lru_cache(maxsize=_CHARACTERS)
def bare_character(character: str) -> str:
    """Return a character without case and accents.

    >>> [bare_character(each) for each in "Éñ\u0301"]
    ['e', 'n', '']
    """
    parts = caseless_character(character)
    return "".join(part for part in parts if not unicodedata.combining(part))


@lru_cache(maxsize=_CHARACTERS)
def decomposed_character(character: str) -> str:
    """Return a character in its parts, case kept.

    >>> decomposed_character("É") == "E\u0301"
    True
    """
    if unicodedata.category(character) == "Cf":
        return ""
    return unicodedata.normalize("NFKD", character)


@lru_cache(maxsize=_CHARACTERS)
def plain_lower_character(character: str) -> str:
    """Return a character as `plain_character` does, in lower case.

    >>> [plain_lower_character(each) for each in "Ａİ"]
    ['a', 'i']
    """
    return "".join(each for each in plain_character(character).lower() if not unicodedata.combining(each))


PLAIN = Folding(plain_character)
"""For keys and code, in which case matters."""

LOWER = Folding(plain_lower_character, str.lower)
"""For numbers and addresses."""
