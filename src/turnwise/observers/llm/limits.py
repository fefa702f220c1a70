"""Limits on the requests of a run: how many at once, how fast, what they may cost, and when to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnwise.errors import BudgetError, ObserverError


class Limiter:
    """Bounds the requests that are under way, by additive increase and multiplicative decrease.

    Without a complaint only `bound` and the number of threads limit them. A complaint halves what was under way;
    requests that were sent before that halving don't halve it again. Every reply lets the limit creep back: by one
    place for as many replies as there are places (Chiu and Jain, "Analysis of the increase and decrease
    algorithms", 1989). With `per_minute`, above 0, requests are sent at even distances.
    """

    def __init__(
        self, halt: Halt, per_minute: float | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._halt = halt
        self._distance = 60 / per_minute if per_minute else 0.0
        self._monotonic = monotonic
        self._next = -math.inf
        self._changed = halt.changed
        self._limit = self._most = math.inf
        self._under_way = 0
        self._halvings = 0

    @property
    def limit(self) -> float:
        """How many requests may be under way; infinite while nobody bounded them or complained."""
        return min(self._limit, self._most)

    def bound(self, most: int) -> None:
        """Have at most `most` requests under way, complaints or not; at least 1."""
        with self._changed:
            self._most = most
            self._changed.notify_all()

    @contextmanager
    def place(self) -> Iterator[int]:
        """Wait for a place and hold it; gives what `complained` takes."""
        with self._changed:
            while (taken := self.try_place()) is None:
                self._changed.wait()
                self._halt.check()
        before, delay = taken
        try:
            if delay:
                self._halt.wait(delay)
            yield before
        finally:
            self.leave()

    def try_place(self) -> tuple[int, float] | None:
        """Take a place if one is free; gives what `complained` takes, and the seconds to wait before sending.

        Who takes a place has to `leave` it.
        """
        with self._changed:
            if self._under_way >= max(1, int(min(self._limit, self._most, 1e9))):
                return None
            self._under_way += 1
            if not self._distance:
                return self._halvings, 0.0
            now = self._monotonic()
            at = max(now, self._next)
            self._next = at + self._distance
            return self._halvings, at - now

    def leave(self) -> None:
        """Give a place back."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def complained(self, before: int) -> None:
        """Halve the limit, unless it was halved since the request got its place; `before` is what `place` gave."""
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


class Halt:
    """Shared by all threads that send requests: once set, none sends another, and whoever waits wakes up.

    >>> halt = Halt()
    >>> halt.now(ObserverError("the key is wrong"))
    >>> halt.check()
    Traceback (most recent call last):
        ...
    turnwise.errors.ObserverError: the key is wrong
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._error: ObserverError | None = None
        self.changed = threading.Condition()
        """Notified when somebody who waits for a place or for money may go on, or has to stop."""

    def now(self, error: ObserverError) -> None:
        """Stop; of several errors the first one is told."""
        with self.changed:
            self._error = self._error or error
            self._event.set()
            self.changed.notify_all()

    def check(self) -> None:
        """Raise the error that stopped the run, if one did."""
        if self._error is not None:
            raise type(self._error)(*self._error.args)  # of its own for each thread, with a traceback of its own

    def wait(self, seconds: float) -> None:
        """Wait, or less long if the run stops meanwhile; then raise its error."""
        self._event.wait(seconds)
        self.check()


class Budget:
    """Counts US dollars that are spent, and stops the run before the limit is passed.

    Before a request an estimate of the most that it can cost is set aside; afterwards its real cost takes the
    estimate's place. A request waits while others hold what it would need. So the limit is passed only by as much
    as requests cost more than their estimates.
    """

    def __init__(self, limit: float | None, halt: Halt) -> None:
        self._limit = limit
        self._halt = halt
        self._changed = halt.changed
        self._spent = 0.0
        self._held = 0.0
        self._holders = 0

    @property
    def spent(self) -> float:
        """US dollars that were spent, including those that replies lost on the way may have cost."""
        return self._spent

    def hold(self, amount: float) -> None:
        """Set an estimate in US dollars aside; wait while others hold what is missing."""
        with self._changed:
            while not self.try_hold(amount):
                self._changed.wait()
                self._halt.check()

    def try_hold(self, amount: float) -> bool:
        """Set an estimate aside; False while others hold what it needs. Where nobody does, the run stops."""
        if self._limit is None:
            return True
        with self._changed:
            if self._spent + self._held + amount > self._limit:
                if not self._holders:
                    self._halt.now(
                        BudgetError(
                            f"the budget of ${self._limit:.2f} is used up: ${self._spent:.4f} are spent "
                            f"and the next request may cost ${amount:.4f}; the same command with a larger "
                            "--budget continues"
                        )
                    )
                self._halt.check()
                return False
            self._held += amount
            self._holders += 1
            return True

    def settle(self, held: float, spent: float) -> None:
        """Put the real cost in the place of the estimate that `hold` was given."""
        with self._changed:
            self._spent += spent
            if self._limit is not None:
                self._holders -= 1
                self._held = self._held - held if self._holders else 0.0
                self._changed.notify_all()
