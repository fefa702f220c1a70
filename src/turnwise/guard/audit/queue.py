"""The bounded queue of events that wait to be written; it counts what it had no room for."""

from __future__ import annotations

from collections import deque
from threading import Condition, RLock
from time import monotonic
from typing import Final

from turnwise.guard.audit.record import AuditEvent

BLOCK: Final = "block"
DROP_OLDEST: Final = "drop_oldest"


class EventQueue:
    """A bounded queue of events between many checks and one writer.

    It holds `most` events, and `characters` of their texts together; a longer text passes alone. `when_full` is
    ``block``, ``drop_oldest`` or ``drop_newest``; with ``block``, `put` waits `block_seconds` at most.
    """

    def __init__(self, when_full: str, most: int, characters: int, block_seconds: float) -> None:
        self._when_full = when_full
        self._most = most
        self._characters = characters
        self._block_seconds = block_seconds
        self._events: deque[AuditEvent] = deque()
        self._held = 0
        # Re-entrant: collecting garbage inside may close a writer that nobody uses any more.
        lock = RLock()
        self._filled, self._emptied = Condition(lock), Condition(lock)
        self._idle = False
        self._closed = False
        self._taken = self._settled = 0
        self._put = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def unsettled(self) -> int:
        """How many events wait, or were taken and neither written nor given up."""
        return self._put - self._settled

    @property
    def closed(self) -> bool:
        """Whether it takes no more events."""
        return self._closed

    def put(self, event: AuditEvent) -> None:
        """Take an event, or drop one and count it; after closing, the event is left out uncounted."""
        size = len(event.result.text)
        with self._filled:
            if self._closed:
                return
            if self._full(size) and not self._room(size):
                self.dropped += 1
                return
            self._events.append(event)
            self._held += size
            self._put += 1
            if self._idle:
                self._idle = False
                self._filled.notify()

    def take(self, most: int) -> list[AuditEvent] | None:
        """Wait for events, and take at most so many; None when the queue is closed and empty."""
        with self._filled:
            while not self._events and not self._closed:
                self._idle = True
                self._filled.wait()
            if not self._events:
                return None
            taken = [self._events.popleft() for _ in range(min(most, len(self._events)))]
            self._held -= sum(len(event.result.text) for event in taken)
            self._taken += len(taken)
            self._emptied.notify_all()
            return taken

    def settle(self, count: int) -> None:
        """Count so many of the taken events as written or given up."""
        with self._emptied:
            self._settled += count
            self._emptied.notify_all()

    def drained(self, timeout: float) -> bool:
        """Wait until every event so far is settled; returns whether that happened within `timeout` seconds."""
        end = monotonic() + timeout
        with self._emptied:
            goal = self._put
            while self._settled < goal:
                left = end - monotonic()
                if left <= 0 or not self._emptied.wait(left):
                    return self._settled >= goal
            return True

    def close(self) -> None:
        """Take no more events; those that wait can still be taken."""
        with self._filled:
            self._closed = True
            self._idle = False
            self._filled.notify_all()
            self._emptied.notify_all()

    def _full(self, size: int) -> bool:
        events = self._events
        return len(events) >= self._most or (bool(events) and self._held + size > self._characters)

    def _room(self, size: int) -> bool:
        """Make room for an event as the policy says; returns whether there is any."""
        if self._when_full == DROP_OLDEST:
            while self._full(size):
                self._held -= len(self._events.popleft().result.text)
                self.dropped += 1
                self._settled += 1
            return True
        if self._when_full == BLOCK:
            end = monotonic() + self._block_seconds
            while self._full(size) and not self._closed:
                left = end - monotonic()
                if left <= 0 or not self._emptied.wait(left):
                    break
            return not self._full(size) and not self._closed
        return False
