"""Keys and passwords that only their name gives away."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterator

from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex

_KEY = (
    r"api[ _-]?key|api[ _-]?token|api[ _-]?secret|access[ _-]?key|access[ _-]?token|auth[ _-]?token|auth[ _-]?key|"
    r"client[ _-]?secret|secret[ _-]?key|private[ _-]?key|encryption[ _-]?key|signing[ _-]?key|refresh[ _-]?token|"
    r"app[ _-]?secret|secret|token"
)
_PASSWORD = (
    r"recovery[ -]?codes?|backup[ -]?codes?|passwort|password|passwd|passphrase|passcode|pwd|pass|pswd|pw|"
    r"kennwort|"
    r"contrase\xf1a|contrasena|mot de passe|mdp|senha|wachtwoord|parola d'ordine|"
    r"\x{43f}\x{430}\x{440}\x{43e}\x{43b}\x{44c}|\x{5bc6}\x{7801}|"
    r"\x{30d1}\x{30b9}\x{30ef}\x{30fc}\x{30c9}"
)
_PREFIX = r"(?:[a-z0-9_-]{0,30}?[_-]|pg|mysql|db|redis|wifi|root|admin)?"
_BEHIND = r"[a-z0-9_]{0,20}[\"'\])]{0,2}"
_LINK = (
    r":=|=>|==?|:|\bis now\b:?|\bis set to\b|\bis still\b|\bis\b:?|'s\b|\bwas\b|\bto\b|\bchanged to\b|"
    r"\breset to\b|\bist\b|\blautet\b|\bes\b|"
    r"\best\b|\xe9|\x{662f}|\x{ff1a}"
)

SHAPES = (
    rf"(?:{_KEY})[a-z0-9_]{{0,20}}[\"'\])]{{0,2}} ?(?:=|:|:=|=>|\bis\b|\bist\b)+ ?[\"'`]?[^\s\"'`]",
    rf"(?:{_PASSWORD})[^\n]{{0,64}}[^\s]{{6}}",
    r"\b(?:pin|code|combination)(?: number)? ?(?:is|was|:|=) ?[0-9]{4}",
    r"(?:\bcred|\blog ?in|\bsign ?in|\broot|\badmin|administrator)[^\n]{0,70}[/:] ?[^\s]{6}",
    r"\bmysql\b[^\n]* -p",
    rf"(?:{_KEY}) [a-z0-9_+/=-]{{20}}",
    r"(?:session|sessionid|sid)=[a-z0-9._%+/=-]{20}",
)
"""What a text has, at least, in which there may be one; RE2, ignoring case."""

_NAMED_KEY = LinearRegex(rf"(?i)(?:^|[^a-z0-9_-]){_PREFIX}({_KEY}){_BEHIND} ?({_LINK}) ?")
_NAMED_PASSWORD = LinearRegex(
    rf"(?i)(?:^|[^a-z0-9_-]|[_-]){_PREFIX}({_PASSWORD}){_BEHIND}(?: (?:for|of|to|on) [^\n\"'=:.?!;,]{{1,40}}?)? ?"
    rf"({_LINK}) ?"
)
_VALUE = LinearRegex(r"[\"'`]?([^\s\"'`,;<>(){}\[\]]+)")
_SHORTEST, _LONGEST, _LONGEST_QUOTED = 6, 300, 100
"""Characters of a value."""

_LOGIN = LinearRegex(
    rf"(?i)(?:[/,&|+]|\band\b|\bwith\b|\buser(?:name)?\b[^\n]{{1,40}}?) ?(?:the )?({_PASSWORD}) "
    r"([^\s\"'`,;<>(){}\[\]]{6,100})"
)
"""A password right behind its name, which stands behind a user's."""

_PAIR = LinearRegex(
    r"(?i)(?:\b(?:creds?|credentials|log ?ins?|sign ?in)\b[^\n0-9]{0,24}?\b[\w.@-]{2,40}"
    r"|\b(?:root|admin|administrator)) ?[/:] ?([^\s\"'`,;<>(){}\[\]/]{6,100})"
    r"|\bmysql\b[^\n]{0,100} -p([^\s]{6,100})"
)
"""A user's name and password with a slash or colon between, or those of a command."""

_KEY_BEHIND = LinearRegex(rf"(?i)(?:^|[^a-z0-9_-])(?:{_KEY}) ([A-Za-z0-9_+/=-]{{20,300}})(?:$|[^\w-])")
_SESSION = LinearRegex(r"(?i)\b(?:session|sessionid|sid|phpsessid|jsessionid)=([A-Za-z0-9._%+/=-]{20,400})")
_PIN = LinearRegex(
    r"(?i)\b(?:(?:my|your|his|her|our|card|atm|phone|door|alarm|sim|bank) (?:[a-z]+ )?pin(?: number)?"
    r"|(?:door|gate|alarm|safe|locker|entry) (?:code|combination)) ?(?:is|was|:|=) ?([0-9]{4,8})\b"
)

_NO_SECRET = LinearRegex(
    r"(?i)example|sample|dummy|placeholder|changeme|your|xxxx|\*\*\*|\.\.\.|todo|redacted|<|\$\{|%\(|\bnull\b|"
    r"none|true|false|undefined|process\.env|os\.environ|getenv|required|https?:"
)
_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_SIGNS = frozenset("!#$%^&*~+?")
"""Signs inside a word that no word has."""

_KEY_LENGTH = 16
_PASSWORD_LENGTH = 8
_FEWEST_DIGITS = 6
_SENTENCE_END = ".!?:"
_ARTICLES = ("the ", " a ", "this ", "that ", "another ", "no ", "mountain ", "bus ")
_CALL = LinearRegex(r"[a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)*$")
_NO_PAIR = LinearRegex(
    r"^(?:v?[0-9]+[.:]|[0-9]+(?:st|nd|rd|th|am|pm|h|d|k|x|gb|mb|%|\))|q[1-4])|\.[a-z]{2,4}(?:$|[/:?])|-[0-9]+$"
)
"""Times, amounts, versions and hosts."""

_MAIL = LinearRegex(r"[^@\s]+@[^@\s]+\.[a-z]{2,}$")


def find_assigned(plain: str, least_bits: float) -> Iterator[Span]:
    """Find values that are given to a name such as ``api_key`` or ``password`` and look like no word.

    A key has at least 16 characters and the asked entropy; a password has letters and digits or signs.

    Args:
        plain: the text in plain form, case kept.
        least_bits: least entropy of a key, in bits a character.
    """
    for (_, end), *_ in _NAMED_KEY.spans(plain):
        start, value, _ = _given(plain, end)
        if _is_mixed(value) and len(value) >= _KEY_LENGTH and bits_per_character(value) >= least_bits:
            yield Span(start, start + len(value), "generic", 0.8)
    for (_, end), name, link in _NAMED_PASSWORD.spans(plain):
        start, value, quoted = _given(plain, end)
        if plain[slice(*name)].lower() == "pass" and plain[max(0, name[0] - 9) : name[0]].lower().endswith(
            _ARTICLES
        ):
            continue
        assigned = plain[slice(*link)] in ("=", ":")
        if not _is_password(value, spaces=quoted):
            continue
        yield Span(
            start, start + len(value), "generic", 0.75 if len(value) >= _PASSWORD_LENGTH or assigned else 0.6
        )
    yield from _without_link(plain, least_bits)
    for _, (start, end) in _PIN.spans(plain):
        yield Span(start, end, "generic", 0.6)
    for _, _, *values in _LOGIN.spans(plain):
        start, value = _value(plain, values)
        if len(value) >= _PASSWORD_LENGTH and _is_mixed(value) and (value.lower() != value or not value.isalnum()):
            yield Span(start, start + len(value), "generic", 0.6)


def _without_link(plain: str, least_bits: float) -> Iterator[Span]:
    """Find keys right behind their name, values of sessions, and passwords behind a user's name."""
    for pattern in (_KEY_BEHIND, _SESSION):
        for _, *values in pattern.spans(plain):
            start, value = _value(plain, values)
            if _is_mixed(value) and bits_per_character(value) >= least_bits:
                yield Span(start, start + len(value), "generic", 0.7)
    for _, *values in _PAIR.spans(plain):
        start, value = _value(plain, values)
        if _is_mixed(value) and _MAIL.match(value) is None and not _NO_PAIR.search(value):
            yield Span(start, start + len(value), "generic", 0.6)


def _given(plain: str, at: int) -> tuple[int, str, bool]:
    """Return the value that stands at an offset, where it starts, and whether quotes are around it."""
    quote = plain[at : at + 1]
    if quote and quote in "\"'`":
        line = plain[at + 1 : at + 1 + _LONGEST_QUOTED].partition("\n")[0]
        end = line.find(quote)
        if end >= _SHORTEST:
            return at + 1, line[:end].rstrip(_SENTENCE_END), True
    found = _VALUE.match(plain[at : at + _LONGEST])
    if found is None or len(found[1]) < _SHORTEST:
        return at, "", False
    return at + found.end - len(found[1]), found[1].rstrip(_SENTENCE_END), False


def _value(plain: str, groups: list[tuple[int, int]]) -> tuple[int, str]:
    start, end = max(groups)
    return start, plain[start:end].rstrip(_SENTENCE_END)


def _is_mixed(value: str) -> bool:
    """Tell whether a value has letters and digits, and stands for nothing else."""
    return not (_DIGITS.isdisjoint(value) or _LETTERS.isdisjoint(value)) and _NO_SECRET.search(value) is None


def _is_password(value: str, *, spaces: bool) -> bool:
    """Tell whether a value is one that people choose, rather than a word, a call or an address."""
    if " " in value and not spaces:
        return False
    if _is_mixed(value):
        return _MAIL.match(value) is None and (" " not in value or "-" in value or value.count(" ") > 1)
    if value.isdigit():
        return len(value) >= _FEWEST_DIGITS and len(set(value)) > 1
    if _LETTERS.isdisjoint(value) or not value[:1].isalpha() or _NO_SECRET.search(value):
        return False
    return not _SIGNS.isdisjoint(value[:-1]) and "=" not in value and _CALL.match(value) is None


def bits_per_character(text: str) -> float:
    """Return the Shannon entropy of the characters of a text, in bits a character; 0 for an empty one.

    Source: C. E. Shannon, A Mathematical Theory of Communication (1948), section 6.

    >>> bits_per_character("aaaa"), bits_per_character("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-count / len(text) * math.log2(count / len(text)) for count in counts) if len(counts) > 1 else 0.0
