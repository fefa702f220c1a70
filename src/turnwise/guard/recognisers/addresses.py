"""E-mail and Internet addresses."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from operator import itemgetter

from turnwise.guard.recognisers.text import JUDGED, Group, NearWords, Span, Stretch, TextReading
from turnwise.linear_regex import SPACE, WORD, LinearRegex, replace_characters

# what a text has, at least, in which there may be one
EMAIL_SHAPES = {"email": (r"[\pL\pN_+%-]@[\pL\pN][\pL\pN_-]*\.",)}

# endings of spelled addresses
_TOP_LEVELS = "com|org|net|edu|gov|info|io|co|me|uk|de|fr|es|it|nl|ch|at|eu|us|ca|au|in|example|test|invalid"

# words that speak of mail: behind one of them an address may be spelled in plain words
_WRITES = ("mail", "contact", "reach", "write", "send", "address", "inbox", "login", "me at", "account is")

_NEAR = 40  # characters before a spelled address in which such a word is looked for

# Written out

_LETTERS = string.ascii_letters + string.digits
# what stands in a local part but letters, digits and ``_``
_MARKS = ".!#$%&'*+/=?^`{|}~-"

_LOCAL = _LETTERS + "_" + _MARKS
_LONGEST_LOCAL = 64
_LONGEST_LABEL = 63


def find_emails(text: TextReading) -> Iterator[Span]:
    """E-mail addresses (RFC 5322, section 3.4.1, and RFC 6531) without quoted local parts and address literals."""
    lower = text.plain
    if "email" in text.shapes:
        others = {each: " " for each in set(lower) if not (each.isalnum() or each in "._- ")}
        domains = replace_characters(lower, others)
        at = lower.find("@")
        while at >= 0:
            end = _end_of_domain(domains, at + 1)
            if end:
                start = _start_of_local(lower, at)
                if start < at:
                    yield Span(start, end, "email", 0.97)
            at = lower.find("@", at + 1)


def _start_of_local(lower: str, at: int) -> int:
    """Where the part before an ``@`` starts, at a letter, digit or ``_``; the ``@`` itself where there is none."""
    if not (lower[at - 1 : at].isalnum() or lower.endswith(("_", "+", "%", "-"), 0, at)):
        return at
    part = lower[max(0, at - _LONGEST_LOCAL) : at]
    rest = part.rstrip(_LOCAL)
    while rest[-1:].isalnum():  # beyond ASCII
        rest = rest[:-1].rstrip(_LOCAL)
    return at - len(part[len(rest) :].lstrip(_MARKS))


def _end_of_domain(domains: str, first: int) -> int:
    """Where a domain ends, behind its last label that may be a top level; or 0. What is in none is a space."""
    end, at, stop = 0, first, domains.find(" ", first)
    for label in domains[first : stop if stop >= 0 else len(domains)].split("."):
        if not label[:1].isalnum():
            break
        top = label[:_LONGEST_LABEL].rstrip("-")
        if at > first and len(top) > 1 and not top[0].isdecimal():
            end = at + len(top)
        if len(label) > _LONGEST_LABEL:
            break
        at += len(label) + 1
    return end


# Spelled or spaced out in any way, to be undone before anything is looked for

_BRACKETED = LinearRegex(r" ?[\[({<] ?(at|@|dot|\.) ?[\])}>] ?| (at|dot) ")


def written_out(address: str) -> str:
    """An e-mail address without brackets, spaces and words for its signs.

    >>> written_out("Jane (at) example dot com")
    'jane@example.com'
    """
    signs = {"at": "@", "dot": "."}
    return _BRACKETED.sub(lambda found: signs.get(found[1] or found[2], found[1]), address.strip().lower())


_DOT_WORD = "dot|punkt|punto|point"
_OPEN = r"[(\[{<*_|'\"-]{1,2}"
_CLOSE = r"[)\]}>*_|'\"-]{1,2}"
_ANY_DOT = (
    rf"(?:\s{{0,3}}{_OPEN}\s?(?:{_DOT_WORD}|\.)\s?{_CLOSE}\s{{0,3}}|\s(?:{_DOT_WORD})\s|\s{{0,3}}\.\s{{0,3}}|,)"
)
_ANY_AT = rf"(?:\s{{0,3}}{_OPEN}\s?(?:at|@|a)\s?{_CLOSE}\s{{0,3}}|\sat\s|\s{{0,3}}@\s{{0,3}})"
_PART = rf"[{WORD}+%-]+"
_ANY_ADDRESS = LinearRegex(
    rf"(?i)({_PART}(?:(?:\.|\sdot\s|\s?{_OPEN}\s?dot\s?{_CLOSE}\s?){_PART}){{0,3}})({_ANY_AT})"
    rf"([{WORD}-]+(?:{_ANY_DOT}[{WORD}-]+){{0,3}}{_ANY_DOT}(?:{_TOP_LEVELS}))(?:[^A-Za-z0-9]|$)"
)
_LONGEST_ADDRESS = 256
# what a text has, at least, in which an address may be spelled
ADDRESS_HINT = LinearRegex(rf"(?i)@|{_DOT_WORD}|[(\[{{<*_|'\"-]\s?a(?:t)?\s?[)\]}}>*_|'\"-]")

_SPELLED_HINT = LinearRegex(
    rf"(?i),|\s[@.]|[@.]\s|\s(?:at|{_DOT_WORD})\s|{_OPEN}\s?(?:at?|@|\.|{_DOT_WORD})\s?{_CLOSE}"
)
_BRACKETS = "()[]{}<>*|'\""
_BESIDE = rf"[{SPACE}()\[\]{{}}<>*|'\"]*"
_FULL_STOP = LinearRegex(rf"(?i){_BESIDE}(?:[.,]|\b(?:{_DOT_WORD})\b){_BESIDE}")
# what an address has one of, or a word for a full stop, of which a separator is spelled
_SPELLING_SIGNS = frozenset(string.whitespace + _BRACKETS + ",")


def spelled_addresses(text: str) -> Iterator[Stretch]:
    """E-mail addresses that are spelled; plain words and spaces count only behind words that speak of mail.

    >>> [stretch.text for stretch in spelled_addresses("jane {at} example {dot} com")]
    ['jane@example.com']
    """
    if ADDRESS_HINT.search(text) is None or _SPELLED_HINT.search(text) is None:
        return
    for _, *parts in _ANY_ADDRESS.spans(text, overlapping=True):
        local, at, domain = (text[first:last] for first, last in parts)
        start, end = parts[0][0], parts[-1][1]
        written = text[start:end]
        if len(written) > _LONGEST_ADDRESS:
            continue
        if (
            at == "@"
            and _SPELLING_SIGNS.isdisjoint(written)
            and not any(word in written.lower() for word in _DOT_WORD.split("|"))
        ):
            continue
        address = f"{_with_dots(local)}@{_with_dots(domain)}"
        if address == written:
            continue
        near = text[max(0, start - _NEAR) : start].lower()
        if _speaks_for_itself(at, domain.lower()) or (
            (at.strip() != "at" or " dot " in domain.lower()) and any(word in near for word in _WRITES)
        ):
            yield Stretch(start, end, address)


def _speaks_for_itself(at: str, domain: str) -> bool:
    """Whether separators are brackets, or no words and spaces, which need a word of mail before them."""
    in_brackets = any(mark in domain for mark in "[({<")
    if at == "@":
        return in_brackets or " dot " in domain or not (" " in domain or "," in domain)
    return in_brackets if at == " at " else at.strip() not in ("@", "at")


def _with_dots(part: str) -> str:
    """Part of an address, with full stops for the spelled ones and the brackets and spaces around them."""
    return _FULL_STOP.sub(lambda _: ".", part)


# Internet addresses, version 4 and 6

_DOT_STARTS = frozenset(". [(")
_DOT = r"(?:\.| ?[\[(] ?(?:\.|dot) ?[\])] ?| dot )"

# what a text has, at least, in which there may be one
IP_SHAPES = {
    "ip v4": (rf"(?:^|[^\pL\pN.])[0-9]{{1,3}}(?:{_DOT}[0-9]{{1,3}}){{3}}(?:$|[^0-9.,-]|[.,-](?:$|[^0-9]))",),
    "ip v6": (r"(?:^|[^a-z])[0-9a-f:]*::", r"(?:[0-9a-f]{1,4}:){7}"),
}

_GROUPS = r"(?:[0-9a-f]{1,4}|:)(?::[0-9a-f]{0,4}){2,7}"
_V6 = LinearRegex(rf"(?:^|[^\pL\pN_:.])(?:{_GROUPS}:?(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}|{_GROUPS})")
_V6_MARKS = frozenset(string.hexdigits + ":")
# hexadecimal digits that one group of a version 6 address has, at least; times have none with so many
_FEWEST_DIGITS = 3
_WORDS = NearWords(
    "ip|ips|ipv4|ipv6|ip address|address|host|server|ping|ssh|dns|router|gateway|subnet|connect|connected|from|"
    "client|login|logged in|http|https",
    "version|ver|v|build|release|releases|firmware|driver|section|sections|chapter|clause|figure|table|paragraph|"
    "update|upgrade|upgraded|sdk|kernel|requires|oid|revision|patch",
)
# version 6 candidates of a text that are verified; what has the form beyond them counts as found
_CHECKED = 2_000
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
        with suppress(AddressValueError):
            address = IPv6Address(text)
            is_nobodys = address.is_loopback or address.is_unspecified or address.is_multicast
            is_private = address.is_link_local or address.packed[0] & 0xFE == 0xFC  # fc00::/7 of RFC 4193
            if not is_nobodys and (private or not is_private):
                yield Span(start, end, "ip", 0.95)
