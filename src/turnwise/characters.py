"""All characters of a text at once: what each becomes, and what kind it is of."""

from __future__ import annotations

import string
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]

_OTHERS = sys.maxunicode + 2
"""Entries of a table from here on stand for what is not one character; those below for a code point and one."""


class Mapped(NamedTuple):
    """What the characters of a text became.

    Args:
        text: the text of what they became.
        origins: for each character of `text` the place of the one that it came from; None where all became one.
    """

    text: str
    origins: NDArray[np.intp] | None = None


class CharacterTable:
    """Maps all characters of a text at once, in some nanoseconds each, by a function that is asked once for each.

    Args:
        form: what a character becomes, of any length.
        same: code points that stay, from one to before another, for which `form` is not asked.

    >>> table = CharacterTable(lambda character: {"\u00df": "ss", "\u200b": ""}.get(character, character))
    >>> table.map("a\u200b\u00df").text, table.map("a\u200b\u00df").origins.tolist(), table.map("ab")
    ('ass', [0, 2, 2], Mapped(text='ab', origins=None))
    """

    def __init__(self, form: Callable[[str], str], same: Sequence[tuple[int, int]] = ()) -> None:
        self._form = form
        self._same = same
        self._others: list[str] = []
        self._indexes: dict[str, int] = {}
        self._lock = Lock()

    @cached_property
    def _entries(self) -> Codes:
        """What stands for each code point; 0 for those that were not met, which take no memory."""
        import numpy as np

        return np.zeros(sys.maxunicode + 1, np.uint32)

    def map(self, text: str) -> Mapped:
        """Return what a text becomes.

        Args:
            text: any text; lone surrogates are characters like others.
        """
        codes = codes_of(text)
        mapped = self._entries[codes] - 1
        if mapped.max(initial=0) <= sys.maxunicode:
            return Mapped(text_of(mapped))
        return self._mapped(codes)

    def _mapped(self, codes: Codes) -> Mapped:
        import numpy as np

        met = self._entries[codes]
        if not met.all():
            self._meet(np.unique(codes[met == 0]))
            met = self._entries[codes]
        odd = met >= _OTHERS
        if not odd.any():
            return Mapped(text_of(met - 1))
        forms = [self._others[index] for index in (met[odd] - _OTHERS).tolist()]
        lengths = np.ones(len(codes), np.intp)
        lengths[odd] = [*map(len, forms)]
        origins = np.repeat(np.arange(len(codes)), lengths)
        mapped = met[origins] - 1
        mapped[odd[origins]] = codes_of("".join(forms))
        return Mapped(text_of(mapped), origins)

    def _meet(self, codes: Codes) -> None:
        for first, behind in self._same:
            inside = (codes >= first) & (codes < behind)
            self._entries[codes[inside]] = codes[inside] + 1
            codes = codes[~inside]
        with self._lock:
            for code in codes.tolist():
                form = self._form(chr(code))
                if len(form) == 1:
                    self._entries[code] = ord(form) + 1
                    continue
                if form not in self._indexes:
                    self._others.append(form)
                self._entries[code] = _OTHERS + self._indexes.setdefault(form, len(self._others) - 1)


def codes_of(text: str) -> Codes:
    """Return the code points of a text."""
    import numpy as np

    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def text_of(codes: Codes) -> str:
    """Return the text of code points."""
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


LATIN, LETTER, DIGIT, NUMBER, SPACE, MARK, SIGN = "\x80\x81\x82\x83\x84\x85\x86"
"""Kinds of characters outside ASCII: Latin letters, letters of other scripts, decimal digits, other numbers, white space,
marks that stand over others, and all else."""

OTHER_ALNUM = LATIN + LETTER + DIGIT + NUMBER
LETTERS_AND_DIGITS = string.ascii_letters + string.digits + OTHER_ALNUM
WHITE_SPACE = string.whitespace + "\x1c\x1d\x1e\x1f" + SPACE


def kinds_of(text: str) -> bytes:
    """Return a byte for each character of a text: ASCII as it is, others by their kind.

    >>> kinds_of("a\u00e9\u044f\u0663\u3000\u0301\u2014").decode("latin-1") == "a" + LATIN + LETTER + DIGIT + SPACE + MARK + SIGN
    True
    """
    return text.encode("ascii") if text.isascii() else _KINDS.map(text).text.encode("latin-1")


def _kind(character: str) -> str:
    if character.isascii():
        return character
    if character.isdecimal():
        return DIGIT
    if character.isalpha():
        return LATIN if unicodedata.name(character, "").startswith("LATIN ") else LETTER
    if character.isalnum():
        return NUMBER
    if character.isspace():
        return SPACE
    return MARK if unicodedata.category(character)[0] == "M" else SIGN


_KINDS = CharacterTable(_kind)


def byte_table(becomes: Mapping[str, str], other: str) -> bytes:
    """Return a table for `bytes.translate` of what `kinds_of` returns.

    Args:
        becomes: characters and kinds by what they become; the first that has one counts. Empty for itself.
        other: what all others become.

    >>> kinds_of("a\u00e9 1-").translate(byte_table({"x": LETTERS_AND_DIGITS, "": "-"}, " "))
    b'xx x-'
    """
    table = {mark: mark if form == "" else form for form in reversed(becomes) for mark in becomes[form]}
    return "".join(table.get(chr(code), other) for code in range(256)).encode("latin-1")
