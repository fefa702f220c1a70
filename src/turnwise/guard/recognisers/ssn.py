"""United States social security numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from turnwise.guard.recognisers.near_words import JUDGED, NearWords
from turnwise.guard.recognisers.separators import BETWEEN, digits_of
from turnwise.guard.recognisers.spans import Span

SHAPES = {
    "ssn": (rf"[0-9]{{3}}{BETWEEN}[0-9]{{2}}{BETWEEN}[0-9]{{4}}",),
    "ssn named": (r"ssn|social|soc sec|\bitin\b|\btin\b|tax",),
}
"""What a text has, at least, in which there may be one."""

_NUMBER = re.compile(
    rf"(?<![0-9])(?<![0-9][-.])([0-9]{{3}})({BETWEEN})([0-9]{{2}})({BETWEEN})([0-9]{{4}})(?![0-9%])(?![-.][0-9])"
)
_DIGITS = re.compile(r"(?<![0-9])(?<![0-9][-. ])[0-9](?:[-. ]?[0-9]){8}(?![-. ]?[0-9])")
_WORDS = NearWords(r"ssns?|social|social security|socials|soc sec|itin|taxpayer|tax payer|tax id|tin")


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
        shapes: which of `SHAPES` it has.
    """
    if "ssn" in shapes:
        for count, match in enumerate(_NUMBER.finditer(lower)):
            first, between, second, again, third = match.groups()
            if not is_ssn(first + second + third):
                continue
            words = _WORDS.judge(lower, match.start(), match.end()) if count < JUDGED else True
            if words or (words is None and between == again):
                sure = 0.95 if words or "-" in between else 0.75
                yield Span(match.start(), match.end(), "ssn", sure)
    if "ssn named" in shapes:
        for match in _DIGITS.finditer(lower):
            if is_ssn(digits_of(match.group())) and _WORDS.judge(lower, match.start(), match.end()):
                yield Span(match.start(), match.end(), "ssn", 0.9)
