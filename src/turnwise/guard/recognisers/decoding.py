"""Encoded stretches of a text, and what they say: entities, tags, percent signs, escapes, base64 and the like."""

from __future__ import annotations

import html
import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from html.entities import html5
from itertools import pairwise

from turnwise.guard.recognisers.encoded_words import ENCODED_HINT, encoded_words
from turnwise.guard.recognisers.spans import Stretch, stretches
from turnwise.linear_regex import LinearRegex

_HEX = frozenset(string.hexdigits)
_ASCII_CODES = {high + low: chr(int(high + low, 16)) for high in "01234567" for low in string.hexdigits}
_CODE_WIDTH = 3
_CODED = {mark: LinearRegex(f"(?:{mark}[0-9A-Fa-f]{{2}})+") for mark in "%="}
_TAG = LinearRegex(r"<(?:!|/?[A-Za-z][A-Za-z0-9]{0,31}[ \t\r\n/>])")

_SHOWN = {
    f"&{entity}": character
    for code in range(32, 127)
    for character in (chr(code),)
    for entity in (f"#{code}", f"#{code};", f"#x{code:x}", f"#x{code:x};", f"#X{code:x}", f"#X{code:x};")
} | {f"&{name}": shown for name, shown in html5.items() if name.endswith(";")}
"""What entities of HTML stand for; others have leading zeros, are of other scripts, or run into each other."""

_LONGEST_ENTITY = 34
_LONGEST_TAG = 300
_BLOCKS = frozenset(
    """
    address article aside blockquote br caption center dd div dl dt fieldset footer form h1 h2 h3 h4 h5
    h6 header hr li main nav ol option p pre section table tbody td tfoot th thead tr ul
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Elements that stand apart from what is before and behind them."""

_FEWEST_TAGS = 4
"""Tag characters in a row from which they are a text, not noise between characters."""

_TAG_ROW = LinearRegex(rf"[\x{{e0020}}-\x{{e007e}}]{{{_FEWEST_TAGS},}}")
_TAG_TEXT = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
"""The tag characters of Unicode: invisible copies of ASCII, which models read (Unicode Standard, chapter 23.9)."""

Decoder = Callable[[str], Iterator[Stretch]]


HINTS = (r"[%&<\\=]", ENCODED_HINT.pattern)
"""What a text in one line of printable ASCII has, at least, in which something is encoded; RE2."""


def decoders_for(text: str) -> list[Decoder]:
    """The decoders that may find something in a text; few or none for an ordinary one.

    >>> decoders_for("An ordinary message, 20% off.") == [percents]
    True
    """
    found = [decoder for mark, decoder in _BY_MARK if mark in text]
    if not text.isascii() and _TAG_ROW.search(text) is not None:
        found.append(tag_characters)
    if ENCODED_HINT.search(text) is not None:
        found.append(encoded_words)
    return found


def tag_characters(text: str) -> Iterator[Stretch]:
    """Texts in tag characters."""
    for row in _TAG_ROW.finditer(text):
        yield Stretch(row.start, row.end, f" {row[0].translate(_TAG_TEXT)} ")


def terminal_codes(text: str) -> Iterator[Stretch]:
    r"""Codes that colour text in a terminal.

    >>> list(terminal_codes("4\x1b[1m1"))
    [Stretch(start=1, end=5, text='')]
    """
    for at in _places(text, "\x1b["):
        end = _run_end(text, at + 2, _CODE_DIGITS, 16)
        if text[end : end + 1].isalpha():
            yield Stretch(at, end + 1, "")


def tags(text: str) -> Iterator[Stretch]:
    r"""Tags and comments: nothing, but a line end for elements that stand apart.

    >>> [stretch.text for stretch in tags("4<b></b>1<br/>")]
    ['', '', '\n']
    """
    data = text.encode("ascii", "replace")  # a byte for each character
    behind = 0
    closed = data.find(b">")
    while closed >= 0:
        at, stop = next(_TAG.places(data, max(behind, closed - _LONGEST_TAG + 1)), (-1, -1))
        if at < 0:
            return
        behind = at + 1
        if at > closed:
            closed = data.find(b">", at)
            if closed >= at + _LONGEST_TAG:
                continue
        mark, width = (b"-->", 3) if data.startswith(b"<!--", at) else (b">", 1)
        end = data.find(mark, at, at + _LONGEST_TAG) + width
        if end >= width:
            behind = end
            closed = data.find(b">", end)
            yield Stretch(at, end, "\n" if text[at + 1 : stop - 1].lstrip("/").lower() in _BLOCKS else "")


def entities(text: str) -> Iterator[Stretch]:
    """Entities of HTML.

    >>> [stretch.text for stretch in entities("&#52;&#x31 &commat; &amp;#52; R&D &lt&#65;")]
    ['4', '1', '@', '&', '<A']
    """
    behind = 0
    for at in _places(text, "&"):
        if at < behind:
            continue
        if text.startswith("#", at + 1):
            digits_at = at + 3 if text[at + 2 : at + 3] in ("x", "X") else at + 2
            end = _run_end(text, digits_at, _HEX if digits_at == at + 3 else _DIGITS, 8)
            if end == digits_at:
                continue
            end += text.startswith(";", end)
        else:
            end = text.find(";", at, at + _LONGEST_ENTITY) + 1
            if end == 0:
                continue
        shown = _SHOWN.get(text[at:end]) or html.unescape(text[at:end])
        if len(shown) <= 2 and shown != text[at:end]:
            behind = end
            yield Stretch(at, end, shown)


def percents(text: str) -> Iterator[Stretch]:
    """Percent-encoded characters (RFC 3986).

    >>> [stretch.text for stretch in percents("%34%31, 50%20x, 100%")]
    ['4', '1', ' ']
    """
    yield from _coded_bytes(text, "%")


def soft_breaks(text: str) -> Iterator[Stretch]:
    r"""Soft line breaks and encoded characters of quoted-printable text (RFC 2045).

    >>> [stretch.text for stretch in soft_breaks("41=\n11 =34=31")], list(soft_breaks("a=40"))
    (['', '4', '1'], [])
    """
    breaks = [Stretch(at, at + 2, "") for at in _places(text, "=\n")]
    breaks += [Stretch(at, at + 3, "") for at in _places(text, "=\r\n")]
    codes = list(_coded_bytes(text, "="))
    # One code alone is more likely an assignment, such as width=40.
    lone = not breaks and all(each.end != after.start for each, after in pairwise(codes))
    yield from sorted(breaks if lone else breaks + codes)


def escapes(text: str) -> Iterator[Stretch]:
    r"""Escapes of programming languages.

    >>> [stretch.text for stretch in escapes(r"\u0034\x31\061 C:\new")]
    ['4', '1', '1']
    """
    for at in _places(text, "\\"):
        mark = text[at + 1 : at + 2]
        if mark == "u" and text.startswith("{", at + 2):
            end = _run_end(text, at + 3, _HEX, 6)
            digits, end = text[at + 3 : end], end + text.startswith("}", end)
            base = 16
        elif mark in _ESCAPES:
            end, base = at + 2 + _ESCAPES[mark], 16
            digits = text[at + 2 : end]
            digits = digits if _HEX.issuperset(digits) and len(digits) == _ESCAPES[mark] else ""
        else:
            end, base = at + 4, 8
            digits = text[at + 1 : end]
            digits = digits if _OCTAL.issuperset(digits) and len(digits) == 3 else ""
        if digits and 32 <= int(digits, base) <= 0x10FFFF:
            yield Stretch(at, end, chr(int(digits, base)))


def _coded_bytes(text: str, mark: str) -> Iterator[Stretch]:
    """Bytes written as a mark and two hexadecimal digits; several that make up one character go together."""
    for start, end in _CODED[mark].places(text.encode("ascii", "replace")):
        if end - start == _CODE_WIDTH:
            shown = _ASCII_CODES.get(text[start + 1 : end])
            if shown is not None:
                yield Stretch(start, end, shown)
            continue
        data = bytes.fromhex(text[start:end].replace(mark, ""))
        if data.isascii():
            yield from stretches(range(start, end, 3), range(start + 3, end + 3, 3), data.decode("ascii"))
            continue
        with suppress(UnicodeDecodeError):
            yield Stretch(start, end, data.decode("utf-8"))


def _places(text: str, mark: str) -> Iterator[int]:
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + len(mark))


def _run_end(text: str, at: int, characters: frozenset[str], most: int) -> int:
    limit = min(len(text), at + most)
    while at < limit and text[at] in characters:
        at += 1
    return at


_DIGITS = frozenset(string.digits)
_CODE_DIGITS = frozenset(string.digits + ";")
_OCTAL = frozenset("01234567")
_ESCAPES = {"x": 2, "u": 4, "U": 8}
"""Hexadecimal digits by mark."""

_BY_MARK: Sequence[tuple[str, Decoder]] = (
    ("\x1b[", terminal_codes),
    ("<", tags),
    ("&", entities),
    ("%", percents),
    ("\\", escapes),
    ("=", soft_breaks),
)
