"""Texts as SQL has them, for the places in a statement that take no parameter."""

from __future__ import annotations

import glob


def quoted(text: str) -> str:
    """A text as SQL has it.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def file_name(name: str) -> str:
    """The name of a file, or its URL, for DuckDB's readers, which take names for patterns.

    >>> file_name("logs[1]/chats*.parquet")
    'logs[[]1]/chats[*].parquet'
    """
    return glob.escape(name)
