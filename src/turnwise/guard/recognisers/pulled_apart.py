"""Words that are pulled apart: single characters with one separator between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import compress, repeat
from operator import add, itemgetter

from turnwise._support.characters import LETTERS_AND_DIGITS, SPACE, WHITE_SPACE, byte_table, codes_of, kinds_of
from turnwise.guard.recognisers.spans import Stretch, stretches
from turnwise.linear_regex import LinearRegex

GAP = 4
"""Characters between two groups of a number, at most, and of one that is pulled apart."""

APART_LEAST = 5
"""Single characters in a row from which they are one word pulled apart."""

_APART_MOST = 200
"""Single characters in a row that keep their own places; more are one place, as no value has so many."""

_ASCII_MARKS = tuple(mark for mark in map(chr, range(128)) if not mark.isalnum())

_SEPARATORS_TRIED = 6
"""Different separators of a text that are tried, the commonest first."""

_INSIDE = f"[ ,]{{0,{GAP - 1}}} *, *"
_ROW = LinearRegex(rf"(?:, *[xo]{_INSIDE}|[ o][xo],(?:[ ,]{{0,{GAP - 2}}} *,)? *)(?:[xo]{_INSIDE}){{3,}}[xo][^x]")
"""Five single characters in a row, at least, in the shapes of a text; the last may belong to another row as well.

The first may be the last of a longer word and the last the first of one, where a sign or space is beside it.
"""

_IS_ITEM = bytes(chr(code) in "xo" for code in range(256))


def pulled_apart(text: str) -> Iterator[Stretch]:
    """What stands between the characters of words that are pulled apart; wider gaps become a space.

    >>> list(pulled_apart("my k e y"))[:1], len(list(pulled_apart("it is A-K-I-A-Q")))
    ([], 4)
    """
    kinds = kinds_of(text)
    common = _common_marks(text, kinds)
    tried = [(rows, mark) for mark in common if (rows := [*_rows(text, kinds, mark)])]
    tried.sort(key=lambda each: sum(map(_width, each[0])), reverse=True)
    taken: list[Sequence[int]] = []
    separators: dict[int, str] = {}
    for rows, mark in tried:
        # Where words share characters, those of the separator with the most to undo count.
        free = rows if not taken else [row for row in rows if _is_free(row, taken)]
        separators.update((row[0], mark) for row in free)
        taken = sorted([*taken, *free], key=itemgetter(0))
    for row in taken:
        yield from _between(text, row, separators[row[0]])


def _common_marks(text: str, kinds: bytes) -> Sequence[str]:
    """The signs and spaces that a text has most often, of those that may pull words apart."""
    if text.isascii():
        counts = [(text.count(mark), mark) for mark in _ASCII_MARKS if mark in text]
    else:
        counts = [*_marks_in(text, kinds)]
    enough = [each for each in counts if each[0] >= APART_LEAST - 1]
    return [mark for _, mark in sorted(enough, reverse=True)[:_SEPARATORS_TRIED]]


def _marks_in(text: str, kinds: bytes) -> Iterator[tuple[int, str]]:
    """How often a text has signs and spaces, also outside ASCII."""
    import numpy as np

    every = np.frombuffer(kinds, np.uint8)
    counts = np.bincount(every, minlength=128).tolist()
    yield from ((counts[ord(mark)], mark) for mark in _ASCII_MARKS)
    others = codes_of(text)[every >= ord(SPACE)]
    codes, found = np.unique(others, return_counts=True)
    for code, count in zip(codes.tolist(), found.tolist(), strict=True):
        yield count, chr(code)


def _is_free(row: Sequence[int], taken: Sequence[Sequence[int]]) -> bool:
    """Whether a row shares no place with any of others, which are in order and apart."""
    index = bisect_right(taken, row[0], key=itemgetter(0))
    return (index == 0 or taken[index - 1][-1] < row[0]) and (index == len(taken) or row[-1] < taken[index][0])


def _width(row: Sequence[int]) -> int:
    return row[-1] - row[0] + 1 - len(row)


def _rows(text: str, kinds: bytes, separator: str) -> Iterator[Sequence[int]]:
    """Where the characters of each word stand that is pulled apart with one separator between them."""
    if not separator.isascii():
        kinds, separator = kinds_of(text.replace("\0", "\1").replace(separator, "\0")), "\0"
    shapes = kinds.translate(_shapes_by(separator))
    # A comma before the text and a space behind it stand for its ends.
    shapes = b",%b " % shapes
    for start, end in _ROW.places(shapes, shared=2):
        first, last = start + 1, end - 2
        row = shapes[first : last + 1].lstrip()
        first = last + 1 - len(row)
        count = len(row) - row.count(b" ") - row.count(b",")
        if len(row) == 2 * count - 1:
            yield range(first - 1, last, 2)
        else:
            yield [*compress(range(first - 1, last), row.translate(_IS_ITEM))]


@cache
def _shapes_by(separator: str) -> bytes:
    """Shapes: comma for the separator, space for other white space, x for letters and digits, o for all else."""
    return byte_table({",": separator, " ": WHITE_SPACE, "x": LETTERS_AND_DIGITS}, "o")


def _between(text: str, row: Sequence[int], separator: str) -> Iterator[Stretch]:
    """The gaps between the characters of a word pulled apart; a very long one is one stretch."""
    starts: Sequence[int]
    instead: Iterable[str]
    if isinstance(row, range):
        starts, instead = range(row.start + 1, row.stop - 1, 2), repeat("", len(row) - 1)
    else:
        starts = [at + 1 for at in row[:-1]]
        gaps = [*map(text.__getitem__, map(slice, starts, row[1:]))]
        forms = {gap: _instead(gap, separator) for gap in set(gaps)}
        instead = map(forms.__getitem__, gaps)
    if len(row) > _APART_MOST:
        joined = "".join(map(add, instead, map(text.__getitem__, row[1:])))
        yield Stretch(starts[0], row[-1] + 1, joined)
    else:
        yield from stretches(starts, row[1:], instead)


def _instead(gap: str, separator: str) -> str:
    """What a gap stands for; a separator where it stood there itself as well, as in 1-2---3."""
    if gap.count(separator) < 2:
        return ""
    return " " if separator.isspace() or gap.strip(separator) else separator
