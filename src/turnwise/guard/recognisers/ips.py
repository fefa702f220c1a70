"""Internet addresses, version 4 and 6."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from ipaddress import IPv4Address, IPv6Address, ip_address

from turnwise.guard.recognisers.near_words import JUDGED, NearWords
from turnwise.guard.recognisers.spans import Span

_DOT = r"(?:\.| ?[\[(] ?(?:\.|dot) ?[\])] ?| dot )"
_PART = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

SHAPES = {
    "ip v4": (rf"(?:^|[^\pL\pN.])[0-9]{{1,3}}(?:{_DOT}[0-9]{{1,3}}){{3}}(?:$|[^0-9.,-]|[.,-](?:$|[^0-9]))",),
    "ip v6": (r"(?:^|[^a-z])[0-9a-f:]*::", r"(?:[0-9a-f]{1,4}:){7}"),
}
"""What a text has, at least, in which there may be one."""

_V4 = re.compile(rf"(?<![\w.])(?<![0-9][-,]){_PART}(?:{_DOT}{_PART}){{3}}(?![\w%]|[.,-][0-9])")
_V6 = re.compile(
    r"(?<![\w:.])(?=[0-9a-f:]{0,30}:)(?:[0-9a-f]{1,4}|:(?=:))(?::[0-9a-f]{0,4}){2,7}"
    r"(?::?(?:[0-9]{1,3}\.){3}[0-9]{1,3})?(?![\w:]|\.[0-9])"
)
_GROUP = re.compile(r"[0-9a-f]{3}")
_WORDS = NearWords(
    "ip|ips|ipv4|ipv6|ip address|address|host|server|ping|ssh|dns|router|gateway|subnet|connect|connected|from|"
    "client|login|logged in|http|https",
    "version|ver|v|build|release|releases|firmware|driver|section|sections|chapter|clause|figure|table|paragraph|"
    "update|upgrade|upgraded|sdk|kernel|requires|oid|revision|patch",
)
_CHECKED = 2_000
"""Version 6 candidates of a text that are verified; what has the form beyond them counts as found."""
_PRIVATE = 172


def find_ips(lower: str, shapes: Set[str], private: bool) -> Iterator[Span]:
    """Find IP addresses, but no version numbers, times or addresses of no one in particular.

    Loopback, unspecified, broadcast and multicast addresses are nobody's and never found.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
        private: whether those of private networks are found.
    """
    if "ip v4" in shapes:
        yield from _version_4(lower, private)
    if "ip v6" in shapes:
        yield from _version_6(lower, private)


def _version_4(lower: str, private: bool) -> Iterator[Span]:
    for count, match in enumerate(_V4.finditer(lower)):
        parts = re.findall(r"[0-9]+", match.group())
        first, last = int(parts[0]), int(parts[3])
        if first in (0, 127) or first >= 224 or (first == 255 and last == 255):
            continue
        if not private and _is_private(first, int(parts[1])):
            continue
        words = _WORDS.judge(lower, match.start(), match.end()) if count < JUDGED else True
        if words is False or (words is None and all(len(part) == 1 for part in parts)):
            continue  # four single digits are a version or a section unless words say otherwise
        yield Span(match.start(), match.end(), "ip", 0.95 if words else 0.85)


def _is_private(first: int, second: int) -> bool:
    return first == 10 or (first, second) in ((192, 168), (169, 254)) or (first == _PRIVATE and 16 <= second < 32)


def _version_6(lower: str, private: bool) -> Iterator[Span]:
    checked = 0
    for match in _V6.finditer(lower):
        text = match.group()
        checked += 1
        if checked > _CHECKED:
            yield Span(match.start(), match.end(), "ip", 0.5)
            continue
        if not _GROUP.search(text) or not any(map(str.isdigit, text)):
            continue  # such as a::b in code, or 22:15::
        address = _read(text)
        if not isinstance(address, IPv6Address) or _is_nobodys(address):
            continue
        if private or not (address.is_link_local or address in _UNIQUE_LOCAL):
            yield Span(match.start(), match.end(), "ip", 0.95)


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
