"""How many requests may be under way at once: fewer when the provider says that they are too many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from turnwise.observers.llm.halt import Halt


class Limiter:
    """Bounds the requests that are under way, by additive increase and multiplicative decrease.

    Without a complaint there is no limit but that of `bound`, and the number of threads. A complaint halves
    what was under way; requests that were sent before that halving don't halve it again. Every reply lets it
    creep back: by one place for as many replies as there are places (Chiu and Jain, "Analysis of the increase
    and decrease algorithms", 1989).

    Args:
        halt: wakes those who wait when the run stops.
    """

    def __init__(self, halt: Halt) -> None:
        self._halt = halt
        self._changed = halt.changed
        self._limit = self._most = math.inf
        self._under_way = 0
        self._halvings = 0

    @property
    def limit(self) -> float:
        """How many requests may be under way; infinite while nobody bounded them or complained."""
        return min(self._limit, self._most)

    def bound(self, most: int) -> None:
        """Have at most so many requests under way, complaints or not.

        Args:
            most: at least 1.
        """
        with self._changed:
            self._most = most
            self._changed.notify_all()

    @contextmanager
    def place(self) -> Iterator[int]:
        """Wait for a place and hold it; gives what `complained` wants to know.

        Raises:
            ObserverError: the run stopped.
        """
        with self._changed:
            while self._under_way >= max(1, int(min(self._limit, self._most, 1e9))):
                self._changed.wait()
                self._halt.check()
            self._under_way += 1
            before = self._halvings
        try:
            yield before
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def complained(self, before: int) -> None:
        """Halve the limit, unless it was halved after the request was sent.

        Args:
            before: what `place` gave for the request.
        """
        with self._changed:
            if before == self._halvings:
                self._limit = max(1.0, min(self._limit, self._under_way) // 2)
                self._halvings += 1

    def replied(self) -> None:
        """Creep back by a part of a place."""
        with self._changed:
            if math.isfinite(self._limit):
                self._limit += 1 / self._limit
                self._changed.notify_all()
