"""Telephone numbers, by Google's table of numbering plans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard.recognisers.near_words import JUDGED, NearWords
from turnwise.guard.recognisers.spans import Span

if TYPE_CHECKING:
    from types import ModuleType

_BETWEEN = r"(?:[-.·_/ ()]{1,3}| ?(?:dash|hyphen|minus|dot) ?)"
_FIRST = r"(?:^|[^0-9])"

SHAPES = {
    "phone abroad": (r"\+ ?\(?[0-9]",),
    "phone american": (
        rf"{_FIRST}(?:1{_BETWEEN}?)?\(?[2-9][0-9]{{2}}\)?{_BETWEEN}?[0-9]{{3}}{_BETWEEN}?[0-9]{{4}}(?:[^0-9]|$)",
    ),
    "phone local": (r"[2-9][0-9]{2}[-. ][0-9]{4}(?:[^0-9]|$)",),
    "phone national": (rf"{_FIRST}[0-9](?:{_BETWEEN}?[0-9]){{5}}",),
}
"""What a text has, at least, in which there may be one."""

_ABROAD = re.compile(rf"(?<![\w+])\+ ?\(?[0-9](?:{_BETWEEN}?[0-9]){{6,14}}+(?![\w%])")
_AMERICAN = re.compile(
    rf"(?<![\w+])(?<![0-9][-.])(?:\+?1{_BETWEEN}?)?\(?([2-9][0-9][0-9])\)?({_BETWEEN}?)([0-9]{{3}})({_BETWEEN}?)([0-9]{{4}})"
    r"(?!\w)(?![-.][0-9])",
)
_AMERICAN_LOCAL = re.compile(r"(?<![\w+$€£#])(?<![0-9][-. /])[2-9][0-9][0-9][-. ][0-9]{4}(?!\w)(?![-./][0-9])")
_NATIONAL = re.compile(rf"(?<![\w+$€£#])(?<![0-9][-.])\(?[0-9](?:{_BETWEEN}?[0-9]){{5,14}}+(?![\w%])")
_DATE = re.compile(
    r"(?:(?:[0-2]?[0-9]|3[01])([-./])(?:[0-2]?[0-9]|3[01])\1(?:19|20)?[0-9]{2}"
    r"|(?:19|20)[0-9]{2}([-./])[0-9]{1,2}\2[0-9]{1,2})(?![0-9]|[-./][0-9])"
)
_WORDS = NearWords(
    "phone|phones|telephone|tel|mobile|cell|cellphone|call|calls|called|calling|text me|sms|whatsapp|signal|fax|"
    "ring|dial|hotline|landline|my number|phone number|contact|reach|reached|voicemail|telefon|telefonnummer|"
    "handy|mobil|anrufen|téléphone|teléfono|telefono|móvil|m|t|p",
)
_AMERICA = 1
"""Country code of the North American Numbering Plan."""

_READ = 128
"""Candidates of a text that are looked up (some 25 us each); what has the form beyond them counts as found."""


class Phones:
    """Finds telephone numbers of some regions, and international ones of all.

    Args:
        regions: ISO 3166 codes of the regions whose national notation is known, such as ``US`` or ``GB``.

    Raises:
        UnknownNameError: a region without a numbering plan.
    """

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

    def find(self, lower: str, shapes: Set[str]) -> Iterator[Span]:
        """Find telephone numbers.

        Args:
            lower: the text in plain form and lower case.
            shapes: which of `SHAPES` it has.
        """
        reads = [0]
        if "phone abroad" in shapes:
            for match in _ABROAD.finditer(lower):
                yield from self._abroad(lower, match, reads)
        if self._american is not None and "phone american" in shapes:
            yield from self._north_american(lower, reads)
        if self._american is not None and "phone local" in shapes:
            for match in _AMERICAN_LOCAL.finditer(lower):
                if _WORDS.judge(lower, match.start(), match.end()):
                    yield Span(match.start(), match.end(), "phone", 0.6)
        if self._others and "phone national" in shapes:
            for match in _NATIONAL.finditer(lower):
                yield from self._national(lower, match, reads)

    def _abroad(self, lower: str, match: re.Match[str], reads: list[int]) -> Iterator[Span]:
        for end in _ends(lower, match.start(), match.end()):
            if self._is_valid(lower[match.start() : end], None, reads):
                yield Span(match.start(), end, "phone", 0.95)
                return

    def _north_american(self, lower: str, reads: list[int]) -> Iterator[Span]:
        for count, match in enumerate(_AMERICAN.finditer(lower)):
            area, first, exchange, second, line = match.groups()
            words = _WORDS.judge(lower, match.start(), match.end()) if count < JUDGED else True
            if words is False:
                continue
            valid = self._is_valid(area + exchange + line, self._american, reads)
            grouped = bool(first) and bool(second)
            if words and (valid or grouped):
                yield Span(_inside(match), match.end(), "phone", 0.9)
            elif (grouped and (valid or (first.strip() and second.strip()))) or match.group().startswith("+1"):
                # 555-123-4567 is in no plan, but nobody takes it for anything else
                yield Span(_inside(match), match.end(), "phone", 0.85 if valid else 0.6)

    def _national(self, lower: str, match: re.Match[str], reads: list[int]) -> Iterator[Span]:
        """A national number starts with the prefix that is dialled at home, or stands near words of phones."""
        start = match.start()
        if _DATE.match(lower, start) or ("." in match.group() and " " in match.group()):
            return  # a date, or several numbers with a point
        words = _WORDS.judge(lower, start, match.end())
        if words is False:
            return
        start = _inside(match)
        digits = lower[start : match.end()].lstrip("(")
        for region, prefix in self._others.items():
            grouped = any(not character.isdigit() for character in digits)
            if not words and not (prefix and digits.startswith(prefix) and grouped):
                continue
            for end in _ends(lower, start, match.end()):
                if self._is_valid(lower[start:end], region, reads):
                    yield Span(start, end, "phone", 0.9 if words else 0.75)
                    return
            if words and prefix and digits.startswith(prefix):
                yield Span(start, match.end(), "phone", 0.6)  # in no plan, but dialled and named like one
                return

    def _is_valid(self, text: str, region: str | None, reads: list[int]) -> bool:
        reads[0] += 1
        if reads[0] > _READ:
            return True
        text = re.sub(r"dash|hyphen|minus|dot", "-", text)
        try:
            number = self._library.parse(text, region)
        except self._library.NumberParseException:
            return False
        return bool(self._library.is_valid_number(number))


def _inside(match: re.Match[str]) -> int:
    """Return where a number starts, without a bracket that closes only behind it."""
    text = match.group()
    return match.start() + (text.startswith("(") and ")" not in text)


def _ends(lower: str, start: int, end: int) -> list[int]:
    """Return where a number may end: at the end of the run, or one or two groups before it."""
    ends = [end]
    for gap in list(re.finditer(r"(?<=[0-9])[^0-9]+(?=[0-9])", lower[start:end]))[-1:-3:-1]:
        ends.append(start + gap.start())
    return ends
