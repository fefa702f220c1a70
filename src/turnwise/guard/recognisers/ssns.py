"""Social security numbers of the United States."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnwise.guard.recognisers.numbers import BETWEEN, JUDGED, NearWords
from turnwise.guard.recognisers.text import Group, Span, TextReading, digits_of
from turnwise.linear_regex import LinearRegex

_BETWEEN = BETWEEN.pattern

SHAPES = {
    "ssn": (rf"[0-9]{{3}}{_BETWEEN}[0-9]{{2}}{_BETWEEN}[0-9]{{4}}",),
    "ssn named": (r"ssn|social|soc sec|\bitin\b|\btin\b|tax",),
}
"""What a text has, at least, in which there may be one."""

_LENGTHS = (3, 2, 4)
_DIGITS = sum(_LENGTHS)
_ROW = LinearRegex(rf"[0-9](?:[-. ]?[0-9]){{{_DIGITS - 1},}}")
_WORDS = NearWords("ssn|ssns|social|social security|socials|soc sec|itin|taxpayer|tax payer")


def is_ssn(digits: str) -> bool:
    """Whether nine digits may be a social security number.

    Those that are not assigned (Social Security Administration): area 000, 666 and 900 to 999, group 00, serial
    0000.

    >>> is_ssn("123456789"), is_ssn("666456789"), is_ssn("123006789"), is_ssn("987654321")
    (True, False, False, False)
    """
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def find_ssns(text: TextReading) -> Iterator[Span]:
    """Social security numbers: grouped 3-2-4, or any nine digits with words near that name them.

    One that words name counts whatever its area: it may be mistyped, or a taxpayer's (ITIN), which begins with 9.
    """
    lower = text.plain
    if "ssn" in text.shapes:
        for count, (first, second, third) in enumerate(_numbers(lower, text.digits)):
            start, end = first[0], third[1]
            assigned = is_ssn(lower[start : first[1]] + lower[slice(*second)] + lower[third[0] : end])
            between, again = lower[first[1] : second[0]], lower[second[1] : third[0]]
            words = _WORDS.judge(lower, start, end) if count < JUDGED else assigned
            if words and not assigned:
                yield Span(start, end, "ssn", 0.7)
            elif assigned and (words or (words is None and between == again)):
                yield Span(start, end, "ssn", 0.95 if words or "-" in between else 0.75)
    if "ssn named" in text.shapes:
        for row in _ROW.finditer(lower):
            start, end = row.start, row.end
            number = digits_of(lower[start:end]) if end - start < 2 * _DIGITS else ""
            employer = lower[start + 2 : start + 3] == "-" and number[2:] == lower[start + 3 : end]
            if len(number) == _DIGITS and not employer and _WORDS.judge(lower, start, end):
                yield Span(start, end, "ssn", 0.9 if is_ssn(number) else 0.7)


def _numbers(lower: str, groups: Sequence[Group]) -> Iterator[Sequence[Group]]:
    """Groups of 3, 2 and 4 digits that are no part of a longer row."""
    lengths = [end - start for start, end in groups]
    free = 0
    for at, sizes in enumerate(zip(lengths, lengths[1:], lengths[2:], strict=False)):
        if sizes != _LENGTHS or at < free:
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
