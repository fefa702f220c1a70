"""The one form of a name that all its spellings share, by which sessions and rate limits know it."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Final

from turnwise._support.visible import shown
from turnwise.conversation.participants import UNKNOWN_NAME
from turnwise.errors import GuardError
from turnwise.guard.recognisers.folding import LATIN, plain_character

_UNSEEN_MARKS: Final = frozenset(
    map(chr, (0x34F, 0x17B4, 0x17B5, 0x2065, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
)
"""Marks that show nothing by themselves."""

_LETTERS: Final = frozenset(("Lu", "Ll", "Lt", "Lo"))


def canonical_name(name: str) -> str:
    """The form that all spellings of a name share; empty for a name that shows nothing.

    It has no capitals, no characters that show nothing, and single blanks between words; digits, dashes and
    styled letters are plain (Unicode Standard Annex 15, NFKC). Where a name mixes scripts, letters that look
    alike (Unicode Technical Standard 39) become those of one script: Latin, or the script in which it has
    letters that look like no Latin one. A name in one script other than Latin stays as it is, and accents always
    stay.

    >>> {canonical_name(name) for name in ("Victim ", "ｖictim", "vic\u200btim", "vі\u0441tim")}
    {'victim'}
    >>> canonical_name("Ив\u0061н"), canonical_name("Åsa"), canonical_name("\u200b")
    ('иван', 'åsa', '')
    """
    if name.isascii():
        text = name if name.isprintable() else "".join(map(_shown, name))
        return " ".join(text.lower().split())
    text = unicodedata.normalize("NFKC", "".join(map(_shown, name)))
    scripts = set(map(_script, _caseless(text))) - {""}
    if len(scripts) != 1 or "LATIN" in scripts:
        text = _in_one_script(text)
    return " ".join(_caseless(text).split())


UNNAMED: Final = frozenset(
    {"", canonical_name(UNKNOWN_NAME), "anonymous", "client", "customer", "guest", "human", "me", "user", "you"}
)
"""Canonical forms of names that name nobody, words for a role among them: not all users are one person."""


def checked_name(name: object, what: str) -> str:
    """The canonical form of a name that must not be empty; `what` is how the error calls it."""
    canonical = canonical_name(name) if isinstance(name, str) else ""
    if not canonical:
        raise GuardError(f"{what} is {shown(name)}; use text that is not empty, or leave it out")
    return canonical


@lru_cache(maxsize=1 << 12)
def _shown(character: str) -> str:
    """A character in plain form, marks as they are; empty for one that shows nothing."""
    category = unicodedata.category(character)
    if category == "Cc":
        return " " if character.isspace() else ""
    if character in _UNSEEN_MARKS or "\U000e0000" <= character <= "\U000e0fff":
        return ""
    return character if category[0] == "M" else plain_character(character)


@lru_cache(maxsize=1 << 12)
def _script(character: str) -> str:
    """The script of a letter, as its Unicode name begins; empty for what is no letter."""
    if unicodedata.category(character) not in _LETTERS:
        return ""
    return unicodedata.name(character, "?").partition(" ")[0]


def _caseless(text: str) -> str:
    # The dot of a Turkish capital I is that of the small letter.
    return unicodedata.normalize("NFKC", text.casefold().replace("i\u0307", "i"))


def _in_one_script(text: str) -> str:
    """A name with the look-alikes of all scripts as letters of one."""
    by_case, small, back = _look_alikes()
    latin = _caseless(text.translate(by_case)).translate(small)
    left = set(map(_script, latin)) - {"", "LATIN"}
    if len(left) != 1:
        return latin
    (script,) = left
    own = back.get(script, {})
    return "".join(
        each if _script(each) == script else each.translate(small).translate(own) for each in _caseless(text)
    )


@cache
def _look_alikes() -> tuple[dict[int, str], dict[int, str], dict[str, dict[int, str]]]:
    """The Latin letter of each look-alike, by case and without; and each Latin letter's look-alike, by script.

    Where case makes a difference, as with the Greek nu, the small letter counts without it. Latin letters with a
    mark, such as a stroke, are other letters.
    """
    usable = {
        sign: letter.lower()
        for sign, letter in sorted(LATIN.items(), key=lambda item: item[0].islower())
        if " WITH " not in unicodedata.name(sign, "") and not sign.casefold().isascii()
    }
    small = {sign.casefold(): letter for sign, letter in usable.items()}
    small |= {sign: letter for sign, letter in usable.items() if sign == sign.casefold()}
    back: dict[str, dict[int, str]] = {}
    for sign, letter in usable.items():
        back.setdefault(_script(sign), {}).setdefault(ord(letter), sign.casefold())
    return str.maketrans(usable), str.maketrans(small), back
