"""E-mail addresses, written out or with spelled separators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from turnwise.guard.recognisers.spans import Span

SHAPES = {
    "email": (r"[\pL\pN_+%-]@[\pL\pN][\pL\pN_-]*\.",),
    "email spelled": (r"[\[({<] ?(?:at|@|dot) ?[\])}>]", r"(?: at |@).+ dot ", r"@.+(?:\[\.\]|\(\.\))"),
}
"""What a text has, at least, in which there may be one."""

_AT = re.compile(r"(?<=[\w+%-])@(?P<domain>(?:[^\W_][\w-]{0,62}+\.)+[^\W\d_][\w-]{1,62}+)(?<!-)")
_LOCAL_BACKWARDS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]*\w")
_LOCAL_LONGEST = 64

_DOT = r"(?: ?[\[({<] ?dot ?[\])}>] ?| ?\[\.\] ?| ?\(\.\) ?| dot |\.)"
_SPELLED = re.compile(
    r"(?P<local>[a-z0-9_+%-]{1,40}+(?:(?:\.| dot | ?[\[({<] ?dot ?[\])}>] ?)[a-z0-9_+%-]{1,40}+){0,3})"
    r"(?P<at> ?[\[({<] ?at ?[\])}>] ?| ?[\[({<] ?@ ?[\])}>] ?| at |@)"
    rf"(?P<domain>[a-z0-9-]{{1,63}}+(?:{_DOT}[a-z0-9-]{{1,63}}+){{0,3}}{_DOT}"
    r"(?:com|org|net|edu|gov|info|io|co|me|uk|de|fr|es|it|nl|ch|at|eu|us|ca|au|in|example|test|invalid))(?![a-z0-9])"
)
_WRITES = re.compile(r"mail|contact|reach|write|send|address|me at|inbox|account is|login")


def find_emails(lower: str, shapes: Set[str]) -> Iterator[Span]:
    """Find e-mail addresses, spelled ones such as ``jane (at) example (dot) com`` among them.

    Source: RFC 5322, section 3.4.1, and RFC 6531, without quoted local parts and address literals.

    Args:
        lower: the text in plain form and lower case.
        shapes: which of `SHAPES` it has.
    """
    if "email" in shapes:
        for match in _AT.finditer(lower):
            start = _start_of_local(lower, match.start())
            if start < match.start():
                yield Span(start, match.end(), "email", 0.97)
    if "email spelled" in shapes:
        yield from _spelled(lower)


def _start_of_local(lower: str, at: int) -> int:
    """Return where the part before an ``@`` starts: as far back as its characters go, but at a letter or digit."""
    match = _LOCAL_BACKWARDS.match(lower[max(0, at - _LOCAL_LONGEST) : at][::-1])
    return at - match.end() if match is not None else at


def _spelled(lower: str) -> Iterator[Span]:
    """Bracketed separators speak for themselves; plain words need some that speak of mail."""
    for match in _SPELLED.finditer(lower):
        at, domain = match["at"].strip(), match["domain"]
        if at == "@" and " " not in domain and "[" not in domain and "(" not in domain:
            continue
        if at == "at" and not any(mark in domain for mark in "[({<"):
            near = lower[max(0, match.start() - 40) : match.start()]
            if " dot " not in domain or not _WRITES.search(near):
                continue
        yield Span(match.start(), match.end(), "email", 0.8)
