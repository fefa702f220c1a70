"""The writer of the audit: checks hand over their events to a bounded queue, and a thread writes them."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Condition, RLock
from time import monotonic
from typing import Any, Final, Protocol

from turnwise.clock import Clock, utc_now
from turnwise.errors import GuardError
from turnwise.guard.audit.chain import Wanted
from turnwise.guard.audit.record import AuditEvent, gap_record
from turnwise.guard.audit.sinks import Erased, older_than

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
        self.closed = False
        """Whether it takes no more events."""
        self._put = self._settled = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def unsettled(self) -> int:
        """How many events wait, or were taken and neither written nor given up."""
        return self._put - self._settled

    def put(self, event: AuditEvent) -> None:
        """Take an event, or drop one and count it; after closing, the event is left out uncounted."""
        size = len(event.result.text)
        with self._filled:
            if self.closed:
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
            while not self._events and not self.closed:
                self._idle = True
                self._filled.wait()
            if not self._events:
                return None
            taken = [self._events.popleft() for _ in range(min(most, len(self._events)))]
            self._held -= sum(len(event.result.text) for event in taken)
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
            self.closed = True
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
            while self._full(size) and not self.closed:
                left = end - monotonic()
                if left <= 0 or not self._emptied.wait(left):
                    break
            return not self._full(size) and not self.closed
        return False


BATCH: Final = 256  # events that are written at once at most
CLOSE_SECONDS: Final = 10.0  # how long closing waits for a file that does not take events

_LOG = logging.getLogger("turnwise.guard.audit")


class RecordSink(Protocol):
    """Takes records; may wait for a disk, and may fail."""

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records; after an exception it is not known whether it has all of them."""

    def erase(self, wanted: Wanted, why: str) -> Erased:
        """Erase the personal parts of events, and append an event that says so."""

    def close(self) -> None:
        """Close what it holds open."""


def erase_in(sink: RecordSink, name: str, wanted: Wanted, why: str) -> Erased:
    """Erase the personal parts of the wanted events in a sink, and close it."""
    try:
        return sink.erase(wanted, why)
    except OSError as error:
        raise GuardError(f"the audit {name} can't be written ({error.strerror}): check its file") from error
    finally:
        sink.close()


@dataclass(frozen=True, slots=True)
class AuditStatus:
    """The status of an audit.

    Events: `written`; `waiting` in the queue; `dropped`, as the full queue had no room; `unwritten`, as the file
    did not take them, or has not yet after `close` gave up. `failing`: the last batch failed; `error` is the last
    failure, None before any. `closed`: it takes no more events.
    """

    path: str
    written: int
    waiting: int
    dropped: int
    unwritten: int
    failing: bool
    error: str | None
    closed: bool


class AuditWriter:
    """An `AuditSink` that writes in a thread of its own.

    `write` puts the event into a bounded queue, which takes microseconds. The thread makes the records, redacts
    and writes them. A file that fails breaks no check: what it did not take is counted in `status`, logged once
    by ``turnwise.guard.audit``, and written as an event of the kind ``gap`` as soon as the file takes events
    again. The same goes for what a full queue dropped.

    What waits is written when the writer is closed or collected, or when the interpreter ends. After a fork the
    child has a queue, thread and open file of its own, and what waited is written by the parent alone.

    `open_sink` is called at once, and again in a forked child; `record` runs in the thread; `path` is for
    messages; `keep` is the age at which personal parts are erased, None for never; for the bounds see
    `EventQueue`.
    """

    def __init__(
        self,
        open_sink: Callable[[], RecordSink],
        record: Callable[[AuditEvent], dict[str, Any]],
        *,
        path: str = "",
        clock: Clock = utc_now,
        when_full: str = "drop_oldest",
        most: int = 10_000,
        characters: int = 50_000_000,
        block_seconds: float = 1.0,
        keep: timedelta | None = None,
    ) -> None:
        def begin(sink: RecordSink | None) -> _WriterQueue:
            queue = EventQueue(when_full, most, characters, block_seconds)
            return _WriterQueue(queue, open_sink, sink, record, path, clock, when_full, keep)

        self._open_sink = open_sink
        self._path = path
        self._begin = begin
        self._parents: list[_WriterQueue] = []
        self._start(open_sink())
        if hasattr(os, "register_at_fork"):
            forked = weakref.WeakMethod(self._forked)

            def after() -> None:
                method = forked()
                if method is not None:
                    method()

            os.register_at_fork(after_in_child=after)

    def write(self, event: AuditEvent) -> None:
        """Take an event; after `close` it is left out."""
        self._work.put(event)

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until every event so far is written, dropped or given up; returns whether it was in time."""
        return self._work.flush(timeout)

    def erase(self, wanted: Wanted, why: str) -> Erased:
        """Write what waits, erase the personal parts of the wanted events, and append an event that says so."""
        if not self.flush():
            raise GuardError(f"the audit {self._path} can't be written: mend that, and erase again")
        return erase_in(self._open_sink(), self._path, wanted, why)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Write what waits, and close; after `timeout` seconds the rest is logged, and counted as unwritten."""
        self._work.close(timeout)

    @property
    def status(self) -> AuditStatus:
        """The status of the audit now."""
        return self._work.status

    def _start(self, sink: RecordSink | None) -> None:
        self._work = self._begin(sink)
        self._finalizer = weakref.finalize(self, self._work.close, CLOSE_SECONDS)

    def _forked(self) -> None:
        """Begin anew in a forked child; nothing of the parent's may be touched there, nor collected."""
        closed = self._work.queue.closed
        self._finalizer.detach()
        self._parents.append(self._work)
        self._start(None)
        if closed:
            self._work.queue.close()


@dataclass(eq=False)
class _WriterQueue:
    """A queue and the thread that empties it; apart from the writer, so that a forgotten one can be collected."""

    queue: EventQueue
    open_sink: Callable[[], RecordSink]
    sink: RecordSink | None
    record: Callable[[AuditEvent], dict[str, Any]]
    path: str
    clock: Clock
    policy: str
    keep: timedelta | None

    def __post_init__(self) -> None:
        self._erase_from: datetime | None = None
        self._written = self._unwritten = 0
        self._told_dropped = self._told_unwritten = 0
        self._failing = self._gave_up = False
        self._error: str | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        if self.sink is not None:
            self._ensure_thread()

    def put(self, event: AuditEvent) -> None:
        self.queue.put(event)
        if self._thread is None:
            self._ensure_thread()

    def flush(self, timeout: float) -> bool:
        return self._thread is None or self.queue.drained(timeout)

    def close(self, timeout: float) -> None:
        self.queue.close()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        thread.join(timeout)
        if thread.is_alive():
            self._gave_up = True
            _LOG.warning("%s did not take the last events within %g s; they are lost", self.path, timeout)

    @property
    def status(self) -> AuditStatus:
        return AuditStatus(
            path=self.path,
            written=self._written,
            waiting=0 if self._gave_up else len(self.queue),
            dropped=self.queue.dropped,
            unwritten=self._unwritten + (self.queue.unsettled if self._gave_up else 0),
            failing=self._failing,
            error=self._error,
            closed=self.queue.closed,
        )

    def _ensure_thread(self) -> None:
        """Start the thread where there is none: at once, or in a forked child at the first event."""
        with self._starting:
            if self._thread is None and not self.queue.closed:
                thread = threading.Thread(target=self._run, name="turnwise-audit", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # no thread can be had now; the next event tries again
                    self._fail(error, 0)
                else:
                    self._thread = thread

    def _run(self) -> None:
        while (events := self.queue.take(BATCH)) is not None:
            self._write(events)
            self.queue.settle(len(events))
        self._write([])
        if self.sink is not None:
            try:
                self.sink.close()
            except Exception as error:  # noqa: BLE001 - nothing is left to write, and nobody to tell but the log
                self._fail(error, 0)

    def _write(self, events: Sequence[AuditEvent]) -> None:
        """Write events, after a gap that has not been told yet."""
        records, broken = [], 0
        for event in events:
            try:
                records.append(self.record(event))
            except Exception as error:  # noqa: BLE001 - one event must not hold up the others
                broken += 1
                self._fail(error, 1)
        dropped = self.queue.dropped
        unwritten = self._unwritten
        gap = dropped > self._told_dropped or unwritten > self._told_unwritten
        if gap:
            missing = gap_record(
                self.clock(),
                dropped=dropped - self._told_dropped,
                policy=self.policy,
                unwritten=unwritten - self._told_unwritten,
                error=self._error if unwritten > self._told_unwritten else None,
            )
            records.insert(0, missing)
        if not records:
            return
        try:
            if self.sink is None:
                self.sink = self.open_sink()
            self._erase_old(self.sink)
            self.sink.append(records)
        except Exception as error:  # noqa: BLE001 - a full disk must not end the thread, nor any check
            self._fail(error, len(events) - broken)
            return
        self._written += len(events) - broken
        self._told_dropped, self._told_unwritten = dropped, unwritten
        if self._failing and not broken:
            self._failing = False
            _LOG.warning("%s takes events again; %d were not written", self.path, unwritten)

    def _erase_old(self, sink: RecordSink) -> None:
        """Erase the personal parts of events that are past their time, once a day."""
        if self.keep is None:
            return
        now = self.clock()
        if self._erase_from is None or now >= self._erase_from:
            self._erase_from = now + timedelta(days=1)
            sink.erase(older_than(now - self.keep), "age")

    def _fail(self, error: Exception, lost: int) -> None:
        self._unwritten += lost
        self._error = f"{type(error).__name__}: {error}"
        if not self._failing:
            self._failing = True
            _LOG.warning("the audit can't be written to %s: %s; checks go on", self.path, self._error)
