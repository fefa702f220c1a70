"""Keys and passwords that only their name gives away."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterator

from turnwise.guard.recognisers.text import Span, TextReading
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
    r"\x{30d1}\x{30b9}\x{30ef}\x{30fc}\x{30c9}|\x{be44}\x{bc00}\x{bc88}\x{d638}|"
    r"has\x{142}o|heslo|jelsz\xf3|l\xf6senord|adgangskode|passord|salasana|"
    r"parol[a\xe3]m?\x{131}?|\x{15f}ifrem?|kata sandi"
)
_PREFIX = r"(?:[a-z0-9_-]{0,30}?[_-]|pg|mysql|db|redis|wifi|root|admin)?"
_BEHIND = r"[a-z0-9_]{0,20}[\"'\])]{0,2}"
_OWNER = (
    r"(?: (?:for|of|to|on|in|from|de|del|della|du|des|von|vom|zum|zur|f\xfcr|pour|para|per|do|da|di|van|voor|"
    r"\x{43e}\x{442}|\x{434}\x{43b}\x{44f}|\x{43a}|\x{43d}\x{430}) [^\n\"'=:.?!;,]{1,40}?)?"
)
"""Whose or of what it is, between its name and what gives it its value."""

_LINK = (
    r":=|=>|==?|:|\bis now\b:?|\bis set to\b|\bis still\b|\bis\b:?|'s\b|\bwas\b|\bto\b|\bchanged to\b|"
    r"\breset to\b|\bist\b|\blautet\b|\bes\b|"
    r"\best\b|\xe9|\x{662f}|\x{306f}|\x{ff1a}"
)

_SIGNS_OF_PASSWORDS = "!#$%&*~+?^"

SHAPES = (
    rf"(?:{_KEY})[^\n]*[0-9]",
    rf"(?:{_PASSWORD})[^\n]*[0-9{_SIGNS_OF_PASSWORDS}]",
    r"\b(?:pin|code|combination)\b[^\n]*[0-9]{4}",
    r"(?:\bcred|\blog ?in|\bsign ?in|\broot|\badmin|administrator)[^\n]*[/:] ?[^\s]{6}",
    r"\bmysql\b[^\n]* -p",
    r"(?:session|sessionid|sid)=[a-z0-9._%+/=-]{4}",
)
"""What a text has, at least, in which there may be one; RE2, ignoring case."""

_NAMED_KEY = LinearRegex(rf"(?i)(?:^|[^a-z0-9_-]){_PREFIX}({_KEY}){_BEHIND}{_OWNER} ?({_LINK}) ?")
_NAMED_PASSWORD = LinearRegex(
    rf"(?i)(?:^|[^a-z0-9_-]|[_-]){_PREFIX}({_PASSWORD}){_BEHIND}{_OWNER} ?"
    rf"({_LINK}) ?"
)
_FORM_KEY, _FORM_PASSWORD = (
    LinearRegex(
        rf"(?i)(?:{names})[a-z0-9_]{{0,20}}[\"'\])]{{0,2}} ?(?:[:=]{{1,2}}|\bis\b) ?[\"'`]?[^\s\"'`:=]{{8,100}}"
    )
    for names in (_KEY, _PASSWORD)
)
"""Names and values right behind them, for texts with too many to be read."""

_BEFORE_VALUE = "\n\t\"'`:= "

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
    r"|(?:door|gate|alarm|safe|locker|entry) (?:code|combination)"
    r"|(?:pin|code|combination) (?:for|to|of) "
    r"(?:the|my|our|his|her) (?:[a-z]+ )?(?:door|gate|alarm|safe|locker|phone|card|"
    r"sim|house|garage|vault)) ?(?:is|was|:|=) ?([0-9]{4,8})\b"
)

_NO_SECRET = LinearRegex(
    r"(?i)example|sample|dummy|placeholder|changeme|your|xxxx|\*\*\*|\.\.\.|todo|redacted|<|\$\{|%\(|\bnull\b|"
    r"none|true|false|undefined|process\.env|os\.environ|getenv|required|https?:"
)
_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_SIGNS = frozenset(_SIGNS_OF_PASSWORDS)
"""Signs inside a word that no word has."""

_READ = 64
"""Names of a kind in a text whose values are read; behind those beyond them a value counts by its form alone."""

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


def find_assigned(text: TextReading, least_bits: float) -> Iterator[Span]:
    """Values given to a name such as ``api_key`` or ``password`` that look like no word.

    A key needs at least `least_bits` of entropy a character.
    """
    plain = text.plain
    for count, ((_, end), *_) in enumerate(_NAMED_KEY.spans(plain)):
        if count == _READ:
            yield from _by_form(plain, end, _FORM_KEY, _KEY_LENGTH)
            break
        start, value, _ = _given(plain, end)
        if _is_mixed(value) and len(value) >= _KEY_LENGTH and bits_per_character(value) >= least_bits:
            yield Span(start, start + len(value), "generic", 0.8)
    for count, ((_, end), name, link) in enumerate(_NAMED_PASSWORD.spans(plain)):
        if count == _READ:
            yield from _by_form(plain, end, _FORM_PASSWORD, _PASSWORD_LENGTH)
            break
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


def _by_form(plain: str, at: int, form: LinearRegex, shortest: int) -> Iterator[Span]:
    """Values right behind names, from `at` on, that are long enough and have digits and letters."""
    for ((first, last),) in form.spans(plain[at:]):
        value = plain[at + first : at + last]
        for mark in _BEFORE_VALUE:
            value = value.rpartition(mark)[2]
        if len(value) >= shortest and not (_DIGITS.isdisjoint(value) or _LETTERS.isdisjoint(value)):
            yield Span(at + last - len(value), at + last, "generic", 0.5)


def _without_link(plain: str, least_bits: float) -> Iterator[Span]:
    """Keys right behind their name, values of sessions, and passwords behind a user's name."""
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
    """The value at an offset, where it starts, and whether it stands in quotes."""
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
    """Whether a value has letters and digits and is no placeholder."""
    return not (_DIGITS.isdisjoint(value) or _LETTERS.isdisjoint(value)) and _NO_SECRET.search(value) is None


def _is_password(value: str, *, spaces: bool) -> bool:
    """Whether a value is one that people choose, rather than a word, a call or an address."""
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
    """Shannon entropy in bits a character; 0 for an empty text.

    C. E. Shannon, A Mathematical Theory of Communication (1948), section 6.

    >>> bits_per_character("aaaa"), bits_per_character("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-count / len(text) * math.log2(count / len(text)) for count in counts) if len(counts) > 1 else 0.0
