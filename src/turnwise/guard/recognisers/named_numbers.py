"""Numbers of a person that only words beside them tell: accounts, records, policies, passports and the like."""

from __future__ import annotations

import string
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from turnwise.guard.recognisers.number_names import NAMES, NumberName
from turnwise.guard.recognisers.numbers import OTHER_NUMBERS, Digits
from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex

SHAPES: Mapping[str, tuple[str, ...]] = {kind: name.hints for kind, name in NAMES.items()}
"""What a text has, at least, in which there may be one; by kind."""

_LINKS = (
    "no|nr|num|nos|number|numbers|is|are|was|be|id|the|my|our|your|his|her|their|its|it|s|of|code|card|us|uk|eu|"
    "for|"
    "on|file|record|with|at|you|we|i|have|here|which|that|this|reads|says|as|follows|follow|should|now|just|"
    "sorry|"
    "still|and|current|new|old|correct|full|registered|issued|printed|shown|listed|patient|ist|lautet|nummer|"
    "die|der|"
    "meine|es|est|el|la|le|mi|mon|ma|il|mio|meu|minha|o|numero|del|de|di|da|du|van|bij"
)
_LINK = rf"(?:[^\pL\pN_]{{1,3}}|é|è|número|numéro|是|为|は|(?:{_LINKS})\b){{0,16}}"
_LINKED = LinearRegex(rf"{_LINK}\b[a-z0-9]")
"""What may stand between a name and its value, and the beginning of the value."""

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
"""A value that stands before its name, in what stands before that."""

_TOLD = LinearRegex(r"(?:is|was|ist|es|est|be|my|our|your|his|her|their|the|\() ?$")
"""What such a value is told to be a name's by: more than a comma or a hyphen."""

_NO_NAME = frozenset(
    f"{OTHER_NUMBERS}|example|sample|dummy|placeholder|fake|fictional|template|mock|software|session|request|gift|"
    "library|loyalty|email|e-mail|username|twitter|instagram|github|steam|game|page|line|room|hotel|flight|seat|"
    "bus|"
    "train".split("|")
)
"""Words right before a name that make it another's, or nobody's."""

_OTHER_NAMES = LinearRegex(
    rf"\b(?:{OTHER_NUMBERS}|phone|telephone|call|ext|extension|fax|zip|postcode|date|year|balance|amount|limit|"
    rf"total|"
    r"fee|cost|price|premium|minimum|maximum|deadline|pin|code|length|format|example|e\.g|such|like|sample|dummy|"
    r"population|distance|score|between|if|when|whether|unless|because)\b"
)
"""Words between a name and a number that make it another's."""

_READ = 32
"""Names of a kind in a text whose numbers are read; behind those beyond them a number counts by its form alone."""

_AHEAD, _BEHIND = 128, 56
"""Characters behind and before a name in which its value is looked for."""


def find_named(lower: str, digits: Digits, kind: str) -> Iterator[Span]:
    """Numbers of a kind (a key of `SHAPES`) behind or before words that name them, with little or nothing between.

    A date or an amount is none, nor is a number that words between the two call another's, such as an order's.
    Takes time linear in the length of the text.
    """
    if not digits.starts:
        return
    for name in NAMES[kind].names:
        yield from _find(lower, digits, kind, name)


class _Place(NamedTuple):
    """Where a name stands, and whether it says more than a common word such as "account" does."""

    start: int
    end: int
    strong: bool


def _find(lower: str, digits: Digits, kind: str, name: NumberName) -> Iterator[Span]:
    groups, starts = digits
    behind = count = 0
    for ((begin, end),) in _names(name).spans(lower):
        start = begin + (not lower[begin].isalnum())
        index = bisect_left(starts, end)
        ahead = index < len(starts) and starts[index] < end + _AHEAD
        before = index > 0 and groups[index - 1][1] > max(behind, start - _BEHIND)
        if start < behind or not (ahead or before) or _goes_on(lower, start, end, name):
            continue
        count += 1
        if count > _READ:
            yield from _by_form(lower, start, kind, name)
            return
        if lower.endswith(" ", 0, start) and _word_before(lower, start) in _NO_NAME:
            continue
        place = _Place(start, end, strong=_is_one_of(name.strong, lower[start:end]))
        found = (_ahead(lower, place, name) if ahead else None) or (
            _behind(lower, place, name, behind) if before and name.before else None
        )
        if found is not None:
            first, last, confidence = found
            behind = max(last, end)
            yield Span(first, last, kind, confidence)


def _goes_on(lower: str, start: int, end: int, name: NumberName) -> bool:
    """Whether a name is only the beginning of a word, in a script that puts spaces between words."""
    if not (lower[end - 1].isalpha() and lower[end : end + 1].isalpha()):
        return False
    return not _is_one_of(name.joined, lower[start:end])


def _is_one_of(names: str, text: str) -> bool:
    return bool(names) and _whole(names).match(text) is not None


def _by_form(lower: str, at: int, kind: str, name: NumberName) -> Iterator[Span]:
    """The digits that stand right behind a name, from an offset on."""
    for ((start, end),) in _forms(name).spans(lower[at:]):
        text = lower[at + start : at + end]
        yield Span(at + start + len(text.rstrip(string.digits)), at + end, kind, 0.5)


# Expressions without groups: where there are many finds, groups cost ten times as much.
@cache
def _names(name: NumberName) -> LinearRegex:
    spaced = "|".join(filter(None, (name.strong, name.weak)))
    return LinearRegex(rf"(?:^|[^\pL\pN])(?:{spaced})" + (f"|{name.joined}" if name.joined else ""))


@cache
def _forms(name: NumberName) -> LinearRegex:
    forms = [rf"(?:{name.strong})[^0-9\n]{{0,24}}[0-9]{{4,}}"] if name.strong else []
    forms += [rf"(?:{name.weak})[^0-9\n]{{0,3}}[0-9]{{6,}}"] if name.weak else []
    return LinearRegex(rf"(?:^|[^\pL\pN])(?:{'|'.join(forms)})")


@cache
def _whole(names: str) -> LinearRegex:
    return LinearRegex(rf"(?:{names})$")


def _word_before(lower: str, start: int) -> str:
    return lower[max(0, start - 24) : start].rstrip(" -").rpartition(" ")[2].lstrip("(\"'")


def _ahead(lower: str, place: _Place, name: NumberName) -> tuple[int, int, float] | None:
    text = lower[place.end : place.end + _AHEAD]
    link = _LINKED.match(text)
    if link is not None and (link.end > 1 or lower.endswith(name.glued, place.start, place.end)):
        length = name.value.read(text[link.end - 1 :])
        if length:
            start = place.end + link.end - 1
            return start, start + length, 0.7
    gap = _GAP.match(text) if place.strong else None
    if gap is None or _OTHER_NAMES.search(gap[1]):
        return None
    length = name.value.read(text[gap.end - 1 :])
    start = place.end + gap.end - 1
    return (start, start + length, 0.6) if length else None


def _behind(lower: str, place: _Place, name: NumberName, least: int) -> tuple[int, int, float] | None:
    first = max(least, place.start - _BEHIND)
    text = lower[first : place.start]
    found = _BEFORE.search(text)
    if found is None or not _TOLD.search(text):
        return None
    start = first + found.start
    for word in found[1].split(" "):
        if word in _NO_NAME:
            return None
        if any(map(str.isdigit, word)):
            break
        start += len(word) + 1
    value = lower[start : first + found.start + len(found[1])]
    if _word_before(lower, start) in _NO_NAME or not value or name.value.read(value) != len(value):
        return None
    return start, start + len(value), 0.6
