"""The rate limit of a conversation: the prompts of its history counted in sliding windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from turnwise.clock import Clock, utc_now
from turnwise.conversation.history import History
from turnwise.conversation.sliding_windows import TURNS_PER, WINDOWS, RateLimit, Timeline, read_limits
from turnwise.conversation.turn import Turn
from turnwise.errors import ConversationError

_ZERO: Final = timedelta(0)

_LONGEST: Final = max(WINDOWS.values())
"""Greatest distance of a time stamp from the present that a rate limit takes in."""


class Limits:
    """How many prompts a conversation takes a minute, an hour and a day.

    What counts is how long ago a prompt arrived by a `Timeline`, so setting the clock while the conversation goes
    on neither lifts the limit nor keeps it exceeded. Stored turns have time stamps only: one ahead of the clock
    counts as now. Responses never count.

    Args:
        history: the turns.
        rate_limit: as for `set`.
        counts_after: number of the turn after which prompts count.

    >>> from turnwise.conversation import Conversation
    >>> chat = Conversation(rate_limit={"turns_per_minute": 1})
    >>> chat.limits.exceeded(), chat.add_prompt("Hi").number, chat.limits.exceeded()
    (False, 1, True)
    """

    __slots__ = ("_counts_after", "_history", "_limit", "_timeline")

    def __init__(
        self, history: History, rate_limit: Mapping[str, int] | None = None, counts_after: int = 0
    ) -> None:
        self._history = history
        self._timeline = Timeline(history.clock)
        self._limit: RateLimit | None = None
        self._counts_after = counts_after
        if rate_limit is not None:
            self.set(rate_limit)

    def __reduce__(self) -> tuple[type[Limits], tuple[History, dict[str, int] | None, int]]:
        # Counted anew by time stamps, since another process has another timeline.
        return Limits, (self._history, self.to_dict(), self._counts_after)

    def to_dict(self) -> dict[str, int] | None:
        """Return the limits that are set, as `set` takes them; None without any."""
        limit = self._limit
        return None if limit is None else {TURNS_PER + window: most for window, most in limit.limits.items()}

    def set(self, limits: Mapping[str, int] | None) -> None:
        """Set the rate limit, in place of the one before.

        Earlier prompts count as well, except those that `reset` forgot.

        Args:
            limits: any of ``turns_per_minute``, ``turns_per_hour``, ``turns_per_day``, each at least 1; None
                for no limit.

        Raises:
            ConversationError: no key, an unknown one, or a value that is no positive whole number.
        """
        given = None if limits is None else read_limits(limits, "rate_limit", TURNS_PER)
        if given == {}:
            raise ConversationError("rate_limit is empty; name a window, or give None for no limit")
        with self._history.lock:
            self._limit = None if given is None else RateLimit(given)
            self.recount()

    def exceeded(self) -> bool:
        """Return True when the limit is exceeded: a prompt that came now would be one too many."""
        with self._history.lock:
            arrival = self.arrive()[1]
            return self._limit is not None and arrival is not None and self._limit.exceeded(arrival)

    def wait(self) -> float:
        """Return the seconds until the limit lets a prompt through; 0.0 where it does so now."""
        with self._history.lock:
            arrival = self.arrive()[1]
            return 0.0 if self._limit is None or arrival is None else self._limit.wait(arrival)

    @property
    def arrivals(self) -> list[datetime]:
        """When the prompts that count against the limit now arrived, oldest first; empty without a limit."""
        with self._history.lock:
            if self._limit is None:
                return []
            now = self._history.now()
            present = self._timeline.at(now)
            return [now - age for age in self._limit.ages(present)]

    def reset(self) -> None:
        """Forget the prompts that were counted so far; the limits stay."""
        with self._history.lock:
            self._counts_after = len(self._history)
            if self._limit is not None:
                self._limit.reset()

    def try_add_prompt(
        self, prompt: str, metadata: Mapping[str, Any] | None = None, *, timestamp: datetime | None = None
    ) -> Turn | None:
        """Add a prompt unless the limit is exceeded, in one step that no other thread can interrupt.

        Args:
            prompt: what the initiator said.
            metadata: anything else that is known of the turn; JSON values.
            timestamp: when the prompt arrived, aware; by default what the clock says.

        Returns:
            The turn, or None where the limit is exceeded and nothing was added.
        """
        with self._history.lock:
            stamp, arrival = self.arrive(timestamp)
            if self._limit is not None and arrival is not None and self._limit.exceeded(arrival):
                return None
            turn = self._history.add(prompt, None, metadata, stamp)
            self.record(arrival)
            return turn

    def use_clock(self, clock: Clock) -> None:
        """Use another clock (of aware times) from now on, unless the conversation has one of its own."""
        with self._history.lock:
            if self._history.clock is utc_now and clock is not utc_now:
                self._history.clock = clock
                self._timeline = Timeline(clock)
                self.recount()

    @property
    def counts_after(self) -> int:
        """Number of the turn after which prompts count."""
        return self._counts_after

    def recount(self, counts_after: int = 0) -> None:
        """Count the latest prompts of the history again, of turns after `counts_after` or after the last reset."""
        with self._history.lock:
            self._counts_after = max(self._counts_after, counts_after)
            if self._limit is None:
                return
            self._limit.reset()
            turns = self._history.turns
            # Older ones than the largest limit can't matter.
            first = max(self._counts_after, len(turns) - self._limit.largest)
            stamps = [turn.timestamp for turn in turns[first:] if turn.timestamp is not None]
            if stamps:
                now = self._history.now()
                present = self._timeline.at(now)
                for stamp in stamps:
                    self._limit.record(present - min(max(now - stamp, _ZERO), _LONGEST))

    def arrive(self, given: datetime | None = None) -> tuple[datetime, datetime | None]:
        """The time stamp of a prompt (by default now), and its place on the timeline if it is counted.

        A stamp ahead of the clock takes the present along. The caller holds the lock of the history.
        """
        if self._limit is None:
            return self._history.now(given), None
        now = self._history.now()
        stamp = now if given is None else self._history.now(given)
        apart = stamp - now
        ahead, before = min(max(apart, _ZERO), _LONGEST), max(min(apart, _ZERO), -_LONGEST)
        return stamp, self._timeline.at(now, ahead) + before

    def record(self, arrival: datetime | None) -> None:
        """Count a prompt that arrived, by its place on the timeline."""
        if self._limit is not None and arrival is not None:
            self._limit.record(arrival)
