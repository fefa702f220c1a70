"""Encoded stretches of a text, and what they say: entities, tags, percent signs, escapes, base64 and the like."""

from __future__ import annotations

import base64
import binascii
import html
import string
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from heapq import merge
from html.entities import html5
from itertools import pairwise

from turnwise.guard.recognisers.text import Stretch, Undo, stretches
from turnwise.linear_regex import LinearRegex

_HEX = frozenset(string.hexdigits)
_ASCII_CODES = {high + low: chr(int(high + low, 16)) for high in "01234567" for low in string.hexdigits}
_CODE_WIDTH = 3
_CODED = {mark: LinearRegex(f"(?:{mark}[0-9A-Fa-f]{{2}})+") for mark in "%="}
_ELEMENT = LinearRegex(r"<(?:!|/?[A-Za-z][A-Za-z0-9]{0,31}[ \t\r\n/>])")

# what entities of HTML stand for; others have leading zeros, are of other scripts, or run into each other
_SHOWN = {
    f"&{entity}": character
    for code in range(32, 127)
    for character in (chr(code),)
    for entity in (f"#{code}", f"#{code};", f"#x{code:x}", f"#x{code:x};", f"#X{code:x}", f"#X{code:x};")
} | {f"&{name}": shown for name, shown in html5.items() if name.endswith(";")}

_LONGEST_ENTITY = 34
_LONGEST_TAG = 300
# elements that stand apart from what is before and behind them
_BLOCKS = frozenset(
    """
    address article aside blockquote br caption center dd div dl dt fieldset footer form h1 h2 h3 h4 h5
    h6 header hr li main nav ol option p pre section table tbody td tfoot th thead tr ul
    """.split()  # noqa: SIM905 - a list of words reads best as words
)

_SPELLED_SIGNS = frozenset({"at", "dot"})  # no elements, but signs of an address
_FEWEST_TAGS = 4  # tag characters in a row from which they are a text, not noise between characters
_TAG = r"[\x{e0020}-\x{e007e}]"
_UNSEEN = r"[\x{200b}-\x{200d}\x{2060}\x{feff}]{0,2}"
_SELECTOR = r"[\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]"
_TAG_ROW = LinearRegex(rf"{_TAG}(?:{_UNSEEN}{_TAG}){{{_FEWEST_TAGS - 1},}}|{_SELECTOR}{{{_FEWEST_TAGS},}}")
# the tag characters of Unicode: invisible copies of ASCII, which models read (Unicode Standard, chapter 23.9)
_TAG_TEXT = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
_OVERRIDE = LinearRegex(r"\x{202e}[^\x{202a}-\x{202e}\x{2066}-\x{2069}\n]{2,}")
_CODE_POINTS = LinearRegex(
    r"(?i)(?:(?:U\+|%u)[0-9A-F]{4,6}[ ,;]{0,2}){3,}|(?:\\[0-9A-F]{2,6} ){3,}"
    r"|(?:chr\( ?[0-9]{1,7} ?\)[ +.&,]{0,3}){3,}"
)
_CODE_POINT = LinearRegex(r"[0-9A-Fa-f]{2,7}")
_DIGITS = frozenset(string.digits)
_CODE_DIGITS = frozenset(string.digits + ";")
_OCTAL = frozenset("01234567")
_ESCAPE_DIGITS = {"x": 2, "u": 4, "U": 8}  # hexadecimal digits by mark


def tag_characters(text: str) -> Iterator[Stretch]:
    """Texts in tag characters, and in variation selectors, 256 that stand for bytes.

    >>> hidden = "".join(chr(0xE0100 + ord(each) - 16) for each in "drop")
    >>> [stretch.text for stretch in tag_characters(hidden)]
    [' drop ']
    """
    for row in _TAG_ROW.finditer(text):
        codes = [*map(ord, row[0])]
        if codes[0] in _TAG_TEXT:
            yield Stretch(row.start, row.end, f" {row[0].translate(_TAG_TEXT)} ")
        else:
            data = bytes(code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16 for code in codes)
            with suppress(UnicodeDecodeError):
                yield Stretch(row.start, row.end, f" {data.decode('utf-8')} ")


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
        at, stop = next(_ELEMENT.places(data, max(behind, closed - _LONGEST_TAG + 1)), (-1, -1))
        if at < 0:
            return
        behind = at + 1
        name = text[at + 1 : stop - 1].lstrip("/").lower()
        if name in _SPELLED_SIGNS:
            continue
        if at > closed:
            closed = data.find(b">", at)
            if closed >= at + _LONGEST_TAG:
                continue
        mark, width = (b"-->", 3) if data.startswith(b"<!--", at) else (b">", 1)
        end = data.find(mark, at, at + _LONGEST_TAG) + width
        if end >= width:
            behind = end
            closed = data.find(b">", end)
            alone = mark == b"-->" and text[max(0, at - 1) : at].strip(" \n>") == ""
            shown = text[at + 4 : end - 3].strip() if alone else ""
            if " " in shown or (shown.isalpha() and at):
                yield Stretch(at, end, f" {shown} ")
                continue
            yield Stretch(at, end, "\n" if name in _BLOCKS else "")


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


# characters between two codes of quoted-printable text, at most, and how many pairs are so close at least
_CLOSE, _FEWEST_CLOSE = 8, 3


def soft_breaks(text: str) -> Iterator[Stretch]:
    r"""Soft line breaks and encoded characters of quoted-printable text (RFC 2045).

    >>> [stretch.text for stretch in soft_breaks("41=\n11 =34=31")], list(soft_breaks("a=40"))
    (['', '4', '1'], [])
    """
    breaks = [Stretch(at, at + 2, "") for at in _places(text, "=\n")]
    breaks += [Stretch(at, at + 3, "") for at in _places(text, "=\r\n")]
    codes = list(_coded_bytes(text, "="))
    # Codes that stand alone are more likely assignments, such as width=40.
    close = sum(after.start - each.end <= _CLOSE for each, after in pairwise(codes))
    lone = not breaks and close < _FEWEST_CLOSE and all(a.end != b.start for a, b in pairwise(codes))
    yield from sorted(breaks if lone else breaks + codes)


def escapes(text: str) -> Iterator[Stretch]:
    r"""Escapes of programming languages.

    >>> [stretch.text for stretch in escapes(r"\u0034\x31\061 C:\new")]
    ['4', '1', '1']
    >>> list(escapes(r"\\\\u0034"))  # escaped twice
    [Stretch(start=0, end=9, text='4')]
    """
    first = behind = -1
    for at in _places(text, "\\"):
        first = first if at == behind else at
        behind = at + 1
        mark = text[at + 1 : at + 2]
        if mark == "u" and text.startswith("{", at + 2):
            end = _run_end(text, at + 3, _HEX, 6)
            digits, end = text[at + 3 : end], end + text.startswith("}", end)
            base = 16
        elif mark in _ESCAPE_DIGITS:
            end, base = at + 2 + _ESCAPE_DIGITS[mark], 16
            digits = text[at + 2 : end]
            digits = digits if _HEX.issuperset(digits) and len(digits) == _ESCAPE_DIGITS[mark] else ""
        else:
            end, base = at + 4, 8
            digits = text[at + 1 : end]
            digits = digits if _OCTAL.issuperset(digits) and len(digits) == 3 else ""
        if digits and 32 <= int(digits, base) <= 0x10FFFF:
            yield Stretch(first if base == 16 else at, end, chr(int(digits, base)))


def overridden(text: str) -> Iterator[Stretch]:
    """Texts behind a right-to-left override, as they are shown (Unicode Standard Annex 9).

    >>> [stretch.text for stretch in overridden("a \u202ecba\u202c d")]
    ['abc']
    """
    for ((start, end),) in _OVERRIDE.spans(text):
        yield Stretch(start, end, text[start + 1 : end][::-1])


def code_points(text: str) -> Iterator[Stretch]:
    """Rows of code points, such as U+0034 U+0031, %u0034%u0031, and chr(52)+chr(49).

    >>> [stretch.text for stretch in code_points("so U+0034 U+0031 U+0031 is chr(52)+chr(49) + chr(49)")]
    ['411 ', '411']
    """
    for row in _CODE_POINTS.finditer(text):
        base = 10 if row[0][0] in "cC" else 16
        codes = [int(code[0], base) for code in _CODE_POINT.finditer(row[0])]
        if all(32 <= code <= 0x10FFFF for code in codes):
            yield Stretch(row.start, row.end, "".join(map(chr, codes)) + " " * row[0].endswith(" "))


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


# Words and rows of codes that are text once decoded: base64, base32, hexadecimal and binary digits

_BASE32 = frozenset(string.ascii_uppercase + "234567=")
_BASE32_ORDER = string.ascii_uppercase + "234567"
# the first two characters of base32 whose first byte may begin a text
_BASE32_STARTS = frozenset(
    first + second
    for high, first in enumerate(_BASE32_ORDER)
    for low, second in enumerate(_BASE32_ORDER)
    if (code := high << 3 | low >> 2) in b"\t\n\r" or 32 <= code < 127 or code >= 0xC2
)

_BITS = frozenset("01")
_WORD = string.ascii_letters + string.digits + "+/_=-"  # characters of the words that may be encoded text
_TO_STANDARD = str.maketrans("-_", "+/")

# characters of a word from which it may be encoded text; fewer encode less than a phone number has
_SHORTEST = 12

_LONGEST_NUMBER = 19  # digits of a word, at most, that are a number rather than letters in hexadecimal digits
_FEWEST_CODES = 7  # codes in a row, such as 34 31 31, from which they may be text
_LONG_WORD = LinearRegex(rf"[A-Za-z0-9+/_=-]{{{_SHORTEST},}}")
_CODE = "(?:0x[0-9A-Fa-f]{0,6}|[0-9A-Fa-f]{1,8})"
# a row of codes; the last may be the beginning of another word
_ROW = LinearRegex(
    rf"(?:^|[^A-Za-z0-9+/_=-]){_CODE}"
    rf"(?:(?:[ ,:;\n]{{3}}[^A-Za-z0-9+/_=-]*|[ ,:;\n]{{1,2}}){_CODE}){{{_FEWEST_CODES - 1},}}"
)

_BETWEEN_WORDS = bytes(code if chr(code) in _WORD else ord(" ") for code in range(256))

# where a word is long and no plain one, or codes stand in a row
_ENCODED_HINT = LinearRegex(
    rf"[A-Za-z0-9+/_=-]{{{_SHORTEST}}}"
    rf"|[0-9A-Fa-fx]+(?:[ ,:;\n][^A-Za-z0-9+/_=-]*[0-9A-Fa-fx]+){{{_FEWEST_CODES - 1}}}"
)

_JOINED = 3  # characters of long words in lines that are tried together, for each character of the text
_WHITE = str.maketrans("\t\r\n", "   ")


def encoded_words(text: str) -> Iterator[Stretch]:
    """What reads as text once decoded: base64, base32, hexadecimal and binary digits, and lists of codes.

    >>> [stretch.text for stretch in encoded_words("MTIzLTQ1LTY3ODk= 34 31 31 31 31 31 31 31 internationally")]
    ['123-45-6789', '41111111']
    """
    room = _JOINED * len(text)
    behind = 0
    read = cache(_of_word)
    lines: deque[tuple[int, int]] = deque()
    has_lines = "\n" in text
    long_words = ((*spans[0], False) for spans in _LONG_WORD.spans(text))
    rows = [(*spans[0], True) for spans in _ROW.spans(text)]
    for start, end, is_row in merge(long_words, rows) if rows else long_words:
        if start < behind:
            continue
        if is_row:
            yield from _in_row(text, start, end)
            continue
        while lines and lines[0][0] < start:
            lines.popleft()
        lines = lines or (_lines_from(text, start, end) if has_lines else lines)
        whole = None
        if len(lines) > 1 and room > 0:
            pieces = "".join(text[first:last] for first, last in lines)
            room -= len(pieces)
            whole = read(pieces)
        if whole is not None:
            behind = lines[-1][1]
            yield Stretch(start, behind, whole)
            continue
        yield from _in_word(text, start, end, read)


def _in_row(text: str, start: int, end: int) -> Iterator[Stretch]:
    """What a row of codes says that begins at an offset or right behind it; a last one that goes on is no code."""
    start += text[start] not in _WORD
    codes = text[start:end].encode("ascii", "replace").translate(_BETWEEN_WORDS).decode().split()
    if text[end : end + 1] and text[end] in _WORD:
        end -= len(codes.pop())
        end = start + len(text[start:end].encode("ascii", "replace").translate(_BETWEEN_WORDS).rstrip())
    shown = _of_codes(codes) if len(codes) >= _FEWEST_CODES else None
    if shown is not None:
        yield Stretch(start, end, shown)


def _lines_from(text: str, start: int, end: int) -> deque[tuple[int, int]]:
    """Where words stand that only line ends part; the last may be short."""
    lines = deque([(start, end)])
    while end - start >= _SHORTEST and (start := _line_end(text, end)):
        line_end = text.find("\n", start)
        line = text[start : line_end if line_end >= 0 else len(text)]
        end = start + len(line) - len(line.lstrip(_WORD))
        if end == start:
            break
        lines.append((start, end))
    return lines


def _in_word(text: str, start: int, end: int, read: Callable[[str], str | None]) -> Iterator[Stretch]:
    if end - start < _SHORTEST:
        return
    word = text[start:end]
    shown = read(word)
    if shown is not None:
        yield Stretch(start, end, shown)
        return
    bare = word.rstrip("=")
    for mark in ("=", "/", "-", "_"):
        if mark not in bare:
            continue
        at, found = start, []
        for part in word.split(mark):
            shown = read(part) if len(part) >= _SHORTEST else None
            if shown is not None:
                behind = at + len(part)
                if mark == "=":
                    padding = text[behind : behind + 2]
                    behind += len(padding) - len(padding.lstrip("="))
                found.append(Stretch(at, behind, shown))
            at += len(part) + 1
        if found:
            yield from found
            return


def _of_word(word: str) -> str | None:
    """What a word says once decoded; None where that is no text."""
    bare = word.removeprefix("0x")
    if _HEX.issuperset(bare) and len(bare) % 2 == 0:
        if _BITS.issuperset(bare) and len(bare) % 8 == 0:
            return _readable(bytes(int(bare[at : at + 8], 2) for at in range(0, len(bare), 8)))
        shown = _readable(bytes.fromhex(bare))
        if shown is not None and (len(bare) > _LONGEST_NUMBER or not bare.isdigit() or shown.isdigit()):
            return shown
    body = word.rstrip("=")
    if word[:2] in _BASE32_STARTS and _BASE32.issuperset(word):
        try:
            shown = _readable(base64.b32decode(body + "=" * (-len(body) % 8)))
        except binascii.Error:
            shown = None
        if shown is not None:
            return shown
    if len(body) % 4 == 1 or "=" in body or (body.isalpha() and body[1:].islower()):
        return None
    try:
        return _readable(binascii.a2b_base64(body.translate(_TO_STANDARD) + "=" * (-len(body) % 4)))
    except binascii.Error:
        return None


def _of_codes(codes: Sequence[str]) -> str | None:
    if all(len(code) == 8 and _BITS.issuperset(code) for code in codes):
        return _readable(bytes(int(code, 2) for code in codes))
    if all(code.isdigit() and 32 <= int(code) < 127 for code in codes):
        shown = "".join(chr(int(code)) for code in codes)
        if any(map(str.isalnum, shown)):  # else they are digits in hexadecimal ones
            return shown
    if all(len(code) == 3 and _OCTAL.issuperset(code) and "040" <= code < "177" for code in codes):
        return "".join(chr(int(code, 8)) for code in codes)
    if not all(len(code.removeprefix("0x")) == 2 for code in codes):
        points = [int(code, 16) for code in codes if len(code) > 2 and code.startswith("0x")]
        return "".join(map(chr, points)) if len(points) == len(codes) and max(points) <= sys.maxunicode else None
    return _readable(bytes.fromhex("".join(code.removeprefix("0x") for code in codes)))


def _readable(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    shown = text.translate(_WHITE)
    if len(text) < _FEWEST_CODES or shown.isspace():
        return None
    return text if all(each.isprintable() or unicodedata.category(each) == "Cf" for each in set(shown)) else None


def _line_end(text: str, at: int) -> int:
    """The offset behind a line end, or 0 where there is none."""
    if text.startswith("\r\n", at):
        return at + 2
    return at + 1 if text.startswith("\n", at) else 0


_BY_MARK: Sequence[tuple[str, Undo]] = (
    ("\u202e", overridden),
    ("\x1b[", terminal_codes),
    ("<", tags),
    ("&", entities),
    ("%u", code_points),
    ("U+", code_points),
    ("chr(", code_points),
    ("%", percents),
    ("\\", code_points),
    ("\\", escapes),
    ("=", soft_breaks),
)

# what a text in one line of printable ASCII has, at least, in which something is encoded; RE2
HINTS = (r"[%&<\\=]|U\+|chr\(", _ENCODED_HINT.pattern)


def decoders_for(text: str) -> list[Undo]:
    """The decoders that may find something in a text; few or none for an ordinary one.

    >>> decoders_for("An ordinary message, 20% off.") == [percents]
    True
    """
    found = [*dict.fromkeys(decoder for mark, decoder in _BY_MARK if mark in text)]
    if not text.isascii() and _TAG_ROW.search(text) is not None:
        found.append(tag_characters)
    if _ENCODED_HINT.search(text) is not None:
        found.append(encoded_words)
    return found
