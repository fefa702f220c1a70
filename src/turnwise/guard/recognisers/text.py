"""A text to look through: what was done to it and the way back, digits, words near them, what is found."""

from __future__ import annotations

import string
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, chain
from operator import add, itemgetter, sub
from typing import NamedTuple, Protocol

from turnwise.linear_regex import replace_characters


class Span(NamedTuple):
    """A stretch of a text, its kind, such as ``email``, and how sure that is, in [0, 1]."""

    start: int
    end: int
    kind: str
    confidence: float


def apart(spans: Iterable[Span]) -> list[Span]:
    """The spans in order and apart from each other; of overlapping ones the surer, then the longer, stays.

    >>> apart([Span(4, 9, "phone", 0.6), Span(0, 7, "card", 0.9), Span(9, 12, "ip", 0.9)])
    [Span(start=0, end=7, kind='card', confidence=0.9), Span(start=9, end=12, kind='ip', confidence=0.9)]
    """
    kept: list[Span] = []
    for span in sorted(spans):
        while kept and kept[-1].end > span.start:
            last = kept[-1]
            if (last.confidence, last.end - last.start) >= (span.confidence, span.end - span.start):
                break
            kept.pop()
        else:
            kept.append(span)
    return kept


def counted(kinds: Iterable[str], names: Mapping[str, tuple[str, str]]) -> str:
    """How many of each kind there are, in words; `names` has singular and plural.

    >>> counted(["email", "email", "card"], {"email": ("e-mail address", "e-mail addresses")})
    '2 e-mail addresses, 1 card'
    """
    words = []
    for kind, count in Counter(kinds).items():
        singular, plural = names.get(kind, (kind, kind))
        words.append(f"{count} {singular if count == 1 else plural}")
    return ", ".join(words)


class Stretch(NamedTuple):
    """A stretch of a text and what it stands for."""

    start: int
    end: int
    text: str


def stretches(starts: Iterable[int], ends: Iterable[int], texts: Iterable[str]) -> Iterator[Stretch]:
    """Make stretches of their parts, faster than one by one: a text can have one for each character.

    >>> list(stretches([0, 2], [1, 3], "ab"))
    [Stretch(start=0, end=1, text='a'), Stretch(start=2, end=3, text='b')]
    """
    return map(partial(tuple.__new__, Stretch), zip(starts, ends, texts, strict=False))


Group = tuple[int, int]  # where a row of digits starts and ends
_DIGITS = frozenset(string.digits.encode())
_DIGITS_ALONE = bytes(byte if byte in _DIGITS else ord(" ") for byte in range(256))
_DIGITS_OUT = bytes(ord(" ") if byte in _DIGITS else ord("x") for byte in range(256))


def digits_of(text: str) -> str:
    """The digits of a text.

    >>> digits_of("4111 dash 1111")
    '41111111'
    """
    return "".join(filter(str.isdigit, text))


def digit_groups(text: str) -> list[Group]:
    """Where each row of the digits 0 to 9 starts and ends.

    >>> digit_groups("4111 dash 22")
    [(0, 4), (10, 12)]
    """
    data = text.encode("ascii", "replace")  # a byte for each character
    rows, gaps = data.translate(_DIGITS_ALONE).split(), data.translate(_DIGITS_OUT).split()
    before = [0] if data[:1].isdigit() else []
    bounds = [*accumulate(chain.from_iterable(zip([*before, *map(len, gaps)], map(len, rows), strict=False)))]
    return list(zip(bounds[::2], bounds[1::2], strict=True))


Undo = Callable[[str], Iterator[Stretch]]
"""Yields the stretches of a text in which one trick hides something, and what each stands for."""


class Edit(Protocol):
    """What was done to a text, with the way back."""

    plain: str

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets before the step of a stretch behind it that is not empty."""

    def place(self, at: int) -> int:
        """Offset behind the step of an offset before it; see `TextReading.place`."""


class Replaced:
    """A text with stretches of it replaced, which are in order and apart from each other."""

    def __init__(self, text: str, stretches: Iterable[Stretch]) -> None:
        self._stretches = tuple(stretches)
        self.plain = text
        if self._stretches:
            parts: list[str] = []
            at = 0
            for start, end, instead in self._stretches:
                parts += (text[at:start], instead)
                at = end
            self.plain = "".join((*parts, text[at:]))

    @cached_property
    def _bounds(self) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """Where stretches start and end; where what stands for each begins in the plain text, and its length."""
        if not self._stretches:
            return (), (), (), ()
        starts, ends, texts = zip(*self._stretches, strict=True)
        lengths = [*map(len, texts)]
        gained = accumulate(map(add, lengths, map(sub, starts, ends)), initial=0)
        return starts, ends, [*map(add, starts, gained)], lengths

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The offsets before the step: of the characters themselves, or of all of what was replaced."""
        starts, ends, begins, lengths = self._bounds
        index = bisect_right(begins, start) - 1
        if index >= 0:
            behind = start - begins[index] - lengths[index]
            start = starts[index] if behind < 0 else ends[index] + behind
        index = bisect_right(begins, end - 1) - 1
        if index >= 0:
            behind = end - begins[index] - lengths[index]
            end = ends[index] + max(0, behind)
        return start, end

    def place(self, at: int) -> int:
        """The offset behind the step; the start of what was replaced, where it stands in that."""
        starts, ends, begins, lengths = self._bounds
        index = bisect_right(starts, at) - 1
        if index < 0:
            return at
        return begins[index] if at < ends[index] else begins[index] + lengths[index] + at - ends[index]


@dataclass  # not frozen: one is made at every check, and that would take three times as long
class TextReading:
    """A text that recognisers look through, with the way back to the offsets of the original.

    In a `loose` one more was undone than writing: a finding there counts only where it is sure. `shapes` are the
    names of what the text has, of all that recognisers say a text must have at least.

    >>> reading = TextReading("no. &#52;1").behind(Replaced("no. &#52;1", [Stretch(4, 9, "4")]))
    >>> reading.plain, reading.span(4, 6), reading.digits
    ('no. 41', (4, 10), [(4, 6)])
    """

    plain: str
    loose: bool = False
    steps: tuple[Edit, ...] = ()
    shapes: frozenset[str] = frozenset()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the original of a stretch of the plain text that is not empty."""
        for step in reversed(self.steps):
            start, end = step.span(start, end)
        return start, end

    def place(self, at: int) -> int:
        """Offset in the plain text of the first character that ends behind an offset of the original."""
        for step in self.steps:
            at = step.place(at)
        return at

    def behind(self, step: Edit) -> TextReading:
        """The reading behind one more step; itself where that changed nothing."""
        return self if step.plain == self.plain else TextReading(step.plain, self.loose, (*self.steps, step))

    def undone(self, undo: Undo) -> TextReading:
        """The reading with what one trick hides in it."""
        return self.behind(Replaced(self.plain, undo(self.plain)))

    def with_shapes(self, shapes: frozenset[str]) -> TextReading:
        return TextReading(self.plain, self.loose, self.steps, shapes)

    @cached_property
    def digits(self) -> Sequence[Group]:
        """Where each row of the digits 0 to 9 starts and ends."""
        return digit_groups(self.plain)

    @cached_property
    def digit_starts(self) -> Sequence[int]:
        return [*map(itemgetter(0), self.digits)]


# What people write between the digits of a number, and the words near it that tell what it is

SPOKEN = ("dash", "hyphen", "minus", "dot", "space")  # words that stand between two groups of digits
_LONGEST = 3  # marks between two groups, at most


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


BETWEEN = Separators("-._·/ ", SPOKEN)  # what stands in numbers other than those of phones
BEFORE = 48  # characters before a number in which its words are looked for
AFTER = 24  # characters behind it

# numbers of a kind in a text whose near words are read; those beyond them count by their form alone
JUDGED = 256

# words that name a number which is nobody's own
OTHER_NUMBERS = (
    "order|invoice|tracking|shipment|shipping|parcel|package|waybill|ticket|case|claim|reference|ref|part|item|"
    "product|sku|model|serial|batch|lot|isbn|issn|ean|upc|gtin|doi|barcode|booking|reservation|confirmation|"
    "transaction|receipt|quote|po|version|build|commit|revision|release|firmware|coordinates|latitude|longitude|"
    "gps|timestamp|epoch|unix|checksum|hash|bestellung|bestellnummer|auftrag|rechnung|commande|facture|pedido|"
    "factura"
)

_WORD = frozenset(string.ascii_letters + string.digits + " ")
_SIGN = ","  # stands for every sign, when words are read
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
