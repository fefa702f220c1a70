"""From the text of a pattern to its words, each with its place."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from turnwise.errors import PatternError

MAX_LENGTH = 10_000
"""Characters of a pattern, at most."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>"(?:[^"\\\n]|\\.)*")
  | (?P<symbol><=|>=|==|!=|[<>+\-*/(),.=])
    """,
    re.VERBOSE | re.ASCII,
)

_INSTEAD = {
    "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not", "<>": "!=", "=>": ">=", "=<": "<=",
    "≥": ">=", "≤": "<=", "≠": "!=", "−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "∧": "and", "∨": "or",
    "¬": "not", "'": '"', "“": '"', "”": '"',
}  # fmt: skip


class Token(NamedTuple):
    """A word of a pattern.

    Args:
        kind: ``number``, ``name``, ``quoted``, ``symbol`` or ``end``.
        text: as written; of what stands in quotes, what stands there.
        start: characters before it.
        end: characters up to its end.
    """

    kind: str
    text: str
    start: int
    end: int


def read_tokens(text: str) -> list[Token]:
    """Return the words of a text, and one of the kind ``end`` after them.

    Raises:
        PatternError: the text is too long, or holds a character that stands for nothing.

    >>> [token.text for token in read_tokens("peak(F)>=.5")]
    ['peak', '(', 'F', ')', '>=', '.5', '']
    """
    if len(text) > MAX_LENGTH:
        raise PatternError(f"a pattern has at most {MAX_LENGTH:,} characters, this one {len(text):,}")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unreadable(text, at)
        at = found.end()
        kind = str(found.lastgroup)
        if kind == "quoted":
            tokens.append(Token(kind, _unquoted(text, found.start(), at), found.start(), at))
        elif kind != "space":
            tokens.append(Token(kind, found.group(), found.start(), at))
    end = len(text.rstrip())
    tokens.append(Token("end", "", end, end))
    return tokens


def _unquoted(text: str, start: int, end: int) -> str:
    try:
        value: str = json.loads(text[start:end], strict=False)
    except ValueError:
        raise PatternError(
            "a backslash in a quoted name starts an escape as in JSON; write \\\\ for a backslash",
            text,
            start,
            end - start,
        ) from None
    if not value:
        raise PatternError("a quoted name is empty", text, start, end - start)
    return value


def _unreadable(text: str, at: int) -> PatternError:
    for width in (2, 1):
        if instead := _INSTEAD.get(text[at : at + width]):
            return PatternError(f"{text[at : at + width]!r} is not used here; write {instead}", text, at, width)
    if text[at] == '"':
        return PatternError("the quoted name has no end", text, at)
    return PatternError(f"{text[at]!r} stands for nothing in a pattern", text, at)
