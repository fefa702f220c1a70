"""Texts as SQL has them, for the places in a statement that take no parameter."""

from __future__ import annotations


def quoted(text: str) -> str:
    """Return a text as SQL has it.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
