"""What people write between the digits of a number, and the words near it that tell what it is."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from functools import lru_cache

from turnwise.linear_regex import replace_characters

SPOKEN = ("dash", "hyphen", "minus", "dot", "space")
"""Words that stand between two groups of digits."""

_LONGEST = 3
"""Marks between two groups, at most."""


class Separators:
    """What people write between two groups of digits: some marks, or a word, in plain form and lower case.

    >>> [BETWEEN.matches(gap) for gap in (" dash ", "/", "and", "")]
    [True, True, False, False]
    """

    def __init__(self, marks: str, words: Sequence[str]) -> None:
        self._marks, self._words = marks, words
        self.pattern = rf"(?:[{marks}]{{1,{_LONGEST}}}| ?(?:{'|'.join(words)}) ?)"
        self.matches = lru_cache(maxsize=1024)(self._matches)

    def _matches(self, gap: str) -> bool:
        """Whether a text is what `pattern` (RE2) matches as a whole."""
        if 0 < len(gap) <= _LONGEST and not gap.strip(self._marks):
            return True
        return gap.removeprefix(" ").removesuffix(" ") in self._words

    def with_hyphens(self, text: str) -> str:
        """A text with a hyphen for each of the words."""
        for word in self._words:
            text = text.replace(word, "-")
        return text


BETWEEN = Separators("-._·/ ", SPOKEN)
"""What stands in numbers other than those of phones."""

BEFORE = 48
"""Characters before a number in which its words are looked for."""

AFTER = 24
"""Characters behind it."""

JUDGED = 256
"""Numbers of a kind in a text whose near words are read; those beyond them count by their form alone."""

OTHER_NUMBERS = (
    "order|invoice|tracking|shipment|shipping|parcel|package|waybill|ticket|case|claim|reference|ref|part|item|"
    "product|sku|model|serial|batch|lot|isbn|issn|ean|upc|gtin|doi|barcode|booking|reservation|confirmation|"
    "transaction|receipt|quote|po|version|build|commit|revision|release|firmware|coordinates|latitude|longitude|"
    "gps|timestamp|epoch|unix|checksum|hash|bestellung|bestellnummer|auftrag|rechnung|commande|facture|pedido|"
    "factura"
)
"""Words that name a number which is nobody's own."""

_WORD = frozenset(string.ascii_letters + string.digits + " ")
_SIGN = ","
"""Stands for every sign, when words are read."""

_SIGN_ALONE, _SIGN_APART = _SIGN.encode(), f" {_SIGN} ".encode()
_FORMS = {ord(mark): mark if mark in _WORD else _SIGN for mark in map(chr, range(128))}
_ASCII = "".join(_FORMS.values()).encode() + bytes(128)


class NearWords:
    """Tells by the words around a number whether it is of one kind.

    The nearest word before it decides; without one, a word behind it may speak for the kind. The words are in
    lower case, with bars between; some are two words with a space.

    >>> near = NearWords("card|visa", "order")
    >>> near.judge("order, card 4111", 12, 16), near.judge("order 4111", 6, 10), near.judge("a 4", 2, 3)
    (True, False, None)
    """

    def __init__(self, speaks_for: str, against: str = OTHER_NUMBERS) -> None:
        self._kinds = {**dict.fromkeys(against.split("|"), False), **dict.fromkeys(speaks_for.split("|"), True)}
        self._firsts = frozenset(words.split(" ")[0] for words in self._kinds if " " in words)
        self._known = self._firsts.union(self._kinds)

    def judge(self, lower: str, start: int, end: int) -> bool | None:
        """Whether the words speak for the kind (True), against it (False), or neither (None)."""
        before = _words(lower, max(0, start - BEFORE), start)
        nearest = self._kind(before, reversed(range(len(before))))
        if nearest is not None:
            return nearest
        behind = _words(lower, end, end + AFTER)
        return self._kind(behind, range(len(behind))) or None

    def _kind(self, words: Sequence[str], places: Iterable[int]) -> bool | None:
        """What the first known word, of those at some places, speaks for."""
        if self._known.isdisjoint(words):
            return None
        for place in places:
            word = words[place]
            kind = self._kinds.get(word)
            if kind is None and word in self._firsts:
                kind = self._kinds.get(" ".join(words[place : place + 2]))
            if kind is not None:
                return kind
        return None


def _words(lower: str, start: int, end: int) -> list[str]:
    """What stands between single spaces in a stretch, signs apart, without a word that began before it."""
    part = lower[start:end]
    if part.upper() == part:
        return []  # without letters, as in a row of numbers
    if not part.isascii():
        part = replace_characters(
            part, {each: _SIGN for each in set(part) if not (each.isascii() or each.isalnum())}
        )
    if part.isascii():
        words = part.encode().translate(_ASCII).replace(_SIGN_ALONE, _SIGN_APART).decode().split(" ")
    else:
        words = part.translate(_FORMS).replace(_SIGN, f" {_SIGN} ").split(" ")
    return words[1:] if start and lower[start - 1].isalnum() else words
