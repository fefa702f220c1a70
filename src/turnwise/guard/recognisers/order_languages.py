"""What tells an order to the model against its instructions from other talk, in languages other than English.

A linear model over runs of up to five characters, hashed (Weinberger et al., Feature Hashing for Large Scale
Multitask Learning, 2009): it need not know where words begin or how they end. ``python -m
training.order_languages`` makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise._support.characters import CharacterTable, codes_of
from turnwise.guard.recognisers.folding import SAME, bare_character

BITS = 18  # weights are 2 to the power of so many

# characters of a text that is read at once; of a longer one, of a piece, and from one piece to the next
WHOLE, PIECE, STEP = 320, 240, 120

# runs that a piece counts as having at least: a word or two are not like an order, whatever is in them
FEWEST = 50

_MOST_QUOTED = 0.8  # share of a text up to which what stands in quotation marks counts as quoted
_QUOTES = frozenset('"“”„«»「」『』`')
_BARE = {"ı": "i", "ł": "l", "đ": "d", "ø": "o"}  # letters whose stroke or dot is no accent to Unicode


def _form(character: str) -> str:
    if character in _QUOTES:
        return '"'
    bare = bare_character(character)
    return _BARE.get(bare, bare if not bare or bare.isalnum() else " ")


_FORMS = CharacterTable(_form, SAME)
_QUOTE = ord('"')
_QUOTED = np.uint64(1 << 21)
# odd numbers, of which a run takes one a character: so many it has at most
_ODD = np.array(
    [
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0xFF51AFD7ED558CCD,
        0xD6E8FEB86659FD93,
        0xE7037ED1A0B428DB,
    ],
    np.uint64,
)


@dataclass(frozen=True)
class OrderLanguages:
    """The fitted model: `weights` by hash in steps of `step`, and `offset`, the log-odds where nothing is known.

    >>> OrderLanguages(np.zeros(1 << BITS, np.int8), 1.0, -2.0).log_odds("Hallo.")
    -2.0
    """

    weights: NDArray[np.int8]
    step: float
    offset: float

    def log_odds(self, text: str) -> float:
        """The log-odds that a text gives such an order; of a long one, those of its likeliest piece."""
        sums = (self.weights[piece].sum(dtype=np.int64) / max(FEWEST, len(piece)) ** 0.5 for piece in pieces(text))
        return self.offset + self.step * float(max(sums))


def pieces(text: str) -> Iterator[NDArray[np.int32]]:
    """The hashes of the runs in each piece of a text, each once, in time linear in its length."""
    words = _FORMS.map(text).text.split()
    codes = codes_of(f" {' '.join(words)} ").astype(np.uint64)
    quoted = np.cumsum(codes == _QUOTE) % 2 == 1
    if quoted.mean() < _MOST_QUOTED:
        codes += quoted * _QUOTED
    count = len(codes)
    if count <= WHOLE:
        starts, size = [0], count
    else:
        starts, size = [*range(0, count - PIECE, STEP), count - PIECE], PIECE
    runs = _runs(codes)
    for start in starts:
        end = start + min(size, count)
        piece = np.sort(np.concatenate([of[start : end - shorter] for shorter, of in enumerate(runs)]))
        yield piece[np.concatenate(([True], piece[1:] != piece[:-1]))]


def _runs(codes: NDArray[np.uint64]) -> list[NDArray[np.int32]]:
    """The hashes of the runs of each length, from one character on."""
    sums, found = np.zeros(len(codes) + 1, np.uint64), []
    for place, odd in enumerate(_ODD):
        sums = sums[:-1] + codes[place:] * odd
        hashes = ((sums ^ (sums >> np.uint64(29))) * odd) >> np.uint64(64 - BITS)
        found.append(hashes.astype(np.int32))
    return found
