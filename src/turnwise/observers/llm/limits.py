"""What bounds the requests of a run: how many at once, what they may cost, and its end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnwise.errors import BudgetError, ObserverError


class Limiter:
    """Bounds the requests that are under way, by additive increase and multiplicative decrease.

    Without a complaint there is no limit but that of `bound`, and the number of threads. A complaint halves
    what was under way; requests that were sent before that halving don't halve it again. Every reply lets it
    creep back: by one place for as many replies as there are places (Chiu and Jain, "Analysis of the increase
    and decrease algorithms", 1989).

    Args:
        halt: wakes those who wait when the run stops.
        per_minute: requests that may be sent in a minute, above 0; they are sent at even distances. None for any.
        monotonic: gives the seconds that the distances are measured in.
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
        """Take a place if one is free; who takes it has to `leave` it.

        Returns:
            What `complained` wants to know, and the seconds to wait before sending.
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
        """Stop; the first error is the one that is told."""
        with self.changed:
            self._error = self._error or error
            self._event.set()
            self.changed.notify_all()

    def check(self) -> None:
        """Return if the run goes on.

        Raises:
            ObserverError: it does not.
        """
        if self._error is not None:
            raise type(self._error)(*self._error.args)  # of its own for each thread, with a traceback of its own

    def wait(self, seconds: float) -> None:
        """Wait, or less long if the run stops meanwhile.

        Raises:
            ObserverError: the run stopped.
        """
        self._event.wait(seconds)
        self.check()


class Budget:
    """Counts what is spent, and stops the run before the limit is passed.

    Before a request an estimate of the most that it can cost is set aside; afterwards its real cost takes the
    estimate's place. A request waits while others hold what it would need. So the limit is passed only by as much
    as requests cost more than their estimates.

    Args:
        limit: most US dollars that may be spent, at least 0; None for no limit.
        halt: is set when the limit is reached.
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
        """Set an estimate aside; wait while others hold what is missing.

        Args:
            amount: US dollars.

        Raises:
            BudgetError: the budget does not suffice.
            ObserverError: the run stopped.
        """
        with self._changed:
            while not self.try_hold(amount):
                self._changed.wait()
                self._halt.check()

    def try_hold(self, amount: float) -> bool:
        """Set an estimate aside if nobody else holds what it needs; errors as for `hold`.

        Args:
            amount: US dollars.
        """
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
        """Put the real cost in the place of an estimate.

        Args:
            held: what `hold` was given.
            spent: US dollars that it really cost.
        """
        with self._changed:
            self._spent += spent
            if self._limit is not None:
                self._holders -= 1
                self._held = self._held - held if self._holders else 0.0
                self._changed.notify_all()
