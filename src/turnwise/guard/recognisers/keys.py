"""Keys and tokens of the usual providers, by their published forms, which stand in ``keys.yaml``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from turnwise.guard.recognisers.tables import filled, marked, read_table
from turnwise.guard.recognisers.text import Span, TextReading
from turnwise.linear_regex import LinearRegex


@dataclass(frozen=True)
class KeyForm:
    """How the keys of a provider look, and what they are called; the file says what is what."""

    singular: str
    plural: str
    hints: tuple[str, ...]
    pattern: str
    confidence: float
    digit_within: int

    @cached_property
    def regex(self) -> LinearRegex:
        """What finds them."""
        return LinearRegex(self.pattern)


@cache
def key_forms() -> Mapping[str, KeyForm]:
    """The forms by provider or kind."""
    table = read_table("keys.yaml")
    words = marked(table["words"])
    return {
        kind: KeyForm(
            row["name"],
            row.get("names", f"{row['name']}s"),
            tuple(row["hints"]),
            filled("|".join(row["patterns"]), words),
            row["confidence"],
            row.get("digit_within", 0),
        )
        for kind, row in table["keys"].items()
    }


_PLACEHOLDERS = frozenset({"password", "passwd", "pass", "pwd", "secret", "your_password", "yourpassword"})
"""Passwords in connection strings that stand for one."""

_STAND_INS = ("xxxx", "placeholder", "redacted", "dummy", "your-", "your_", "yourkey", "yourtoken")
_TAIL = 8
"""Characters at the end of a value that are all the same in a stand-in alone."""

_BASE_64 = LinearRegex(r"[A-Za-z0-9+/=]{10,}")
_LETTERS_ALONE = 30
"""Letters, at least, that are part of a key without any digit among them."""

_TO_BODY = 400
"""Characters behind the first line of a private key in which its body begins."""

_LONGEST_PRIVATE_KEY = 20_000
_PUTTY_END = LinearRegex(r"Private-MAC: [0-9a-f]{40,64}")


def find_keys(text: TextReading, kind: str) -> Iterator[Span]:
    """The keys of a kind in a text whose case was kept."""
    plain, form = text.plain, key_forms()[kind]
    if kind == "private_key":
        yield from _private_keys(plain, form)
        return
    for _, *groups in form.regex.spans(plain, overlapping=True):
        start, end = max(groups)
        if kind == "connection_string" and plain[start:end].lower() in _PLACEHOLDERS:
            continue
        if _is_stand_in(plain[start:end]):
            continue
        loose = form.digit_within and groups[1] == (start, end)
        if not loose or any(map(str.isdigit, plain[start : min(end, start + form.digit_within)])):
            yield Span(start, end, kind, form.confidence)


def _is_stand_in(value: str) -> bool:
    """Whether a value only shows the form of a key: one sign repeated at its end, or words that say so."""
    lower = value.lower()
    return len(set(lower[-_TAIL:])) == 1 or any(word in lower for word in _STAND_INS)


def _has_body(text: str) -> bool:
    """Whether what stands behind the first line of a private key is one, in base 64 or disguised."""
    for run in _BASE_64.finditer("".join(text.split())):
        body = run[0]
        digit, small = any(map(str.isdigit, body)), any(map(str.islower, body))
        if any(map(str.isupper, body)) and (digit or small) and (digit or len(body) >= _LETTERS_ALONE):
            return True
    return False


def _private_keys(plain: str, form: KeyForm) -> Iterator[Span]:
    """Private keys from their first line to their last, or as far as one goes where that is missing."""
    ends: list[tuple[int, int]] | None = None
    behind = 0
    for (start, end), label in form.regex.spans(plain):
        if start < behind:
            continue
        limit = end + _LONGEST_PRIVATE_KEY
        if label[0] < 0:
            if ends is None:
                ends = [(match.start, match.end) for match in _PUTTY_END.finditer(plain)]
            at = bisect_left(ends, (end, 0))
            if at == len(ends) or ends[at][0] > limit:
                continue
            behind = ends[at][1]
        else:
            last = f"-----END {plain[slice(*label)]}-----"
            at = plain.find("-----END ", end, limit + len(last))
            behind = min(limit, len(plain)) if at < 0 else at + len(last) * plain.startswith(last, at)
            if not _has_body(plain[end : min(end + _TO_BODY, len(plain) if at < 0 else at)]):
                continue
        yield Span(start, behind, "private_key", form.confidence)
