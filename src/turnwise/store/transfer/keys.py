"""Maps the keys of imported rows from those that they had to those that they got."""

from __future__ import annotations

from bisect import bisect_right


class KeyMap:
    """Keys by keys, kept as stretches that are shifted alike: a million rows that follow each other are one.

    >>> keys = KeyMap()
    >>> for old, new in ((1, 11), (2, 12), (5, 3)):
    ...     keys.add(old, new)
    >>> keys.get(2), keys.get(5), keys.get(3)
    (12, 3, None)
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = []

    def add(self, old: int, new: int) -> None:
        """Add a key; ValueError where it does not follow the one before."""
        if self._ends and old <= self._ends[-1]:
            raise ValueError("rows are not in the order of their keys, or a key is there twice")
        if self._ends and old == self._ends[-1] + 1 and new - old == self._shifts[-1]:
            self._ends[-1] = old
            return
        self._starts.append(old)
        self._ends.append(old)
        self._shifts.append(new - old)

    def get(self, old: int) -> int | None:
        """The new key, or None where the old one was not added."""
        place = bisect_right(self._starts, old) - 1
        return old + self._shifts[place] if place >= 0 and old <= self._ends[place] else None
