"""Stretches of a text that stand for another text."""

from __future__ import annotations

from typing import NamedTuple


class Stretch(NamedTuple):
    """A stretch of a text and what it stands for.

    Args:
        start: offset of its first character.
        end: offset behind its last character.
        text: what it stands for.
    """

    start: int
    end: int
    text: str
