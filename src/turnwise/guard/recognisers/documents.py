"""Numbers that only the words beside them tell: passports, driving licences, bank accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from turnwise.guard.recognisers.separators import digits_of
from turnwise.guard.recognisers.spans import Span

_LINK = (
    r"(?:[^\w\n]{1,3}|(?:no|nr|num|number|numbers|is|id|the|my|of|code|card|us|uk|eu|for|ist|es|est|lautet|nummer)"
    r"(?![^\W_])){0,12}+"
)
_END = r"(?![^\W_]|[.,][0-9])"


def _named(words: str, value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?:{words}){_LINK}(?<![^\W_])(?P<value>{value}){_END}")


SHAPES = {
    "passport": (r"passp|reisepass|pasaporte|passaporto",),
    "driving_licence": (r"licen[cs]e|\bdl\b|f(?:ü|u)?hrerschein|permis de|carnet de|patente di",),
    "bank_account": (r"acc|a/c|konto|cuenta|routing|\baba\b|\brtn\b|sort ?code",),
}
"""What a text has, at least, in which there may be one; by kind."""

_PASSPORT = _named(
    r"passport|passports|reisepass(?:nummer)?|passeport|pasaporte|passaporto",
    r"(?=[a-z0-9 -]{0,12}[0-9]{2})(?=(?:[a-z0-9][ -]?){6,9}(?![^\W_]))[a-z]{0,2}[ -]?[0-9](?:[ -]?[a-z0-9]){4,8}"
    r"|[cfghjk][cfghjklmnprtvwxyz0-9]{8}",
)
_LICENCE = _named(
    r"driv(?:er|ers|er's|ing|er s)['’]? ?licen[cs]es?|dl|license number|licence number|fuhrerschein(?:nummer)?|"
    r"führerschein(?:nummer)?|permis de conduire|carnet de conducir|patente di guida",
    r"(?=(?:[a-z -]{0,7}[0-9]){3})[a-z0-9](?:[ -]?[a-z0-9]){5,17}",
)
_ACCOUNT = _named(
    r"(?:bank |checking |savings |current |deposit )?(?:account|acct|acc|a/c) ?(?:no\.?|nr\.?|number|num|#)|"
    r"(?:bank|checking|savings|current|deposit) (?:account|acct)|kontonummer|numero de cuenta|número de cuenta",
    r"[0-9](?:[ -]?[0-9]){5,16}",
)
_ROUTING = _named(r"routing|aba|rtn|routing transit", r"[0-9]{9}|[0-9]{4}[ -][0-9]{4}[ -][0-9]")
_SORT_CODE = _named(r"sort ?codes?", r"[0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{2}")
_WEIGHTS = (3, 7, 1) * 3


def is_routing_number(digits: str) -> bool:
    """Tell whether nine digits are a United States routing number.

    Source: American Bankers Association, check digit with the weights 3, 7, 1.

    >>> is_routing_number("021000021"), is_routing_number("021000022")
    (True, False)
    """
    return sum(weight * int(digit) for weight, digit in zip(_WEIGHTS, digits, strict=True)) % 10 == 0


def find_passports(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find passport numbers: six to nine letters and digits, right behind words that name a passport.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
    """
    if "passport" in shapes:
        yield from _values(_PASSPORT, lower, "passport")


def find_driving_licences(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find driving licence numbers: six to eighteen letters and digits behind words that name a licence.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
    """
    if "driving_licence" in shapes:
        yield from _values(_LICENCE, lower, "driving_licence")


def find_bank_accounts(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find account numbers, routing numbers and sort codes behind words that name them.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
    """
    if "bank_account" not in shapes:
        return
    yield from _values(_ACCOUNT, lower, "bank_account")
    yield from _values(_SORT_CODE, lower, "bank_account")
    for span in _values(_ROUTING, lower, "bank_account"):
        if is_routing_number(digits_of(lower[span.start : span.end])):
            yield span._replace(confidence=0.9)


def _values(pattern: re.Pattern[str], lower: str, kind: str) -> Iterator[Span]:
    for match in pattern.finditer(lower):
        yield Span(match.start("value"), match.end("value"), kind, 0.7)
