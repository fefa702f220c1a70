"""Limits on prompts in sliding windows of a minute, an hour and a day, and times that never run back."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from turnwise._support.visible import shown
from turnwise.clock import Clock, monotonic_now, utc_now
from turnwise.conversation.history import History
from turnwise.conversation.turn import Turn
from turnwise.errors import ConversationError

WINDOWS: Final[Mapping[str, timedelta]] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
"""Length of every window, by its name. A conversation calls the limits ``turns_per_minute`` and so on."""

TURNS_PER: Final = "turns_per_"  # what stands before the name of a window in the limits of a conversation

MAX_LIMIT: Final = 1_000_000
"""Largest number of prompts a limit may have; it bounds the arrival times that are kept."""

_ZERO: Final = timedelta(0)

_LONGEST: Final = max(WINDOWS.values())
"""Greatest distance of a time stamp from the present that a rate limit takes in."""

_LATE: Final = timedelta(seconds=1)
"""How late a reading may come, such as one of another thread, before the clock counts as set back."""


def read_limits(limits: object, what: str, prefix: str = "") -> dict[str, int]:
    """Limits from outside, by window and checked (1 to `MAX_LIMIT`); `prefix` stands before each window's name.

    >>> read_limits({"turns_per_hour": 20}, "rate_limit", TURNS_PER)
    {'hour': 20}
    """
    names = {f"{prefix}{window}": window for window in WINDOWS}
    if not isinstance(limits, Mapping):
        raise ConversationError(f"{what} is {type(limits).__name__}, not an object with any of {', '.join(names)}")
    for name, limit in limits.items():
        if name not in names:
            raise ConversationError(f"{what}: unknown window {shown(name)}; use {', '.join(names)}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            use = f"use a whole number from 1 to {MAX_LIMIT}"
            raise ConversationError(f"{what}: {name} is {shown(limit)}; {use}")
    return {names[name]: limit for name, limit in limits.items()}


class RateLimit:
    """Counts prompts in sliding windows; its owner holds a lock.

    A limit of N per window lets N prompts pass in any stretch of that length. At most as many arrival times as the
    largest limit are kept, so memory is bounded however long the conversation runs.

    >>> from datetime import UTC
    >>> limit = RateLimit({"minute": 1})
    >>> noon = datetime(2025, 1, 1, 12, tzinfo=UTC)
    >>> limit.exceeded(noon)
    False
    >>> limit.record(noon)
    >>> limit.exceeded(noon + timedelta(seconds=59)), limit.exceeded(noon + timedelta(seconds=60))
    (True, False)
    """

    __slots__ = ("_arrivals", "_limits", "_longest")

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._longest = max(WINDOWS[name] for name in self._limits)
        self._arrivals: deque[datetime] = deque(maxlen=self.largest)

    @property
    def limits(self) -> dict[str, int]:
        """A copy of the limits."""
        return dict(self._limits)

    @property
    def largest(self) -> int:
        """The largest limit: the number of arrival times that can matter."""
        return max(self._limits.values())

    def ages(self, now: datetime) -> list[timedelta]:
        """How long ago the prompts that count arrived, the oldest first."""
        return [now - arrival for arrival in self._arrivals if now - arrival < self._longest]

    def exceeded(self, now: datetime, limits: Mapping[str, int] | None = None) -> bool:
        """Whether a prompt that arrives now is one too many, by its own limits or others, none of them larger."""
        return any(
            # Arrivals are sorted: the limit is reached when the Nth latest has not left the window yet.
            len(self._arrivals) >= limit and now - self._arrivals[-limit] < WINDOWS[name]
            for name, limit in (self._limits if limits is None else limits).items()
        )

    def wait(self, now: datetime, limits: Mapping[str, int] | None = None) -> float:
        """Seconds until a prompt is not one too many; 0.0 where it is none now. Arguments as for `exceeded`.

        >>> from datetime import UTC
        >>> limit, noon = RateLimit({"minute": 1}), datetime(2025, 1, 1, 12, tzinfo=UTC)
        >>> limit.record(noon)
        >>> limit.wait(noon + timedelta(seconds=20))
        40.0
        """
        waits = (
            (self._arrivals[-limit] + WINDOWS[name] - now).total_seconds()
            for name, limit in (self._limits if limits is None else limits).items()
            if len(self._arrivals) >= limit
        )
        return max(0.0, max(waits, default=0.0))

    def take_over(self, before: RateLimit) -> None:
        """Also count the prompts that another limit counted on the same timeline."""
        for arrival in before._arrivals:
            self.record(arrival)

    def record(self, arrival: datetime) -> None:
        """Count a prompt, which may have arrived before others that are recorded."""
        arrivals = self._arrivals
        if not arrivals or arrival >= arrivals[-1]:
            arrivals.append(arrival)
        elif len(arrivals) < self.largest:
            insort(arrivals, arrival)
        elif arrival > arrivals[0]:
            arrivals.popleft()
            insort(arrivals, arrival)
        while arrivals[-1] - arrivals[0] >= self._longest:
            arrivals.popleft()

    def reset(self) -> None:
        """Forget all prompts that were counted; the limits stay."""
        self._arrivals.clear()


class Timeline:
    """Turns readings of a clock into times that never run back; only differences between them mean anything.

    Where the readings are the system's, the monotonic clock tells how much time went by between two of them. Any
    other clock, also an unknown one (None), is believed as long as it goes ahead; where it was set back, no time
    went by. Not safe under threads by itself: the owner holds its lock.

    >>> from datetime import UTC
    >>> timeline, noon, hour = Timeline(), datetime(2025, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)
    >>> start = timeline.at(noon)
    >>> [str(timeline.at(reading) - start) for reading in (noon + hour, noon - hour, noon)]
    ['1:00:00', '1:00:00', '2:00:00']
    """

    __slots__ = ("_lag", "_latest", "_monotonic")

    def __init__(self, clock: Clock | None = None) -> None:
        self._monotonic = clock is utc_now
        self._lag = _ZERO
        self._latest: datetime | None = None

    def at(self, now: datetime, ahead: timedelta = _ZERO) -> datetime:
        """The present by a reading; `ahead` is how much later than the reading it is known to be, at least 0."""
        moment = (monotonic_now() if self._monotonic else now) + ahead + self._lag
        if self._latest is not None and moment < self._latest:
            if self._latest - moment > _LATE:
                self._lag += self._latest - moment
            return self._latest
        self._latest = moment
        return moment


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
