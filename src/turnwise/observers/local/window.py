"""What of a conversation the network has before it: the latest texts, moved on in blocks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate

LIMIT = 1_536
"""Tokens that the window holds at most."""

KEPT = 1_024
"""Tokens that stay when it moves, at most: the further it moves, the more seldom it has to be read anew."""

_TYPE = "H"


@dataclass(frozen=True, slots=True)
class Window:
    """The latest texts of a conversation as token ids; a function of the texts alone.

    When a text no longer fits, the oldest go until at most `KEPT` tokens are left with it, so that the window
    moves seldom, and always at the same places of the same conversation.

    Args:
        ids: the ids of all texts, one after the other.
        ends: where each text ends among them.
    """

    ids: bytes = b""
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids) // array(_TYPE).itemsize

    def after(self, text: list[int]) -> Window:
        """Return the window after a further text.

        Args:
            text: its ids, at most `KEPT`, each below 65,536.
        """
        size = array(_TYPE).itemsize
        added = array(_TYPE, text).tobytes()
        if len(self) + len(text) <= LIMIT:
            return Window(self.ids + added, (*self.ends, len(self) + len(text)))
        from_ = next((end for end in self.ends if len(self) - end + len(text) <= KEPT), len(self))
        ends = tuple(end - from_ for end in self.ends if end > from_)
        kept = len(self) - from_
        return Window(self.ids[from_ * size :] + added, (*ends, kept + len(text)))

    def tokens(self, start: int = 0) -> list[int]:
        """Return the ids from a place on."""
        return array(_TYPE, self.ids).tolist()[start:]

    def until(self, end: int) -> bytes:
        """Return the ids before a place, as bytes."""
        return self.ids[: end * array(_TYPE).itemsize]

    def to_lengths(self) -> tuple[int, ...]:
        """Return how long each text is."""
        return tuple(b - a for a, b in zip((0, *self.ends), self.ends, strict=False))

    @classmethod
    def of(cls, ids: bytes, lengths: tuple[int, ...]) -> Window:
        """Return the window of some ids and the lengths of their texts.

        Raises:
            ValueError: the lengths don't add up to the ids, or the window is longer than it can be.
        """
        window = cls(ids, tuple(accumulate(lengths)))
        if len(ids) % array(_TYPE).itemsize or (window.ends[-1:] or (0,))[0] != len(window) or len(window) > LIMIT:
            raise ValueError("its texts don't fit its tokens")
        return window
