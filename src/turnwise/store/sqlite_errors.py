"""What SQLite says of a file that is locked, read-only or damaged: which error that is, and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DatabaseError, OperationalError

from turnwise.errors import StoreCorruptError, StoreError, StoreLockedError
from turnwise.store import schema
from turnwise.store.damage import MEND, NO_UTF8, first_line, no_unicode


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what SQLite raises inside the block into an error that says what to do.

    Args:
        path: the file of the store.

    Raises:
        StoreError: what SQLite says of the file.
        UsageError: a text that can't be written as UTF-8.
    """
    try:
        yield
    except (DatabaseError, sqlite3.DatabaseError) as error:
        cause = getattr(error, "orig", None) or error
        text = str(cause)
        if "locked" in text or "busy" in text:
            raise StoreLockedError(
                f"{path} is locked by another process; wait for it to finish, or use another store"
            ) from error
        if "readonly" in text:
            raise StoreError(f"{path} can't be written: the file or its folder is read-only") from error
        if "not a database" in text:
            raise StoreCorruptError(f"{path} is not a turnwise store; name another file with --store") from error
        if "malformed" in text or "disk image" in text or NO_UTF8 in text:
            raise StoreCorruptError(f"{path} is damaged ({first_line(text)}); {MEND}") from error
        if isinstance(error, OperationalError | sqlite3.OperationalError):
            raise StoreError(f"{path}: {text}") from error
        raise
    except schema.UnreadableValueError as error:
        raise StoreCorruptError(f"{path} is damaged ({error}); {MEND}") from error
    except UnicodeDecodeError as error:  # a name in the file that even the message of SQLite can't hold
        raise StoreCorruptError(f"{path} is damaged (a name in it is not UTF-8); {MEND}") from error
    except UnicodeEncodeError as error:
        raise no_unicode(error) from error
