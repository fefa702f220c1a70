"""How numbers are written that the words beside them name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from turnwise.guard.recognisers.text import digits_of
from turnwise.linear_regex import LinearRegex

_TOKEN = LinearRegex(r"[a-z0-9]+(?:[-./_][a-z0-9]+){0,8}")
_NEXT = LinearRegex(r" ((?:[a-z] )?[a-z0-9]+(?:[-./][a-z0-9]+){0,3})")
_GROUPS = 20
"""Groups of a number that spaces part, at most."""

_LETTERS = 4
"""Letters, at most, that stand before a number as a group of their own."""

_WORDS = frozenset("is on at in to by of or if as an and the for was has had not".split())  # noqa: SIM905
"""Short words that are none."""

_NO_NUMBER = LinearRegex(
    r"(?:[a-z]+ )?(?:(?:[0-2]?[0-9]|3[01])[./-](?:[0-2]?[0-9]|3[01])[./-](?:19|20)?[0-9]{2}"
    r"|(?:19|20)[0-9]{2}[./-][0-9]{1,2}[./-][0-9]{1,2}|[0-9]+\.[0-9]{1,2}|(?:19|20)[0-9]{2}/[0-9]+(?:/[a-z]+)?|(?:19|20)[0-9]{2})$"
)
"""Dates, years and prices."""

_UNIT = LinearRegex(
    r"[ -]?(?:%|[€£$¥]|(?:usd|eur|gbp|dollars?|euros?|pounds?|users|people|followers|points|miles|km|kg|"
    r"characters|digits|letters|times|years?|months?|days|hours|minutes|employees|students|patients|members|accounts|cars|"
    r"am|pm|per cent|percent)\b)"
)
"""What makes an amount of a number that it stands behind."""


class NumberValue(NamedTuple):
    """How a kind of number is written: letters and digits in one or several groups.

    `fewest` counts digits, and is 0 where the number has one of the forms only; `shortest` and `longest` count
    letters and digits. The forms are RE2, for whole numbers, and are taken whatever the rest says; `checked`
    numbers need the right check digit of a United States routing number.

    >>> [NumberValue(6).read(text) for text in ("0048 2913 88, thanks", "12/03/2024", "123456 km")]
    [12, 0, 0]
    """

    fewest: int
    shortest: int = 0
    longest: int = 20
    forms: tuple[str, ...] = ()
    digits_only: bool = False
    checked: bool = False

    def read(self, text: str) -> int:
        """How long the number at the beginning of a text is, in plain form and lower case; 0 if there is none."""
        for form in self.forms:
            found = _compiled(form).match(text)
            if found is not None and any(map(str.isdigit, found[1])):
                return len(found[1])
        if not self.fewest:
            return 0
        best = 0
        for end in _ends(text, self.longest):
            if self._is_number(text[:end]):
                best = end
        return 0 if best and _UNIT.match(text[best:]) else best

    def _is_number(self, text: str) -> bool:
        signs = sum(map(str.isalnum, text))
        digits = digits_of(text)
        if len(digits) < self.fewest or not self.shortest <= signs <= self.longest:
            return False
        if self.digits_only and len(digits) < signs:
            return False
        if self.checked and not is_routing_number(digits):
            return False
        return len(set(digits)) > 1 and _NO_NUMBER.match(text) is None


def _ends(text: str, longest: int) -> Iterator[int]:
    """Where a number may end: behind its first group, and behind those that go on with digits."""
    first = _TOKEN.match(text)
    if first is None:
        return
    end, group = first.end, first[0]
    yield end
    for _ in range(_GROUPS):
        following = _NEXT.match(text[end : end + longest + 2])
        if following is None:
            return
        after = following[1]
        if not any(map(str.isdigit, after)):
            return
        if any(map(str.isdigit, group)):
            short = len(group) <= _LETTERS + 2 and len(after) <= _LETTERS + 4
            if not short and not (after.isdigit() and len(after) > 2):
                return
        elif len(group) > _LETTERS or group in _WORDS:
            return
        end, group = end + following.end, after
        yield end


_WEIGHTS = (3, 7, 1) * 3


def is_routing_number(digits: str) -> bool:
    """Whether digits are a United States routing number.

    American Bankers Association, check digit with the weights 3, 7, 1.

    >>> is_routing_number("021000021"), is_routing_number("021000022")
    (True, False)
    """
    if len(digits) != len(_WEIGHTS):
        return False
    return sum(weight * int(digit) for weight, digit in zip(_WEIGHTS, digits, strict=True)) % 10 == 0


@cache
def _compiled(form: str) -> LinearRegex:
    return LinearRegex(rf"({form})(?:$|[^\pL\pN.,]|[.,](?:$|[^0-9]))")
