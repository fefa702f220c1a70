"""Payment cards: issuer, length and check digit, and the words around."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from turnwise.guard.recognisers.near_words import JUDGED, NearWords
from turnwise.guard.recognisers.separators import BETWEEN, digits_of
from turnwise.guard.recognisers.spans import Span

SHAPES = {
    "card": (
        rf"(?:^|[^0-9])[0-9]{{4}}{BETWEEN}[0-9]{{4}}{BETWEEN}[0-9]{{4}}{BETWEEN}[0-9]",
        rf"(?:^|[^0-9])[0-9]{{4}}{BETWEEN}[0-9]{{6}}{BETWEEN}[0-9]{{4}}",
        r"(?:^|[^0-9])[0-9]{13,19}(?:[^0-9]|$)",
    ),
    "card pulled apart": (
        rf"(?:^|[^0-9])(?:[0-9]{BETWEEN}){{12}}[0-9]",
        rf"(?:^|[^0-9])(?:[0-9]{{2}}{BETWEEN}){{6}}[0-9]",
        rf"(?:^|[^0-9])(?:[0-9]{{3}}{BETWEEN}){{4}}[0-9]",
        rf"(?:^|[^0-9])(?:[0-9]{{5}}{BETWEEN}){{2}}[0-9]{{3}}",
    ),
}
"""What a text has, at least, in which there may be one."""

_RUN = re.compile(rf"[0-9](?:{BETWEEN}?[0-9]){{12,}}+")
_GROUPED = re.compile(
    rf"(?<![0-9])(?:[0-9]{{4}}({BETWEEN})[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{1,4}}(\1[0-9]{{1,3}})?"
    rf"|[0-9]{{4}}({BETWEEN})[0-9]{{6}}\3[0-9]{{4,5}}"
    r"|[0-9]{13,19})(?![0-9])"
)
_LONGEST_RUN = 19 * 9
_WORDS = NearWords(
    r"cards?|visa|mastercard|master card|amex|american express|discover|diners|jcb|maestro|unionpay|credit|debit|"
    r"cc|pan|cvv|cvc|exp|expires|expiry|charge|pay|karte|kreditkarte|tarjeta|carte"
)
_ZERO = ord("0")
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
"""Each digit becomes the sum of the digits of its double."""
_USUAL = (15, 16)

_ISSUERS = (
    (r"4", (13, 16, 19)),  # Visa
    (r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", (16,)),  # Mastercard
    (r"3[47]", (15,)),  # American Express
    (r"6011|64[4-9]|65|62212[6-9]|6221[3-9]|622[2-8]|6229[01]|62292[0-5]", range(16, 20)),  # Discover
    (r"30[0-5]|309|36|3[89]", range(14, 20)),  # Diners Club
    (r"352[89]|35[3-8]", range(16, 20)),  # JCB
    (r"62|81", range(16, 20)),  # UnionPay
    (r"5018|5020|5038|5893|6304|6759|676[1-3]", range(13, 20)),  # Maestro
    (r"220[0-4]", range(16, 20)),  # Mir
    (r"60|82|508|353|356", (16,)),  # RuPay
    (r"9792", (16,)),  # Troy
)
"""Issuer prefixes and the lengths of their numbers. Source: ISO/IEC 7812 and the networks' published ranges."""

_PREFIX = {
    length: re.compile("|".join(prefix for prefix, lengths in _ISSUERS if length in lengths))
    for length in range(13, 20)
}


def luhn(digits: str) -> bool:
    """Tell whether digits end in the right check digit.

    Source: ISO/IEC 7812-1, annex B (Luhn's formula).

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    coded = digits.encode("ascii")
    total = sum(coded[-1::-2]) + sum(coded[-2::-2].translate(_DOUBLED))
    return (total - len(coded) * _ZERO) % 10 == 0


def is_card(digits: str) -> bool:
    """Tell whether digits are a payment card's number: a known issuer, its length, and the check digit.

    >>> is_card("378282246310005"), is_card("1234567812345670")
    (True, False)
    """
    prefix = _PREFIX.get(len(digits))
    return prefix is not None and prefix.match(digits) is not None and luhn(digits)


def find_cards(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find payment cards, grouped or not, but none inside a longer run of digits.

    A number of an unusual length (other than 15 or 16 digits) counts where it is grouped or words near name a
    card; one that words near call something else, such as an order, does not.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
    """
    if "card" in shapes:
        for count, match in enumerate(_GROUPED.finditer(lower)):
            span = _grouped(lower, match, near=count < JUDGED)
            if span is not None:
                yield span
    if "card pulled apart" in shapes:
        for run in _RUN.finditer(lower):
            text = run.group()
            digits = digits_of(text) if len(text) <= _LONGEST_RUN else ""
            if digits != text and is_card(digits) and _evenly(text):
                words = _WORDS.judge(lower, run.start(), run.end())
                if words is not False:
                    yield Span(run.start(), run.end(), "card", 0.9 if words else 0.7)


def _grouped(lower: str, match: re.Match[str], near: bool) -> Span | None:
    between, tail = match.group(1), match.group(2)
    start, end = match.span()
    digits = digits_of(match.group())
    if tail and not is_card(digits):  # the last group may be a number by itself
        end -= len(tail)
        digits = digits_of(lower[start:end])
    if not is_card(digits):
        return None
    words = _WORDS.judge(lower, start, end) if near else True
    grouped = len(digits) != end - start
    if words is False or (words is None and not grouped and len(digits) not in _USUAL):
        return None
    if words is None and between and between.strip() and _in_longer(lower, start, end, between):
        return None
    return Span(start, end, "card", 0.99 if words else 0.95 if grouped else 0.9)


def _in_longer(lower: str, start: int, end: int, between: str) -> bool:
    """Tell whether the groups go on, before or behind, with the same separator."""
    width = len(between) + 1
    before, behind = lower[max(0, start - width) : start], lower[end : end + width]
    return (before[1:] == between and before[0].isdigit()) or (behind[:-1] == between and behind[-1].isdigit())


def _evenly(run: str) -> bool:
    """Tell whether all groups but the last have one length: one number pulled apart, not several."""
    groups = re.findall(r"[0-9]+", run)
    return len({len(group) for group in groups[:-1]}) == 1
