"""How tenants share a worker: the room that each may take, whose turn it is, and requests a minute of a key."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

_GREED: Final = 3.0
"""How many times what is free a tenant may hold and still take more."""


class Shares:
    """Room that tenants take and give back, such as requests under way or seconds of work that waits.

    Where there are several, one takes more only while it holds less than three times what is free: alone three
    quarters of the room, beside another three sevenths. So there is room for whoever comes next, however many of
    another's requests hang. What is admitted last may go beyond `most`, which is above 0.

    Source: A. K. Choudhury and E. L. Hahne, Dynamic queue length thresholds for shared-memory packet switches,
    IEEE/ACM Transactions on Networking 6 (1998).

    >>> shares = Shares(8, lambda: True)
    >>> sum(shares.admit("web", 1) for _ in range(8)), shares.admit("desk", 1)
    (6, True)
    """

    def __init__(self, most: float, several: Callable[[], bool]) -> None:
        self._most = most
        self._several = several
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> float:
        return sum(self._held.values())

    def admit(self, tenant: str, cost: float) -> bool:
        """Take room for a tenant, and return True; False where there is none for it."""
        free = self._most - self.held
        if free <= 0 or (self._several() and self._held[tenant] >= _GREED * free):
            return False
        self.take(tenant, cost)
        return True

    def take(self, tenant: str, cost: float) -> None:
        self._held[tenant] += cost  # type: ignore[assignment]

    def release(self, tenant: str, cost: float) -> None:
        self.take(tenant, -cost)
        if self._held[tenant] <= 1e-9:  # what sums of floats leave
            del self._held[tenant]


class FairLine(Generic[Item]):
    """What waits: the tenants take turns, and what belongs to one goes in the order in which it came.

    >>> line = FairLine[str]()
    >>> for tenant, item in (("web", "w1"), ("web", "w2"), ("web", "w3"), ("desk", "d1")):
    ...     line.append(tenant, item)
    >>> [line.next(bool) for _ in range(len(line))]
    ['w1', 'd1', 'w2', 'w3']
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Item]] = OrderedDict()

    def append(self, tenant: str, item: Item) -> None:
        self._lines.setdefault(tenant, deque()).append(item)

    def next(self, may: Callable[[str], bool]) -> Item | None:
        """Take out what is next of the tenants that may go on; None for nothing."""
        tenant = next(filter(may, self._lines), None)
        if tenant is None:
            return None
        line = self._lines.pop(tenant)
        item = line.popleft()
        if line:
            self._lines[tenant] = line
        return item

    def remove(self, tenant: str, item: Item) -> None:
        """Let something wait no longer; a `ValueError` where it does not wait."""
        line = self._lines.get(tenant, deque())
        line.remove(item)
        if not line:
            del self._lines[tenant]

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))


class KeyRates:
    """Counts requests by key. Each key has a bucket for ten seconds' worth of requests, which fills evenly.

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
        """Count a request of a key, by name, and return 0; if it is one too many, the seconds until it is not."""
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
