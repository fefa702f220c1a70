"""E-mail addresses, written out or with spelled separators."""

from __future__ import annotations

import string
from collections.abc import Iterator, Set

from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex, replace_characters

SHAPES = {
    "email": (r"[\pL\pN_+%-]@[\pL\pN][\pL\pN_-]*\.",),
    "email spelled": (r"[\[({<] ?(?:at|@|dot) ?[\])}>]", r"(?: at |@).+ dot ", r"@.+(?:\[\.\]|\(\.\))"),
}
"""What a text has, at least, in which there may be one."""

_LETTERS = string.ascii_letters + string.digits
_MARKS = ".!#$%&'*+/=?^`{|}~-"
"""What stands in a local part but letters, digits and ``_``."""

_LOCAL = _LETTERS + "_" + _MARKS
_LONGEST_LOCAL = 64
_LONGEST_LABEL = 63

_DOT = r"(?: ?[\[({<] ?dot ?[\])}>] ?| ?\[\.\] ?| ?\(\.\) ?| dot |\.)"
_SPELLING = frozenset(" [({<")
"""One of these stands in every address whose ``@`` or dots are spelled."""

_AT = LinearRegex(r" ?[\[({<] ?at ?[\])}>] ?| ?[\[({<] ?@ ?[\])}>] ?| at |@")
_SPELLED = LinearRegex(
    r"[a-z0-9+%-]{1,40}(?:(?:\.| dot | ?[\[({<] ?dot ?[\])}>] ?)[a-z0-9+%-]{1,40}){0,3}"
    rf"(?:{_AT.pattern})[a-z0-9-]{{1,63}}(?:{_DOT}[a-z0-9-]{{1,63}}){{0,3}}{_DOT}"
    r"(?:com|org|net|edu|gov|info|io|co|me|uk|de|fr|es|it|nl|ch|at|eu|us|ca|au|in|example|test|invalid)\b"
)
"""For a text with ``+`` in place of each ``_``, which is no end of a word for RE2."""

_WRITES = ("mail", "contact", "reach", "write", "send", "address", "me at", "inbox", "account is", "login")
_NEAR = 40
"""Characters before a spelled address in which words that speak of mail are looked for."""


def find_emails(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """E-mail addresses, also spelled ones such as ``jane (at) example (dot) com``.

    RFC 5322, section 3.4.1, and RFC 6531, without quoted local parts and address literals.
    """
    if "email" in shapes:
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
    if "email spelled" in shapes:
        yield from _spelled(lower)


_BRACKETED = LinearRegex(r" ?[\[({<] ?(at|@|dot|\.) ?[\])}>] ?| (at|dot) ")


def written_out(address: str) -> str:
    """An e-mail address without brackets, spaces and words for its signs.

    >>> written_out("Jane (at) example dot com")
    'jane@example.com'
    """
    signs = {"at": "@", "dot": "."}
    return _BRACKETED.sub(lambda found: signs.get(found[1] or found[2], found[1]), address.strip().lower())


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
    """Where the domain that starts at a place ends: behind its last label that may be a top level; or 0.

    `domains` is the text with a space for whatever stands in no domain.
    """
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


def _spelled(lower: str) -> Iterator[Span]:
    """Bracketed separators speak for themselves; plain words need some that speak of mail."""
    for address in _SPELLED.finditer(lower.replace("_", "+")):
        text = address[0]
        if _SPELLING.isdisjoint(text):
            continue
        between = _AT.search(text)
        if between is None:
            continue
        at, domain = between[0].strip(), text[between.end :]
        if at == "@" and " " not in domain and "[" not in domain and "(" not in domain:
            continue
        if at == "at" and not any(mark in domain for mark in "[({<"):
            near = lower[max(0, address.start - _NEAR) : address.start]
            if " dot " not in domain or not any(word in near for word in _WRITES):
                continue
        yield Span(address.start, address.end, "email", 0.8)
