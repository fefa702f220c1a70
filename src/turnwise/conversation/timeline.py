"""The time by which rate limits are measured: it goes on at its own pace, whatever the clock is set to."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turnwise.clock import Clock, monotonic_now, utc_now

_ZERO: Final = timedelta(0)

_LATE: Final = timedelta(seconds=1)
"""How late a reading may come, such as one of another thread, before the clock counts as set back."""


class Timeline:
    """Turns readings of a clock into times that never run back; only differences between them mean anything.

    Where the readings are the system's, the monotonic clock says how much time went by between two of them.
    Those of any other clock are believed as long as they go ahead; where one was set back, no time went by. Not
    safe under threads by itself: the owner holds its lock.

    Args:
        clock: the clock that is read; None for one that is not known.

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
        """Return the present.

        Args:
            now: what the clock says, aware.
            ahead: how much later than that it is known to be, at least 0.
        """
        moment = (monotonic_now() if self._monotonic else now) + ahead + self._lag
        if self._latest is not None and moment < self._latest:
            if self._latest - moment > _LATE:
                self._lag += self._latest - moment
            return self._latest
        self._latest = moment
        return moment
