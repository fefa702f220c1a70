"""Rate limit of a conversation: sliding windows over the arrival times of its prompts."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from turnwise.errors import ConversationError
from turnwise.visible import shown

WINDOWS: Final[Mapping[str, timedelta]] = {
    "turns_per_minute": timedelta(minutes=1),
    "turns_per_hour": timedelta(hours=1),
    "turns_per_day": timedelta(days=1),
}
"""Length of the window of each limit."""

MAX_LIMIT: Final = 1_000_000
"""Largest number of prompts a limit may have; it bounds the arrival times that are kept."""


class RateLimit:
    """Counts prompts in sliding windows.

    A limit of N a window lets N prompts pass in any stretch of that length; the next one has to wait until
    the oldest of the last N has left the window. Arrival times are kept for at most the largest limit, so
    memory is bounded however long the conversation runs. Not safe under threads by itself: the conversation
    that owns it holds its lock.

    Args:
        limits: any of ``turns_per_minute``, ``turns_per_hour`` and ``turns_per_day``, each a whole number of
            prompts from 1 to `MAX_LIMIT`.

    Raises:
        ConversationError: no limit at all, an unknown key, or a value out of range.

    >>> from datetime import UTC
    >>> limit = RateLimit({"turns_per_minute": 1})
    >>> noon = datetime(2025, 1, 1, 12, tzinfo=UTC)
    >>> limit.exceeded(noon)
    False
    >>> limit.record(noon)
    >>> limit.exceeded(noon + timedelta(seconds=59)), limit.exceeded(noon + timedelta(seconds=60))
    (True, False)
    """

    __slots__ = ("_arrivals", "_limits", "_longest")

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = _checked(limits)
        self._longest = max(WINDOWS[name] for name in self._limits)
        self._arrivals: deque[datetime] = deque(maxlen=self.largest)

    @property
    def limits(self) -> dict[str, int]:
        """The limits, as they were given."""
        return dict(self._limits)

    @property
    def largest(self) -> int:
        """The largest limit: the number of arrival times that can matter."""
        return max(self._limits.values())

    @property
    def remembered(self) -> int:
        """How many arrival times are kept at present."""
        return len(self._arrivals)

    def exceeded(self, now: datetime, limits: Mapping[str, int] | None = None) -> bool:
        """Whether a prompt that arrives now is one too many.

        Args:
            now: the present time, aware.
            limits: what counts in place of the limits that were given; none of them may be larger.
        """
        return any(
            # Arrivals are sorted: the limit is reached when the Nth latest has not left the window yet.
            len(self._arrivals) >= limit and now - self._arrivals[-limit] < WINDOWS[name]
            for name, limit in (self._limits if limits is None else limits).items()
        )

    def record(self, arrival: datetime) -> None:
        """Count a prompt.

        Args:
            arrival: when it arrived, aware; it may lie before times that were recorded earlier.
        """
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
        """Forget every prompt that was counted; the limits stay."""
        self._arrivals.clear()


def _checked(limits: Mapping[str, int]) -> dict[str, int]:
    known = ", ".join(WINDOWS)
    if not isinstance(limits, Mapping):
        raise ConversationError(f"rate_limit is {type(limits).__name__}, not an object with any of {known}")
    if not limits:
        raise ConversationError(f"rate_limit is empty; give any of {known}, or None for no limit")
    for name, limit in limits.items():
        if name not in WINDOWS:
            raise ConversationError(f"rate_limit has the unknown key {shown(name)}; known: {known}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            use = f"use a whole number from 1 to {MAX_LIMIT}"
            raise ConversationError(f"rate_limit {name} is {shown(limit)}; {use}")
    return dict(limits)
