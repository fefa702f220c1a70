"""Truths by turn of many conversations, packed into bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.uint8]
    Counts = NDArray[np.int64]

_BLOCK = 512
"""Rows that are joined with another at a time, which bounds the memory."""


class Layout:
    """Where the turns of each conversation stand in a row of bits.

    The first eight turns of every conversation have a byte each, in order, benign conversations first; the later
    turns of the longer ones have whole bytes behind them. Most conversations are short, and a byte is compared far
    faster than a stretch of bytes is reduced.

    Args:
        lengths: turns of every conversation.
        benign: how many conversations, from the first, are benign.
        searched_benign: how many of them, from the first, the search counts.
        searched_attacks: how many of the attacks, from the first, it counts.
    """

    def __init__(
        self, lengths: NDArray[np.intp], benign: int, searched_benign: int, searched_attacks: int
    ) -> None:
        import numpy as np

        self.conversations = len(lengths)
        self.benign = benign
        self.searched_benign = slice(0, searched_benign)
        self.searched_attacks = slice(benign, benign + searched_attacks)
        further = np.maximum(0, -(-(lengths - 8) // 8))
        self._long = np.flatnonzero(further)
        self._starts = np.concatenate(([0], np.cumsum(further[self._long])[:-1])).astype(np.intp)
        self.bytes = self.conversations + int(further.sum())
        turn = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        conversation = np.repeat(np.arange(self.conversations), lengths)
        later = np.zeros(self.conversations, dtype=np.intp)
        later[self._long] = self.conversations + self._starts
        self._places = np.where(turn < 8, conversation * 8 + turn, later[conversation] * 8 + turn - 8)

    def pack(self, rows: NDArray[np.bool_]) -> Bits:
        """Return truths by turn as bits.

        Args:
            rows: a row a condition, a column a turn.
        """
        import numpy as np

        wide = np.zeros((len(rows), self.bytes * 8), dtype=np.bool_)
        wide[:, self._places] = rows
        return np.packbits(wide, axis=1)

    def matched(self, bits: Bits) -> NDArray[np.bool_]:
        """Return by conversation whether a condition held at any turn; a row a condition."""
        import numpy as np

        held: NDArray[np.bool_] = bits[:, : self.conversations] != 0
        if self._long.size:
            held[:, self._long] |= np.bitwise_or.reduceat(bits[:, self.conversations :], self._starts, axis=1) != 0
        return held

    def counts(self, bits: Bits, within: Bits) -> tuple[Counts, Counts]:
        """Return how many searched attacks and benign conversations match each condition joined with another.

        Args:
            bits: a row a condition.
            within: the turns at which the other holds.
        """
        import numpy as np

        attacks = np.empty(len(bits), dtype=np.int64)
        benign = np.empty(len(bits), dtype=np.int64)
        for begin in range(0, len(bits), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            hits = self.matched(bits[block] & within)
            ones = hits.view(np.uint8)
            benign[block] = np.add.reduce(ones[:, self.searched_benign], axis=1, dtype=np.uint32)
            attacks[block] = np.add.reduce(ones[:, self.searched_attacks], axis=1, dtype=np.uint32)
        return attacks, benign
