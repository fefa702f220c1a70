"""An audit in the table of a store; and verifying and erasing any audit, in a file or a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turnwise._support.paths import to_path
from turnwise.clock import Clock, utc_now
from turnwise.errors import GuardError
from turnwise.guard.audit.chain import (
    ChainReader,
    Erasing,
    Head,
    Verification,
    Wanted,
    sealed,
    secret,
)
from turnwise.guard.audit.file import Erased, JsonLinesSink, verify_file
from turnwise.guard.audit.writer import erase_in

_SQLITE: Final = b"SQLite format 3\0"

_SERVERS: Final = ("postgresql://", "postgresql+psycopg://", "postgres://")
"""How the location of a store in a server begins."""


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
        return [one.record for one in sealed(records, Head.of(last) or Head(), self._key)]

    def verify(self, expected: str | None, first: int) -> Verification:
        """Verify the chain; arguments as for `verify_audit`."""
        reader = ChainReader(secret(), expected, first)
        for row, record in self._store.audit.rows():
            reader.record(f"row {row}", record)
        return reader.end(self._store.location)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def verify_audit(location: str | Path, *, expected: str | None = None, first: int = 1) -> Verification:
    """Where the chain of an audit breaks, if it does.

    Files that rotation moved away are part of a file's chain: those beside it whose names begin like its own.
    Where the environment variable ``TURNWISE_AUDIT_KEY`` is set, hashes have to be made with that key.

    `location` is as for `read_audit`; `expected` a hash that has to occur in the chain, such as the head of an
    earlier verification; `first` the number of the first event, where files with earlier ones were deleted.
    """
    place = audit_at(location)
    if isinstance(place, Path):
        try:
            return verify_file(place, expected=expected, first=first)
        except OSError as error:
            raise GuardError(f"the audit {location} can't be read: {error.strerror}") from error
    sink = StoreSink(place, create=False)
    try:
        return sink.verify(expected, first)
    finally:
        sink.close()


def erase_audit(location: str | Path, wanted: Wanted, why: str, clock: Clock = utc_now) -> Erased:
    """Erase the personal parts of the wanted events of an audit; an event appended to it says so, and `why`."""
    place = audit_at(location)
    sink = JsonLinesSink(place, clock=clock) if isinstance(place, Path) else StoreSink(place, clock, create=False)
    return erase_in(sink, str(location), wanted, why)


def audit_at(location: str | Path) -> Path | str:
    """The file of an audit, or the location of the store that has it; an SQLite file is a store."""
    if str(location).startswith(_SERVERS):
        return str(location)
    try:
        path = to_path(str(location).removeprefix("sqlite:///"), home=True)
        with path.open("rb") as file:
            return str(path) if file.read(len(_SQLITE)) == _SQLITE else path
    except OSError as error:
        raise GuardError(f"the audit {location} can't be read: {error.strerror}") from error
