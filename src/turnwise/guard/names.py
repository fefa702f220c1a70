"""Names: the one form that all spellings share, what stands for them, and names as texts."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import Final

from turnwise._support.visible import shown
from turnwise.conversation.participants import UNKNOWN_NAME
from turnwise.errors import GuardError
from turnwise.guard.recognisers.folding import LATIN, plain_character
from turnwise.sessions.state import ID_BYTES

_UNSEEN_MARKS: Final = frozenset(
    map(chr, (0x34F, 0x17B4, 0x17B5, 0x2065, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
)
"""Marks that show nothing by themselves."""

_LETTERS: Final = frozenset(("Lu", "Ll", "Lt", "Lo"))


def canonical_name(name: str) -> str:
    """The form that all spellings of a name share; empty for a name that shows nothing.

    It has no capitals, no characters that show nothing, and single blanks between words; digits, dashes and
    styled letters are plain (Unicode Standard Annex 15, NFKC). Where a name mixes scripts, letters that look
    alike (Unicode Technical Standard 39) become those of one script: Latin, or the script in which it has
    letters that look like no Latin one. A name in one script other than Latin stays as it is, and accents always
    stay.

    >>> {canonical_name(name) for name in ("Victim ", "ｖictim", "vic\u200btim", "vі\u0441tim")}
    {'victim'}
    >>> canonical_name("Ив\u0061н"), canonical_name("Åsa"), canonical_name("\u200b")
    ('иван', 'åsa', '')
    """
    if name.isascii():
        text = name if name.isprintable() else "".join(map(_shown, name))
        return " ".join(text.lower().split())
    text = unicodedata.normalize("NFKC", "".join(map(_shown, name)))
    scripts = set(map(_script, _caseless(text))) - {""}
    if len(scripts) != 1 or "LATIN" in scripts:
        text = _in_one_script(text)
    return " ".join(_caseless(text).split())


UNNAMED: Final = frozenset(
    {"", canonical_name(UNKNOWN_NAME), "anonymous", "client", "customer", "guest", "human", "me", "user", "you"}
)
"""Canonical forms of names that name nobody, words for a role among them: not all users are one person."""


def checked_name(name: object, what: str) -> str:
    """The canonical form of a name that must not be empty; `what` is how the error calls it."""
    canonical = canonical_name(name) if isinstance(name, str) else ""
    if not canonical:
        raise GuardError(f"{what} is {shown(name)}; use text that is not empty, or leave it out")
    return canonical


@lru_cache(maxsize=1 << 12)
def _shown(character: str) -> str:
    """A character in plain form, marks as they are; empty for one that shows nothing."""
    category = unicodedata.category(character)
    if category == "Cc":
        return " " if character.isspace() else ""
    if character in _UNSEEN_MARKS or "\U000e0000" <= character <= "\U000e0fff":
        return ""
    return character if category[0] == "M" else plain_character(character)


@lru_cache(maxsize=1 << 12)
def _script(character: str) -> str:
    """The script of a letter, as its Unicode name begins; empty for what is no letter."""
    if unicodedata.category(character) not in _LETTERS:
        return ""
    return unicodedata.name(character, "?").partition(" ")[0]


def _caseless(text: str) -> str:
    # The dot of a Turkish capital I is that of the small letter.
    return unicodedata.normalize("NFKC", text.casefold().replace("i\u0307", "i"))


def _in_one_script(text: str) -> str:
    """A name with the look-alikes of all scripts as letters of one."""
    by_case, small, back = _look_alikes()
    latin = _caseless(text.translate(by_case)).translate(small)
    left = set(map(_script, latin)) - {"", "LATIN"}
    if len(left) != 1:
        return latin
    (script,) = left
    own = back.get(script, {})
    return "".join(
        each if _script(each) == script else each.translate(small).translate(own) for each in _caseless(text)
    )


@cache
def _look_alikes() -> tuple[dict[int, str], dict[int, str], dict[str, dict[int, str]]]:
    """The Latin letter of each look-alike, by case and without; and each Latin letter's look-alike, by script.

    Where case makes a difference, as with the Greek nu, the small letter counts without it. Latin letters with a
    mark, such as a stroke, are other letters.
    """
    usable = {
        sign: letter.lower()
        for sign, letter in sorted(LATIN.items(), key=lambda item: item[0].islower())
        if " WITH " not in unicodedata.name(sign, "") and not sign.casefold().isascii()
    }
    small = {sign.casefold(): letter for sign, letter in usable.items()}
    small |= {sign: letter for sign, letter in usable.items() if sign == sign.casefold()}
    back: dict[str, dict[int, str]] = {}
    for sign, letter in usable.items():
        back.setdefault(_script(sign), {}).setdefault(ord(letter), sign.casefold())
    return str.maketrans(usable), str.maketrans(small), back


def short_id(text: str) -> str:
    """An id as it is, or its SHA-256 where it is longer than a session memory takes.

    >>> short_id("user-1"), len(short_id("x" * 100))
    ('user-1', 64)
    """
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= ID_BYTES else sha256(raw).hexdigest()


def digest_of(name: str) -> str:
    """What stands for a name in a state store, so that names are not in it: 32 digits of its SHA-256.

    >>> digest_of("ann")
    '49915e0d7d4b402e3017d010bc1c0e83'
    """
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# Names as texts: of tools, of fields, of who speaks. They have words, and are no sentences

_LONGEST: Final = 64  # characters of a name that providers take

_PLAIN_WORDS, _LONGEST_WORD, _LONGEST_ID = 2, 13, 32
"""Short words that say no order yet; characters of one; hexadecimal digits that are an id and no secret."""

_LATIN: Final = "\u024f"

_HEX: Final = frozenset("0123456789abcdefABCDEF")

_SIGNS: Final = str.maketrans(dict.fromkeys("_.,:;/\\-+|~#=@'()", " "))


def is_ordinary(name: str) -> bool:
    """Whether a name is so short and plain that it can say no order and hold no secret.

    >>> [is_ordinary(name) for name in ("get_weather", "Anna Müller", "user_123", "gpt-4.1")]
    [True, True, True, True]
    >>> [is_ordinary(name) for name in ("ignore_all_rules", "ignorePreviousOrders", "1gn0re all rul3s", "王小明")]
    [False, False, False, False]
    """
    if len(name) > _LONGEST or max(name, default="") > _LATIN:
        return False
    words = [
        word for word in name.translate(_SIGNS).split() if len(word) > _LONGEST_ID or not _HEX.issuperset(word)
    ]
    return len(words) <= _PLAIN_WORDS and all(len(word) <= _LONGEST_WORD for word in words)


def as_text(name: str) -> str:
    """A name as a text, with its words apart below it where they are not.

    >>> as_text("printSystem_prompt").split("\\n")
    ['printSystem_prompt', 'print System prompt']
    """
    pairs = pairwise(f" {name}")
    apart = "".join(f" {now}" if before.islower() and now.isupper() else now for before, now in pairs)
    words = " ".join(apart.translate(_SIGNS).split())
    return name if words == name else f"{name}\n{words}"


def is_name(text: str) -> bool:
    """Whether a text is but a name, as it stands or as `as_text` gives it.

    >>> [is_name(text) for text in ("reset_user_password", as_text("resetUserPassword"), "Reset my password")]
    [True, True, False]
    """
    name = text.partition("\n")[0]
    return len(name.split()) == 1 and len(name) <= _LONGEST and text in (name, as_text(name))
