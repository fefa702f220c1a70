"""Keys, tokens and passwords: by their forms (``keys.yaml``), or by a name (``assigned_secrets.yaml``)."""

from __future__ import annotations

import math
import string
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from turnwise.guard.recognisers.patterns import PatternTable, filled, marked, read_table
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


# passwords in connection strings that stand for one
_PLACEHOLDERS = frozenset({"password", "passwd", "pass", "pwd", "secret", "your_password", "yourpassword"})

_STAND_INS = ("xxxx", "placeholder", "redacted", "dummy", "your-", "your_", "yourkey", "yourtoken")
_TAIL = 8  # characters at the end of a value that are all the same in a stand-in alone
_BASE_64 = LinearRegex(r"[A-Za-z0-9+/=]{10,}")
_LETTERS_ALONE = 30  # letters, at least, that are part of a key without any digit among them
_TO_BODY = 400  # characters behind the first line of a private key in which its body begins
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


# Keys and passwords that only their name gives away

# names of a kind in a text whose values are read; behind those beyond them a value counts by its form alone
_READ = 64

_KEY_LENGTH, _PASSWORD_LENGTH = 16, 8  # characters of a key, and of a password that is sure, at least
_SHORTEST, _LONGEST, _LONGEST_QUOTED = 6, 300, 100  # characters of a value
_FEWEST_DIGITS = 6  # digits of a password of digits alone, at least
_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
# signs inside a word that no word has
_SIGNS = frozenset("!#$%&*~+?^")

_SENTENCE_END = ".!?:"
_BEFORE_VALUE = "\n\t\"'`:= "
# what stands before a "pass" that is no password
_ARTICLES = ("the ", " a ", "this ", "that ", "another ", "no ", "mountain ", "bus ")

ASSIGNED = PatternTable("assigned_secrets.yaml")


def find_assigned(text: TextReading, least_bits: float) -> Iterator[Span]:
    """Values given to a name such as ``api_key`` that look like no word; keys have `least_bits` a character."""
    plain = text.plain
    yield from _named_keys(plain, least_bits)
    yield from _named_passwords(plain)
    for name in ("key_behind", "session"):
        for start, value in _values(plain, name):
            if _is_mixed(value) and bits_per_character(value) >= least_bits:
                yield _span(start, value, 0.7)
    for start, value in _values(plain, "pair"):
        if _is_mixed(value) and not ASSIGNED["mail"].match(value) and not ASSIGNED["no_pair"].search(value):
            yield _span(start, value, 0.6)
    for _, (start, end) in ASSIGNED["pin"].spans(plain):
        yield Span(start, end, "generic", 0.6)
    for start, value in _values(plain, "login"):
        if len(value) >= _PASSWORD_LENGTH and _is_mixed(value) and (value.lower() != value or not value.isalnum()):
            yield _span(start, value, 0.6)


def _span(start: int, value: str, confidence: float) -> Span:
    return Span(start, start + len(value), "generic", confidence)


def _values(plain: str, name: str) -> Iterator[tuple[int, str]]:
    """Where values stand that a pattern finds in its last group that took part, and what they are."""
    for _, *groups in ASSIGNED[name].spans(plain):
        start, end = max(groups)
        yield start, plain[start:end].rstrip(_SENTENCE_END)


def _named_keys(plain: str, least_bits: float) -> Iterator[Span]:
    for count, ((_, end), *_) in enumerate(ASSIGNED["named_key"].spans(plain)):
        if count == _READ:
            yield from _by_form(plain, end, "key_by_form", _KEY_LENGTH)
            return
        start, value, _ = _given(plain, end)
        if _is_mixed(value) and len(value) >= _KEY_LENGTH and bits_per_character(value) >= least_bits:
            yield _span(start, value, 0.8)


def _named_passwords(plain: str) -> Iterator[Span]:
    for count, ((_, end), name, link) in enumerate(ASSIGNED["named_password"].spans(plain)):
        if count == _READ:
            yield from _by_form(plain, end, "password_by_form", _PASSWORD_LENGTH)
            return
        before = plain[max(0, name[0] - 9) : name[0]].lower()
        is_other_pass = plain[slice(*name)].lower() == "pass" and before.endswith(_ARTICLES)
        start, value, is_quoted = _given(plain, end)
        if not is_other_pass and _is_password(value, spaces=is_quoted):
            is_sure = len(value) >= _PASSWORD_LENGTH or plain[slice(*link)] in ("=", ":")
            yield _span(start, value, 0.75 if is_sure else 0.6)


def _by_form(plain: str, at: int, pattern: str, shortest: int) -> Iterator[Span]:
    """Values right behind names, from `at` on, that are long enough and have digits and letters."""
    for ((first, last),) in ASSIGNED[pattern].spans(plain[at:]):
        value = plain[at + first : at + last]
        for mark in _BEFORE_VALUE:
            value = value.rpartition(mark)[2]
        if len(value) >= shortest and not (_DIGITS.isdisjoint(value) or _LETTERS.isdisjoint(value)):
            yield _span(at + last - len(value), value, 0.5)


def _given(plain: str, at: int) -> tuple[int, str, bool]:
    """The value at an offset, where it starts, and whether it stands in quotes."""
    quote = plain[at : at + 1]
    if quote and quote in "\"'`":
        line = plain[at + 1 : at + 1 + _LONGEST_QUOTED].partition("\n")[0]
        end = line.find(quote)
        if end >= _SHORTEST:
            return at + 1, line[:end].rstrip(_SENTENCE_END), True
    found = ASSIGNED["value"].match(plain[at : at + _LONGEST])
    if found is None or len(found[1]) < _SHORTEST:
        return at, "", False
    return at + found.end - len(found[1]), found[1].rstrip(_SENTENCE_END), False


def _is_mixed(value: str) -> bool:
    """Whether a value has letters and digits and is no placeholder."""
    if _DIGITS.isdisjoint(value) or _LETTERS.isdisjoint(value):
        return False
    return not ASSIGNED["no_secret"].search(value)


def _is_password(value: str, *, spaces: bool) -> bool:
    """Whether a value is one that people choose, rather than a word, a call or an address."""
    if " " in value and not spaces:
        return False
    if _is_mixed(value):
        return not ASSIGNED["mail"].match(value) and (" " not in value or "-" in value or value.count(" ") > 1)
    if value.isdigit():
        return len(value) >= _FEWEST_DIGITS and len(set(value)) > 1
    if _LETTERS.isdisjoint(value) or not value[:1].isalpha() or ASSIGNED["no_secret"].search(value):
        return False
    return not _SIGNS.isdisjoint(value[:-1]) and "=" not in value and not ASSIGNED["call"].match(value)


def bits_per_character(text: str) -> float:
    """Shannon entropy in bits a character; 0 for an empty text.

    C. E. Shannon, A Mathematical Theory of Communication (1948), section 6.

    >>> bits_per_character("aaaa"), bits_per_character("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-count / len(text) * math.log2(count / len(text)) for count in counts) if len(counts) > 1 else 0.0
