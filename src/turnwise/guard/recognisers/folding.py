"""Text in a plain form to search in, character by character: white space, dashes, digits, accents, look-alikes."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from turnwise._support.characters import CharacterTable, Mapped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# control characters, but white space
_CONTROLS = frozenset(map(chr, (*range(9), *range(14, 32), *range(127, 133), *range(134, 160))))

# characters that show nothing though Unicode does not call them formatting
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")

_BLANK = "\u2800"  # the braille pattern without dots, which passes for a space

# characters that pass for a hyphen though Unicode does not call them dashes
_DASHES = frozenset("\u2043\u2212\u02d7\u2796")

# ideographs, Hangul and private characters, which have no other form: a text can have very many of them
SAME = ((0x3400, 0xD800), (0x20000, 0xE0000), (0xE1000, 0x110000))


class Folded:
    """A text in plain form, with the way back to the offsets of the original."""

    def __init__(self, original: str, mapped: Mapped, join_spaces: bool = False) -> None:
        self.original = original
        self._mapped = mapped
        self.plain = " ".join(mapped.text.split()) if join_spaces else mapped.text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the original of a stretch of the plain text that is not empty."""
        origins = self._origins
        return (start, end) if origins is None else (int(origins[start]), int(origins[end - 1]) + 1)

    def place(self, at: int) -> int:
        """Where a character of the original begins in the plain text; only where no spaces were joined."""
        origins = self._origins
        return at if origins is None else int(origins.searchsorted(at))

    @cached_property
    def _origins(self) -> NDArray[np.intp] | None:
        """Where each character of the plain text stands in the original; None where nothing moved."""
        text, origins = self._mapped
        if len(text) == len(self.plain):
            return origins
        import numpy as np

        is_space = np.fromiter(map(str.isspace, text), bool, len(text))
        starts = np.flatnonzero(~is_space)
        is_kept = ~is_space
        is_kept[1:] |= ~is_space[:-1]
        is_kept[starts[-1] + 1 :] = False
        kept = np.flatnonzero(is_kept)
        return kept if origins is None else origins[kept]


class Folding:
    """A way to make text plain, character by character; one that shows nothing is empty. ASCII keeps its length.

    >>> folded = PLAIN.fold("no. \uff14\u200b\uff11")
    >>> folded.plain, folded.span(4, 6)
    ('no. 41', (4, 7))
    """

    def __init__(
        self, character: Callable[[str], str], ascii_text: Callable[[str], str] = str, join_spaces: bool = False
    ) -> None:
        self._character = character
        self._ascii_text = ascii_text
        self._join_spaces = join_spaces
        self._table = CharacterTable(self._form, SAME)

    def fold(self, text: str) -> Folded:
        if text.isascii() and (text.isprintable() or not _CONTROLS.intersection(text)):
            return Folded(text, Mapped(self._ascii_text(text)), self._join_spaces)
        return Folded(text, self._table.map(text), self._join_spaces)

    def _form(self, character: str) -> str:
        if character in _CONTROLS:
            return ""
        if character.isascii():
            return self._ascii_text(character)
        if "\ud800" <= character <= "\udfff":
            return "\ufffd"  # half a character, which can't be encoded
        form = self._ascii_text(self._character(character))
        return character if " " in form and not character.isspace() else form  # such as ´, a space and an accent


def plain_character(character: str) -> str:
    """A character as a reader takes it: digits and dashes of all scripts in ASCII, what is unseen empty.

    Unicode Standard Annex 15 (NFKC); superscripts stay, because ``10²`` is not 102.

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


def caseless_character(character: str) -> str:
    """A character without case and in its parts, so that precomposed and combining accents are equal.

    Unicode Standard, section 3.13 (caseless matching), with NFKD.

    >>> [caseless_character(each) for each in "ÉＡß"] == ["e\u0301", "a", "ss"]
    True
    """
    if unicodedata.category(character) == "Cf":
        return ""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())


def bare_character(character: str) -> str:
    """A character without case and accents.

    >>> [bare_character(each) for each in "Éñ\u0301"]
    ['e', 'n', '']
    """
    parts = caseless_character(character)
    return "".join(part for part in parts if not unicodedata.combining(part))


def decomposed_character(character: str) -> str:
    """A character in its parts, case kept.

    >>> decomposed_character("É") == "E\u0301"
    True
    """
    if unicodedata.category(character) == "Cf":
        return ""
    return unicodedata.normalize("NFKD", character)


def plain_lower_character(character: str) -> str:
    """A character as `plain_character` gives it, in lower case.

    >>> [plain_lower_character(each) for each in "Ａİ"]
    ['a', 'i']
    """
    return "".join(each for each in plain_character(character).lower() if not unicodedata.combining(each))


PLAIN = Folding(plain_character)  # for keys and code, in which case matters
LOWER = Folding(plain_lower_character, str.lower)  # for numbers and addresses


# Characters that pass for others: letters of other scripts, signs for letters, letters for digits

# letters that pass for a Latin one, in lower case
# fmt: off
PASS_FOR = {
    "a": "аαɑ", "b": "ьƅ", "c": "сϲ", "d": "ԁɗđ", "e": "еεҽ", "f": "ſ", "g": "ɡց", "h": "һħ", "i": "іιıɩ",
    "j": "ј", "k": "кκ", "l": "ӏł", "m": "м", "n": "ոηп", "o": "оοօø", "p": "рρ", "q": "ԛ", "r": "г",
    "s": "ѕ", "t": "тτ", "u": "υս", "v": "νѵ", "w": "ԝωѡ", "x": "хχ", "y": "уγү", "z": "ᴢ",
}

# signs and digits that stand for a letter
LEET = {
    "@": "a", "4": "a", "3": "e", "€": "e", "0": "o", "5": "s", "$": "s", "7": "t", "+": "t", "8": "b", "9": "g",
}
# fmt: on

_CAPITALS = dict(
    zip("АВСЕНІЈКМОРЅТХУҮԚԜѴԌΑΒΕΖΗΙΚΜΝΟΡΤΥΧՍՕĐŁØĦ", "ABCEHIJKMOPSTXYYQWVGABEZHIKMNOPTYXUODLOH", strict=True)
)
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_DIGIT_SHAPES = {"З": "3", "з": "3", "Ʒ": "3", "б": "6", "Ƽ": "5", "Ȣ": "8", "ȣ": "8"}
# white letters on black, in circles and squares, and those that flags are made of
_BOXED = {
    chr(first + index): letter
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for index, letter in enumerate(string.ascii_uppercase)
}

LATIN = {
    **{sign: letter for letter, signs in PASS_FOR.items() for sign in signs if sign != letter},
    **_CAPITALS,
    **_SMALL_CAPITALS,
    **_DIGIT_SHAPES,
    **_BOXED,
}

DIGIT_LETTERS = {"O": "0", "o": "0", "I": "1", "l": "1"}  # letters that pass for a digit
LEET_STROKES = "1!|¡"  # what stands for i or for l


def undisguised_character(character: str) -> str:
    """The Latin letter or digit that a character passes for, without accents; others in plain form.

    Unicode Technical Standard 39 (confusables), cut down to letters that pass for Latin ones.

    >>> [undisguised_character(each) for each in "аé²ᴀ🅰"]
    ['a', 'e', '2', 'a', 'A']
    """
    latin = LATIN.get(character)
    if latin is not None:
        return latin
    form = unicodedata.normalize("NFKD", plain_character(character))
    return "".join(each for each in form if not unicodedata.combining(each))


UNDISGUISED = Folding(undisguised_character)  # characters that pass for others
