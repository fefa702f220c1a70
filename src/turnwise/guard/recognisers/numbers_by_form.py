"""Numbers that their own form tells: payment cards, IBANs, and social security numbers of the United States."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from itertools import chain

from turnwise.guard.recognisers.text import (
    AFTER,
    BEFORE,
    BETWEEN,
    JUDGED,
    Group,
    NearWords,
    Span,
    TextReading,
    digit_groups,
    digits_of,
)
from turnwise.linear_regex import LinearRegex

# Payment cards

_BETWEEN = BETWEEN.pattern

# what a text has, at least, in which there may be one
CARD_SHAPES = {
    "card": (
        rf"(?:^|[^0-9])[0-9]{{4}}{_BETWEEN}[0-9]{{4}}{_BETWEEN}[0-9]{{4}}{_BETWEEN}[0-9]",
        rf"(?:^|[^0-9])[0-9]{{4}}{_BETWEEN}[0-9]{{6}}{_BETWEEN}[0-9]{{4}}",
        r"(?:^|[^0-9])[0-9]{13,19}(?:[^0-9]|$)",
    ),
    "card pulled apart": (
        rf"(?:^|[^0-9])(?:[0-9]{_BETWEEN}){{12}}[0-9]",
        rf"(?:^|[^0-9])(?:[0-9]{{2}}{_BETWEEN}){{6}}[0-9]",
        rf"(?:^|[^0-9])(?:[0-9]{{3}}{_BETWEEN}){{4}}[0-9]",
        rf"(?:^|[^0-9])(?:[0-9]{{5}}{_BETWEEN}){{2}}[0-9]{{3}}",
    ),
}

_FEWEST, _MOST = 13, 19  # digits of a card's number
_RUN = LinearRegex(rf"[0-9](?:{_BETWEEN}?[0-9]){{{_FEWEST - 1},}}")
# characters of a number that is pulled apart, at most: each digit with a spoken separator
_LONGEST_RUN = _MOST * 9

_FOURS = (4, 4, 4)
_SIXES = (4, 6)
_CARD_WORDS = NearWords(
    "card|cards|visa|mastercard|master card|amex|american express|discover|diners|jcb|maestro|unionpay|credit|"
    "debit|cc|pan|cvv|cvc|exp|expires|expiry|charge|pay|paid|paying|karte|kreditkarte|tarjeta|carte"
)
_NEAR = 20  # characters before a number in fours in which words that call it something else stand

# what speaks of a card whatever other words stand between, as in "my card for the booking is"
_CARD_IS = LinearRegex(
    r"\b(?:card|karte|kreditkarte|tarjeta|carte|carta|cartão)\b[^0-9.!?;\n]{0,40}"
    r"(?: is| ist| es| est|:)[^a-z0-9.!?\n]*$"
)

# cards that pay nothing
_OTHER_CARD = LinearRegex(
    r"\b(?:gift|library|loyalty|sim|membership|member|student|phone|calling|club|rewards?|discount|metro|bus|oyster|"
    r"health|insurance|graphics|video) card\b[^0-9]{0,40}$"
)

# words before a number with which "card" speaks of no payment, or of no card in particular
_NO_CARD = LinearRegex(
    r"\b(?:id|identity|report|business|score|green|sd|memory|points|bonus|travel|example|sample|dummy|placeholder|fake|such|e\.g|like|format|instance)\b[^0-9]{0,40}$"
)

# a name of cards right before a number; words of paying alone don't make one of wrong digits
_CALLED_CARD = LinearRegex(
    r"\b(?:card|cards|visa|mastercard|amex|american express|discover|maestro|diners|karte|kreditkarte|"
    r"kartennummer|kreditkartennummer|tarjeta|carte|carta|cartão|cc|pan)\b[^0-9]{0,40}$"
)

_CARD_BEHIND = LinearRegex(r"[^0-9]{0,12}\b(?:visa|mastercard|amex|credit card|debit card|card number|my card)\b")
_ZERO = ord("0")
# each digit becomes the sum of the digits of its double
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
_USUAL = (15, 16)

# Issuer prefixes, single or from one to another, and the lengths of their numbers. Source: ISO/IEC 7812 and the
# networks' published ranges.
_ISSUERS: tuple[tuple[str, Sequence[int]], ...] = (
    ("4", (13, 16, 19)),  # Visa
    ("51 52 53 54 55 2221-2229 223-229 23-26 270 271 2720", (16,)),  # Mastercard
    ("34 37", (15,)),  # American Express
    ("6011 644-649 65 622126-622129 62213-62219 6222-6228 62290 62291 622920-622925", range(16, 20)),  # Discover
    ("300-305 309 36 38 39", range(14, 20)),  # Diners Club
    ("3528 3529 353-358", range(16, 20)),  # JCB
    ("62 81", range(16, 20)),  # UnionPay
    ("5018 5020 5038 5893 6304 6759 6761-6763", range(13, 20)),  # Maestro
    ("2200-2204", range(16, 20)),  # Mir
    ("60 82 508 353 356", (16,)),  # RuPay
    ("9792", (16,)),  # Troy
)


def _prefixes(ranges: str) -> Iterator[str]:
    for each in ranges.split():
        first, _, last = each.partition("-")
        yield from map(str, range(int(first), int(last or first) + 1))


_PREFIXES = {
    length: frozenset(prefix for ranges, lengths in _ISSUERS if length in lengths for prefix in _prefixes(ranges))
    for length in range(_FEWEST, _MOST + 1)
}
_LONGEST_PREFIX = max(map(len, chain.from_iterable(_PREFIXES.values())))


def luhn(digits: str) -> bool:
    """Whether digits end in the right check digit (Luhn's formula, ISO/IEC 7812-1, annex B).

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    coded = digits.encode("ascii")
    total = sum(coded[-1::-2]) + sum(coded[-2::-2].translate(_DOUBLED))
    return (total - len(coded) * _ZERO) % 10 == 0


def is_card(digits: str) -> bool:
    """Whether digits are a payment card's number: a known issuer, its length, and the check digit.

    >>> is_card("378282246310005"), is_card("1234567812345670")
    (True, False)
    """
    prefixes = _PREFIXES.get(len(digits), ())
    return any(digits[:length] in prefixes for length in range(1, _LONGEST_PREFIX + 1)) and luhn(digits)


def find_cards(text: TextReading) -> Iterator[Span]:
    """Payment cards; of unusual lengths only grouped or named ones, with wrong check digits only named ones."""
    lower = text.plain
    if "card" in text.shapes:
        for count, (groups, tailed) in enumerate(_cards(lower, text.digits)):
            span = _grouped(lower, groups, tailed, near=count < JUDGED)
            if span is not None:
                yield span
    if "card pulled apart" in text.shapes:
        for run in _RUN.finditer(lower):
            start, end = run.start, run.end
            written = lower[start:end]
            number = digits_of(written) if len(written) <= _LONGEST_RUN else ""
            if number != written and is_card(number) and _evenly(written):
                words = _CARD_WORDS.judge(lower, start, end)
                if words is not False:
                    yield Span(start, end, "card", 0.9 if words else 0.7)


def _cards(lower: str, groups: Sequence[Group]) -> Iterator[tuple[Sequence[Group], bool]]:
    """Groups that are written like a card, and whether the last may be no part of it."""
    lengths = [end - start for start, end in groups]
    behind = 0
    for at, length in enumerate(lengths):
        if length < _FOURS[0] or at < behind:
            continue
        if _FEWEST <= length <= _MOST:
            yield groups[at : at + 1], False
        elif length == _FOURS[0]:
            last, tailed = _last(lower, groups, lengths, at)
            if last > at:
                yield groups[at : last + 1], tailed
                behind = last + 1


def _last(lower: str, groups: Sequence[Group], lengths: Sequence[int], at: int) -> tuple[int, bool]:
    """Index of the last group in fours, or 4, 6 and the rest (else `at`), and whether it may be none of them."""
    sizes = tuple(lengths[at : at + 5])
    if sizes[:3] == _FOURS and len(sizes) > 3 and sizes[3] <= 4:
        same = _same_gaps(lower, groups[at : at + 5])
        if same >= 3:
            tailed = same == 4 and sizes[4] <= 3
            return at + 3 + tailed, tailed
    elif sizes[:2] == _SIXES and len(sizes) > 2 and sizes[2] in (4, 5):
        return (at + 2 if _same_gaps(lower, groups[at : at + 3]) == 2 else at), False
    return at, False


def _same_gaps(lower: str, groups: Sequence[Group]) -> int:
    """How many of some groups follow the first with the same separator before each."""
    gap = lower[groups[0][1] : groups[1][0]]
    if not BETWEEN.matches(gap):
        return 0
    same = 1
    while same + 1 < len(groups) and lower[groups[same][1] : groups[same + 1][0]] == gap:
        same += 1
    return same


def _grouped(lower: str, groups: Sequence[Group], tailed: bool, near: bool) -> Span | None:
    start, end = groups[0][0], groups[-1][1]
    gap = lower[groups[0][1] : groups[1][0]] if len(groups) > 1 else ""
    digits = lower[start:end].replace(gap, "") if gap else lower[start:end]
    if tailed and not is_card(digits):  # the last group may be a number by itself
        end = groups[-2][1]
        digits = lower[start:end].replace(gap, "")
    if not is_card(digits):
        return Span(start, end, "card", 0.7) if near and _is_mistyped(lower, start, end, digits) else None
    grouped = len(digits) != end - start
    words = _CARD_WORDS.judge(lower, start, end) if near else True
    if words is False:
        before = lower[max(0, start - BEFORE) : start]
        if _CARD_IS.search(before) is not None:
            words = True
        elif grouped and _CARD_WORDS.judge(before[-_NEAR:] + lower[start:end], len(before[-_NEAR:]), end) is None:
            words = None
    if words and near and _OTHER_CARD.search(lower[max(0, start - BEFORE) : start]):
        return None
    if words is False or (words is None and not grouped and len(digits) not in _USUAL):
        return None
    if words is None and len(groups) > 3 and gap.strip() and _in_longer(lower, start, end, gap):
        return None
    return Span(start, end, "card", 0.99 if words else 0.95 if grouped else 0.9)


def _is_mistyped(lower: str, start: int, end: int, digits: str) -> bool:
    """Whether digits that are no card's are named one: of a card's length, perhaps one too few or many."""
    usual = _USUAL[0] - 1 <= len(digits) <= _USUAL[1] + 1
    if not usual or len(set(digits)) == 1 or digits[0] == "0":
        return False
    before = lower[max(0, start - BEFORE) : start]
    if _NO_CARD.search(before) or _OTHER_CARD.search(before):
        return False
    named = _CALLED_CARD.search(before) or _CARD_BEHIND.match(lower[end : end + AFTER])
    return named is not None and _CARD_WORDS.judge(lower, start, end) is not False


def _in_longer(lower: str, start: int, end: int, between: str) -> bool:
    """Whether the groups go on, before or behind, with the same separator."""
    width = len(between) + 1
    before, behind = lower[max(0, start - width) : start], lower[end : end + width]
    return (before[1:] == between and before[0].isdigit()) or (behind[:-1] == between and behind[-1].isdigit())


def _evenly(run: str) -> bool:
    """Whether all groups but the last have one length: one number pulled apart, not several."""
    return len({end - start for start, end in digit_groups(run)[:-1]}) == 1


# International bank account numbers

# Countries by the length of their numbers. Source: SWIFT, IBAN Registry (ISO 13616).
_IBAN_LENGTHS = {
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

COUNTRY_LENGTH = {
    country.lower(): length for length, countries in _IBAN_LENGTHS.items() for country in countries.split()
}
_COUNTRIES = "|".join(sorted(COUNTRY_LENGTH))

_HEAD = rf"(?:^|[^a-z0-9])(?:{_COUNTRIES})[ -]?[0-9][ -]?[0-9]"

# what a text has, at least, in which there may be one
IBAN_SHAPES = {"iban": (rf"{_HEAD}(?:[ .-]{{0,2}}[a-z0-9]){{11}}",)}

_START = LinearRegex(_HEAD)
_SMALL_LETTERS = frozenset(string.ascii_lowercase)
_GOES_ON = _SMALL_LETTERS.union(string.digits)
_WIDEST = 3  # characters that each of an IBAN takes, at most
_FOUR, _APART = 4, 2  # sizes of groups in which IBANs are written; of those that are pulled apart the largest
_SEPARATORS = str.maketrans("", "", " .-")
# candidates of a text whose check digits are verified; what has the usual form beyond them counts as found
_CHECKED = 400

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


# Social security numbers

# what a text has, at least, in which there may be one
SSN_SHAPES = {
    "ssn": (rf"[0-9]{{3}}{BETWEEN.pattern}[0-9]{{2}}{BETWEEN.pattern}[0-9]{{4}}",),
    "ssn named": (r"ssn|social|soc sec|\bitin\b|\btin\b|tax",),
}

_SSN_LENGTHS = (3, 2, 4)
_SSN_DIGITS = sum(_SSN_LENGTHS)
_NINE_DIGITS = LinearRegex(rf"[0-9](?:[-. ]?[0-9]){{{_SSN_DIGITS - 1},}}")
_SSN_WORDS = NearWords("ssn|ssns|social|social security|socials|soc sec|itin|taxpayer|tax payer")


def is_ssn(digits: str) -> bool:
    """Whether nine digits may be a social security number.

    Those that are not assigned (Social Security Administration): area 000, 666 and 900 to 999, group 00, serial
    0000.

    >>> is_ssn("123456789"), is_ssn("666456789"), is_ssn("123006789"), is_ssn("987654321")
    (True, False, False, False)
    """
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def find_ssns(text: TextReading) -> Iterator[Span]:
    """Social security numbers: 3-2-4, or nine digits that words name, which may be mistyped, or an ITIN."""
    lower = text.plain
    if "ssn" in text.shapes:
        for count, (first, second, third) in enumerate(_ssns(lower, text.digits)):
            start, end = first[0], third[1]
            assigned = is_ssn(lower[start : first[1]] + lower[slice(*second)] + lower[third[0] : end])
            between, again = lower[first[1] : second[0]], lower[second[1] : third[0]]
            words = _SSN_WORDS.judge(lower, start, end) if count < JUDGED else assigned
            if words and not assigned:
                yield Span(start, end, "ssn", 0.7)
            elif assigned and (words or (words is None and between == again)):
                yield Span(start, end, "ssn", 0.95 if words or "-" in between else 0.75)
    if "ssn named" in text.shapes:
        for row in _NINE_DIGITS.finditer(lower):
            start, end = row.start, row.end
            number = digits_of(lower[start:end]) if end - start < 2 * _SSN_DIGITS else ""
            employer = lower[start + 2 : start + 3] == "-" and number[2:] == lower[start + 3 : end]
            if len(number) == _SSN_DIGITS and not employer and _SSN_WORDS.judge(lower, start, end):
                yield Span(start, end, "ssn", 0.9 if is_ssn(number) else 0.7)


def _ssns(lower: str, groups: Sequence[Group]) -> Iterator[Sequence[Group]]:
    """Groups of 3, 2 and 4 digits that are no part of a longer row."""
    lengths = [end - start for start, end in groups]
    free = 0
    for at, sizes in enumerate(zip(lengths, lengths[1:], lengths[2:], strict=False)):
        if sizes != _SSN_LENGTHS or at < free:
            continue
        first, second, third = three = groups[at : at + 3]
        if (
            BETWEEN.matches(lower[first[1] : second[0]])
            and BETWEEN.matches(lower[second[1] : third[0]])
            and not lower.startswith("%", third[1])
            and not _joined(lower, groups, at - 1, at)
            and not _joined(lower, groups, at + 2, at + 3)
        ):
            yield three
            free = at + 3


def _joined(lower: str, groups: Sequence[Group], before: int, behind: int) -> bool:
    """Whether there are two groups with a single hyphen or full stop between them."""
    if before < 0 or behind == len(groups):
        return False
    end, start = groups[before][1], groups[behind][0]
    return start - end == 1 and lower[end] in "-."
