"""Groups of digits and what people write between them."""

from __future__ import annotations

import string
from functools import lru_cache
from itertools import accumulate, chain

BETWEEN = r"(?:[-._·/ ]{1,3}| ?(?:dash|hyphen|minus|dot|space) ?)"
"""Between two groups of digits, in a text in plain form and lower case; RE2."""

Group = tuple[int, int]
"""Where a row of digits starts and ends."""

_MARKS = "-._·/ "
_SPOKEN = frozenset({"dash", "hyphen", "minus", "dot", "space"})
_LONGEST = 3
"""Marks between two groups, at most."""

_DIGITS = frozenset(string.digits.encode())
_DIGITS_ALONE = bytes(byte if byte in _DIGITS else ord(" ") for byte in range(256))
_DIGITS_OUT = bytes(ord(" ") if byte in _DIGITS else ord("x") for byte in range(256))


def digits_of(text: str) -> str:
    """Return the digits of a text.

    >>> digits_of("4111 dash 1111")
    '41111111'
    """
    return "".join(filter(str.isdigit, text))


def digit_groups(text: str) -> list[Group]:
    """Return where each row of the digits 0 to 9 starts and ends.

    >>> digit_groups("4111 dash 22")
    [(0, 4), (10, 12)]
    """
    data = text.encode("ascii", "replace")  # a byte for each character
    rows, gaps = data.translate(_DIGITS_ALONE).split(), data.translate(_DIGITS_OUT).split()
    before = [0] if data[:1].isdigit() else []
    bounds = [*accumulate(chain.from_iterable(zip([*before, *map(len, gaps)], map(len, rows), strict=False)))]
    return list(zip(bounds[::2], bounds[1::2], strict=True))


@lru_cache(maxsize=1024)
def is_between(gap: str) -> bool:
    """Tell whether a text is what `BETWEEN` matches as a whole.

    >>> is_between(" dash "), is_between("/"), is_between("and"), is_between("")
    (True, True, False, False)
    """
    if 0 < len(gap) <= _LONGEST and not gap.strip(_MARKS):
        return True
    return gap.removeprefix(" ").removesuffix(" ") in _SPOKEN
