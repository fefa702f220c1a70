"""Numbers and dates of a person that only words beside them tell: accounts, passports, dates of birth.

What they are called, and how each kind is written, stands in ``number_labels.yaml`` and ``birth_dates.yaml``,
what stands around one in ``number_context.yaml``.
"""

from __future__ import annotations

import string
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from turnwise.guard.recognisers.patterns import PatternTable, filled, marked, read_table
from turnwise.guard.recognisers.text import OTHER_NUMBERS, Span, TextReading, digit_groups, digits_of
from turnwise.linear_regex import LinearRegex

_CONTEXT = PatternTable("number_context.yaml")  # what stands around a number

# How numbers are written

_TOKEN = LinearRegex(r"[a-z0-9]+(?:[-./_][a-z0-9]+){0,8}")
_NEXT = LinearRegex(r" ((?:[a-z] )?[a-z0-9]+(?:[-./][a-z0-9]+){0,3})")
_GROUPS = 20  # groups of a number that spaces part, at most
_LETTERS = 4  # letters, at most, that stand before a number as a group of their own

# short words that are none
_SHORT_WORDS = frozenset("is on at in to by of or if as an and the for was has had not".split())  # noqa: SIM905


class NumberValue(NamedTuple):
    """How a kind of number is written; `fewest` counts digits, and is 0 where it has one of the forms only.

    The forms (RE2, for whole numbers) are taken whatever the rest says; `checked`: as routing numbers are.

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
        return 0 if best and _CONTEXT["unit"].match(text[best:]) else best

    def _is_number(self, text: str) -> bool:
        signs = sum(map(str.isalnum, text))
        digits = digits_of(text)
        if len(digits) < self.fewest or not self.shortest <= signs <= self.longest:
            return False
        if self.digits_only and len(digits) < signs:
            return False
        if self.checked and not is_routing_number(digits):
            return False
        return len(set(digits)) > 1 and _CONTEXT["no_number"].match(text) is None


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


@cache
def _whole(form: str) -> LinearRegex:
    return LinearRegex(rf"(?:{form})$")


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

    def is_strong(self, written: str) -> bool:
        """Whether a name is one of nothing else."""
        return bool(self.strong) and _whole(self.strong).match(written) is not None

    def is_joined(self, written: str) -> bool:
        """Whether a name is in a script that puts no spaces between words."""
        return bool(self.joined) and _whole(self.joined).match(written) is not None


class NamedKind(NamedTuple):
    """A kind of number: what a text with one has, at least, and what it is called."""

    hints: str
    names: Sequence[NumberName]


@cache
def named_kinds() -> Mapping[str, NamedKind]:
    """The kinds of numbers that words name."""
    data = read_table("number_labels.yaml")
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

# words right before a name that make it another's, or nobody's
_NO_NAME = frozenset(
    f"{OTHER_NUMBERS}|example|sample|dummy|placeholder|fake|fictional|template|mock|software|session|request|gift|"
    "library|loyalty|email|e-mail|username|twitter|instagram|github|steam|game|page|line|room|hotel|flight|seat|"
    "bus|train".split("|")
)

# words between a name and a number that make it another's
_OTHER_NAMES = LinearRegex(
    rf"\b(?:{OTHER_NUMBERS}|phone|telephone|call|ext|extension|fax|zip|postcode|date|year|balance|amount|limit|"
    r"total|fee|cost|price|premium|minimum|maximum|deadline|pin|code|length|format|example|e\.g|such|like|sample|"
    r"dummy|population|distance|score|between|if|when|whether|unless|because)\b"
)

# names of a kind in a text whose numbers are read; behind those beyond them a number counts by its form alone
_READ = 32

_NEAR_AHEAD, _NEAR_BEFORE = 128, 56  # characters behind and before a name in which its number is looked for


class _NamedNumber(NamedTuple):
    """Where a number stands, and how sure it is that the name beside it is its own."""

    start: int
    end: int
    confidence: float


def find_named(text: TextReading, kind: str) -> Iterator[Span]:
    """Numbers of a kind beside words that name them, unless words between the two call them another's."""
    if kind in text.shapes and text.digits:
        for name in named_kinds()[kind].names:
            for start, end, confidence in _numbers(text, name):
                yield Span(start, end, kind, confidence)


def _numbers(text: TextReading, name: NumberName) -> Iterator[_NamedNumber]:
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


def _by_form(lower: str, at: int, name: NumberName) -> Iterator[_NamedNumber]:
    """The digits that stand right behind a name, from an offset on."""
    for ((start, end),) in name.with_digits.spans(lower[at:]):
        written = lower[at + start : at + end]
        yield _NamedNumber(at + start + len(written.rstrip(string.digits)), at + end, 0.5)


def _ahead(lower: str, start: int, end: int, name: NumberName) -> _NamedNumber | None:
    """The number behind a name: right behind it or linking words, or behind others that say whose it is."""
    ahead = lower[end : end + _NEAR_AHEAD]
    link = _CONTEXT["linked"].match(ahead)
    if link is not None and (link.end > 1 or lower.endswith(name.glued, start, end)):
        length = name.value.read(ahead[link.end - 1 :])
        if length:
            first = end + link.end - 1
            return _NamedNumber(first, first + length, 0.7)
    gap = _CONTEXT["apart"].match(ahead) if name.is_strong(lower[start:end]) else None
    if gap is None or _OTHER_NAMES.search(gap[1]):
        return None
    length = name.value.read(ahead[gap.end - 1 :])
    first = end + gap.end - 1
    return _NamedNumber(first, first + length, 0.6) if length else None


def _before(lower: str, least: int, start: int, name: NumberName) -> _NamedNumber | None:
    """The number that words call by the name behind them, as in "12345 is my account number"."""
    before = lower[least:start]
    found = _CONTEXT["before"].search(before)
    if found is None or not _CONTEXT["told"].search(before):
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
    return _NamedNumber(first, end, 0.6)


# Dates of birth: dates behind words that say so, or beside the name of a patient, customer or the like

BIRTH_DATES = PatternTable("birth_dates.yaml")

_BORN = ("born", "geboren", "geb.", "né", "née", "nac.", "nacido", "nacida", "nato", "nata", "nascido", "nascida")
# labels that whose birth it is may stand behind
# fmt: off
_ON_FORMS = (
    "date of birth", "dob", "d.o.b.", "d.o.b", "birth date", "birthdate", "geburtsdatum", "fecha de nacimiento",
)
# fmt: on

_MONTH = LinearRegex(r"[a-z]{3}")
_AHEAD, _BEFORE_DATE = 80, 60
# labels of a text whose dates are read; behind those beyond them a number that is so near counts by itself
_READ_DATES, _NEAR = 32, 3

_LATEST = 2015  # year of the latest birth that a date without a label tells


def find_birth_dates(text: TextReading) -> Iterator[Span]:
    """Dates behind words of birth or a person's name; none of a life that is told in prose."""
    lower, starts = text.plain, text.digit_starts
    if "birth_date" not in text.shapes or not starts:
        return
    behind = count = 0
    for _, *groups in BIRTH_DATES["label"].spans(lower):
        start, end = max(groups)
        index = bisect_left(starts, end)
        if index == len(starts) or start < behind:
            continue
        goes_on = groups[1][0] < 0 and lower[end : end + 1].isalpha()
        if goes_on or starts[index] > end + _AHEAD:
            continue
        count += 1
        label = lower[start:end]
        if count > _READ_DATES:
            first, last = text.digits[index]
            if label not in _BORN and first - end <= _NEAR:
                yield Span(first, last, "birth_date", 0.5)
            continue
        somebody = label not in _BORN or _tells_of_somebody(lower, start)
        ahead = lower[end : end + _AHEAD]
        date = _date_in("behind", ahead) or (_date_in("of_name", ahead) if label in _ON_FORMS else None)
        if date is not None and (
            somebody or (_in_brackets(lower, start) and not _MONTH.search(ahead[slice(*date)]))
        ):
            behind = end + date[1]
            yield Span(end + date[0], behind, "birth_date", 0.8)
    yield from _beside_names(lower)


def _date_in(pattern: str, text: str) -> tuple[int, int] | None:
    """Where the date stands in a text that begins as a pattern says."""
    first = next(iter(BIRTH_DATES[pattern].spans(text)), None)
    return first[1] if first is not None and first[0][0] == 0 else None


def _in_brackets(lower: str, start: int) -> bool:
    """Whether a label stands right behind a bracket or comma, as behind a name on a form."""
    return lower[max(0, start - 2) : start].rstrip(" ").endswith(("(", ","))


def _tells_of_somebody(lower: str, start: int) -> bool:
    before = lower[max(0, start - _BEFORE_DATE) : start]
    return BIRTH_DATES["somebody"].search(before) is not None or not lower[:start].strip()


def _beside_names(lower: str) -> Iterator[Span]:
    for count, (_, name, date) in enumerate(BIRTH_DATES["named"].spans(lower)):
        if count == _READ_DATES:
            return
        words = lower[slice(*name)]
        written = lower[slice(*date)]
        year = max((int(written[start:end]) for start, end in digit_groups(written)), default=0)
        if 1900 <= year <= _LATEST and " " in words.strip() and not BIRTH_DATES["words_between"].search(words):
            yield Span(*date, "birth_date", 0.6)
