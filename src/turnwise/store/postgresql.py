"""A record in PostgreSQL: where it is, how it is connected to, and one writer at a time.

Who writes holds an advisory lock until the transaction is committed. So rows get their numbers in the order in
which they become visible, as in SQLite, and what was looked up is still true when it is written: nobody misses a
row by a watermark, and nobody makes a row twice. Readers wait for nobody. A schema of a database holds one record;
the locks of two schemas have nothing to do with each other.
"""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from turnwise.errors import (
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreUnreachableError,
    TurnwiseError,
    UsageError,
)
from turnwise.store import schema
from turnwise.store.backend import Backend, RunLocks, shown_url, written_elsewhere
from turnwise.store.column_types import UnreadableValueError, read_stored_json
from turnwise.store.damaged_rows import first_line, no_unicode

if TYPE_CHECKING:
    import psycopg

_OLDEST = 130_000
"""The first version of the server that will do, as it counts them."""

_FOREIGN = """
SELECT format('the trigger %I on %I', tgname, relname) FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(:ours) AND NOT tgisinternal
UNION ALL
SELECT format('the rule %I on %I', rulename, tablename) FROM pg_rules
WHERE schemaname = current_schema() AND tablename = ANY(:ours)
UNION ALL
SELECT format('%I, which is no table of its own', relname) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(:ours) AND relkind <> 'r'
"""
"""What acts on our tables or has their name, in words."""

_SHOWN = 5
"""Foreign objects that a message names at most."""

_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""When a server that vanished is given up: seconds, and milliseconds for what was sent and not received."""

_SESSION = {
    "TimeZone": "UTC",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""Settings of each session: the server soon lets go of the locks of a client that vanished."""

_WRITER_LOCK = -1
"""The lock of who writes; those of runs have the number of the run, from 1."""

writers = Table(
    "writers",
    MetaData(),
    Column("writer", String(36), primary_key=True),
    Column("batch", BigInteger, nullable=False),
    Column("written_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
"""The last transaction of each store that writes: tells whether it was committed, where the reply was lost.

One more row counts the editions of the record; see `turnwise.store.database.edition`.
"""


class PostgresqlServer(Backend):
    """A schema of a PostgreSQL database as the place of a record; what the URL lacks comes from PGPASSWORD and
    wherever else PostgreSQL's own programs look."""

    reading: Mapping[str, Any] = MappingProxyType({"isolation_level": "AUTOCOMMIT"})
    standalone = reading

    def __init__(self, url: URL, busy_seconds: float) -> None:
        if "@" in (url.host or ""):
            raise UsageError("a store's URL has an @ in its password or host: write it as %40")
        if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
            raise UsageError(f"{url.drivername}:// can't be opened as a store: write postgresql://")
        self.where = shown_url(url)
        self.busy_seconds = busy_seconds
        self._writer, self._batch = str(uuid4()), 0
        self._namespace = 0
        given: dict[str, str | int] = {"application_name": "turnwise", "client_encoding": "utf8", **_KEEPALIVE}
        given["connect_timeout"] = max(2, round(busy_seconds))
        try:
            self.engine: Engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                connect_args={name: value for name, value in given.items() if name not in url.query},
                json_deserializer=read_stored_json,
            )
        except (SQLAlchemyError, ValueError, TypeError) as error:
            raise UsageError(f"{self.where} can't be opened as a store: {error}") from None
        event.listen(self.engine, "connect", self._configure)
        event.listen(self.engine, "begin", self._begin)

    def translated(self) -> AbstractContextManager[None]:
        return translated(self.where)

    def check(self, create: bool) -> None:
        with self.engine.connect() as connection:
            version, encoding, name, number = connection.exec_driver_sql(
                "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), "
                "current_schema(), (SELECT oid::int4 FROM pg_namespace WHERE nspname = current_schema())"
            ).one()
            if version < _OLDEST:
                raise StoreError(f"{self.where} is PostgreSQL {version // 10_000}; a store needs 13 or later")
            if encoding != "UTF8":
                raise StoreError(
                    f"{self.where} is encoded in {encoding}, which can't hold every text: "
                    "make a database with createdb --encoding UTF8 --template template0"
                )
            if name is None:
                raise StoreError(f"{self.where}: the search_path has no schema: make it with CREATE SCHEMA")
            self._namespace = number
            if not create and not inspect(connection).get_table_names():
                raise StoreError(
                    f"there is no store at {self.where}: make one with turnwise import FILE --store, "
                    "or name another with --store"
                )

    def refuse_foreign(self, connection: Connection) -> None:
        found = connection.scalars(text(_FOREIGN), {"ours": list(schema.metadata.tables)}).all()
        if found:
            raise StoreCorruptError(
                f"{self.where} holds what turnwise does not make: {', '.join(found[:_SHOWN])}. It could forge "
                "what is read or written, so the store is not opened: DROP that, or use another schema"
            )

    def made(self, connection: Connection) -> None:
        writers.create(connection, checkfirst=True)

    def was_committed(self) -> bool:
        query = select(writers.c.batch).where(writers.c.writer == self._writer)
        # Who has the writer's lock knows that no other transaction is left, the one in doubt among them.
        alone = self.engine.execution_options(writes=True)
        with self.translated(), alone.connect() as connection, connection.begin():
            return bool(connection.scalar(query) == self._batch)

    def run_locks(self) -> PostgresqlRunLocks:
        return PostgresqlRunLocks(self.engine, self.where, self._namespace)

    def close(self) -> None:
        if self._batch:
            with suppress(SQLAlchemyError), self.engine.begin() as connection:
                connection.execute(writers.delete().where(writers.c.writer == self._writer))
        self.engine.dispose()

    def discard(self) -> None:
        """Empty tables are no file that somebody could take for a store."""

    def _configure(self, connection: psycopg.Connection[Any], record: object) -> None:
        settings = {**_SESSION, "lock_timeout": f"{max(1, round(self.busy_seconds * 1000))}ms"}
        names = ", ".join("set_config(%s, %s, false)" for _ in settings)
        values = [part for setting in settings.items() for part in setting]
        connection.autocommit = True
        # An acknowledged write is on disk, whatever the server's own setting; a stricter one stays.
        durable = "set_config('synchronous_commit', 'on', false)"
        relaxed = "current_setting('synchronous_commit') IN ('off', 'local')"
        connection.execute(f"SELECT {names}, CASE WHEN {relaxed} THEN {durable} END".encode(), values)
        connection.autocommit = False

    def _begin(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        writes = options.get("writes")
        if writes:
            statement = f"SELECT pg_advisory_xact_lock({self._namespace}, {_WRITER_LOCK})"
            if writes == "batch":  # in one round trip with the lock
                self._batch += 1
                statement += (
                    f"; INSERT INTO writers (writer, batch) VALUES ('{self._writer}', {self._batch}) "
                    "ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, written_at = now()"
                )
                if self._batch == 1:  # what is left of processes that were killed
                    statement += "; DELETE FROM writers WHERE written_at < now() - interval '1 day'"
            connection.exec_driver_sql(statement)
        elif options.get("snapshot"):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


class PostgresqlRunLocks(RunLocks):
    """The locks that one store has on its runs: advisory locks, which end with a session of their own."""

    def __init__(self, engine: Engine, where: str, namespace: int) -> None:
        self._engine = engine
        self._where = where
        self._namespace = namespace
        self._connection: Connection | None = None
        self._shared: set[int] = set()

    def lost(self) -> bool:
        if not self._shared or self._alive():
            return False
        self.close()
        return True

    def share(self, run: int) -> None:
        try:
            self._call("pg_advisory_lock_shared", run)
        except StoreLockedError as error:
            raise StoreLockedError(f"{self._where}: another process changes the run; wait for it") from error
        self._shared.add(run)

    def release(self, run: int) -> None:
        if run in self._shared:
            self._shared.discard(run)
            self._call("pg_advisory_unlock_shared", run)

    @contextmanager
    def alone(self, run: int, name: str) -> Iterator[None]:
        if not self.lost():
            self.release(run)
        if not self._call("pg_try_advisory_lock", run):
            raise written_elsewhere(name)
        try:
            yield
        finally:
            self._call("pg_advisory_unlock", run)

    def shared_elsewhere(self, run: int) -> bool:
        if run in self._shared:
            return False
        if free := self._call("pg_try_advisory_lock", run):
            self._call("pg_advisory_unlock", run)
        return not free

    def close(self) -> None:
        self._shared.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.detach()  # the locks are the session's, which is to end
                connection.close()

    def _call(self, function: str, run: int) -> bool:
        with translated(self._where):
            if self._connection is None:
                self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                got = self._connection.exec_driver_sql(f"SELECT {function}({self._namespace}, {run})").scalar()
            except SQLAlchemyError:
                if self._connection.invalidated:
                    self.close()
                raise
            return got is not False

    def _alive(self) -> bool:
        """Whether the session is there; its end shows at the socket, so as a rule the server is not asked."""
        if self._connection is None or self._connection.invalidated:
            return False
        driver = self._connection.connection.driver_connection
        assert driver is not None
        try:
            with selectors.DefaultSelector() as socket:
                socket.register(driver.fileno(), selectors.EVENT_READ)
                if not socket.select(timeout=0):
                    return True
            self._connection.exec_driver_sql("SELECT 1")
        except (SQLAlchemyError, OSError, ValueError):
            return False
        return True


_LOST = ("08", "57P")
"""Beginnings of the codes for a connection that can't be had, or is no more: broken, shut down, starting."""

_STARTING = ("starting up", "shutting down", "recovery", "not yet accepting")
"""What a server says that will take connections in a moment."""

_MEND = "restore a backup, or import and evaluate into another store"

_LOCKED = (StoreLockedError, "{where} is locked by another process; wait for it to finish, or use another store")
_DAMAGED = (StoreCorruptError, "{where} is damaged ({text}); " + _MEND)

_MEANINGS: Mapping[str, tuple[type[TurnwiseError], str]] = {
    "25006": (StoreError, "{where} can't be written: PostgreSQL is read-only there (is it a standby?)"),
    "40P01": _LOCKED,  # a deadlock
    "42501": (StoreError, "{where}: {text}; grant it, or make the user owner of the database or schema"),
    "42P01": _DAMAGED,  # a table is missing
    "54000": (UsageError, "{where}: an id or a name is too long for PostgreSQL, which takes 2,600 bytes ({text})"),
    "55P03": _LOCKED,
    "57014": _LOCKED,  # a time limit that the server or the user has
    "XX001": _DAMAGED,  # a page of a table
    "XX002": _DAMAGED,  # a page of an index
}
"""What the codes of PostgreSQL mean here (its appendix A)."""


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn what PostgreSQL raises inside the block into an error that says what to do."""
    import psycopg

    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, psycopg.Error):
            raise
        told = _told(where, cause, lost=isinstance(error, DBAPIError) and error.connection_invalidated)
        if told is None:
            raise
        raise told from error
    except NoConnectionError as error:
        raise StoreLockedError(f"{where}: all connections of this process are in use; ask less at once") from error
    except UnreadableValueError as error:
        raise StoreCorruptError(f"{where} is damaged ({error}); {_MEND}") from error
    except UnicodeEncodeError as error:
        raise no_unicode(error) from error


def _told(where: str, error: psycopg.Error, *, lost: bool) -> TurnwiseError | None:
    """The error that says what PostgreSQL said; None for one that only turnwise can have made."""
    import psycopg

    code, text = error.sqlstate or "", _said(error)
    if lost or code.startswith(_LOST) or (not code and isinstance(error, psycopg.OperationalError)):
        return _unreachable(where, text)
    if code in _MEANINGS:
        kind, meaning = _MEANINGS[code]
        return kind(meaning.format(where=where, text=text))
    if isinstance(error, psycopg.OperationalError | psycopg.InternalError | psycopg.DataError):
        return StoreError(f"{where}: {text}")
    return None


def _unreachable(where: str, text: str) -> StoreUnreachableError:
    hint = "check host and port, and whether PostgreSQL runs there"
    if "password" in text or "authentication" in text or "pg_hba.conf" in text:
        hint = "check user and password: they may stand in the URL, in PGUSER and PGPASSWORD, or in ~/.pgpass"
    elif "does not exist" in text:
        hint = "make a database with createdb, a user with createuser"
    elif "too many" in text or "remaining connection slots" in text:
        hint = "close other programs, or raise max_connections"
    soon = any(word in text for word in _STARTING)
    return StoreUnreachableError(f"{where} can't be reached ({text}); {hint}", soon=soon)


def _said(error: psycopg.Error) -> str:
    """What PostgreSQL says, in a line, without what stands before the point of it."""
    text = error.diag.message_primary or first_line(str(error))
    for prefix in ("FATAL:", " failed: ", "connection failed:", "connection is bad:"):
        text = text.rpartition(prefix)[2]
    return text.strip() or type(error).__name__
