"""What is done to a text before it is read, with the way back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from operator import add, sub
from typing import Protocol

from turnwise.guard.recognisers.spans import Stretch


class Edit(Protocol):
    """What was done to a text, with the way back."""

    plain: str

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets before the step of a stretch behind it that is not empty."""

    def place(self, at: int, *, begun: bool) -> int:
        """Return the offset behind the step of an offset before it; see `TextReading.place`."""


class Replaced:
    """A text with stretches of it replaced.

    Args:
        text: the text.
        stretches: in order and apart from each other.
    """

    def __init__(self, text: str, stretches: Iterable[Stretch]) -> None:
        self._stretches = tuple(stretches)
        self.plain = text
        if self._stretches:
            parts: list[str] = []
            at = 0
            for start, end, instead in self._stretches:
                parts += (text[at:start], instead)
                at = end
            self.plain = "".join((*parts, text[at:]))

    @cached_property
    def _bounds(self) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """Where stretches start and end; where what stands for each begins in the plain text, and its length."""
        if not self._stretches:
            return (), (), (), ()
        starts, ends, texts = zip(*self._stretches, strict=True)
        lengths = [*map(len, texts)]
        gained = accumulate(map(add, lengths, map(sub, starts, ends)), initial=0)
        return starts, ends, [*map(add, starts, gained)], lengths

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets before the step: of the characters themselves, or of all of what was replaced."""
        starts, ends, begins, lengths = self._bounds
        index = bisect_right(begins, start) - 1
        if index >= 0:
            behind = start - begins[index] - lengths[index]
            start = starts[index] if behind < 0 else ends[index] + behind
        index = bisect_right(begins, end - 1) - 1
        if index >= 0:
            behind = end - begins[index] - lengths[index]
            end = ends[index] + max(0, behind)
        return start, end

    def place(self, at: int, *, begun: bool) -> int:
        """Return the offset behind the step of an offset before it; all of what was replaced has one."""
        starts, ends, begins, lengths = self._bounds
        index = (bisect_left if begun else bisect_right)(starts, at) - 1
        if index < 0:
            return at
        if at < ends[index]:
            return begins[index] + lengths[index] * begun
        return begins[index] + lengths[index] + at - ends[index]

    def stretch_at(self, at: int) -> int | None:
        """Return which stretch stands at an offset of the plain text, or None."""
        _, _, begins, lengths = self._bounds
        index = bisect_right(begins, at) - 1
        return index if index >= 0 and at - begins[index] < lengths[index] else None
