"""Internet addresses, version 4 and 6."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from operator import itemgetter

from turnwise.guard.recognisers.numbers import JUDGED, NearWords
from turnwise.guard.recognisers.text import Group, Span, TextReading
from turnwise.linear_regex import LinearRegex

_DOT_STARTS = frozenset(". [(")
_DOT = r"(?:\.| ?[\[(] ?(?:\.|dot) ?[\])] ?| dot )"

SHAPES = {
    "ip v4": (rf"(?:^|[^\pL\pN.])[0-9]{{1,3}}(?:{_DOT}[0-9]{{1,3}}){{3}}(?:$|[^0-9.,-]|[.,-](?:$|[^0-9]))",),
    "ip v6": (r"(?:^|[^a-z])[0-9a-f:]*::", r"(?:[0-9a-f]{1,4}:){7}"),
}
"""What a text has, at least, in which there may be one."""

_GROUPS = r"(?:[0-9a-f]{1,4}|:)(?::[0-9a-f]{0,4}){2,7}"
_V6 = LinearRegex(rf"(?:^|[^\pL\pN_:.])(?:{_GROUPS}:?(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}|{_GROUPS})")
_V6_MARKS = frozenset(string.hexdigits + ":")
_FEWEST_DIGITS = 3
"""Hexadecimal digits that one group of a version 6 address has, at least; times have none with so many."""
_WORDS = NearWords(
    "ip|ips|ipv4|ipv6|ip address|address|host|server|ping|ssh|dns|router|gateway|subnet|connect|connected|from|"
    "client|login|logged in|http|https",
    "version|ver|v|build|release|releases|firmware|driver|section|sections|chapter|clause|figure|table|paragraph|"
    "update|upgrade|upgraded|sdk|kernel|requires|oid|revision|patch",
)
_CHECKED = 2_000
"""Version 6 candidates of a text that are verified; what has the form beyond them counts as found."""
_PRIVATE = 172


def find_ips(text: TextReading, private: bool) -> Iterator[Span]:
    """IP addresses, but no versions or times, nor nobody's own: loopback, unspecified, broadcast, multicast."""
    if "ip v4" in text.shapes:
        yield from _version_4(text.plain, text.digits, private)
    if "ip v6" in text.shapes:
        yield from _version_6(text.plain, private)


def _version_4(lower: str, digits: Sequence[Group], private: bool) -> Iterator[Span]:
    for count, groups in enumerate(_fours(lower, digits)):
        start, end = groups[0][0], groups[-1][1]
        parts = [lower[slice(*group)] for group in groups]
        first, last = int(parts[0]), int(parts[3])
        if first in (0, 127) or first >= 224 or (first == 255 and last == 255):
            continue
        if not private and _is_private(first, int(parts[1])):
            continue
        words = _WORDS.judge(lower, start, end) if count < JUDGED else True
        if words is False or (words is None and all(len(part) == 1 for part in parts)):
            continue  # four single digits are a version or a section unless words say otherwise
        yield Span(start, end, "ip", 0.95 if words else 0.85)


def _fours(lower: str, groups: Sequence[Group]) -> Iterator[tuple[Group, Group, Group, Group]]:
    """Four numbers up to 255 with dots between them, which are no part of something longer."""
    starts, ends = [*map(itemgetter(0), groups)], [*map(itemgetter(1), groups)]
    gaps = [*map(lower.__getitem__, map(slice, ends, starts[1:]))]
    is_dot = {gap: gap[:1] in _DOT_STARTS and _is_dot(gap) for gap in set(gaps)}
    dots = [*map(is_dot.__getitem__, gaps)]
    behind = 0
    for at, in_fours in enumerate(zip(dots, dots[1:], dots[2:], strict=False)):
        if at < behind or not all(in_fours):
            continue
        first, second, third, fourth = groups[at : at + 4]
        if (
            not _goes_on_before(lower, first[0])
            and not _goes_on_behind(lower, fourth[1])
            and all(map(_is_byte, map(lower.__getitem__, map(slice, starts[at : at + 4], ends[at : at + 4]))))
        ):
            yield first, second, third, fourth
            behind = at + 4


@lru_cache(maxsize=1024)
def _is_dot(gap: str) -> bool:
    """Whether a text is what `_DOT` matches as a whole."""
    if gap in (".", " dot "):
        return True
    inner = gap.removeprefix(" ").removesuffix(" ")
    if not inner.startswith(("[", "(")) or not inner.endswith(("]", ")")):
        return False
    return inner[1:-1].removeprefix(" ").removesuffix(" ") in (".", "dot")


def _is_byte(digits: str) -> bool:
    return len(digits) <= 3 and int(digits) <= 255 and (digits[0] != "0" or digits == "0")


def _goes_on_before(lower: str, start: int) -> bool:
    mark, other = lower[max(0, start - 1) : start], lower[max(0, start - 2) : max(0, start - 1)]
    return mark.isalnum() or mark in ("_", ".") or (mark in ("-", ",") and _is_digit(other))


def _goes_on_behind(lower: str, end: int) -> bool:
    mark, other = lower[end : end + 1], lower[end + 1 : end + 2]
    return mark.isalnum() or mark in ("_", "%") or (mark in (".", ",", "-") and _is_digit(other))


def _is_digit(mark: str) -> bool:
    return mark.isascii() and mark.isdigit()


def _is_private(first: int, second: int) -> bool:
    return first == 10 or (first, second) in ((192, 168), (169, 254)) or (first == _PRIVATE and 16 <= second < 32)


def _version_6(lower: str, private: bool) -> Iterator[Span]:
    checked = 0
    for match in _V6.finditer(lower):
        start, end = match.start + (lower[match.start] not in _V6_MARKS), match.end
        mark, other = lower[end : end + 1], lower[end + 1 : end + 2]
        if mark.isalnum() or mark in ("_", ":") or (mark == "." and _is_digit(other)):
            continue
        text = lower[start:end]
        checked += 1
        if checked > _CHECKED:
            yield Span(start, end, "ip", 0.5)
            continue
        if max(map(len, text.replace(".", ":").split(":"))) < _FEWEST_DIGITS or not any(map(str.isdigit, text)):
            continue  # such as a::b in code, or 22:15::
        address = _read(text)
        if not isinstance(address, IPv6Address) or _is_nobodys(address):
            continue
        if private or not (address.is_link_local or address in _UNIQUE_LOCAL):
            yield Span(start, end, "ip", 0.95)


def _read(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_nobodys(address: IPv6Address) -> bool:
    return address.is_loopback or address.is_unspecified or address.is_multicast


class _UniqueLocal:
    """The networks of RFC 4193, fc00::/7."""

    def __contains__(self, address: object) -> bool:
        return isinstance(address, IPv6Address) and address.packed[0] & 0xFE == 0xFC


_UNIQUE_LOCAL = _UniqueLocal()
