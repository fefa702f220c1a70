"""Numbers of a person: social security, and those that only words beside them tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence, Set

from turnwise.guard.recognisers.numbers import (
    BETWEEN,
    JUDGED,
    Group,
    NearWords,
    digit_groups,
    digits_of,
    is_between,
)
from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex

SSN_SHAPES = {
    "ssn": (rf"[0-9]{{3}}{BETWEEN}[0-9]{{2}}{BETWEEN}[0-9]{{4}}",),
    "ssn named": (r"ssn|social|soc sec|\bitin\b|\btin\b|tax",),
}
"""What a text has, at least, in which there may be one."""

_LENGTHS = (3, 2, 4)
_DIGITS = sum(_LENGTHS)
_ROW = LinearRegex(rf"[0-9](?:[-. ]?[0-9]){{{_DIGITS - 1},}}")
_WORDS = NearWords("ssn|ssns|social|social security|socials|soc sec|itin|taxpayer|tax payer|tax id|tin")


def is_ssn(digits: str) -> bool:
    """Tell whether nine digits may be a social security number.

    Source: Social Security Administration, numbers that are not assigned: area 000, 666 and 900 to 999, group 00,
    serial 0000.

    >>> is_ssn("123456789"), is_ssn("666456789"), is_ssn("123006789"), is_ssn("987654321")
    (True, False, False, False)
    """
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def find_ssns(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find social security numbers: grouped 3-2-4, or any nine digits with words near that name them.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SSN_SHAPES` it has.
    """
    if "ssn" in shapes:
        for count, (first, second, third) in enumerate(_numbers(lower)):
            start, end = first[0], third[1]
            if not is_ssn(lower[start : first[1]] + lower[slice(*second)] + lower[third[0] : end]):
                continue
            between, again = lower[first[1] : second[0]], lower[second[1] : third[0]]
            words = _WORDS.judge(lower, start, end) if count < JUDGED else True
            if words or (words is None and between == again):
                yield Span(start, end, "ssn", 0.95 if words or "-" in between else 0.75)
    if "ssn named" in shapes:
        for row in _ROW.finditer(lower):
            start, end = row.start, row.end
            digits = digits_of(lower[start:end]) if end - start < 2 * _DIGITS else ""
            if len(digits) == _DIGITS and is_ssn(digits) and _WORDS.judge(lower, start, end):
                yield Span(start, end, "ssn", 0.9)


def _numbers(lower: str) -> Iterator[Sequence[Group]]:
    """Yield groups of 3, 2 and 4 digits that are no part of a longer row."""
    groups = digit_groups(lower)
    lengths = [end - start for start, end in groups]
    free = 0
    for at, sizes in enumerate(zip(lengths, lengths[1:], lengths[2:], strict=False)):
        if sizes != _LENGTHS or at < free:
            continue
        first, second, third = three = groups[at : at + 3]
        if (
            is_between(lower[first[1] : second[0]])
            and is_between(lower[second[1] : third[0]])
            and not lower.startswith("%", third[1])
            and not _joined(lower, groups, at - 1, at)
            and not _joined(lower, groups, at + 2, at + 3)
        ):
            yield three
            free = at + 3


def _joined(lower: str, groups: Sequence[Group], before: int, behind: int) -> bool:
    """Tell whether there are two groups with a single hyphen or full stop between them."""
    if before < 0 or behind == len(groups):
        return False
    end, start = groups[before][1], groups[behind][0]
    return start - end == 1 and lower[end] in "-."


_LINK = (
    r"(?:[^\pL\pN_\n]{1,3}"
    r"|(?:no|nr|num|number|numbers|is|id|the|my|of|code|card|us|uk|eu|for|ist|es|est|lautet|nummer)\b){0,12}\b"
)
"""What may stand between a name and its value, which begins with a letter or digit."""

_END = r"(?:$|[^\pL\pN.,]|[.,](?:$|[^0-9]))"
_LONGEST = 128
"""Characters that what may stand behind a name takes, at most, with the value."""


def _named(words: str, value: str) -> LinearRegex:
    return LinearRegex(rf"(?:^|[^\pL\pN])(?:{words}){_LINK}({value}){_END}")


def _name(words: str) -> LinearRegex:
    return LinearRegex(rf"(?:^|[^\pL\pN])(?:{words})")


NAMED_SHAPES = {
    "passport": (r"passp|reisepass|pasaporte|passaporto",),
    "driving_licence": (r"licen[cs]e|\bdl\b|f(?:ü|u)?hrerschein|permis de|carnet de|patente di",),
    "bank_account": (r"acc|a/c|konto|cuenta|routing|\baba\b|\brtn\b|sort ?code",),
}
"""What a text has, at least, in which there may be one; by kind."""

_LINKED = LinearRegex(_LINK + "[a-z0-9]")
_PASSPORT = _name(r"passports?|reisepass(?:nummer)?|passeport|pasaporte|passaporto")
_PASSPORT_LETTERS = "cfghjk"
_PASSPORT_NUMBERS = (
    LinearRegex(rf"([a-z]{{0,2}}[ -]?[0-9](?:[ -]?[a-z0-9]){{4,8}}){_END}"),
    LinearRegex(rf"([{_PASSPORT_LETTERS}][cfghjklmnprtvwxyz0-9]{{8}}){_END}"),
)
_PASSPORT_LOOK = (
    LinearRegex(r"[a-z0-9 -]{0,12}[0-9]{2}"),
    LinearRegex(r"(?:[a-z0-9][ -]?){6,9}(?:$|[^\pL\pN])"),
)
"""What the first form of a passport number has, besides."""

_LICENCE = _name(
    r"driv(?:er|ers|er's|ing|er s)['’]? ?licen[cs]es?|dl|license number|licence number|fuhrerschein(?:nummer)?|"
    r"führerschein(?:nummer)?|permis de conduire|carnet de conducir|patente di guida"
)
_LICENCE_NUMBER = LinearRegex(rf"([a-z0-9](?:[ -]?[a-z0-9]){{5,17}}){_END}")
_THREE_DIGITS = LinearRegex(r"(?:[a-z -]{0,7}[0-9]){3}")
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
        shapes: which of `NAMED_SHAPES` it has.
    """
    if "passport" in shapes:
        yield from _read(_PASSPORT, lower, "passport", _passport_number)


def find_driving_licences(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find driving licence numbers: six to eighteen letters and digits behind words that name a licence.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `NAMED_SHAPES` it has.
    """
    if "driving_licence" in shapes:
        yield from _read(_LICENCE, lower, "driving_licence", _licence_number)


def find_bank_accounts(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find account numbers, routing numbers and sort codes behind words that name them.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `NAMED_SHAPES` it has.
    """
    if "bank_account" not in shapes:
        return
    yield from _values(_ACCOUNT, lower, "bank_account")
    yield from _values(_SORT_CODE, lower, "bank_account")
    for span in _values(_ROUTING, lower, "bank_account"):
        if is_routing_number(digits_of(lower[span.start : span.end])):
            yield span._replace(confidence=0.9)


def _values(pattern: LinearRegex, lower: str, kind: str) -> Iterator[Span]:
    for _, (start, end) in pattern.spans(lower, overlapping=True):
        yield Span(start, end, kind, 0.7)


def _read(pattern: LinearRegex, lower: str, kind: str, read: Callable[[str], str]) -> Iterator[Span]:
    """Yield the values behind the names that a pattern knows, as far as they can be read."""
    digits = [start for start, _ in digit_groups(lower)]
    behind = 0
    for ((start, end),) in pattern.spans(lower):
        index = bisect_left(digits, end)
        if index == len(digits) or digits[index] >= end + _LONGEST or start < behind:
            continue
        text = lower[end : end + _LONGEST]
        link = _LINKED.match(text)
        if link is None or link.end == 1:  # glued to the name
            continue
        value = read(text[link.end - 1 :])
        if value:
            first = end + link.end - 1
            behind = first + len(value)
            yield Span(first, behind, kind, 0.7)


def _passport_number(text: str) -> str:
    """Return the passport number at the beginning of a text, or an empty one."""
    first, second = _PASSPORT_NUMBERS
    found = first.match(text)
    if found is None or not all(look.match(text) for look in _PASSPORT_LOOK):
        found = second.match(text) if text[0] in _PASSPORT_LETTERS else None
    return found[1] if found else ""


def _licence_number(text: str) -> str:
    """Return the driving licence number at the beginning of a text, or an empty one."""
    found = _LICENCE_NUMBER.match(text) if _THREE_DIGITS.match(text) else None
    return found[1] if found else ""
