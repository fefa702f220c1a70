"""How many requests an API key may make: a bucket that fills evenly."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class KeyRates:
    """Counts requests by key. Each key has a bucket for ten seconds' worth of requests, which fills evenly.

    Args:
        per_minute: requests a minute of one key, at least 1; None for no limit.
        seconds: gives seconds that never go back.

    >>> now = [0.0]
    >>> rates = KeyRates(60, lambda: now[0])
    >>> [rates.wait("web") for _ in range(11)][-2:]
    [0.0, 1.0]
    >>> now[0] = 1.0
    >>> rates.wait("web")
    0.0
    """

    def __init__(self, per_minute: int | None, seconds: Callable[[], float] = monotonic) -> None:
        self._rate = None if per_minute is None else per_minute / 60
        self._most = 0.0 if self._rate is None else max(1.0, 10 * self._rate)
        self._seconds = seconds
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, key: str) -> float:
        """Count a request of a key, and return 0; where it is one too many, the seconds until it would not be.

        Args:
            key: name of the key; there are as many buckets as names.
        """
        if self._rate is None:
            return 0.0
        now = self._seconds()
        left, at = self._buckets.get(key, (self._most, now))
        left = min(self._most, left + (now - at) * self._rate)
        if left < 1.0:
            self._buckets[key] = (left, now)
            return (1.0 - left) / self._rate
        self._buckets[key] = (left - 1.0, now)
        return 0.0
