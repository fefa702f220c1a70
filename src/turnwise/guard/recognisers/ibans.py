"""International bank account numbers."""

from __future__ import annotations

import string
from collections.abc import Iterator

from turnwise.guard.recognisers.numbers import AFTER
from turnwise.guard.recognisers.text import Span, TextReading
from turnwise.linear_regex import LinearRegex

_LENGTHS = {
    15: "NO",
    16: "BE",
    18: "DK FK FI FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
"""Countries by the length of their numbers. Source: SWIFT, IBAN Registry (ISO 13616)."""

COUNTRY_LENGTH = {
    country.lower(): length for length, countries in _LENGTHS.items() for country in countries.split()
}
_COUNTRIES = "|".join(sorted(COUNTRY_LENGTH))

_HEAD = rf"(?:^|[^a-z0-9])(?:{_COUNTRIES})[ -]?[0-9][ -]?[0-9]"

SHAPES = {
    "iban": (rf"{_HEAD}(?:[ .-]{{0,2}}[a-z0-9]){{11}}",),
}
"""What a text has, at least, in which there may be one."""

_START = LinearRegex(_HEAD)
_SMALL_LETTERS = frozenset(string.ascii_lowercase)
_GOES_ON = _SMALL_LETTERS.union(string.digits)
_WIDEST = 3
"""Characters that each of an IBAN takes, at most."""

_FOUR, _APART = 4, 2
"""Sizes of groups in which IBANs are written; of those that are pulled apart the largest."""

_SEPARATORS = str.maketrans("", "", " .-")
_CHECKED = 400
"""Candidates of a text whose check digits are verified; what has the usual form beyond them counts as found."""

_FORM = LinearRegex(rf"{_HEAD}(?:[ -]?[a-z0-9]{{4}}){{3,7}}")


_VALUES = {character: str(int(character, 36)) for character in string.ascii_letters + string.digits}


def is_iban(text: str) -> bool:
    """Whether letters and digits are an IBAN: the country's length, and 1 modulo 97.

    ISO 13616, check digits by ISO/IEC 7064 (MOD 97-10).

    >>> is_iban("GB82WEST12345698765432"), is_iban("GB82WEST12345698765431")
    (True, False)
    """
    if COUNTRY_LENGTH.get(text[:2].lower()) != len(text):
        return False
    return int("".join(map(_VALUES.__getitem__, text[4:] + text[:4]))) % 97 == 1


def find_ibans(text: TextReading) -> Iterator[Span]:
    """IBANs, with or without spaces; those with wrong check digits only where they are named so."""
    if "iban" not in text.shapes:
        return
    lower = text.plain
    checked = covered = 0
    for ((first, _),) in _START.spans(lower):
        start = first + (lower[first] not in _SMALL_LETTERS)
        if start < covered or lower[max(0, start - 1) : start].isalnum():
            continue
        length = COUNTRY_LENGTH[lower[start : start + 2]]
        checked += 1
        if checked > _CHECKED:
            for ((begin, behind),) in _FORM.spans(lower[start:]):
                yield Span(start + begin + (not lower[start + begin].isalnum()), start + behind, "iban", 0.5)
            return
        end = _end(lower, start, length)
        if not end:
            continue
        if is_iban(lower[start:end].translate(_SEPARATORS)):
            yield Span(start, end, "iban", 0.99)
            covered = end
        elif "iban" in lower[max(0, start - AFTER) : start]:
            yield Span(start, end, "iban", 0.7)
            covered = end


def _end(lower: str, start: int, length: int) -> int:
    """Where `length` letters and digits end that are in one piece, in fours or pulled apart; 0 for others."""
    pieces = lower[start : start + _WIDEST * length].replace(".", " ").replace("-", " ").split(" ")
    size = len(pieces[0])
    at, missing, empty = start, length, False
    for piece in pieces:
        part = piece[:missing]
        if not part:
            if empty:
                return 0  # three separators
            empty = True
            at += 1
            continue
        if not (part.isascii() and part.isalnum()):
            return 0
        empty = False
        missing -= len(part)
        at += len(part)
        if missing and not (len(part) == size == _FOUR or len(part) <= size == _APART):
            return 0
        if not missing:
            fits = len(part) == length or (size in (_FOUR, _APART) and len(part) <= size)
            return at if fits and lower[at : at + 1] not in _GOES_ON else 0
        at += 1
    return 0
