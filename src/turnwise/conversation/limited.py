"""A history whose prompts count against a rate limit as they come in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from turnwise.clock import Clock
from turnwise.conversation.history import History
from turnwise.conversation.rate_limit import WINDOWS, RateLimit
from turnwise.conversation.timeline import Timeline
from turnwise.conversation.timestamps import as_utc
from turnwise.conversation.turn import Turn

_ZERO, _LONGEST = timedelta(0), max(WINDOWS.values())
"""Least and greatest distance of a time stamp from the present that a rate limit takes in."""


class LimitedHistory(History):
    """The turns of a conversation, counted against a rate limit where one is set.

    What counts is how long ago a prompt arrived by a `Timeline`, so a clock that is set while the conversation
    goes on neither lifts the limit nor keeps it exceeded. Of turns that are stored there are time stamps only: one
    ahead of the clock counts as now.

    Args:
        rate_limit: as for `set_rate_limit`.
        clock: gives the present time, aware.

    Raises:
        ConversationError: as for `set_rate_limit`.

    >>> from turnwise.clock import utc_now
    >>> LimitedHistory({"turns_per_minute": 3}, utc_now).check_rate_limit()
    False
    """

    def __init__(self, rate_limit: Mapping[str, int] | None, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._timeline = Timeline(clock)
        self._rate_limit: RateLimit | None = None
        self._counts_after = 0
        self.set_rate_limit(rate_limit)

    @property
    def rate_limit(self) -> dict[str, int] | None:
        """The limits that are set; None without any."""
        with self._lock:
            return None if self._rate_limit is None else self._rate_limit.limits

    def set_rate_limit(self, limits: Mapping[str, int] | None) -> None:
        """Set the rate limit, in place of the one before.

        Prompts that arrived before count as well, save those that `reset_rate_limit` forgot.

        Args:
            limits: any of ``turns_per_minute``, ``turns_per_hour``, ``turns_per_day``, each at least 1; None
                for no limit.

        Raises:
            ConversationError: an unknown key, or a value that is no positive whole number.
        """
        rate_limit = None if limits is None else RateLimit(limits)
        with self._lock:
            self._rate_limit = rate_limit
            self._recount()

    def check_rate_limit(self) -> bool:
        """Return True when the limit is exceeded: a prompt that came now would be one too many."""
        with self._lock:
            return self._rate_limit is not None and self._rate_limit.exceeded(self._arrival(None)[1])

    def reset_rate_limit(self) -> None:
        """Forget the prompts that were counted so far; the limits stay."""
        with self._lock:
            self._counts_after = len(self._log)
            if self._rate_limit is not None:
                self._rate_limit.reset()

    def _time(self, given: datetime | None) -> datetime:
        return as_utc(self._clock() if given is None else given, "the time")

    def _arrival(self, given: datetime | None) -> tuple[datetime, datetime]:
        """Return the time stamp of a prompt that arrives, and where it lies on the timeline.

        Args:
            given: the time stamp, aware; one ahead of the clock takes the present along. None for the present.
        """
        now = self._time(None)
        stamp = now if given is None else self._time(given)
        apart = stamp - now
        ahead, before = min(max(apart, _ZERO), _LONGEST), max(min(apart, _ZERO), -_LONGEST)
        return stamp, self._timeline.at(now, ahead) + before

    def _append(self, turn: Turn, arrival: datetime | None = None) -> Turn:
        self._log.append(turn)
        if self._rate_limit is not None and arrival is not None:
            self._rate_limit.record(arrival)
        return turn

    def _recount(self) -> None:
        """Count the latest prompts again; older ones than the largest limit can't matter."""
        if self._rate_limit is None:
            return
        self._rate_limit.reset()
        first = max(self._counts_after, len(self._log) - self._rate_limit.largest)
        stamps = [turn.timestamp for turn in self.turns[first:] if turn.timestamp is not None]
        if stamps:
            now = self._time(None)
            present = self._timeline.at(now)
            for stamp in stamps:
                self._rate_limit.record(present - min(max(now - stamp, _ZERO), _LONGEST))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state from pickle, and count by time stamps: another process has another timeline."""
        super().__setstate__(state)
        self._timeline = Timeline(self._clock)
        self._recount()
