"""Texts of others as they may be shown: what could hide, forge or recolour something else becomes an escape."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    r"""Return a text with control, format and bidirectional characters as escapes.

    >>> print(visible("a\x1b[2Jb\n\u202ec d"))
    a\x1b[2Jb\n\u202ec d
    """
    return "".join(map(visible_character, text)) if not text.isprintable() else text


def visible_lines(text: str) -> str:
    """Return a text of several lines as `visible`, with the ends of its lines kept."""
    return "\n".join(map(visible, text.split("\n")))


def visible_character(character: str) -> str:
    """Return a character, or its escape where `visible` shows that."""
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
