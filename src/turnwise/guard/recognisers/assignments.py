"""Secrets that only their name gives away, such as ``api_key = "..."``."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterator

from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex


def bits_per_character(text: str) -> float:
    """Return the Shannon entropy of the characters of a text, in bits a character; 0 for an empty one.

    Source: C. E. Shannon, A Mathematical Theory of Communication (1948), section 6.

    >>> bits_per_character("aaaa"), bits_per_character("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-count / len(text) * math.log2(count / len(text)) for count in counts) if len(counts) > 1 else 0.0


_NAME = (
    r"api[ _-]?key|api[ _-]?token|api[ _-]?secret|access[ _-]?key|access[ _-]?token|auth[ _-]?token|auth[ _-]?key|"
    r"client[ _-]?secret|secret[ _-]?key|private[ _-]?key|encryption[ _-]?key|signing[ _-]?key|refresh[ _-]?token|"
    r"app[ _-]?secret|secret|token|passwort|password|passwd|passphrase|pwd|pass"
)
HINTS = (rf"(?:{_NAME})[a-z0-9_]{{0,20}}[\"'\])]{{0,2}} ?(?:=|:|:=|=>|\bis\b|\bist\b)+ ?[\"'`]?[^\s\"'`]",)
"""What a text has, at least, in which there may be one; RE2, ignoring case."""

_ASSIGNED = LinearRegex(
    rf"(?i)(?:^|[^a-z0-9_-])(?:[a-z0-9_-]{{0,30}}?[_-])?({_NAME})[a-z0-9_]{{0,20}}[\"'\])]{{0,2}} ?"
    r"(:=|=>|==?|:|is|ist) ?[\"'`]?([^\s\"'`,;<>(){}\[\]]{6,300})"
)
_NO_SECRET = LinearRegex(
    r"(?i)example|sample|dummy|placeholder|changeme|your|xxxx|\*\*\*|\.\.\.|todo|redacted|<|\$\{|%\(|\bnull\b|none|true|"
    r"false|undefined|process\.env|os\.environ|getenv|required|https?:"
)
_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_KEY_LENGTH = 16
_SENTENCE_END = ".!?:"


def find_assigned(plain: str, least_bits: float) -> Iterator[Span]:
    """Find values that are given to a name such as ``api_key`` or ``password`` and look like no word.

    A key has at least 16 characters and the asked entropy; a password has letters and digits or signs.

    Args:
        plain: the text in plain form, case kept.
        least_bits: least entropy of a key, in bits a character.
    """
    for _, *groups in _ASSIGNED.spans(plain):
        name, link, value = (plain[start:end] for start, end in groups)
        value = value.rstrip(_SENTENCE_END)
        if _DIGITS.isdisjoint(value) or _LETTERS.isdisjoint(value) or _NO_SECRET.search(value):
            continue
        if name.lower().startswith(("pass", "pwd")):
            sure = 0.75 if len(value) >= 8 or link in ("=", ":") else 0.6
        elif len(value) >= _KEY_LENGTH and bits_per_character(value) >= least_bits:
            sure = 0.8
        else:
            continue
        start = groups[-1][0]
        yield Span(start, start + len(value), "generic", sure)
