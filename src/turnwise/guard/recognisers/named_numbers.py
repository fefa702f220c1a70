"""Numbers of a person that only words beside them tell: accounts, records, policies, passports and the like.

What they are called, and how each kind is written, stands in ``number_names.yaml``.
"""

from __future__ import annotations

import string
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from turnwise.guard.recognisers.numbers import OTHER_NUMBERS
from turnwise.guard.recognisers.tables import filled, marked, read_table
from turnwise.guard.recognisers.text import Span, TextReading, digits_of
from turnwise.linear_regex import LinearRegex

# How numbers are written

_TOKEN = LinearRegex(r"[a-z0-9]+(?:[-./_][a-z0-9]+){0,8}")
_NEXT = LinearRegex(r" ((?:[a-z] )?[a-z0-9]+(?:[-./][a-z0-9]+){0,3})")
_GROUPS = 20
"""Groups of a number that spaces part, at most."""

_LETTERS = 4
"""Letters, at most, that stand before a number as a group of their own."""

_SHORT_WORDS = frozenset("is on at in to by of or if as an and the for was has had not".split())  # noqa: SIM905
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
        elif len(group) > _LETTERS or group in _SHORT_WORDS:
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


# What they are called


@dataclass(frozen=True)
class NumberName:
    """What a kind of number is called, in patterns, and how it is written; the file says what is what."""

    value: NumberValue
    strong: str = ""
    weak: str = ""
    joined: str = ""
    glued: tuple[str, ...] = ("#",)
    before: bool = True

    # Expressions without groups: where there are many finds, groups cost ten times as much.
    @cached_property
    def anywhere(self) -> LinearRegex:
        """A name, with the character before it where that is a space or sign."""
        spaced = "|".join(filter(None, (self.strong, self.weak)))
        return LinearRegex(rf"(?:^|[^\pL\pN])(?:{spaced})" + (f"|{self.joined}" if self.joined else ""))

    @cached_property
    def with_digits(self) -> LinearRegex:
        """A name with digits right behind it."""
        forms = [rf"(?:{self.strong})[^0-9\n]{{0,24}}[0-9]{{4,}}"] if self.strong else []
        forms += [rf"(?:{self.weak})[^0-9\n]{{0,3}}[0-9]{{6,}}"] if self.weak else []
        return LinearRegex(rf"(?:^|[^\pL\pN])(?:{'|'.join(forms)})")

    @cached_property
    def _strong(self) -> LinearRegex:
        return LinearRegex(rf"(?:{self.strong})$")

    @cached_property
    def _joined(self) -> LinearRegex:
        return LinearRegex(rf"(?:{self.joined})$")

    def is_strong(self, written: str) -> bool:
        """Whether a name is one of nothing else."""
        return bool(self.strong) and self._strong.match(written) is not None

    def is_joined(self, written: str) -> bool:
        """Whether a name is in a script that puts no spaces between words."""
        return bool(self.joined) and self._joined.match(written) is not None


class NamedKind(NamedTuple):
    """A kind of number: what a text with one has, at least, and what it is called."""

    hints: str
    names: Sequence[NumberName]


@cache
def named_kinds() -> Mapping[str, NamedKind]:
    """The kinds of numbers that words name."""
    data = read_table("number_names.yaml")
    parts = marked(data["words"])

    def any_of(patterns: Sequence[str]) -> str:
        return filled("|".join(patterns), parts)

    def name_of(row: Mapping[str, Any]) -> NumberName:
        value = NumberValue(**{**row["value"], "forms": tuple(row["value"].get("forms", ()))})
        names = {part: any_of(row.get(part, ())) for part in ("strong", "weak", "joined")}
        return NumberName(value, **names, glued=tuple(row.get("glued", "#")), before=row.get("before", True))

    return {
        kind: NamedKind(any_of(row["hints"]), [name_of(each) for each in row["names"]])
        for kind, row in data["kinds"].items()
    }


# Where they stand beside their names

_LINKS = """
no nr num nos number numbers is are was be id the my our your his her their its it s of code card us uk eu for on
file record with at you we i have here which that this reads says as follows follow should now just sorry still and
current new old correct full registered issued printed shown listed patient ist lautet nummer die der meine es est
el la le mi mon ma il mio meu minha o numero del de di da du van bij
""".split()  # noqa: SIM905 - a list of words reads best as words
_LINK = rf"(?:[^\pL\pN_]{{1,3}}|é|è|número|numéro|是|为|は|(?:{'|'.join(_LINKS)})\b){{0,16}}"
_LINKED = LinearRegex(rf"{_LINK}\b[a-z0-9]")
"""What may stand between a name and its number, and the beginning of the number."""

_GAP = LinearRegex(
    r"([^0-9.?!;\n]{0,48}?)(?:\b(?:is|was|are|ist|lautet|es|est)\b|[:#=]| è | é )[^\pL\pN_\n]{0,3}\b[a-z0-9]"
)
"""The same where other words stand between, such as whose the number is."""

_BEFORE = LinearRegex(
    r"([a-z0-9]+(?:[ ./-][a-z0-9]+){0,6}?)"
    r"(?: (?:is|was|ist|es|est|would be|should be|as)|,| ?[-=(]+| ?- (?:that's|this is|thats))"
    r"(?: (?:also|actually|just|still|really|my|our|your|his|her|their|the|a|an|old|new|current|main|is|that's|"
    r"meine|mein|mi|mon|ma|su|il|mio|minha|meu|patient's|customer's|employee's))*[ (]*$"
)
"""A number that stands before its name, in what stands before that."""

_TOLD = LinearRegex(r"(?:is|was|ist|es|est|be|my|our|your|his|her|their|the|\() ?$")
"""What such a number is told to be a name's by: more than a comma or a hyphen."""

_NO_NAME = frozenset(
    f"{OTHER_NUMBERS}|example|sample|dummy|placeholder|fake|fictional|template|mock|software|session|request|gift|"
    "library|loyalty|email|e-mail|username|twitter|instagram|github|steam|game|page|line|room|hotel|flight|seat|"
    "bus|train".split("|")
)
"""Words right before a name that make it another's, or nobody's."""

_OTHER_NAMES = LinearRegex(
    rf"\b(?:{OTHER_NUMBERS}|phone|telephone|call|ext|extension|fax|zip|postcode|date|year|balance|amount|limit|"
    r"total|fee|cost|price|premium|minimum|maximum|deadline|pin|code|length|format|example|e\.g|such|like|sample|"
    r"dummy|population|distance|score|between|if|when|whether|unless|because)\b"
)
"""Words between a name and a number that make it another's."""

_READ = 32
"""Names of a kind in a text whose numbers are read; behind those beyond them a number counts by its form alone."""

_NEAR_AHEAD, _NEAR_BEFORE = 128, 56
"""Characters behind and before a name in which its number is looked for."""


class _Number(NamedTuple):
    """Where a number stands, and how sure it is that the name beside it is its own."""

    start: int
    end: int
    confidence: float


def find_named(text: TextReading, kind: str) -> Iterator[Span]:
    """Numbers of a kind behind or before words that name them, with little or nothing between.

    A date or an amount is none, nor is a number that words between the two call another's, such as an order's.
    Takes time linear in the length of the text.
    """
    if kind in text.shapes and text.digits:
        for name in named_kinds()[kind].names:
            for start, end, confidence in _numbers(text, name):
                yield Span(start, end, kind, confidence)


def _numbers(text: TextReading, name: NumberName) -> Iterator[_Number]:
    lower, starts = text.plain, text.digit_starts
    behind = read = 0
    for ((begin, end),) in name.anywhere.spans(lower):
        start = begin + (not lower[begin].isalnum())
        if start < behind:
            continue
        index = bisect_left(starts, end)
        digits_ahead = index < len(starts) and starts[index] < end + _NEAR_AHEAD
        digits_before = index > 0 and text.digits[index - 1][1] > max(behind, start - _NEAR_BEFORE)
        if not (digits_ahead or digits_before) or _goes_on(lower, start, end, name):
            continue
        if read == _READ:
            yield from _by_form(lower, start, name)
            return
        read += 1
        if lower.endswith(" ", 0, start) and _word_before(lower, start) in _NO_NAME:
            continue
        number = _ahead(lower, start, end, name) if digits_ahead else None
        if number is None and digits_before and name.before:
            number = _before(lower, max(behind, start - _NEAR_BEFORE), start, name)
        if number is not None:
            behind = max(number.end, end)
            yield number


def _goes_on(lower: str, start: int, end: int, name: NumberName) -> bool:
    """Whether a name is only the beginning of a word, in a script that puts spaces between words."""
    return lower[end - 1].isalpha() and lower[end : end + 1].isalpha() and not name.is_joined(lower[start:end])


def _word_before(lower: str, start: int) -> str:
    return lower[max(0, start - 24) : start].rstrip(" -").rpartition(" ")[2].lstrip("(\"'")


def _by_form(lower: str, at: int, name: NumberName) -> Iterator[_Number]:
    """The digits that stand right behind a name, from an offset on."""
    for ((start, end),) in name.with_digits.spans(lower[at:]):
        written = lower[at + start : at + end]
        yield _Number(at + start + len(written.rstrip(string.digits)), at + end, 0.5)


def _ahead(lower: str, start: int, end: int, name: NumberName) -> _Number | None:
    """The number behind a name: right behind it or linking words, or behind others that say whose it is."""
    ahead = lower[end : end + _NEAR_AHEAD]
    link = _LINKED.match(ahead)
    if link is not None and (link.end > 1 or lower.endswith(name.glued, start, end)):
        length = name.value.read(ahead[link.end - 1 :])
        if length:
            first = end + link.end - 1
            return _Number(first, first + length, 0.7)
    gap = _GAP.match(ahead) if name.is_strong(lower[start:end]) else None
    if gap is None or _OTHER_NAMES.search(gap[1]):
        return None
    length = name.value.read(ahead[gap.end - 1 :])
    first = end + gap.end - 1
    return _Number(first, first + length, 0.6) if length else None


def _before(lower: str, least: int, start: int, name: NumberName) -> _Number | None:
    """The number that words call by the name behind them, as in "12345 is my account number"."""
    before = lower[least:start]
    found = _BEFORE.search(before)
    if found is None or not _TOLD.search(before):
        return None
    first, end = least + found.start, least + found.start + len(found[1])
    for word in found[1].split(" "):
        if word in _NO_NAME:
            return None
        if any(map(str.isdigit, word)):
            break
        first += len(word) + 1
    written = lower[first:end]
    if not written or _word_before(lower, first) in _NO_NAME or name.value.read(written) != len(written):
        return None
    return _Number(first, end, 0.6)
