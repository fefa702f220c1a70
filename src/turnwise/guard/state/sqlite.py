"""``SqliteStateStore``: states in one file that several processes of a machine share."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from turnwise._support.locations import to_path
from turnwise._support.sqlite_files import harden, refuse_foreign_objects
from turnwise.clock import Clock, utc_now
from turnwise.errors import StateDownError, StateError
from turnwise.guard.state.stores import SharedStore, State
from turnwise.sessions.state_store import Change, StateKind

APPLICATION: Final = 0x54575354  # the application_id of such a file, by which another database is told from it
VERSION: Final = 1  # version of the tables, as the file's user_version

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS states (kind TEXT NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL, "
    "used REAL NOT NULL, lasting INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS states_by_use ON states (lasting, used)",
    "CREATE INDEX IF NOT EXISTS states_by_owner ON states (owner)",
    "CREATE TABLE IF NOT EXISTS parts (kind TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, "
    "payload BLOB NOT NULL, PRIMARY KEY (kind, key, name)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS counts (lasting INTEGER PRIMARY KEY, states INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO counts VALUES (0, 0), (1, 0)",
)

_ROW: Final = "SELECT payload, used, lasting FROM states WHERE kind = ? AND key = ?"
_IDLE: Final = 8  # connections that wait for use, at most
_OLD_AT_ONCE = 20  # states that are past their time and are deleted when another one is added, at most


class SqliteStateStore(SharedStore):
    """Keeps states in an SQLite file, for threads and processes of one machine at once.

    Every change is one transaction: the file has all of it or nothing, even where the process is killed. Writers
    wait for each other. What was written survives the process, and all but the last moments survive a power cut.

    At most `limit` states are kept; the one that was changed least recently makes room. What must last, such as
    that a session was terminated, is never dropped for room and has a limit of its own.

    Args:
        path: the file; made where it is not there, readable by its owner alone.
        limit: states that are kept beside those that must last, at least 1.
        ended_limit: states that must last, at least 0; one more is an error, never a silent loss.
        ttl: how long a state is kept that nobody changes; None for as long as there is room.
        ended_ttl: the same for what must last; None for ever.
        wait_seconds: how long a change waits for other processes at most, above 0 and at most 600.
        clock: gives the present time, aware.

    Raises:
        StateError: the file can't be opened, is another database, or was made by a later turnwise. Of every
            method: the file, or the state that is asked for, can't be read or written; then nothing is changed.
        SessionError: a bound out of its range.

    >>> from turnwise.sessions import SESSION
    >>> with SqliteStateStore(":memory:") as store:
    ...     len(store), store.get(SESSION, "ann")
    (0, None)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limit: int = 1_000_000,
        ended_limit: int = 1_000_000,
        ttl: timedelta | None = None,
        ended_ttl: timedelta | None = None,
        wait_seconds: float = 5.0,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(os.fspath(path), limit, ended_limit, ttl, ended_ttl, wait_seconds, clock)
        self._memory = self.path == ":memory:"
        self._idle: list[sqlite3.Connection] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._of_parent: list[sqlite3.Connection] = []
        self._alone: AbstractContextManager[object] = threading.RLock() if self._memory else nullcontext()
        with self._failures("it can't be opened"):
            self._give_back(self._taken())

    def __len__(self) -> int:
        with self._failures(), self._reading() as connection:
            count: int = connection.execute("SELECT SUM(states) FROM counts").fetchone()[0]
        return count

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """Return a state, or None for one that is not known."""
        with self._failures(), self._reading() as connection:
            row = connection.execute(_ROW, (kind.name, key)).fetchone()
        return self._state(kind, key, row)

    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes in one transaction, and return their results."""
        results = []
        with self._failures("it can't be written"), self._writing() as connection:
            for kind, key, apply in changes:
                row = connection.execute(_ROW, (kind.name, key)).fetchone()
                before = self._state(kind, key, row)
                if row is not None and before is None:
                    self._delete(connection, kind.name, key, row[2])
                    row = None
                state, result = apply(before)
                results.append(result)
                if state is not before or row is None:
                    self._put(connection, kind, key, state, None if row is None else row[2])
        return tuple(results)

    def parts(self, kind: StateKind[Any], key: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return parts of a state by name; all of them where `names` is None."""
        place = (kind.name, key)
        with self._failures(), self._reading() as connection:
            if names is None:
                rows = connection.execute("SELECT name, payload FROM parts WHERE kind = ? AND key = ?", place)
                return dict(rows.fetchall())
            query = "SELECT payload FROM parts WHERE kind = ? AND key = ? AND name = ?"
            found = ((name, connection.execute(query, (*place, name)).fetchone()) for name in names)
            return {name: row[0] for name, row in found if row is not None}

    def remove(self, kind: StateKind[Any], key: str) -> bool:
        """Forget a state with its parts, also a broken one; return whether it was known."""
        with self._failures("it can't be written"), self._writing() as connection:
            row = connection.execute(_ROW, (kind.name, key)).fetchone()
            if row is not None:
                self._delete(connection, kind.name, key, row[2])
        return row is not None

    def keys(self, kind: StateKind[Any], owner: str | None = None) -> list[str]:
        """Return the keys of a kind, sorted; only those of `owner` where one is given.

        Those of states past their `ttl` are among them while the file has them, so that all can be forgotten."""
        query, given = "SELECT key FROM states WHERE kind = ?", [kind.name]
        if owner is not None:
            query, given = f"{query} AND owner = ?", [kind.name, owner]
        with self._failures(), self._reading() as connection:
            return sorted(key for (key,) in connection.execute(query, given))

    def purge(self, before: datetime) -> int:
        """Drop states that were not changed since a time, except what must last; return how many."""
        with self._failures("it can't be written"), self._writing() as connection:
            old = connection.execute(
                "SELECT kind, key FROM states WHERE lasting = 0 AND used < ?", (before.timestamp(),)
            ).fetchall()
            for kind, key in old:
                self._delete(connection, kind, key, 0)
        return len(old)

    def scrub(self) -> tuple[str, ...]:
        """Write the file anew and empty its log, so that neither has a byte of what was removed.

        Other processes wait meanwhile, one to three seconds for 100 MB. The result names the log if another
        process was reading it all the while, so that it could not be emptied."""
        if self._memory:
            return ()
        with self._failures("it can't be written"), self._reading() as connection:
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return (f"{self.path}-wal, which another process reads at this moment: forget again",) if busy else ()

    def close(self) -> None:
        """Close the file; closing twice is harmless, and a later call is an error."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            self._drop(connection)

    # What is in the file

    def _state(self, kind: StateKind[State], key: str, row: tuple[bytes, float, int] | None) -> State | None:
        if row is None:
            return None
        if not isinstance(row[0], bytes) or type(row[1]) not in (int, float):
            raise StateError(f"state {kind.name} {key!r} is broken (it is no bytes); forget it to begin anew")
        if self._expired(row[1], row[2]):
            return None
        return kind.unpack(row[0], key)

    def _expired(self, used: float, lasting: int) -> bool:
        ttl = self._ttls[bool(lasting)]
        return ttl is not None and self._clock().timestamp() - used > ttl.total_seconds()

    def _put(
        self, connection: sqlite3.Connection, kind: StateKind[Any], key: str, state: Any, before: int | None
    ) -> None:
        """Write a state that was not known (`before` is None), or was kept as lasting (1) or not (0)."""
        lasting = int(kind.remnant(state) is not None)
        now = self._clock().timestamp()
        if before != lasting:
            if before is not None:
                connection.execute("UPDATE counts SET states = states - 1 WHERE lasting = ?", (before,))
            self._make_room(connection, lasting, now)
            connection.execute("UPDATE counts SET states = states + 1 WHERE lasting = ?", (lasting,))
        connection.execute(
            "INSERT INTO states VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET "
            "payload = excluded.payload, used = excluded.used, lasting = excluded.lasting, owner = excluded.owner",
            (kind.name, key, kind.pack(state), now, lasting, kind.owner(state)),
        )
        connection.executemany(
            "INSERT INTO parts VALUES (?, ?, ?, ?) ON CONFLICT (kind, key, name) DO UPDATE SET "
            "payload = excluded.payload",
            [(kind.name, key, name, payload) for name, payload in kind.parts(state).items()],
        )

    def _make_room(self, connection: sqlite3.Connection, lasting: int, now: float) -> None:
        """Delete what is past its time and what was changed least recently, to make room for one more."""
        ttl = self._ttls[lasting]
        if ttl is not None:
            old = connection.execute(
                "SELECT kind, key FROM states WHERE lasting = ? AND used < ? LIMIT ?",
                (lasting, now - ttl.total_seconds(), _OLD_AT_ONCE),
            ).fetchall()
            for kind, key in old:
                self._delete(connection, kind, key, lasting)
        count = connection.execute("SELECT states FROM counts WHERE lasting = ?", (lasting,)).fetchone()[0]
        beyond = count + 1 - self._limits[lasting]
        if beyond <= 0:
            return
        if lasting:
            raise self._no_room()
        rows = connection.execute(
            "SELECT kind, key FROM states WHERE lasting = 0 ORDER BY used LIMIT ?", (beyond,)
        ).fetchall()
        for kind, key in rows:
            self._delete(connection, kind, key, 0)

    def _delete(self, connection: sqlite3.Connection, kind: str, key: str, lasting: int) -> None:
        connection.execute("DELETE FROM states WHERE kind = ? AND key = ?", (kind, key))
        connection.execute("DELETE FROM parts WHERE kind = ? AND key = ?", (kind, key))
        connection.execute("UPDATE counts SET states = states - 1 WHERE lasting = ?", (lasting,))

    # Connections

    @contextmanager
    def _failures(self, what: str = "it can't be read") -> Iterator[None]:
        """Turn errors of SQLite and the system into one that names the file."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StateDownError(f"state store {self.path}: {what}: {error}") from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        # A file in memory is there in one connection alone.
        with self._alone:
            connection = self._taken()
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _taken(self) -> sqlite3.Connection:
        """A connection that nobody else uses; after a fork, none of the parent process."""
        with self._lock:
            self._check_open()
            if self._process != os.getpid():
                # Closing them would let go of the locks of the parent: they are kept, and never used.
                self._of_parent, self._idle, self._process = self._idle, [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and (len(self._idle) < _IDLE or self._memory):
                self._idle.append(connection)
                return
        self._drop(connection)

    def _drop(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        target = self.path
        if not self._memory:
            path = Path(to_path(self.path, home=True))
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            target = str(path)
        connection = sqlite3.connect(
            target, timeout=self._wait, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        # What somebody wrote there as text must not end up in an error.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            # In one transaction: another process may be making the tables at this moment.
            harden(connection)
            connection.execute("BEGIN")
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            fresh = not application and not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            connection.execute("COMMIT")
            if application != APPLICATION and not fresh:
                raise StateError(f"{self.path} is another database, not a state store; name another file")
            if version > VERSION:
                raise StateError(f"{self.path} was made by a later turnwise (version {version}); update turnwise")
            refuse_foreign_objects(connection, f"state store {self.path}", _SCHEMA, StateError, "use another file")
            if fresh:
                self._make(connection)
            if not self._memory and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # Another process that opens the file now may keep it from being changed; one of them does.
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self, connection: sqlite3.Connection) -> None:
        """Make the tables, even if another process makes them at the same moment."""
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
