"""Telephone numbers of all countries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard.recognisers.text import JUDGED, Group, NearWords, Separators, Span, TextReading, digit_groups
from turnwise.linear_regex import LinearRegex

if TYPE_CHECKING:
    from types import ModuleType

_SEPARATORS = Separators("-.·_/ ()", ("dash", "hyphen", "minus", "dot"))
_BETWEEN = _SEPARATORS.pattern
_FIRST = r"(?:^|[^0-9])"

# a number as most countries but the United States dial it at home
_TRUNK = rf"\(?0[1-9](?:{_BETWEEN}?[0-9]){{7,10}}"

# what a text has, at least, in which there may be one
PHONE_SHAPES = {
    "phone abroad": (r"\+ ?\(?[0-9]",),
    "phone american": (
        rf"{_FIRST}(?:1{_BETWEEN}?)?\(?[2-9][0-9]{{2}}\)?{_BETWEEN}?[0-9]{{3}}{_BETWEEN}?[0-9]{{4}}(?:[^0-9]|$)",
    ),
    "phone local": (r"[2-9][0-9]{2}[-. ][0-9]{4}(?:[^0-9]|$)",),
    "phone named": (rf"(?:^|[^0-9]){_TRUNK}",),
    "phone national": (rf"{_FIRST}[0-9](?:{_BETWEEN}?[0-9]){{5}}",),
}

_ABROAD = LinearRegex(rf"\+ ?\(?[0-9](?:{_BETWEEN}?[0-9]){{6,14}}")
_AMERICAN = LinearRegex(
    r"(?:^|[^\pL\pN_+.-]|(?:^|[^0-9])[-.])"
    rf"((?:\+?1{_BETWEEN}?)?\(?([2-9][0-9][0-9])\)?({_BETWEEN}?)([0-9]{{3}})({_BETWEEN}?)([0-9]{{4}}))"
    r"(?:$|[^\pL\pN_.-]|[-.](?:$|[^0-9]))"
)
_AMERICAN_LOCAL = LinearRegex(
    r"(?:^|[^\pL\pN_+$€£#. /-]|(?:^|[^0-9])[-. /])([2-9][0-9][0-9][-. ][0-9]{4})"
    r"(?:$|[^\pL\pN_./-]|[-./](?:$|[^0-9]))"
)
_NAMED = LinearRegex(rf"(?:^|[^\pL\pN_+$€£#./-])({_TRUNK})")
_GROUPS = 3  # groups of digits, at least, of a number with ``+`` that is in no plan and that no word names
_FEWEST, _MOST = 6, 15  # digits of a national number
_DAY = "(?:[0-2]?[0-9]|3[01])"
_DATE = LinearRegex(
    "|".join(
        rf"(?:{_DAY}{sign}{_DAY}{sign}(?:19|20)?[0-9]{{2}}|(?:19|20)[0-9]{{2}}{sign}[0-9]{{1,2}}{sign}[0-9]{{1,2}})"
        r"(?:$|[^0-9./-]|[-./](?:$|[^0-9]))"
        for sign in ("-", r"\.", "/")
    )
)
_LONGEST_DATE = 12  # characters of a date and of what tells that it ends, at most
_PHONE_WORDS = NearWords(
    "phone|phones|telephone|tel|mobile|cell|cellphone|call|calls|called|calling|text me|sms|whatsapp|signal|fax|"
    "ring|dial|hotline|landline|my number|phone number|contact|reach|reached|voicemail|telefon|telefonnummer|"
    "my numbers|meine nummer|mi número|mon numéro|mio numero|meu número|rufnummer|rückruf|rufen|ruf|call me|text|"
    "appelez|appelle|llama|llámame|llame|chiama|chiamami|ligue|celular|cellulare|portable|phone me|"
    "handy|mobil|anrufen|téléphone|teléfono|telefono|móvil|m|t|p"
)
_AMERICA = 1  # country code of the North American Numbering Plan

# candidates of a text that are looked up (some 25 us each); what has the form beyond them counts as found
_READ = 64


class Phones:
    """Finds telephone numbers of some regions, by their ISO 3166 codes, and international ones of all."""

    def __init__(self, regions: Sequence[str]) -> None:
        import phonenumbers

        self._library: ModuleType = phonenumbers
        for region in regions:
            if not isinstance(region, str) or region.upper() not in phonenumbers.SUPPORTED_REGIONS:
                raise UnknownNameError("region", str(region), phonenumbers.SUPPORTED_REGIONS)
        if not regions:
            raise GuardError("regions is empty; name at least one, such as US")
        codes = {region.upper(): phonenumbers.country_code_for_region(region.upper()) for region in regions}
        self._american = next((region for region, code in codes.items() if code == _AMERICA), None)
        self._others = {
            region: phonenumbers.ndd_prefix_for_region(region, True) or ""
            for region, code in codes.items()
            if code != _AMERICA
        }
        for region in codes:  # the library reads a region's plan when it is first asked
            example = phonenumbers.example_number(region)
            if example is not None:
                phonenumbers.is_valid_number(example)

    def written(self, text: str) -> Iterator[str]:
        """The ways a text is a possible number: ``+``, the code of a country and the rest, in digits."""
        text = _SEPARATORS.with_hyphens(text.lower())
        for region in (self._american, *self._others):
            with suppress(self._library.NumberParseException):
                number = self._library.parse(text, region)
                if self._library.is_possible_number(number):
                    yield self._library.format_number(number, self._library.PhoneNumberFormat.E164)

    def find(self, text: TextReading) -> Iterator[Span]:
        """Telephone numbers in a text in plain form and lower case."""
        lower, shapes = text.plain, text.shapes
        reads = [0]
        if "phone abroad" in shapes:
            for match in _ABROAD.finditer(lower):
                if not (_follows_word(lower, match.start, "_+") or _precedes_word(lower, match.end)):
                    yield from self._abroad(lower, match.start, match.end, reads)
        if self._american is not None and "phone american" in shapes:
            yield from self._north_american(lower, reads)
        if self._american is not None and "phone local" in shapes:
            for _, (start, end) in _AMERICAN_LOCAL.spans(lower, overlapping=True):
                if _PHONE_WORDS.judge(lower, start, end):
                    yield Span(start, end, "phone", 0.6)
        if "phone named" in shapes:
            yield from _named(lower)
        if self._others and "phone national" in shapes:
            for count, (start, end) in enumerate(_national(lower, text.digits)):
                yield from self._national(lower, start, end, reads, near=count < JUDGED)

    def _abroad(self, lower: str, start: int, longest: int, reads: list[int]) -> Iterator[Span]:
        for end in _ends(lower, start, longest):
            if self._is_valid(lower[start:end], None, reads):
                yield Span(start, end, "phone", 0.95)
                return
        # in no plan, as those of films are, but of a known country and length
        if self._is_possible(lower[start:longest], reads):
            words = _PHONE_WORDS.judge(lower, start, longest)
            if words or (words is None and len(digit_groups(lower[start:longest])) >= _GROUPS):
                yield Span(start, longest, "phone", 0.7 if words else 0.6)

    def _north_american(self, lower: str, reads: list[int]) -> Iterator[Span]:
        for count, (_, *groups) in enumerate(_AMERICAN.spans(lower, overlapping=True)):
            text, area, first, exchange, second, line = (lower[slice(*group)] for group in groups)
            start, end = groups[0]
            words = _PHONE_WORDS.judge(lower, start, end) if count < JUDGED else True
            if words is False:
                continue
            valid = self._is_valid(area + exchange + line, self._american, reads)
            grouped = bool(first) and bool(second)
            if words and (valid or grouped):
                yield Span(_inside(start, text), end, "phone", 0.9)
            elif (grouped and (valid or (first.strip() and second.strip()))) or text.startswith("+1"):
                # 555-123-4567 is in no plan, but nobody takes it for anything else
                yield Span(_inside(start, text), end, "phone", 0.85 if valid else 0.6)

    def _national(self, lower: str, start: int, longest: int, reads: list[int], near: bool) -> Iterator[Span]:
        """A national number starts with the prefix that is dialled at home, or stands near words of phones."""
        text = lower[start:longest]
        if ("." in text and " " in text) or (
            any(sign in text for sign in "-./") and _DATE.match(lower[start : start + _LONGEST_DATE])
        ):
            return  # a date, or several numbers with a point
        words = _PHONE_WORDS.judge(lower, start, longest) if near else True
        if words is False:
            return
        start = _inside(start, text)
        digits = lower[start:longest].lstrip("(")
        grouped = not digits.isdigit()
        for region, prefix in self._others.items():
            if not words and not (prefix and digits.startswith(prefix) and grouped):
                continue
            for end in _ends(lower, start, longest):
                if self._is_valid(lower[start:end], region, reads):
                    yield Span(start, end, "phone", 0.9 if words else 0.75)
                    return
            if words and prefix and digits.startswith(prefix):
                yield Span(start, longest, "phone", 0.6)  # in no plan, but dialled and named like one
                return

    def _is_possible(self, text: str, reads: list[int]) -> bool:
        return reads[0] < _READ and self._is(self._library.is_possible_number, text, None, reads)

    def _is_valid(self, text: str, region: str | None, reads: list[int]) -> bool:
        return reads[0] >= _READ or self._is(self._library.is_valid_number, text, region, reads)

    def _is(self, holds: Callable[[Any], bool], text: str, region: str | None, reads: list[int]) -> bool:
        reads[0] += 1
        try:
            return bool(holds(self._library.parse(_SEPARATORS.with_hyphens(text), region)))
        except self._library.NumberParseException:
            return False


def _named(lower: str) -> Iterator[Span]:
    """Numbers of any country in national notation that words near call one of a phone."""
    for count, (_, (start, end)) in enumerate(_NAMED.spans(lower)):
        if count == _READ:
            return
        text = lower[start:end]
        if not _precedes_word(lower, end) and not _DATE.match(text) and _PHONE_WORDS.judge(lower, start, end):
            yield Span(_inside(start, text), end, "phone", 0.6)


def _national(lower: str, groups: Sequence[Group]) -> Iterator[Group]:
    """Where numbers in national notation start and end: of 6 to 15 digits, however grouped."""
    joined = [_SEPARATORS.matches(lower[before[1] : after[0]]) for before, after in pairwise(groups)]
    sizes = [end - start for start, end in groups]
    behind = 0
    for first, (digit, _) in enumerate(groups):
        if digit < behind:
            continue
        bracket = digit > behind and lower[digit - 1] == "("
        start = next(
            (at for at in ((digit - 1, digit) if bracket else (digit,)) if not _may_go_on(lower, at)), None
        )
        if start is None:
            continue
        last, missing = first, _MOST - sizes[first]
        while missing > 0 and last < len(joined) and joined[last]:
            last += 1
            missing -= sizes[last]
        end = groups[last][1]
        if 0 <= missing <= _MOST - _FEWEST and not _precedes_word(lower, end):
            yield start, end
            behind = end


def _may_go_on(lower: str, start: int) -> bool:
    """Whether what stands before a place makes a number there a part of something longer."""
    if _follows_word(lower, start, "_+$€£#"):
        return True
    other = lower[max(0, start - 2) : max(0, start - 1)]
    return lower.endswith(("-", "."), 0, start) and other.isascii() and other.isdigit()


def _follows_word(lower: str, start: int, marks: str) -> bool:
    mark = lower[max(0, start - 1) : start]
    return mark.isalnum() or (mark in marks and mark != "")


def _precedes_word(lower: str, end: int) -> bool:
    mark = lower[end : end + 1]
    return mark.isalnum() or mark in ("_", "%")


def _inside(start: int, text: str) -> int:
    """Where a number starts, without a bracket that closes only behind it."""
    return start + (text.startswith("(") and ")" not in text)


def _ends(lower: str, start: int, end: int) -> Iterator[int]:
    """Where a number may end: at the end of the run, or one or two groups before it."""
    yield end
    yield from (start + group[1] for group in digit_groups(lower[start:end])[-2:-4:-1])
