"""Words and rows of codes that are text once decoded: base64, base32, hexadecimal and binary digits."""

from __future__ import annotations

import base64
import binascii
import string
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from heapq import merge

from turnwise.guard.recognisers.spans import Stretch
from turnwise.linear_regex import LinearRegex

_HEX = frozenset(string.hexdigits)
_BASE32 = frozenset(string.ascii_uppercase + "234567=")
_BASE32_ORDER = string.ascii_uppercase + "234567"
_BASE32_STARTS = frozenset(
    first + second
    for high, first in enumerate(_BASE32_ORDER)
    for low, second in enumerate(_BASE32_ORDER)
    if (code := high << 3 | low >> 2) in b"\t\n\r" or 32 <= code < 127 or code >= 0xC2
)
"""The first two characters of base32 whose first byte may begin a text."""

_BITS = frozenset("01")
_WORD = string.ascii_letters + string.digits + "+/_=-"
"""Characters of the words that may be encoded text."""

_TO_STANDARD = str.maketrans("-_", "+/")

_SHORTEST = 12
"""Characters of a word from which it may be encoded text; fewer encode less than a phone number has."""

_FEWEST_CODES = 7
"""Codes in a row, such as 34 31 31, from which they may be text."""

_LONG_WORD = LinearRegex(rf"[A-Za-z0-9+/_=-]{{{_SHORTEST},}}")
_CODE = "(?:0x[0-9A-Fa-f]{0,6}|[0-9A-Fa-f]{1,8})"
_ROW = LinearRegex(
    rf"(?:^|[^A-Za-z0-9+/_=-]){_CODE}"
    rf"(?:(?:[ ,:;\n]{{3}}[^A-Za-z0-9+/_=-]*|[ ,:;\n]{{1,2}}){_CODE}){{{_FEWEST_CODES - 1},}}"
)
"""A row of codes; the last may be the beginning of another word."""

_BETWEEN_WORDS = bytes(code if chr(code) in _WORD else ord(" ") for code in range(256))

ENCODED_HINT = LinearRegex(
    rf"[A-Za-z0-9+/_=-]{{{_SHORTEST}}}"
    rf"|[0-9A-Fa-fx]+(?:[ ,:;\n][^A-Za-z0-9+/_=-]*[0-9A-Fa-fx]+){{{_FEWEST_CODES - 1}}}"
)
"""Where a word is long and no plain one, or codes stand in a row."""

_JOINED = 3
"""Characters of long words in lines that are tried together, for each character of the text."""

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
        if shown is not None:
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
        return "".join(chr(int(code)) for code in codes)
    if not all(len(code.removeprefix("0x")) == 2 for code in codes):
        return None
    return _readable(bytes.fromhex("".join(code.removeprefix("0x") for code in codes)))


def _readable(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    shown = text.translate(_WHITE)
    return text if len(text) >= _FEWEST_CODES and shown.isprintable() and not shown.isspace() else None


def _line_end(text: str, at: int) -> int:
    """The offset behind a line end, or 0 where there is none."""
    if text.startswith("\r\n", at):
        return at + 2
    return at + 1 if text.startswith("\n", at) else 0
