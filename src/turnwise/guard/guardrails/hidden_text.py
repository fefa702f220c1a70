"""The texts that phrases are looked for in: a text as it stands, and with what hides words in it undone."""

from __future__ import annotations

from collections.abc import Iterable

from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.masked_words import HINT
from turnwise.guard.recognisers.readings import TextReading, folded_readings, readings_of
from turnwise.guard.recognisers.respelling import RUN_TOGETHER, Respelling
from turnwise.observers.local.normalise import HEAD, TAIL, normalise

_STEP = HEAD + TAIL
_OVERLAP = 500
"""Characters that two pieces of a long text share, so that a phrase on the border is whole in one of them."""

_WHOLE_SENTENCE = "\ufdfa"
"""The one character that stands for 18 in plain form; none of them is Latin."""


def plain_texts(check: Check, known: frozenset[str]) -> tuple[str, ...]:
    """Return `plain_texts_of` of the text under check, made once for all guardrails that know the same words."""
    key = ("hidden", known, check.text)
    made: tuple[str, ...] | None = check.shared.get(key)
    if made is None:
        made = check.shared[key] = _texts(check.text, folded_readings(check, PLAIN), known)
    return made


def plain_texts_of(text: str, known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the texts that should be looked through.

    Args:
        text: any text; all of it is read, a long one in pieces.
        known: lower-case words that leetspeak may stand for, and that letters without a space may be made of.

    Returns:
        The text itself, and beside it what is different once invisible and lookalike characters, spacing,
        leetspeak, masked words, signs between words, and what is encoded are undone.

    >>> plain_texts_of("Hello.")
    ('Hello.',)
    >>> plain_texts_of("1gn0re the rules", frozenset({"ignore"}))
    ('1gn0re the rules', 'ignore the rules')
    """
    return _texts(text, [reading.behind(PLAIN.fold(reading.plain)) for reading in readings_of(text)], known)


def _texts(given: str, readings: Iterable[TextReading], known: frozenset[str]) -> tuple[str, ...]:
    texts: dict[str, None] = {given: None}
    for reading in readings:
        texts[reading.plain] = None
    pieces: set[str] = set()
    for text in [*texts]:
        for start in range(0, max(1, len(text) - _OVERLAP), _STEP - _OVERLAP):
            piece = text[start : start + _STEP].replace(_WHOLE_SENTENCE, " ")
            if piece in pieces:
                continue
            pieces.add(piece)
            plain = normalise(piece, known).text
            if plain != piece:
                texts[plain] = None
    respelling: Respelling | None = None
    for text in [*texts]:
        masked = bool(HINT.present(text))
        if masked or max(map(len, text.split()), default=0) >= RUN_TOGETHER:
            respelling = respelling or Respelling(known)
            texts[respelling.of(text, masked=masked)] = None
    return tuple(texts)
