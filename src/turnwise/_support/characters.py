"""All characters of a text at once: what each becomes, and of what kind it is."""

from __future__ import annotations

import string
import sys
import unicodedata
from codecs import utf_32_le_decode, utf_32_le_encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Mapped(NamedTuple):
    """What a text became, and for each character of it the place that it came from; None where each became one."""

    text: str
    origins: NDArray[np.intp] | None = None


class CharacterTable:
    """Maps all characters of a text at once, in some nanoseconds each, by a function that is asked once for each.

    `form` says what a character becomes, of any length. It is not asked for the code points in `same`, from one to
    before another: they stay.

    >>> table = CharacterTable(lambda character: {"\u00df": "ss", "\u200b": ""}.get(character, character))
    >>> table.map("a\u200b\u00df").text, table.map("a\u200b\u00df").origins.tolist(), table.map("ab")
    ('ass', [0, 2, 2], Mapped(text='ab', origins=None))
    """

    def __init__(self, form: Callable[[str], str], same: Sequence[tuple[int, int]] = ()) -> None:
        self._form = form
        self._same = same
        self._others: dict[str, int] = {}
        self._lock = Lock()

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        """By code point the one that it becomes: below 0 for what is not one character, 0 where not met before."""
        import numpy as np

        return np.zeros(sys.maxunicode + 1, np.int32)  # takes memory only for what is met

    def map(self, text: str) -> Mapped:
        """What a text becomes; lone surrogates are characters like others."""
        codes = codes_of(text)
        mapped = self._table.take(codes)
        if text and mapped.min() <= 0:
            if not mapped.all():
                self._meet(codes[mapped == 0])
                mapped = self._table.take(codes)
            if mapped.min() < 0:
                return self._of_odd_length(mapped)
        return Mapped(text_of(mapped))

    def _of_odd_length(self, mapped: NDArray[np.int32]) -> Mapped:
        import numpy as np

        odd = mapped < 0
        others = [*self._others]
        forms = [others[~number] for number in mapped[odd].tolist()]
        lengths = np.ones(len(mapped), np.intp)
        lengths[odd] = [*map(len, forms)]
        origins = np.repeat(np.arange(len(mapped)), lengths)
        plain = mapped[origins]
        plain[odd[origins]] = codes_of("".join(forms))
        return Mapped(text_of(plain), origins)

    def _meet(self, codes: NDArray[np.uint32]) -> None:
        for first, behind in self._same:
            inside = (codes >= first) & (codes < behind)
            self._table[codes[inside]] = codes[inside]
            codes = codes[~inside]
        with self._lock:
            for code in set(codes.tolist()):
                form = self._form(chr(code))
                is_one = len(form) == 1 and form != "\0"
                self._table[code] = ord(form) if is_one else ~self._others.setdefault(form, len(self._others))


def codes_of(text: str) -> NDArray[np.uint32]:
    import numpy as np

    return np.frombuffer(utf_32_le_encode(text, "surrogatepass")[0], np.uint32)


def text_of(codes: NDArray[np.uint32] | NDArray[np.int32]) -> str:
    return utf_32_le_decode(codes.tobytes(), "surrogatepass")[0]


# kinds of characters outside ASCII: Latin letters, letters of other scripts, decimal digits, other numbers,
# white space, marks that stand over others, and all else
LATIN, LETTER, DIGIT, NUMBER, SPACE, MARK, SIGN = "\x80\x81\x82\x83\x84\x85\x86"

OTHER_ALNUM = LATIN + LETTER + DIGIT + NUMBER
LETTERS_AND_DIGITS = string.ascii_letters + string.digits + OTHER_ALNUM
WHITE_SPACE = string.whitespace + "\x1c\x1d\x1e\x1f" + SPACE

_NOT_MET = 255


def kinds_of(text: str) -> bytes:
    """A byte for each character of a text: ASCII as it is, others by their kind.

    >>> kinds_of("a\u00e9\u044f\u0663 \u3000").decode("latin-1") == "a" + LATIN + LETTER + DIGIT + " " + SPACE
    True
    """
    if text.isascii():
        return text.encode("ascii")
    codes = codes_of(text)
    kinds = _kinds().take(codes)
    if kinds.max() == _NOT_MET:
        for code in set(codes[kinds == _NOT_MET].tolist()):
            _kinds()[code] = ord(_kind(chr(code)))
        kinds = _kinds().take(codes)
    return kinds.tobytes()


@cache
def _kinds() -> NDArray[np.uint8]:
    import numpy as np

    return np.full(sys.maxunicode + 1, _NOT_MET, np.uint8)


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


def byte_table(becomes: Mapping[str, str], other: str) -> bytes:
    """A table for `bytes.translate` of `kinds_of`: the first form that has a character or kind counts.

    >>> kinds_of("a\u00e9 1-").translate(byte_table({"x": LETTERS_AND_DIGITS, "": "-"}, " "))
    b'xx x-'
    """
    table: dict[str, str] = {}
    for form, marks in becomes.items():
        for mark in marks:
            table.setdefault(mark, form or mark)
    return "".join(table.get(chr(code), other) for code in range(256)).encode("latin-1")
