"""Dates of birth: dates behind words that say so, or beside the name of a patient, customer or the like.

What they are called, and how dates are written, stands in ``birth_dates.yaml``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from turnwise.guard.recognisers.tables import PatternTable
from turnwise.guard.recognisers.text import Span, TextReading
from turnwise.linear_regex import LinearRegex

PATTERNS = PatternTable("birth_dates.yaml")

_BORN = ("born", "geboren", "geb.", "né", "née", "nac.", "nacido", "nacida", "nato", "nata", "nascido", "nascida")
# fmt: off
_ON_FORMS = (
    "date of birth", "dob", "d.o.b.", "d.o.b", "birth date", "birthdate", "geburtsdatum", "fecha de nacimiento",
)
# fmt: on
"""Labels that whose birth it is may stand behind."""

_MONTH = LinearRegex(r"[a-z]{3}")
_AHEAD, _BEFORE = 80, 60
_READ, _NEAR = 32, 3
"""Labels of a text whose dates are read; behind those beyond them a number that is so near counts by itself."""

_LATEST = 2015
"""Year of the latest birth that a date without a label tells."""


def find_birth_dates(text: TextReading) -> Iterator[Span]:
    """Dates behind words of birth, or right behind a person's name.

    A date alone is none, nor is one of a life that is told in prose ("Ada Lovelace was born on 10 December 1815").
    """
    lower, starts = text.plain, text.digit_starts
    if "birth_date" not in text.shapes or not starts:
        return
    behind = count = 0
    for _, *groups in PATTERNS["label"].spans(lower):
        start, end = max(groups)
        index = bisect_left(starts, end)
        if index == len(starts) or start < behind:
            continue
        goes_on = groups[1][0] < 0 and lower[end : end + 1].isalpha()
        if goes_on or starts[index] > end + _AHEAD:
            continue
        count += 1
        label = lower[start:end]
        if count > _READ:
            first, last = text.digits[index]
            if label not in _BORN and first - end <= _NEAR:
                yield Span(first, last, "birth_date", 0.5)
            continue
        somebody = label not in _BORN or _tells_of_somebody(lower, start)
        ahead = lower[end : end + _AHEAD]
        date = _date("behind", ahead) or (_date("of_name", ahead) if label in _ON_FORMS else None)
        if date is not None and (
            somebody or (_in_brackets(lower, start) and not _MONTH.search(ahead[slice(*date)]))
        ):
            behind = end + date[1]
            yield Span(end + date[0], behind, "birth_date", 0.8)
    yield from _beside_names(lower)


def _date(pattern: str, text: str) -> tuple[int, int] | None:
    """Where the date stands in a text that begins as a pattern says."""
    first = next(iter(PATTERNS[pattern].spans(text)), None)
    return first[1] if first is not None and first[0][0] == 0 else None


def _in_brackets(lower: str, start: int) -> bool:
    """Whether a label stands right behind a bracket or comma, as behind a name on a form."""
    return lower[max(0, start - 2) : start].rstrip(" ").endswith(("(", ","))


def _tells_of_somebody(lower: str, start: int) -> bool:
    before = lower[max(0, start - _BEFORE) : start]
    return PATTERNS["somebody"].search(before) is not None or not lower[:start].strip()


def _beside_names(lower: str) -> Iterator[Span]:
    for count, (_, name, date) in enumerate(PATTERNS["named"].spans(lower)):
        if count == _READ:
            return
        words = lower[slice(*name)]
        year = max(map(int, filter(None, _numbers(lower[slice(*date)]))), default=0)
        if 1900 <= year <= _LATEST and " " in words.strip() and not PATTERNS["words_between"].search(words):
            yield Span(*date, "birth_date", 0.6)


def _numbers(date: str) -> list[str]:
    return "".join(mark if mark.isdigit() else " " for mark in date).split(" ")
