"""Characters that pass for others: letters of other scripts, signs for letters, letters for digits."""

from __future__ import annotations

import string
import unicodedata

from turnwise.guard.recognisers.folding import Folding, plain_character

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
