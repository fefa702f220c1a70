"""International bank account numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from turnwise.guard.recognisers.spans import Span

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
_HEAD = r"[a-z]{2}[ -]?[0-9][ -]?[0-9]"

_COUNTRIES = "|".join(sorted(COUNTRY_LENGTH))

SHAPES = {
    "iban": (rf"(?:^|[^a-z0-9])(?:{_COUNTRIES})[ -]?[0-9][ -]?[0-9](?:[ .-]{{0,2}}[a-z0-9]){{11}}",),
}
"""What a text has, at least, in which there may be one."""

_START = re.compile(rf"(?<![^\W_]){_HEAD}")
_REST = {length: re.compile(rf"(?:[ .-]{{0,2}}[a-z0-9]){{{length - 4}}}(?![a-z0-9])") for length in _LENGTHS}
_GROUPS = re.compile(
    r"[a-z0-9]+|(?:[a-z0-9]{4}[ .-]{1,2})+[a-z0-9]{1,4}|(?:[a-z0-9]{1,2}[ .-]{1,2})+[a-z0-9]{1,2}"
)
"""How IBANs are written: in one piece, in groups of four, or pulled apart."""

_SEPARATORS = str.maketrans("", "", " .-")
_CHECKED = 1_000
"""Candidates of a text whose check digits are verified; what has the form beyond them counts as found."""


def is_iban(text: str) -> bool:
    """Tell whether letters and digits are an IBAN: the country's length, and 1 modulo 97.

    Source: ISO 13616, check digits by ISO/IEC 7064 (MOD 97-10).

    >>> is_iban("GB82WEST12345698765432"), is_iban("GB82WEST12345698765431")
    (True, False)
    """
    if COUNTRY_LENGTH.get(text[:2].lower()) != len(text):
        return False
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97 == 1


def find_ibans(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find IBANs, with or without spaces.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
    """
    if "iban" not in shapes:
        return
    checked = covered = 0
    for head in _START.finditer(lower):
        length = COUNTRY_LENGTH.get(head.group()[:2])
        rest = _REST[length].match(lower, head.end()) if length and head.start() >= covered else None
        if rest is None:
            continue
        if not _GROUPS.fullmatch(lower, head.start(), rest.end()):
            continue
        checked += 1
        if checked > _CHECKED or is_iban(lower[head.start() : rest.end()].translate(_SEPARATORS)):
            yield Span(head.start(), rest.end(), "iban", 0.99 if checked <= _CHECKED else 0.5)
            covered = rest.end()
