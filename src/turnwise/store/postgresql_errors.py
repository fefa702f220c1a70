"""What the errors of PostgreSQL mean, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from turnwise.errors import (
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreUnreachableError,
    TurnwiseError,
    UsageError,
)
from turnwise.store.column_types import UnreadableValueError
from turnwise.store.damage import first_line, no_unicode

if TYPE_CHECKING:
    import psycopg

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
