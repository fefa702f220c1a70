"""What may be set of the audit, and the two places that it can write to: a file of JSON lines and a store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from turnwise.clock import Clock, utc_now
from turnwise.errors import GuardError
from turnwise.paths import to_path

if TYPE_CHECKING:
    from turnwise.guard.audit.writer import AuditWriter, RecordSink

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

MOST_EVENTS = 10_000_000
"""Largest queue."""

MOST_SECONDS = 60.0
"""Longest time that a check may wait for the audit."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Where checks are written, and how.

    Args:
        path: the file; made where it is not there, readable by its owner alone. Of a store a URL will do as well,
            such as ``postgresql://guard@server/audit``.
        sink: ``jsonl`` for a file of JSON lines, ``store`` for the table ``audit_events`` of a turnwise store.
        text: ``redacted`` writes texts with personal data and secrets replaced; ``hash`` only their SHA-256, from
            which a short text can be guessed; ``raw`` writes everything as it is, reasons and names as well.
        redact: guardrails whose recognisers say what is to be replaced, in this order.
        when_full: what gives way when the writer can't keep up: ``drop_oldest`` or ``drop_newest`` event, or
            ``block``: the check waits. What is dropped is counted, and the count is written.
        queue: events that may wait to be written, at least 1.
        queue_characters: characters of their texts together, at least 1.
        block_seconds: seconds that a check waits at most with ``block``, above 0; then the newest is dropped.
        fsync: whether to wait for the disk after every batch, so that a loss of power loses no written event.

    Raises:
        GuardError: a value out of range.
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

    def __post_init__(self) -> None:
        if not self.path or "\0" in self.path:
            raise GuardError(f"path is {self.path!r}; name the file that checks are written to")
        for name in ("queue", "queue_characters"):
            if not 1 <= getattr(self, name) <= (MOST_EVENTS if name == "queue" else 10**12):
                raise GuardError(f"{name} is {getattr(self, name)}; use a whole number from 1")
        if not 0.0 < self.block_seconds <= MOST_SECONDS:
            raise GuardError(
                f"block_seconds is {self.block_seconds}; use seconds above 0, at most {MOST_SECONDS:g}"
            )
        if not self.redact and self.text != "raw":
            raise GuardError("redact is empty; name guardrails that redact, or set text to raw")

    def open(self, clock: Clock = utc_now) -> AuditWriter:
        """Return the audit, open.

        Args:
            clock: gives the present time, aware; for events of the audit itself.

        Raises:
            GuardError: the file can't be written, or what redacts can't be built.
            StoreError: the store can't be opened.
        """
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
        )

    def _shown(self) -> str:
        """Return where it is written, without a password."""
        if self.sink == "jsonl":
            return self.path
        from turnwise.store import shown_location

        return shown_location(self.path)

    def _open_sink(self, clock: Clock) -> RecordSink:
        if self.sink == "store":
            return _StoreSink(self.path, clock)
        return JsonLinesSink(self.path, fsync=self.fsync)


class _StoreSink:
    """Appends records to the table ``audit_events`` of a store; each batch is durable when it is appended."""

    def __init__(self, location: str, clock: Clock) -> None:
        from turnwise.store import Store

        self._store = Store(location, create=True, clock=clock)

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records; see `turnwise.store.AuditLog.append`."""
        self._store.audit.append(records)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


class JsonLinesSink:
    """Appends records to a file, a line each. Several processes may append to the same file.

    A batch is one write, which the system appends as a whole. Where the file is moved away, as log rotation does,
    the next batch goes to a new file of the old name.

    Args:
        path: the file; made where it is not there, readable by its owner alone.
        fsync: whether to wait for the disk after each batch.

    Raises:
        GuardError: it can't be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self._fsync = fsync
        self._file: int | None = None
        self._torn = False
        try:
            self._path = to_path(path, home=True)
            self._open()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise GuardError(f"the audit can't be written to {path}: {why}") from error

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records.

        Raises:
            OSError: the system does not take them, or not all of them.
            ValueError: a record that JSON can't hold.
        """
        lines = "".join(json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n" for record in records)
        file = self._current()
        data = (b"\n" if self._torn else b"") + lines.encode("ascii")
        # Until the last byte is there, the file may end within a line.
        self._torn = True
        while data:
            data = data[os.write(file, data) :]
        self._torn = False
        if self._fsync:
            os.fsync(file)

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _current(self) -> int:
        """Return the file, opened again where another stands under its name, or none."""
        if self._file is not None:
            try:
                there, ours = self._path.stat(), os.fstat(self._file)
            except FileNotFoundError:
                self.close()
            else:
                if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                    return self._file
                self.close()
        return self._open()

    def _open(self) -> int:
        self._file = os.open(self._path, _FLAGS, 0o600)
        self._torn = not _ends_whole(self._path)
        return self._file


def _ends_whole(path: Path) -> bool:
    """Return whether a file is empty, or its last line is whole; a crash may have torn it."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # a pipe, or a file that may be written and not read
        return True
