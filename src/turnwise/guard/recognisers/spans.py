"""Stretches of a text: what was recognised in them, or what they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple


class Span(NamedTuple):
    """A stretch of a text and what it is.

    Args:
        start: offset of its first character.
        end: offset behind its last character.
        kind: what it is, such as ``email``.
        confidence: how sure that is, in [0, 1].
    """

    start: int
    end: int
    kind: str
    confidence: float


def apart(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order and apart from each other; of overlapping ones the surer, then the longer, stays.

    >>> apart([Span(4, 9, "phone", 0.6), Span(0, 7, "card", 0.9), Span(9, 12, "ip", 0.9)])
    [Span(start=0, end=7, kind='card', confidence=0.9), Span(start=9, end=12, kind='ip', confidence=0.9)]
    """
    kept: list[Span] = []
    for span in sorted(spans):
        while kept and kept[-1].end > span.start:
            last = kept[-1]
            if (last.confidence, last.end - last.start) >= (span.confidence, span.end - span.start):
                break
            kept.pop()
        else:
            kept.append(span)
    return kept


def counted(kinds: Iterable[str], names: Mapping[str, tuple[str, str]]) -> str:
    """Return how many of each kind there are, in words, in the order of their first appearance.

    Args:
        kinds: the kinds, repeated.
        names: singular and plural by kind; a kind without one is named by itself.

    >>> counted(["email", "email", "card"], {"email": ("e-mail address", "e-mail addresses")})
    '2 e-mail addresses, 1 card'
    """
    words = []
    for kind, count in Counter(kinds).items():
        singular, plural = names.get(kind, (kind, kind))
        words.append(f"{count} {singular if count == 1 else plural}")
    return ", ".join(words)


class Stretch(NamedTuple):
    """A stretch of a text and what it stands for.

    Args:
        start: offset of its first character.
        end: offset behind its last character.
        text: what it stands for.
    """

    start: int
    end: int
    text: str


def stretches(starts: Iterable[int], ends: Iterable[int], texts: Iterable[str]) -> Iterator[Stretch]:
    """Yield stretches of their parts, faster than one by one: a text can have one for each character.

    >>> list(stretches([0, 2], [1, 3], "ab"))
    [Stretch(start=0, end=1, text='a'), Stretch(start=2, end=3, text='b')]
    """
    return map(partial(tuple.__new__, Stretch), zip(starts, ends, texts, strict=False))
