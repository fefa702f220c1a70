"""The arguments of a tool call: read as a text that guardrails can check, and written back with redactions."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.guard.guardrail import Redaction
from turnwise.guard.request import encodable

_NO_JSON: Final = object()
_NAMED: Final = {True: "true", False: "false", None: "null"}


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key that comes twice is kept twice."""


class Arguments:
    """The arguments of a tool call, as the model gave them (`raw`) and as a text to check.

    The text of JSON has each key and value decoded: a value of one word behind its key, others on lines of their
    own. What is not JSON is its own text.

    >>> arguments = Arguments('{"to": "ann@example.com", "text": "See you \\\\u0061t 9"}')
    >>> print(arguments.text)
    to: ann@example.com
    text:
    See you at 9
    >>> arguments.redacted([(Redaction(4, 19, "email"),)])
    '{"to": "[EMAIL]", "text": "See you at 9"}'
    """

    __slots__ = ("_leaves", "_value", "raw", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._leaves: list[tuple[int, int]] = []
        try:
            self._value = read_json(raw, pairs=_Object)
        except ValueError:
            self._value = _NO_JSON
            self.text = encodable(raw)
            return
        parts: list[str] = []
        at = 0
        for text, is_leaf in _told(self._value):
            if is_leaf:
                self._leaves.append((at, at + len(text)))
            parts.append(text)
            at += len(text)
        self.text = "".join(parts)

    def redacted(self, redactions: Iterable[Sequence[Redaction]]) -> str:
        """The arguments with redactions; each guardrail's offsets count in what the one before left of it."""
        text, leaves = self.text, self._leaves
        for some in redactions:
            text, leaves = _replaced(text, leaves, some)
        if text == self.text:
            return self.raw
        if self._value is _NO_JSON:
            return text
        before = (self.text[start:end] for start, end in self._leaves)
        after = (text[start:end] for start, end in leaves)
        return _written(self._value, zip(before, after, strict=True))


def _told(value: Any) -> Iterator[tuple[str, bool]]:
    """Yield a value as text in pieces, each with whether it is a key or value."""
    if isinstance(value, _Object):
        for place, (key, item) in enumerate(value):
            yield ("\n" if place else ""), False
            yield encodable(key), True
            inner = isinstance(item, list) or _text(item).split() != [_text(item)]
            yield (":\n" if inner else ": "), False
            yield from _told(item)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ("\n" if place else ""), False
            yield from _told(item)
    else:
        yield _text(value), True


def _text(value: Any) -> str:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, bool) or value is None:
        return _NAMED[value]
    return "" if isinstance(value, list) else str(value)


def _replaced(
    text: str, leaves: Sequence[tuple[int, int]], redactions: Sequence[Redaction]
) -> tuple[str, list[tuple[int, int]]]:
    """A text with stretches replaced, and where its keys and values then stand."""
    parts, end = [], 0
    for redaction in redactions:
        parts += [text[end : redaction.start], redaction.placeholder]
        end = redaction.end
    starts, ends = [one.start for one in redactions], [one.end for one in redactions]
    grown = [len(one.placeholder) - (one.end - one.start) for one in redactions]
    shifts = list(accumulate(grown, initial=0))

    def moved(at: int) -> int:
        """Where an offset moves to; one within a replaced stretch goes behind its placeholder."""
        whole = bisect_right(ends, at)
        within = bisect_left(starts, at)
        return (ends[whole] + shifts[whole + 1]) if within > whole else at + shifts[whole]

    return "".join([*parts, text[end:]]), [(moved(start), moved(end)) for start, end in leaves]


def _written(value: Any, leaves: Iterator[tuple[str, str]]) -> str:
    """A value as JSON, with each key and value as it is now; one that changed is written as a string."""
    if isinstance(value, _Object):
        pairs = [(_leaf(key, leaves), _written(item, leaves)) for key, item in value]
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(item, leaves) for item in value) + "]"
    return _leaf(value, leaves)


def _leaf(value: Any, leaves: Iterator[tuple[str, str]]) -> str:
    before, after = next(leaves)
    return json.dumps(value if after == before else after, ensure_ascii=False)
