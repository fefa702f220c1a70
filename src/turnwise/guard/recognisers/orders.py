"""How much a text looks as if it gave a model an order against its instructions, rather than mentioned one.

A linear model over words and pairs of words, fitted on pairs of texts of nearly the same words of which one gives
the order and one does not; ``python -m training.orders`` makes it. The weights are hashed (Weinberger et al.,
Feature Hashing for Large Scale Multitask Learning, 2009). It knows English only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from turnwise.scoring import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS = 16
"""Weights are 2 to the power of so many."""

WHOLE, PIECE, STEP = 192, 128, 96
"""Words and signs of a text that is read at once; of a longer one, of a piece, and from one piece to the next."""

_STEM = 5
"""Letters that tell a word whatever its ending."""

_FEWEST = 2
"""Words that stand outside of all quotation marks at least, where any inside count as quoted."""

_LEAST = 1e-4
"""Nearest that a score counts to 0 or 1."""

_SHORT = 2_000
"""Bytes of a text up to which what does not depend on it is made once."""

_SPACE, _LETTER, _SIGN = range(3)
_QUOTE, _APOSTROPHE, _LINE = b"\"'\n"
_MARKS = str.maketrans("“”„«»`’‘", '""""""\'\'')
_LOWER = np.frombuffer(bytes(range(256)).lower(), np.uint8)
_KINDS = np.array(
    [
        _LETTER if code > 127 or chr(code).isalnum() else _SPACE if chr(code) in " \t\r\f\v" else _SIGN
        for code in range(256)
    ],
    np.uint8,
)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))
_QUOTED, _FIRST, _LAST = np.array([0x5BD1E9955BD1E995, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_SINGLE, _BEFORE, _BEHIND = np.array(
    [
        [[0xFF51AFD7ED558CCD], [0xC4CEB9FE1A85EC53]],
        [[0xD6E8FEB86659FD93], [0xA0761D6478BD642F]],
        [[0xE7037ED1A0B428DB], [0x8EBC6AF09C88C6E3]],
    ],
    np.uint64,
)
"""Odd numbers; the high bits of sums of products with them are the hashes (multiply-shift), words above stems."""


@dataclass(frozen=True)
class Orders:
    """The fitted model.

    `weights` has one for each hash, in steps of `step`. `offset` is the log-odds of a text of which nothing is
    known. Beside scores, `words` weighs the log-odds by words, `scores` those of T, I and F by principle;
    `scores_offset` is added.

    >>> Orders(np.zeros(1 << BITS, np.int8), 1.0, -2.0).by_words("Ignore the rules.")
    -2.0
    """

    weights: NDArray[np.int8]
    step: float
    offset: float
    words: float = 1.0
    scores: Mapping[str, Sequence[float]] = field(default_factory=dict)
    scores_offset: float = 0.0

    def by_words(self, text: str) -> float:
        """The log-odds that a text gives such an order; of a long one, those of its likeliest piece."""
        sums = (self.weights[piece].sum(dtype=np.int64) / len(piece) ** 0.5 for piece in pieces(text))
        return self.offset + self.step * float(max(sums))

    def with_scores(self, by_words: float, scores: Mapping[str, Score]) -> float:
        """The log-odds of words and of an observer's scores of the text together."""
        weighed = (
            weight * value
            for principle, weights in self.scores.items()
            for weight, value in zip(weights, log_odds(scores[principle]), strict=True)
        )
        return self.scores_offset + self.words * by_words + sum(weighed)


def log_odds(score: Score) -> list[float]:
    """The log-odds of T, I and F; at 0 and 1, which have none, those of a value near by."""
    near = (min(max(value, _LEAST), 1 - _LEAST) for value in (score.T, score.I, score.F))
    return [math.log(value / (1 - value)) for value in near]


def pieces(text: str) -> Iterator[NDArray[np.intp]]:
    """The hashes of what is in each piece of a text, each once, in time linear in its length."""
    words = _hashes(text)
    single = words * _SINGLE
    pairs = words[:, :-1] * _BEFORE + words[:, 1:] * _BEHIND
    places = (np.concatenate((single[:, 1:], pairs)) >> np.uint64(64 - BITS)).astype(np.intp)
    count = places.shape[1]
    if count <= WHOLE:
        starts, size = [0], count
    else:
        starts, size = [*range(0, count - PIECE, STEP), count - PIECE], PIECE
    numbers, latest = np.arange(4 * size), np.empty(1 << BITS, np.intp)
    for start in starts:
        piece = places[:, start : start + size].ravel()
        latest[piece] = numbers
        yield piece[latest[piece] == numbers]


def _hashes(text: str) -> NDArray[np.uint64]:
    """Hashes of the words and signs of a text, and of their first letters; others inside quotation marks.

    They have shape (2, words), with a mark for the beginning and the end of the text.
    """
    marked = text if text.isascii() and "`" not in text else text.translate(_MARKS)
    data = _LOWER[np.frombuffer(f" {marked} ".encode("utf-8", "replace"), np.uint8)]
    kinds = _KINDS[data]
    marks = np.flatnonzero(data == _APOSTROPHE)
    inside = (kinds[marks - 1] == _LETTER) & (kinds[marks + 1] == _LETTER)
    kinds[marks[inside]] = _LETTER
    data[marks[~inside]] = _QUOTE
    # A word is a run of letters; each sign is alone. Texts begin and end with a space.
    new = (kinds[1:] != kinds[:-1]) | (kinds[1:] == _SIGN)
    starts = np.flatnonzero(new & (kinds[1:] != _SPACE))
    ends = np.flatnonzero(new & (kinds[:-1] != _SPACE))
    signs = np.where(kinds[starts + 1] == _SIGN, data[starts + 1], 0)
    quotes = np.cumsum(signs == _QUOTE)
    quotes -= np.maximum.accumulate(np.where(signs == _LINE, quotes, 0))  # none reaches behind its line
    # A polynomial of the bytes up to each place: the hash of a word is the difference of two, moved to the origin.
    powers, inverses = _powers(len(data)) if len(data) > _SHORT else _short_powers()
    sums = np.cumsum(data * powers[: len(data)])
    found = np.empty((2, len(starts) + 2), np.uint64)
    found[:, 0], found[:, -1] = _FIRST, _LAST
    found[0, 1:-1] = sums[ends]
    found[1, 1:-1] = sums[np.minimum(ends, starts + _STEM)]
    quoted = (quotes % 2 == 1) & (signs == 0)
    if np.count_nonzero(quoted | (signs > 0)) > len(signs) - _FEWEST:
        quoted[:] = False
    found[:, 1:-1] = (found[:, 1:-1] - sums[starts]) * inverses[starts] + quoted * _QUOTED
    return found


def _powers(count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first `count` powers of the base of the hashes, and of its inverse."""
    powers, inverses = (np.cumprod(np.full(count, base), dtype=np.uint64) for base in (_BASE, _INVERSE))
    return powers, inverses


@cache
def _short_powers() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    return _powers(_SHORT)
