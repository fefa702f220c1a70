"""What of a conversation the network has before it: the latest texts, moved on in blocks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate

_TYPE = "H"


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a reader looks back and what of long texts it keeps: part of its weights, which were trained so.

    Args:
        limit: tokens that the window holds at most.
        kept: tokens that stay when it moves, at most: the further it moves, the more seldom it is read anew.
        prompt: tokens of a prompt that stay in the window for later texts: of a longer one its head and its tail.
        reply: likewise of a reply.
        part: tokens of a text that get a score of their own: a longer text is scored in parts, the highest F of
            which counts, so that what is long does not thin out what is short in it.
        most: tokens of a text that are read at all; of a longer one its head and its tail.
        as_one: whether a text that is longer than what stays of it is read as one; else head and tail are read as
            they stay, and what lies between them part by part.
    """

    limit: int = 1_536
    kept: int = 1_024
    prompt: int = 384
    reply: int = 128
    part: int = 256
    most: int = 2_000
    as_one: bool = True


UNSAID = Reach(limit=896, kept=512, prompt=128, reply=48, part=128, most=1_920, as_one=False)
"""That of weights that don't say: those of 0.2.0."""


@dataclass(frozen=True, slots=True)
class Window:
    """The latest texts of a conversation as token ids, two bytes each; a function of the texts alone.

    When a text no longer fits, the oldest go until at most as many tokens are left with it as are to be kept, so
    that the window moves seldom, and always at the same places of the same conversation.
    """

    ids: bytes = b""
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids) // array(_TYPE).itemsize

    def after(self, text: list[int], reach: Reach) -> Window:
        """The window after a further text: its ids, at most `reach.kept` of them, each below 65,536."""
        size = array(_TYPE).itemsize
        added = array(_TYPE, text).tobytes()
        if len(self) + len(text) <= reach.limit:
            return Window(self.ids + added, (*self.ends, len(self) + len(text)))
        from_ = next((end for end in self.ends if len(self) - end + len(text) <= reach.kept), len(self))
        ends = tuple(end - from_ for end in self.ends if end > from_)
        kept = len(self) - from_
        return Window(self.ids[from_ * size :] + added, (*ends, kept + len(text)))

    def tokens(self, start: int = 0) -> list[int]:
        """The ids from a place on."""
        return array(_TYPE, self.ids).tolist()[start:]

    def until(self, end: int) -> bytes:
        """The ids before a place, as bytes."""
        return self.ids[: end * array(_TYPE).itemsize]

    def to_lengths(self) -> tuple[int, ...]:
        """How many ids each text has."""
        return tuple(b - a for a, b in zip((0, *self.ends), self.ends, strict=False))

    @classmethod
    def of(cls, ids: bytes, lengths: tuple[int, ...], reach: Reach) -> Window:
        """The window of some ids and the lengths of their texts; `ValueError` where they don't fit one another."""
        window = cls(ids, tuple(accumulate(lengths)))
        if (
            len(ids) % array(_TYPE).itemsize
            or (window.ends[-1:] or (0,))[0] != len(window)
            or len(window) > reach.limit
        ):
            raise ValueError("its texts don't fit its tokens")
        return window
