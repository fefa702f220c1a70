"""From the text of a pattern to its words, and the errors that point at one.

`parser` reads patterns with it, and `turnwise.store.where` conditions on sequences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.errors import PatternError, UnknownNameError, nearest
from turnwise.patterns.expression import Expression, Named, mismatch, shortened
from turnwise.patterns.function_table import FUNCTIONS, ValueKind
from turnwise.patterns.series import COMPONENTS

if TYPE_CHECKING:
    from turnwise.patterns.library import Library

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


OF_A_TURN = ("turn", "chars")
"""Words for a number of the turn."""

OF_A_SCORE = (*COMPONENTS, "trust")
"""Words for a series of scores, alone or after the name of a principle."""

_WORDS = frozenset({*OF_A_TURN, *OF_A_SCORE, "k_of", "and", "or", "not", "response", "run"})


def is_built_in(word: str) -> bool:
    """Whether a word means something already, and so can't name a pattern or a parameter."""
    return word in _WORDS or word in FUNCTIONS


class Token(NamedTuple):
    """A word of a pattern and the characters before its beginning and end."""

    kind: str  # number, name, quoted, symbol or end
    text: str  # as written, without quotes
    start: int
    end: int


def read_tokens(text: str) -> list[Token]:
    """Split a text into words, with one of the kind ``end`` after them.

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
        if kind != "space":
            word = _unquoted(text, found.start(), at) if kind == "quoted" else found.group()
            tokens.append(Token(kind, word, found.start(), at))
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
        raise PatternError("a quoted name is empty; write the name between the quotes", text, start, end - start)
    return value


def _unreadable(text: str, at: int) -> PatternError:
    for width in (2, 1):
        if instead := _INSTEAD.get(text[at : at + width]):
            return PatternError(f"{text[at : at + width]!r} is not used here; write {instead}", text, at, width)
    if text[at] == '"':
        return PatternError("the quoted name is not closed; add a quote at its end", text, at)
    return PatternError(f"{text[at]!r} has no meaning in a pattern; remove it", text, at)


@dataclass(frozen=True, slots=True)
class ParseContext:
    """What a text is read with; ``expanded``, what named patterns stood for, is shared by all read in one go."""

    patterns: Library
    principles: Collection[str] | None = None  # None takes every name
    bound: Mapping[str, Expression] = field(default_factory=dict)  # by parameter, in a definition
    within: tuple[str, ...] = ()  # patterns whose definitions are being read, outermost first
    nesting: int = 0
    expanded: dict[tuple[str, tuple[tuple[str, Expression], ...]], Named] = field(default_factory=dict)


class Argument(NamedTuple):
    """An expression and its place in the text; `name` where it was written ``name=expression``."""

    node: Expression
    start: int
    end: int
    name: Token | None = None


class TokenReader:
    """A place in the words of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = read_tokens(text)
        self._at = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    @property
    def after_next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Return the next word and go past it; at the end it stays there."""
        token = self.next
        self._at += token.kind != "end"
        return token

    def comes(self, symbol: str) -> bool:
        return self.next.kind == "symbol" and self.next.text == symbol

    def operator(self) -> str:
        """The symbol, ``and`` or ``or`` that comes next; empty where none does."""
        token = self.next
        joins = token.kind == "name" and token.text in ("and", "or")
        return token.text if joins or token.kind == "symbol" else ""

    def made(self, start: int, end: int, node: Any, *values: Any) -> Argument:
        """Make a node of values; where it refuses them, the error shows the place."""
        return Argument(self.tried(start, end, node, *values), start, end)

    def tried(self, start: int, end: int, make: Any, *values: Any) -> Any:
        """Call a function with values; where it refuses them, the error shows the place."""
        try:
            return make(*values)
        except PatternError as error:
            raise PatternError(error.reason, self.text, start, end - start) from None

    def demand(self, kind: ValueKind, where: str, *parts: Argument) -> None:
        """Refuse parts that are not of a kind, at their place."""
        for part in parts:
            if part.node.kind is not kind:
                raise self.error(f"{where} takes a {kind}, but {mismatch(part.node)}", part)

    def shown(self, part: Token | Argument) -> str:
        """A part as it was written, shortened where it is long."""
        return shortened(self.text[part.start : part.end], 30)

    def error(self, reason: str, place: Token | Argument) -> PatternError:
        return PatternError(reason, self.text, place.start, place.end - place.start)

    def no_value(self, token: Token) -> PatternError:
        """The error for a word where a value should begin."""
        if token.kind == "end":
            return self.error("the pattern ends where a value should follow", token)
        if token.text == "+":
            return self.error("leave out the + before the number", token)
        return self.error(
            f"{self.shown(token)} can't stand here: write a number, a series such as reciprocity.F, or a function "
            "before it",
            token,
        )

    def no_operator(self, token: Token) -> PatternError:
        """The error for a word where an operator, or the end, should be."""
        if token.text == "=" and token.kind == "symbol":
            return self.error("= gives a parameter its value; write == to compare", token)
        if token.text.lower() in ("and", "or") and token.kind == "name":
            return self.error(f"write {token.text.lower()} in small letters", token)
        if token.text == ")" and token.kind == "symbol":
            return self.error("this parenthesis closes nothing", token)
        return self.error(f"an operator such as and, or, > or + is missing before {self.shown(token)}", token)

    def closing(self, opening: Token) -> Token:
        """Go past the parenthesis that closes another, and return it."""
        if self.comes(")"):
            return self.take()
        if self.next.kind == "end":
            raise self.error("this parenthesis is not closed", opening)
        raise self.no_operator(self.next)


def unknown(kind: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """Say that a name is unknown, with the nearest one, also of those that don't belong in that place.

    >>> unknown("series", "f", ["T", "I", "F"])
    "unknown series 'f'; did you mean 'F'? known: F, I, T"
    """
    names = sorted(map(str, set(known)))
    # The nearest name is found without regard to case: f is meant for F.
    by_folded = {candidate.casefold(): str(candidate) for candidate in [*also, *names]}
    near = nearest(name.casefold(), by_folded)
    message = str(UnknownNameError(kind, name, names))
    if near is None or "did you mean" in message:
        return message
    return message.replace("; known:", f"; did you mean {by_folded[near]!r}? known:", 1)
