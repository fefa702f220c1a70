"""SQLite files that somebody else may have made: opened so that nothing in them runs."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable
from functools import cache
from itertools import chain

from turnwise._support.visible import shown
from turnwise.errors import StoreCorruptError, TurnwiseError

_SHOWN = 5
"""Foreign objects that a message names at most."""

_BEFORE_A_NAME = frozenset(("CREATE", "UNIQUE", "VIRTUAL", "TABLE", "INDEX", "IF", "NOT", "EXISTS"))


def harden(connection: sqlite3.Connection) -> None:
    """Keep what a file holds from running functions and from writing to its own schema."""
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def refuse_foreign_objects(
    connection: sqlite3.Connection,
    where: str,
    own: Iterable[str],
    error: type[TurnwiseError] = StoreCorruptError,
    instead: str = "ask whoever made it for a turnwise export",
) -> None:
    """Refuse a file with anything beside `own` tables and indexes: it could forge what is read, or never end."""
    ours = {statement.strip() for statement in own}
    words, names = _words_and_names(frozenset(ours))
    foreign = []
    for row in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        kind, name, table, sql = ("" if value is None else str(value) for value in row)
        if sql in ours or (kind in ("table", "index") and name.startswith("sqlite_")):  # SQLite's own
            continue
        others = sorted(set(_words(sql)) - words)
        if kind not in ("table", "index") or name.upper() not in names:
            foreign.append(f"the {kind} {shown(name)}" + (f" on {shown(table)}" if table != name else ""))
        elif others:
            foreign.append(f"{shown(others[0])} in the {kind} {shown(name)}")
    if foreign:
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        raise error(
            f"{where} holds what turnwise does not make: {', '.join(foreign[:_SHOWN])}{more}. That could forge "
            "what is read or written, so the file is not opened: if it is yours, DROP it with sqlite3; "
            f"else {instead}"
        )


@cache
def _words_and_names(statements: frozenset[str]) -> tuple[set[str], set[str]]:
    said = [_words(statement) for statement in statements]
    return set(chain.from_iterable(said)), {next(w for w in some if w not in _BEFORE_A_NAME) for some in said}


def _words(sql: str) -> list[str]:
    letters = (character if character.isalnum() or character == "_" else " " for character in sql.upper())
    return [word for word in "".join(letters).split() if not word.isdigit()]
