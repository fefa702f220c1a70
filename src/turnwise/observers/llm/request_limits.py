"""Limits on the requests of a run: how many at once, how fast, what they may cost, and when to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from turnwise.errors import BudgetError, ObserverError


@dataclass(slots=True)
class Ticket:
    """Leave to send one request, `delay` seconds from now; whoever has it notes how it ended, and gives it back.

    `most_usd` is set aside for it, `halvings` those of the limit before it was given.
    """

    most_usd: float
    delay: float = 0.0
    halvings: int = 0
    spent_usd: float = field(default=0.0, compare=False)
    replied: bool = field(default=False, compare=False)
    throttled: bool = field(default=False, compare=False)


class RequestLimits:
    """Gives a ticket to each request as soon as it may be sent; safe to use from several threads.

    Requests under way are bounded by additive increase and multiplicative decrease. Until one is throttled only
    `bound` and the number of threads limit them. A throttled request halves what was under way; requests that were
    sent before that halving don't halve it again. Every reply lets the limit creep back: by one place for as many
    replies as there are places (Chiu and Jain, "Analysis of the increase and decrease algorithms", 1989). With
    `per_minute`, above 0, requests are sent at even distances.

    Of the budget the most that a request can cost is set aside; afterwards its real cost takes the place of that.
    A request waits while others hold what it would need; where nobody does, the run stops. So the budget is passed
    only by as much as requests cost more than their estimates.
    """

    def __init__(
        self,
        halt: Halt,
        budget_usd: float | None = None,
        per_minute: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._halt = halt
        self._changed = halt.changed
        self._budget = budget_usd
        self._spent = self._held = 0.0
        self._distance = 60 / per_minute if per_minute else 0.0
        self._monotonic = monotonic
        self._next = -math.inf
        self._limit = self._most = math.inf
        self._under_way = 0
        self._halvings = 0

    @property
    def limit(self) -> float:
        """How many requests may be under way; infinite while nobody bounded them and none was throttled."""
        return min(self._limit, self._most)

    @property
    def spent_usd(self) -> float:
        """US dollars that were spent, including those that replies lost on the way may have cost."""
        return self._spent

    def bound(self, most: int) -> None:
        """Have at most `most` requests under way, throttled or not; at least 1."""
        with self._changed:
            self._most = most
            self._changed.notify_all()

    def take(self, most_usd: float) -> Ticket:
        """Wait for a ticket for a request that costs at most so much; who takes one has to `settle` it."""
        with self._changed:
            while (ticket := self.try_take(most_usd)) is None:
                self._changed.wait()
                self._halt.check()
        return ticket

    def try_take(self, most_usd: float) -> Ticket | None:
        """Take a ticket if there is one now; `BudgetError` where no request under way could leave enough money."""
        with self._changed:
            if self._budget is not None and self._spent + self._held + most_usd > self._budget:
                if not self._under_way:
                    self._halt.now(
                        BudgetError(
                            f"the budget of ${self._budget:.2f} is used up: ${self._spent:.4f} are spent "
                            f"and the next request may cost ${most_usd:.4f}; the same command with a larger "
                            "--budget continues"
                        )
                    )
                self._halt.check()
                return None
            if self._under_way >= max(1, int(min(self.limit, 1e9))):
                return None
            self._under_way += 1
            self._held += most_usd
            ticket = Ticket(most_usd, halvings=self._halvings)
            if self._distance:
                now = self._monotonic()
                at = max(now, self._next)
                self._next, ticket.delay = at + self._distance, at - now
            return ticket

    def settle(self, ticket: Ticket) -> None:
        """Take a ticket back: count what its request cost, and learn from how it ended."""
        with self._changed:
            if ticket.throttled and ticket.halvings == self._halvings:
                self._limit = max(1.0, min(self._limit, self._under_way) // 2)
                self._halvings += 1
            if ticket.replied and math.isfinite(self._limit):
                self._limit += 1 / self._limit
            self._under_way -= 1
            self._spent += ticket.spent_usd
            self._held = self._held - ticket.most_usd if self._under_way else 0.0
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
        """Notified when somebody who waits for a ticket may have one, or has to stop."""

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
