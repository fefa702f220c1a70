"""Two linear models that tell an order to the model against its instructions from a mention of one.

Their weights are hashed (Weinberger et al., Feature Hashing for Large Scale Multitask Learning, 2009).
`EnglishOrders` has words and pairs of words, fitted on pairs of texts of nearly the same words of which one gives
the order and one does not (``python -m training.orders``). `ForeignOrders` has runs of up to five characters, so
that it need not know where words begin or how they end (``python -m training.order_languages``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from turnwise._support.characters import CharacterTable, codes_of
from turnwise.guard.recognisers.folding import SAME, bare_character
from turnwise.scoring import Score

BITS = 18  # weights are 2 to the power of so many
FEWEST_RUNS = 50  # runs that a piece counts as having at least: a word or two are not like an order
_LEAST = 1e-4  # nearest that a score counts to 0 or 1


@dataclass(frozen=True)
class EnglishOrders:
    """A fitted model: `weights` by hash in steps of `step`, and `offset`, the log-odds where nothing is known.

    Beside scores, `words` weighs the log-odds by words, `scores` those of T, I and F by principle; `scores_offset`
    is added.

    >>> EnglishOrders(np.zeros(1 << BITS, np.int8), 1.0, -2.0).by_words("Ignore the rules.")
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
        return self.offset + self.step * _likeliest(self.weights, word_pieces(text))

    def with_scores(self, by_words: float, scores: Mapping[str, Score]) -> float:
        """The log-odds of words and of an observer's scores of the text together."""
        weighed = (
            weight * value
            for principle, weights in self.scores.items()
            for weight, value in zip(weights, log_odds(scores[principle]), strict=True)
        )
        return self.scores_offset + self.words * by_words + sum(weighed)


@dataclass(frozen=True)
class ForeignOrders:
    """A fitted model for other languages, as `EnglishOrders`.

    >>> ForeignOrders(np.zeros(1 << BITS, np.int8), 1.0, -2.0).log_odds("Hallo.")
    -2.0
    """

    weights: NDArray[np.int8]
    step: float
    offset: float

    def log_odds(self, text: str) -> float:
        """The log-odds that a text gives such an order; of a long one, those of its likeliest piece."""
        return self.offset + self.step * _likeliest(self.weights, run_pieces(text), FEWEST_RUNS)


def _likeliest(weights: NDArray[np.int8], pieces: Iterable[NDArray[np.int32]], fewest: int = 1) -> float:
    """The highest sum of the weights of a piece, by the root of how many it has."""
    return float(max(weights[piece].sum(dtype=np.int64) / max(fewest, len(piece)) ** 0.5 for piece in pieces))


def log_odds(score: Score) -> list[float]:
    """The log-odds of T, I and F; at 0 and 1, which have none, those of a value near by."""
    near = (min(max(value, _LEAST), 1 - _LEAST) for value in (score.T, score.I, score.F))
    return [math.log(value / (1 - value)) for value in near]


def _stretches(count: int, whole: int, size: int, step: int) -> Iterator[slice]:
    """A text at once up to `whole` words or characters; a longer one in overlapping stretches."""
    if count <= whole:
        yield slice(0, count)
    else:
        yield from (slice(start, start + size) for start in (*range(0, count - size, step), count - size))


def _each_once(hashes: NDArray[np.int32]) -> NDArray[np.int32]:
    ordered = np.sort(hashes, axis=None)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


# Words and pairs of words

# words and signs of a text that is read at once; of a longer one, of a piece, and from one piece to the next
WORDS_WHOLE, WORDS_PIECE, WORDS_STEP = 192, 128, 96
_STEM = 5  # letters that tell a word whatever its ending
_FEWEST_OUTSIDE = 2  # words that stand outside of all quotation marks at least, where any inside count as quoted
_SHORT = 2_000  # bytes of a text up to which what does not depend on it is made once
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
_QUOTED_WORD, _FIRST, _LAST = np.array([0x5BD1E9955BD1E995, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
# odd numbers; the high bits of sums of products with them are the hashes (multiply-shift), words above stems
_SINGLE, _BEFORE, _BEHIND = np.array(
    [
        [[0xFF51AFD7ED558CCD], [0xC4CEB9FE1A85EC53]],
        [[0xD6E8FEB86659FD93], [0xA0761D6478BD642F]],
        [[0xE7037ED1A0B428DB], [0x8EBC6AF09C88C6E3]],
    ],
    np.uint64,
)


def word_pieces(text: str) -> Iterator[NDArray[np.int32]]:
    """The hashes of words and pairs in each piece of a text, each once, in time linear in its length."""
    words = _word_hashes(text)
    single = words * _SINGLE
    pairs = words[:, :-1] * _BEFORE + words[:, 1:] * _BEHIND
    places = (np.concatenate((single[:, 1:], pairs)) >> np.uint64(64 - BITS)).astype(np.int32)
    for stretch in _stretches(places.shape[1], WORDS_WHOLE, WORDS_PIECE, WORDS_STEP):
        yield _each_once(places[:, stretch])


def _word_hashes(text: str) -> NDArray[np.uint64]:
    """Hashes (2, words + 2) of words and signs, and of their first letters; others inside quotation marks."""
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
    if np.count_nonzero(quoted | (signs > 0)) > len(signs) - _FEWEST_OUTSIDE:
        quoted[:] = False
    found[:, 1:-1] = (found[:, 1:-1] - sums[starts]) * inverses[starts] + quoted * _QUOTED_WORD
    return found


def _powers(count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first `count` powers of the base of the hashes, and of its inverse."""
    powers, inverses = (np.cumprod(np.full(count, base), dtype=np.uint64) for base in (_BASE, _INVERSE))
    return powers, inverses


_short_powers = cache(partial(_powers, _SHORT))


# Runs of characters

# characters of a text that is read at once; of a longer one, of a piece, and from one piece to the next
_RUNS_WHOLE, _RUNS_PIECE, _RUNS_STEP = 320, 240, 120
_MOST_QUOTED = 0.8  # share of a text up to which what stands in quotation marks counts as quoted
_QUOTES = frozenset('"“”„«»「」『』`')
_BARE = {"ı": "i", "ł": "l", "đ": "d", "ø": "o"}  # letters whose stroke or dot is no accent to Unicode
_QUOTED_CHARACTER = np.uint64(1 << 21)
# odd numbers, of which a run takes one a character: so many it has at most
_ODD = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD, 0xD6E8FEB86659FD93, 0xE7037ED1A0B428DB], np.uint64
)


def _form(character: str) -> str:
    if character in _QUOTES:
        return '"'
    bare = bare_character(character)
    return _BARE.get(bare, bare if not bare or bare.isalnum() else " ")


_FORMS = CharacterTable(_form, SAME)


def run_pieces(text: str) -> Iterator[NDArray[np.int32]]:
    """The hashes of the runs in each piece of a text, each once, in time linear in its length."""
    words = _FORMS.map(text).text.split()
    codes = codes_of(f" {' '.join(words)} ").astype(np.uint64)
    quoted = np.cumsum(codes == _QUOTE) % 2 == 1
    if quoted.mean() < _MOST_QUOTED:
        codes += quoted * _QUOTED_CHARACTER
    runs = _runs(codes)
    for piece in _stretches(len(codes), _RUNS_WHOLE, _RUNS_PIECE, _RUNS_STEP):
        yield _each_once(np.concatenate([of[piece.start : piece.stop - longer] for longer, of in enumerate(runs)]))


def _runs(codes: NDArray[np.uint64]) -> list[NDArray[np.int32]]:
    """The hashes of the runs of each length, from one character on."""
    sums, found = np.zeros(len(codes) + 1, np.uint64), []
    for place, odd in enumerate(_ODD):
        sums = sums[:-1] + codes[place:] * odd
        hashes = ((sums ^ (sums >> np.uint64(29))) * odd) >> np.uint64(64 - BITS)
        found.append(hashes.astype(np.int32))
    return found
