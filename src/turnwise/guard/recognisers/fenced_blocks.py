"""Blocks of code between fences of Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex

HINTS = (r"(?:^|\n)[ \t>]{0,9}(?:```|~~~)",)
"""What a text with one has, at least; RE2."""

_MOST = 200
"""Blocks of a text that are told apart."""

_FENCE = LinearRegex(r"(?m)^[ \t>]{0,9}(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]{0,200})$")
_PROSE = frozenset({"text", "txt", "plain", "plaintext", "quote", "poem"})
_CODE = LinearRegex(r"(?m)[={}()<>;\[\]$|\\]|^\s*#|--\w")


def find_fenced(plain: str) -> Iterator[Span]:
    """Find blocks between fences of Markdown, but those marked as plain text, and unmarked ones without any sign.

    Source: CommonMark 0.31, section 4.5.

    Args:
        plain: the text in plain form, case kept.
    """
    opened: tuple[int, str, str] | None = None  # where the block begins, its fence, and what stands behind that
    count = end = 0
    for spans in _FENCE.spans(plain):
        (start, behind), fence, info = spans[0], plain[slice(*spans[1])], plain[slice(*spans[2])].strip()
        if opened is None:
            opened, end = (start, fence, info), behind
        elif not info and fence[0] == opened[1][0] and len(fence) >= len(opened[1]):
            count += 1
            if count > _MOST:
                break
            if _is_code(opened[2], plain[end:start]):
                yield Span(opened[0], behind, "fenced", 0.95 if opened[2] else 0.8)
            opened = None
    if opened is not None and _is_code(opened[2], plain[end:]):
        yield Span(opened[0], len(plain), "fenced", 0.7)


def _is_code(info: str, body: str) -> bool:
    language = info.lower().split(" ")[0]
    if language in _PROSE or not body.strip():
        return False
    return bool(language) or _CODE.search(body) is not None
