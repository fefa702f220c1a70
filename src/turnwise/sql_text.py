"""Texts as SQL has them, for the places in a statement that take no parameter."""

from __future__ import annotations

import glob


def quoted(text: str) -> str:
    """Return a text as SQL has it.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def file_name(name: str) -> str:
    """Return the name of a file, or its URL, as DuckDB's readers take it, which read names as patterns.

    >>> file_name("logs[1]/chats*.parquet")
    'logs[[]1]/chats[*].parquet'
    """
    return glob.escape(name)
