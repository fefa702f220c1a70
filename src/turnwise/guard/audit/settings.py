"""The settings of the audit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

from turnwise.clock import Clock, utc_now
from turnwise.errors import GuardError

if TYPE_CHECKING:
    from turnwise.guard.audit.writer import AuditWriter, RecordSink

MOST_EVENTS = 10_000_000  # largest queue
MOST_SECONDS = 60.0  # longest time that a check may wait for the audit
MOST_DAYS = 36_500  # longest time that events are kept, in days, where they are not kept for ever


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Where checks are written, and how.

    Args:
        path: the file; made where there is none, readable by its owner alone. For a store also a URL, such as
            ``postgresql://guard@server/audit``. One that can't be written is an error at the start.
        sink: ``jsonl`` for a JSON Lines file, ``store`` for the table ``audit_events`` of a turnwise store.
        text: ``redacted`` writes texts with personal data and secrets replaced; ``hash`` only their SHA-256, from
            which a short text can be guessed; ``raw`` writes everything as it is, reasons and names as well.
        redact: guardrails that find what is to be replaced, in this order; ``presidio`` and your own too.
        when_full: what gives way when the writer can't keep up: the ``drop_oldest`` or ``drop_newest`` event, or
            ``block``: the check waits. Dropped events are counted, and the count is written.
        queue: events that may wait, 1 to 10,000,000.
        queue_characters: characters of their texts together, 1 to 10**12.
        block_seconds: how long a check waits at most with ``block``, above 0, at most 60; then the newest
            event is dropped. A waiting check holds up the event loop of async callers.
        fsync: whether to wait for the disk after every batch, so that a power cut loses no written event.
        keep_days: age in days, above 0, at which the personal parts of an event are erased: with
            the first event written after the start, and then once a day; ``turnwise guard expire`` does it at
            once. None for never.
    """

    path: str
    sink: Literal["jsonl", "store"] = "jsonl"
    text: Literal["redacted", "hash", "raw"] = "redacted"
    redact: tuple[str, ...] = ("pii", "secrets")
    when_full: Literal["drop_oldest", "drop_newest", "block"] = "drop_oldest"
    queue: int = 10_000
    queue_characters: int = 50_000_000
    block_seconds: float = 1.0
    fsync: bool = False
    keep_days: float | None = None

    def __post_init__(self) -> None:
        if not self.path or "\0" in self.path:
            raise GuardError(f"path is {self.path!r}; name the file that checks are written to")
        for name, most in (("queue", MOST_EVENTS), ("queue_characters", 10**12)):
            if not 1 <= getattr(self, name) <= most:
                raise GuardError(f"{name} is {getattr(self, name)}; use a whole number from 1 to {most}")
        if not 0.0 < self.block_seconds <= MOST_SECONDS:
            raise GuardError(
                f"block_seconds is {self.block_seconds}; use seconds above 0, at most {MOST_SECONDS:g}"
            )
        if self.keep_days is not None and not 0.0 < self.keep_days <= MOST_DAYS:
            raise GuardError(f"keep_days is {self.keep_days}; use days above 0, at most {MOST_DAYS}, or null")
        if not self.redact and self.text != "raw":
            raise GuardError("redact is empty; name guardrails that redact, or set text to raw")

    def open(self, clock: Clock = utc_now) -> AuditWriter:
        """Open the audit; `clock` times the audit's own events."""
        from turnwise.guard.audit.record import Recorder, Redactor, unchanged
        from turnwise.guard.audit.writer import AuditWriter

        redact = unchanged if self.text == "raw" else Redactor.of(self.redact)
        return AuditWriter(
            partial(self._open_sink, clock),
            Recorder(self.text, redact),
            path=self._shown(),
            clock=clock,
            when_full=self.when_full,
            most=self.queue,
            characters=self.queue_characters,
            block_seconds=self.block_seconds,
            keep=None if self.keep_days is None else timedelta(days=self.keep_days),
        )

    def _shown(self) -> str:
        """Where it is written, without a password."""
        if self.sink == "jsonl":
            return self.path
        from turnwise.store import shown_location

        return shown_location(self.path)

    def _open_sink(self, clock: Clock) -> RecordSink:
        if self.sink == "store":
            from turnwise.guard.audit.sinks import StoreSink

            return StoreSink(self.path, clock)
        from turnwise.guard.audit.sinks import JsonLinesSink

        return JsonLinesSink(self.path, fsync=self.fsync, clock=clock)
