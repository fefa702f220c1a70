"""Verdicts that were reached before, so that nobody waits for them again: a SQLite file in the user's cache.

It holds names and numbers, never a text of a conversation, and may be deleted at any time. It is not kept beside
the store, since one that came with a store could say anything.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from turnwise._support.locations import Location
from turnwise.errors import StoreError
from turnwise.store.findings.files import for_the_user

FILE: Final = "verdicts.db"

_VERSION: Final = 5
"""Of the tables; those of another version are made anew."""

_MAKE: Final = (
    "DROP TABLE IF EXISTS judged",
    "DROP TABLE IF EXISTS flags",
    "DROP TABLE IF EXISTS explanations",
    "CREATE TABLE judged (run TEXT, detector TEXT, stamp TEXT, upto INTEGER, PRIMARY KEY (run, detector))",
    "CREATE TABLE flags (run TEXT, detector TEXT, number INTEGER, sequence_id TEXT, label TEXT, source TEXT, "
    "turns INTEGER, turn INTEGER, side TEXT, principle TEXT, F REAL, I REAL, peak REAL, score REAL, reason TEXT, "
    "at REAL, PRIMARY KEY (run, detector, number))",
    "CREATE TABLE explanations (run TEXT, about TEXT, content TEXT, PRIMARY KEY (run, about))",
    f"PRAGMA user_version = {_VERSION}",
)


class Flag(NamedTuple):
    """A conversation at which a detector fired."""

    number: int  # of its row
    sequence_id: str
    label: str
    source: str
    turns: int
    turn: int  # the first that fired
    side: str
    principle: str  # that counted most there
    F: float
    I: float  # noqa: E741 - the field's name for indeterminacy
    peak: float  # the highest F of any turn
    score: float  # the detector's
    reason: str
    at: float  # seconds since 1970, of `when`

    @property
    def when(self) -> datetime:
        """When the flagged turn was said, else when the conversation was imported."""
        return datetime.fromtimestamp(self.at, UTC)


class KeptVerdicts:
    """What detectors said of the runs of a store. Threads and processes may use the file at the same time."""

    # A detector is named by a text that says all of it, and a `stamp` tells what its verdicts rest on: under
    # another stamp they are reached anew. `upto` is where in the run the verdicts end.

    def __init__(self, where: str) -> None:
        self._where = where
        self._path: Path | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Remove the file where it is in a temporary folder."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = self._path = None

    def forget(self, run: str | None = None) -> None:
        """Forget the verdicts of a run, or all, as has to be done where conversations were erased."""
        with self._opened() as file:
            for table in ("judged", "flags", "explanations"):
                file.execute(f"DELETE FROM {table} WHERE run = coalesce(?, run)", [run])
            if run is None:
                file.execute("VACUUM")

    def upto(self, run: str, detector: str, stamp: str) -> int:
        """Where the verdicts of a detector end; 0 where there are none."""
        query = "SELECT upto FROM judged WHERE run = ? AND detector = ? AND stamp = ?"
        return self._value(query, run, detector, stamp) or 0

    def keep(
        self, run: str, detector: str, stamp: str, judged: Sequence[int], flags: Sequence[Flag], upto: int
    ) -> None:
        """Keep the verdicts of the sequences of some row numbers, of which these are flagged."""
        key = run, detector
        with self._opened() as file:
            file.execute("BEGIN IMMEDIATE")
            known = file.execute("SELECT stamp, upto FROM judged WHERE run = ? AND detector = ?", key).fetchone()
            if known is None or known[0] != stamp:
                file.execute("DELETE FROM flags WHERE run = ? AND detector = ?", key)
            file.executemany(
                "DELETE FROM flags WHERE run = ? AND detector = ? AND number = ?", [(*key, one) for one in judged]
            )
            marks = ", ".join("?" * (len(key) + len(Flag._fields)))
            file.executemany(f"INSERT INTO flags VALUES ({marks})", [(*key, *flag) for flag in flags])
            file.execute("INSERT OR REPLACE INTO judged VALUES (?, ?, ?, ?)", (*key, stamp, upto))
            file.commit()

    def flags(self, run: str, detector: str, stamp: str) -> list[Flag]:
        query = (
            f"SELECT {', '.join(Flag._fields)} FROM flags JOIN judged USING (run, detector) "
            "WHERE run = ? AND detector = ? AND stamp = ?"
        )
        with self._opened() as file:
            return [Flag(*row) for row in file.execute(query, [run, detector, stamp])]

    def explanation(self, run: str, about: str) -> str | None:
        """What was kept of why a turn has its score; `about` says which turn, by which method."""
        content: str | None = self._value(
            "SELECT content FROM explanations WHERE run = ? AND about = ?", run, about
        )
        return content

    def keep_explanation(self, run: str, about: str, content: str) -> None:
        """Keep why a turn has its score: numbers and places, never a text."""
        with self._opened() as file:
            file.execute("INSERT OR REPLACE INTO explanations VALUES (?, ?, ?)", (run, about, content))

    def _value(self, query: str, *values: str) -> Any:
        with self._opened() as file:
            found = file.execute(query, values).fetchone()
        return found and found[0]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self._path is None:
            self._path = self._place()
        try:
            with contextlib.closing(_connect(self._path)) as file:
                yield file
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} can't be used ({error}): delete it, it is made anew") from error

    def _place(self) -> Path:
        """The file in the user's cache, or a temporary one where nothing can be written there."""
        with contextlib.suppress(OSError, sqlite3.OperationalError):
            path = for_the_user(Location(self._where), "cache", FILE)
            try:
                _connect(path).close()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                path.unlink()  # damaged
            return path
        self._temporary = tempfile.TemporaryDirectory(prefix="turnwise-verdicts-")
        return Path(self._temporary.name, FILE)


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file, with empty tables where it has none of this version."""
    file = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    file.execute("PRAGMA synchronous = OFF")  # what a crash spoils is made anew
    if file.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("BEGIN IMMEDIATE")
        if file.execute("PRAGMA user_version").fetchone()[0] != _VERSION:  # else somebody else was first
            for statement in _MAKE:
                file.execute(statement)
        file.execute("COMMIT")
    return file
