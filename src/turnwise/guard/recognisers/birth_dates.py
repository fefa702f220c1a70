"""Dates of birth: dates behind words that say so, or beside the name of a patient, customer or the like."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from turnwise.guard.recognisers.text import Span, TextReading
from turnwise.linear_regex import LinearRegex

SHAPES = {
    "birth_date": (
        r"birth|\bdob\b|d\.o\.b|\bborn\b|\bbday\b|\bb-day\b|geboren|\bgeb\.|geburt|naissance|\bnée? le\b|"
        r"nacimiento|"
        r"\bnac[ií]|nascita|\bnat[oa] il|nascimento|nascid|рожд|出生|生年月日|생년월일|"
        r"(?:patient|customer|client|insured|applicant|policyholder|name)[^0-9\n]*[0-9]{1,4}[./-]",
    ),
}
"""What a text has, at least, in which there may be one."""

_MONTHS = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|j[aä]n|mär|mai|okt|dez|fév|fev|avr|juin|juil|aoû|aou|"
    r"déc|ene|"
    r"abr|ago|dic|gen|mag|giu|lug|set|ott|out)[a-zäéûç]{0,8}\.?"
)
_YEAR = r"(?:19[0-9]{2}|20[0-4][0-9])"
_DAY, _SIGN = "[0-3]?[0-9]", " ?[./-] ?"
_NUMERIC = rf"(?:{_DAY}{_SIGN}{_DAY}{_SIGN}(?:{_YEAR}|[0-9]{{2}})|{_YEAR}{_SIGN}{_DAY}{_SIGN}{_DAY})"
_IN_WORDS = (
    rf"(?:[0-3]?[0-9](?:st|nd|rd|th|er|\.|º)?[ -](?:of |de |d')?{_MONTHS},?[ -](?:de |del )?{_YEAR}|"
    rf"{_MONTHS}[ -][0-3]?[0-9](?:st|nd|rd|th)?,?[ -]{_YEAR}|{_YEAR}年 ?[0-1]?[0-9]月 ?[0-3]?[0-9]日?)"
)
_END = r"(?:$|[^a-z0-9./-]|[./-](?:$|[^0-9]))"

_LABEL = LinearRegex(
    r"(?:^|[^\pL\pN])(date of birth|birth ?date|dob|d\.o\.b\.?|birthday|bday|b-day|geburtsdatum|geburtstag|"
    r"date de "
    r"naissance|fecha de nacimiento|data di nascita|data de nascimento|дата рождения|born|geboren|geb\.|née?|"
    r"nac\.|"
    r"nacid[oa]|nat[oa]|nascid[oa])|(出生日期|出生年月日|生年月日|생년월일)"
)
_BORN = ("born", "geboren", "geb.", "né", "née", "nac.", "nacido", "nacida", "nato", "nata", "nascido", "nascida")
_ON_FORMS = (
    "date of birth",
    "dob",
    "d.o.b.",
    "d.o.b",
    "birth date",
    "birthdate",
    "geburtsdatum",
    "fecha de nacimiento",
)
_MONTH = LinearRegex(r"[a-z]{3}")
_LINK = (
    r"(?:[^\pL\pN]{1,3}|(?:is|was|on|the|my|our|your|his|her|their|of|am|ist|es|est|le|el|il|em|и|для|as|date|"
    r"patient|"
    r"member|customer|listed|it|s|dd|mm|yyyy|yy)\b|è|é|是|为|は){0,10}"
)
_BEHIND = LinearRegex(rf"^{_LINK}({_NUMERIC}|{_IN_WORDS}){_END}")
_OF_NAME = LinearRegex(
    rf"^(?:,| for| of)? (?:the )?[^0-9.?!;\n]{{1,40}}?(?:is|was|on|[:=]|as) ?({_NUMERIC}|{_IN_WORDS}){_END}"
)
"""A label with whose birth it is between it and the date."""

_SOMEBODY = LinearRegex(
    r"(?:\b(?:i|i'm|i am|we|my (?:[a-z]+ )?(?:son|daughter|wife|husband|mother|father|mom|mum|dad|child|kid|"
    r"brother|"
    r"sister|partner|baby|client|patient|customer|employee)|patient|client|customer|applicant|employee|insured|"
    r"tenant|resident|member|claimant|defendant|mr|mrs|ms|miss|he|she|they|ich|je|suis|yo|nací|"
    r"sono)\b[^.?!;\n]{0,40})$"
)
"""Words before "born" with which it tells of somebody in person: a life told in prose is common knowledge."""

_NAMED = LinearRegex(
    rf"\b(?:patient|customer|client|insured|applicant|policyholder|name)(?:'s)?(?: name)?(?: is|:| -|,)? ?"
    rf"([^0-9\n.?!;:]{{2,40}}?)[,(;-]? ?({_NUMERIC}){_END}"
)
"""A person's name with a date right behind it."""

_WORDS_BETWEEN = LinearRegex(
    r"\b(?:on|since|until|by|from|at|due|visit|visited|appointment|ordered|joined|paid|date|for|of|was|is|has|"
    r"the|in|"
    r"seen|admitted|discharged|signed|before|after|per|and)\b"
)
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
    for _, *groups in _LABEL.spans(lower):
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
        date = _date(_BEHIND, ahead) or (_date(_OF_NAME, ahead) if label in _ON_FORMS else None)
        if date is not None and (
            somebody or (_in_brackets(lower, start) and not _MONTH.search(ahead[slice(*date)]))
        ):
            behind = end + date[1]
            yield Span(end + date[0], behind, "birth_date", 0.8)
    yield from _beside_names(lower)


def _date(pattern: LinearRegex, text: str) -> tuple[int, int] | None:
    """Where the date stands in a text that begins as a pattern says."""
    first = next(iter(pattern.spans(text)), None)
    return first[1] if first is not None and first[0][0] == 0 else None


def _in_brackets(lower: str, start: int) -> bool:
    """Whether a label stands right behind a bracket or comma, as behind a name on a form."""
    return lower[max(0, start - 2) : start].rstrip(" ").endswith(("(", ","))


def _tells_of_somebody(lower: str, start: int) -> bool:
    return _SOMEBODY.search(lower[max(0, start - _BEFORE) : start]) is not None or not lower[:start].strip()


def _beside_names(lower: str) -> Iterator[Span]:
    for count, (_, name, date) in enumerate(_NAMED.spans(lower)):
        if count == _READ:
            return
        words = lower[slice(*name)]
        year = max(map(int, filter(None, _numbers(lower[slice(*date)]))), default=0)
        if 1900 <= year <= _LATEST and " " in words.strip() and not _WORDS_BETWEEN.search(words):
            yield Span(*date, "birth_date", 0.6)


def _numbers(date: str) -> list[str]:
    return "".join(mark if mark.isdigit() else " " for mark in date).split(" ")
