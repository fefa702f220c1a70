"""Texts of others as they may be shown: what could hide, forge or recolour something else becomes an escape."""

from __future__ import annotations

import reprlib
import unicodedata


def visible(text: str) -> str:
    r"""A text with control, format and bidirectional characters as escapes.

    >>> print(visible("a\x1b[2Jb\n\u202ec d"))
    a\x1b[2Jb\n\u202ec d
    """
    return "".join(map(visible_character, text)) if not text.isprintable() else text


def visible_lines(text: str) -> str:
    """A text of several lines as `visible`, with the ends of its lines kept."""
    return "\n".join(map(visible, text.split("\n")))


def visible_character(character: str) -> str:
    """A character, or its escape where `visible` shows that."""
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def shortened(text: str, most: int) -> str:
    """A text in one line of at most so many characters, and a sign where it went on."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def numbered(number: int, what: str) -> str:
    """A number of things, such as ``1 turn`` and ``2 turns``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


_SHOWN_DIGITS = 40  # digits of a whole number that a message shows; Python refuses to print those of thousands


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = self.maxdict = 2
        self.maxstring = self.maxother = 80

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if abs(x) < 10**_SHOWN_DIGITS else f"a whole number of more than {_SHOWN_DIGITS} digits"


# returns a value of any kind as an error message shows it: in one line, cut where it is long or deep
shown = _Shortened().repr
