"""Where an audit is written: a JSON Lines file, or the table of a store.

Several processes append to the same chain. That of a file outlives log rotation.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

try:
    import fcntl
except ImportError:  # Windows: one process a file
    fcntl = None  # type: ignore[assignment]

from turnwise._support.locations import to_path
from turnwise.clock import Clock, utc_now
from turnwise.errors import GuardError
from turnwise.guard.audit.chain import (
    TORN,
    ChainHead,
    ChainReader,
    Erasing,
    Verification,
    Wanted,
    record_in,
    sealed,
    secret,
    text_of,
)
from turnwise.guard.audit.record import VERSION, time_text

_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_APPENDING: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _CLOEXEC

_HEAD, _NEXT = ".head", ".erasing"
"""What the names of files beside an audit end with: its last event, and an audit that is being written anew."""

_HEAD_BYTES: Final = 256
_BLOCK: Final = 65_536


class Erased(NamedTuple):
    """What was erased from an audit.

    `events` counts, by file or table, events that lost their personal parts and lines cut off by a crash that
    were removed; `unreached` says what could not be looked through, and why.
    """

    events: dict[str, int]
    unreached: tuple[str, ...] = ()


class _SidecarEntry(NamedTuple):
    """The last event by the file beside an audit, and the audit's size in bytes and inode at that time."""

    head: ChainHead
    size: int
    inode: int


class JsonLinesSink:
    """Appends records to a file, one a line. Several processes may append to the same file.

    The file ``PATH.head`` beside it holds the last event, and its lock lets one process write at a time (on
    Windows there is no lock: one process a file). Where the file is moved away, as log rotation does, the next
    batch goes to a new file of the old name, and the chain goes on. What is no regular file, such as a pipe, has
    a chain per process. The file is made where there is none, readable by its owner alone; `fsync` waits for the
    disk after each batch.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False, clock: Clock = utc_now) -> None:
        self._fsync = fsync
        self._clock = clock
        self._key = secret()
        self._file: int | None = None
        self._beside: int | None = None
        self._alone = ChainHead()
        try:
            self._path = to_path(path, home=True)
            self._head_path = _head_of(self._path)
            self._open()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise GuardError(f"the audit can't be written to {path}: {why}") from error

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records; a batch that can't be written as a whole is taken back."""
        with self._locked():
            file = self._current()
            head, before, torn = self._head(file)
            if torn:
                records = [{"v": VERSION, "kind": TORN, "time": time_text(self._clock()), "bytes": torn}, *records]
            chained = sealed(records, head, self._key)
            data = before + "".join(one.text for one in chained).encode("ascii")
            size = os.fstat(file).st_size
            try:
                while data:
                    data = data[os.write(file, data) :]
                if self._fsync and self._beside is not None:
                    os.fsync(file)
            except OSError:
                if self._beside is not None:
                    with suppress(OSError):
                        os.ftruncate(file, size)  # none of the batch, rather than a part that nobody counts
                raise
            self._tell(file, chained[-1].head)

    def erase(self, wanted: Wanted, why: str) -> Erased:
        """Erase personal parts here and in files that rotation moved away, and append an event that says so."""
        if self._beside is None:
            raise GuardError(f"{self._path} is no file: erase where its events are kept")
        with self._locked():
            head, _, _ = self._head(self._current())
            erasing = Erasing(wanted, why, self._clock())
            found: dict[str, int] = {}
            unreached: list[str] = []
            others, unread = files_of(self._path)
            unreached += [f"{path}: it is no audit as it stands; unpack it, and forget again" for path in unread]
            changed: list[Path] = []
            for path in [*others, self._path]:
                count = self._rewritten(path, erasing, unreached)
                if count:
                    found[str(path)] = count
                    changed.append(path)
                else:
                    _next(path).unlink()
            if not changed:
                return Erased({}, tuple(unreached))
            [sealed_event] = sealed([erasing.event()], head, self._key)
            last = sealed_event.text.encode("ascii")
            # The event first: a crash leaves lines that are still to be erased, none that nothing speaks of.
            if self._path in changed:
                with _next(self._path).open("ab") as file:
                    file.write(last)
                    file.flush()
                    os.fsync(file.fileno())
                changed = [self._path, *changed[:-1]]
            else:
                os.write(self._current(), last)
                os.fsync(self._current())
            for path in changed:
                _next(path).replace(path)
            self._open()
            self._tell(self._current(), sealed_event.head)
        return Erased(found, tuple(unreached))

    def close(self) -> None:
        """Close the files; closing twice is harmless."""
        for file in (self._file, self._beside):
            if file is not None:
                os.close(file)
        self._file = self._beside = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other writers of the file out, in this process and in others."""
        self._current()
        while self._beside is not None and fcntl is not None:
            fcntl.flock(self._beside, fcntl.LOCK_EX)
            if _stands(self._head_path, self._beside):
                break
            self._open_beside()  # somebody moved it away with its folder
        try:
            yield
        finally:
            if self._beside is not None and fcntl is not None:
                fcntl.flock(self._beside, fcntl.LOCK_UN)

    def _current(self) -> int:
        """The open file; opened again where its name stands for another file now, or for none."""
        if self._file is not None and _stands(self._path, self._file):
            return self._file
        return self._open()

    def _open(self) -> int:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._file = os.open(self._path, _APPENDING, 0o600)
        if self._beside is None and stat.S_ISREG(os.fstat(self._file).st_mode):
            self._open_beside()
        return self._file

    def _open_beside(self) -> None:
        if self._beside is not None:
            os.close(self._beside)
            self._beside = None
        self._beside = os.open(self._head_path, os.O_RDWR | os.O_CREAT | _CLOEXEC, 0o600)

    def _head(self, file: int) -> tuple[ChainHead, bytes, int]:
        """The last event, what its line still lacks as an end, and how many bytes of a cut-off line follow it."""
        if self._beside is None:
            return self._alone, b"", 0
        beside, there = _read_beside(self._beside), os.fstat(file)
        known = ChainHead() if beside is None else beside.head
        if there.st_size == 0 or (beside is not None and beside[1:] == (there.st_size, there.st_ino)):
            return known, b"", 0
        # Somebody was killed while he wrote, the file was written without a chain, or it is another one.
        whole, cut = _ends(self._path)
        last = ChainHead.of(record_in(cut)) if cut else None
        if last is not None:
            return last, b"\n", 0
        return ChainHead.of(record_in(whole)) or known, b"\n" if cut else b"", len(cut)

    def _tell(self, file: int, head: ChainHead) -> None:
        """Write down the last event; where that fails, the next writer reads the end of the file."""
        if self._beside is None:
            self._alone = head
            return
        there = os.fstat(file)
        values = {"n": head.n, "hash": head.hash, "size": there.st_size, "inode": there.st_ino}
        with suppress(OSError):
            os.lseek(self._beside, 0, os.SEEK_SET)
            os.write(self._beside, json.dumps(values).ljust(_HEAD_BYTES - 1).encode("ascii") + b"\n")

    def _rewritten(self, path: Path, erasing: Erasing, unreached: list[str]) -> int:
        """Write a file anew beside itself, without what is to be erased; returns the number of those lines."""
        count, held = 0, b""
        mode = stat.S_IMODE(path.stat().st_mode)
        with path.open("rb") as old, _private(_next(path), mode) as new:
            for number, line in enumerate(old, start=1):
                record = record_in(line)
                if held and record is not None and record.get("kind") == TORN:
                    # Nobody can tell whose it was, and it is no event.
                    count, held = count + 1, b""
                elif held:
                    unreached.append(f"{path}, line {number - 1}: it can't be read, nor whose it is")
                    new.write(held)
                    held = b""
                if record is None:
                    held = line
                elif (left := erasing.left_of(record)) is not None:
                    count += 1
                    new.write(f"{text_of(left)}\n".encode("ascii"))
                else:
                    new.write(line if line.endswith(b"\n") else line + b"\n")
            if held.endswith(b"\n"):
                unreached.append(f"{path}: its last line can't be read, nor whose it is")
                new.write(held)
            elif held:
                count += 1
            new.flush()
            os.fsync(new.fileno())
        return count


class StoreSink:
    """Appends records to the table ``audit_events`` of a store; each batch is durable when it is appended."""

    def __init__(self, location: str, clock: Clock = utc_now, *, create: bool = True) -> None:
        from turnwise.store import Store

        self._store = Store(location, create=create, clock=clock)
        self._clock = clock
        self._key = secret()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records; see `turnwise.store.AuditLog.append`."""
        self._store.audit.append(records, lambda last: self._sealed(records, last))

    def erase(self, wanted: Wanted, why: str) -> Erased:
        """Erase personal parts, and append an event that says so; see `turnwise.store.AuditLog.rewrite`."""
        erasing = Erasing(wanted, why, self._clock())
        count, unreached = self._store.audit.rewrite(
            erasing.left_of, lambda last: self._sealed([erasing.event()], last)
        )
        return Erased({f"{self._store.location}, audit_events": count} if count else {}, unreached)

    def _sealed(
        self, records: Sequence[Mapping[str, Any]], last: Mapping[str, Any] | None
    ) -> list[dict[str, Any]]:
        return [one.record for one in sealed(records, ChainHead.of(last) or ChainHead(), self._key)]

    def verify(self, expected: str | None, first: int) -> Verification:
        """Verify the chain; arguments as for `verify_audit`."""
        reader = ChainReader(secret(), expected, first)
        for row, record in self._store.audit.rows():
            reader.record(f"row {row}", record)
        return reader.end(self._store.location)

    def rows_after(self, row: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield row numbers and records behind a row, oldest first."""
        return self._store.audit.rows(row)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def verify_file(path: Path, *, expected: str | None = None, first: int = 1) -> Verification:
    """Verify the chain of a file and of those that rotation moved away; see `verify_audit`."""
    reader, others, line = ChainReader(secret(), expected, first), files_of(path)[0], b"\n"
    for each in [*others, path]:
        with each.open("rb") as file:
            for number, line in enumerate(file, start=1):
                reader.line(f"{each.name}, line {number}", line)
    known = None
    if _head_of(path).exists():
        with _head_of(path).open("rb") as head:
            known = _read_beside(head.fileno())
    return reader.end(path.name, None if known is None else known.head, cut_off=not line.endswith(b"\n"))


def files_of(path: Path) -> tuple[list[Path], list[Path]]:
    """The files that rotation moved away, in the order of their events, and those that can't be read."""
    found: list[tuple[int, Path]] = []
    unread: list[Path] = []
    for other in sorted(path.parent.iterdir()):
        # They begin with the name of the file that is written to, and have no head file of their own.
        if (
            other == path
            or not other.name.startswith(path.stem)
            or other.name.endswith((_HEAD, _NEXT))
            or _head_of(other).exists()
            or not other.is_file()
        ):
            continue
        with other.open("rb") as file:
            record = next((record for line in file if (record := record_in(line)) is not None), None)
        if record is not None and "kind" in record:
            found.append(((ChainHead.of(record) or ChainHead()).n, other))
        elif other.name.startswith(path.name):
            unread.append(other)
    return [other for _, other in sorted(found)], unread


def older_than(time: datetime) -> Wanted:
    """Wants the checks from before a time, aware."""
    until = time_text(time)
    return lambda record: record.get("kind") == "check" and str(record.get("time")) < until


def _stands(path: Path, file: int) -> bool:
    """Whether an open file is the one that its name stands for now."""
    try:
        there, ours = path.stat(), os.fstat(file)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _head_of(path: Path) -> Path:
    return Path(f"{path}{_HEAD}")


def _next(path: Path) -> Path:
    return Path(f"{path}{_NEXT}")


def _private(path: Path, mode: int) -> IO[bytes]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOEXEC, 0o600)
    path.chmod(mode)
    return os.fdopen(file, "wb")


def _read_beside(file: int) -> _SidecarEntry | None:
    os.lseek(file, 0, os.SEEK_SET)
    values = record_in(os.read(file, _HEAD_BYTES)) or {}
    head = ChainHead.of(values)
    return None if head is None else _SidecarEntry(head, values.get("size", -1), values.get("inode", -1))


def _ends(path: Path) -> tuple[bytes, bytes]:
    """The last whole line of a file, and what comes after it."""
    with path.open("rb") as file:
        at, tail = file.seek(0, os.SEEK_END), b""
        while at and tail.count(b"\n") < 2:
            size = min(at, max(_BLOCK, len(tail)))
            at -= size
            file.seek(at)
            tail = file.read(size) + tail
    before, _, cut = tail.rpartition(b"\n")
    return before.rpartition(b"\n")[2], cut
