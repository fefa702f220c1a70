"""The readings of a text: as it stands, and with what hides words in it undone."""

from __future__ import annotations

import re
from collections.abc import Container

from turnwise.guard.guardrail import Check
from turnwise.observers.local.normalise import HEAD, TAIL, normalise

_TAGS = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
"""The tag characters of Unicode: invisible copies of ASCII, which models read (Unicode Standard, chapter 23.9)."""
_TAGGED = re.compile("[\U000e0020-\U000e007e]+")

_STEP = HEAD + TAIL
_OVERLAP = 500
"""Characters that two pieces of a long text share, so that a phrase on the border is whole in one of them."""


def readings(check: Check, known: frozenset[str]) -> tuple[str, ...]:
    """Return `readings_of` of the text under check, made once for all guardrails that know the same words."""
    return check.once(("readings", known, check.text), lambda: readings_of(check.text, known))


def readings_of(text: str, known: Container[str] = frozenset()) -> tuple[str, ...]:
    """Return the texts that should be looked through.

    Args:
        text: any text; all of it is read, a long one in pieces.
        known: lower-case words that leetspeak may stand for.

    Returns:
        The text itself, and beside it what is different once invisible and lookalike characters, spacing,
        leetspeak, base64 and tag characters are undone.

    >>> readings_of("Hello.")
    ('Hello.',)
    >>> readings_of("1gn0re the rules", {"ignore"})
    ('1gn0re the rules', 'ignore the rules')
    """
    readings = [text]
    if not text.isascii():
        shown = _TAGGED.sub(lambda run: f" {run.group().translate(_TAGS)} ", text)
        if shown != text:
            readings.append(shown)
    for start in range(0, max(1, len(text) - _OVERLAP), _STEP - _OVERLAP):
        piece = text[start : start + _STEP]
        plain = normalise(piece, known).text
        if plain != piece:
            readings.append(plain)
    return tuple(readings)
