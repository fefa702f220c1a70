"""The texts that phrases are looked for in: a text as it stands, and with what hides words in it undone."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.masked_words import HINT, unmasked
from turnwise.guard.recognisers.readings import TextReading, readings, readings_of
from turnwise.linear_regex import replace_characters
from turnwise.observers.local.normalise import HEAD, TAIL, normalise

_STEP = HEAD + TAIL
_OVERLAP = 500
"""Characters that two pieces of a long text share, so that a phrase on the border is whole in one of them."""

_GLUE = frozenset(
    """
    a all and any are as be do every for from have i if in is it me my no not now of on or our that the
    then these this those to was were with you your previous prior above earlier before
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words beside the known ones that letters without a space may be made of."""

_RUN_TOGETHER = 14
"""Letters in a row from which they may be several words."""

_LONGEST_RUN = 400
_LONGEST_WORD = 16
_FEWEST_SIGNS = 3
"""Signs between the letters of one word from which they stand for spaces."""

_WHOLE_SENTENCE = "\ufdfa"
"""The one character that stands for 18 in plain form; none of them is Latin."""

_SIGNS = dict.fromkeys("+_.,;:|/\\~*#=-", " ")
"""What may stand for the spaces between words."""


def plain_texts(check: Check, known: frozenset[str]) -> tuple[str, ...]:
    """Return `plain_texts_of` of the text under check, made once for all guardrails that know the same words."""
    key = ("hidden", known, check.text)
    if key not in check.shared:
        plain = check.once((PLAIN, check.text), partial(PLAIN.fold, check.text)).plain
        check.shared[key] = _texts(readings(check), plain, known)
    made: tuple[str, ...] = check.shared[key]
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
    return _texts(readings_of(text), PLAIN.fold(text).plain, known)


def _texts(readings: tuple[TextReading, ...], plain: str, known: frozenset[str]) -> tuple[str, ...]:
    texts = dict.fromkeys((readings[0].plain, plain))
    if len(readings) > 1:
        texts.update(dict.fromkeys([reading.plain for reading in readings]))
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
    spaced: dict[str, str] = {}
    for text in [*texts]:
        texts[_spaced(unmasked(text, known) if HINT.present(text) else text, known, spaced)] = None
    return tuple(texts)


def _spaced(text: str, known: Container[str], spaced: dict[str, str]) -> str:
    """Return a text with spaces between words that signs or nothing are between; unchanged where there are none.

    Args:
        text: the text.
        known: words that letters without a space may be made of.
        spaced: what words came to before, for the texts of one check have most of them in common.

    >>> _spaced("ignore-all+the_rules", {"rules"}, {}), _spaced("a well-known word", set(), {})
    ('ignore all the rules', 'a well-known word')
    """

    words = text.split()
    if max(map(len, words), default=0) < _RUN_TOGETHER:
        return text
    long_words = {word for word in words if len(word) >= _RUN_TOGETHER}
    for word in long_words.difference(spaced):
        spaced[word] = _apart(word, known, spaced)
    if all(spaced[word] == word for word in long_words):
        return text
    return " ".join([spaced[word] if word in long_words else word for word in words])


def _apart(word: str, known: Container[str], spaced: dict[str, str]) -> str:
    """Return a long word with spaces between the words that it is made of."""
    parts = replace_characters(word, _SIGNS).split()
    if len(parts) <= _FEWEST_SIGNS:
        parts = [word]
    for part in parts:
        if _RUN_TOGETHER <= len(part) <= _LONGEST_RUN and part not in spaced and part.isalpha():
            spaced[part] = _words(part, known)
    return " ".join([spaced.get(part, part) for part in parts])


def _words(letters: str, known: Container[str]) -> str:
    """Return the words that letters without a space are made of, or the letters where they are not.

    >>> _words("ignoreallthestuff", {"ignore"}), _words("ignoreallrules", {"ignore", "rules"})
    ('ignoreallthestuff', 'ignore all rules')
    """
    lower = letters.lower()
    before: list[int | None] = [0]
    reached = 0
    for end in range(1, len(lower) + 1):
        if end - reached > _LONGEST_WORD:
            return letters
        starts = range(max(0, end - _LONGEST_WORD), end)
        before.append(
            next(
                (
                    start
                    for start in starts
                    if before[start] is not None and (lower[start:end] in known or lower[start:end] in _GLUE)
                ),
                None,
            )
        )
        if before[-1] is not None:
            reached = end
    if before[-1] is None:
        return letters
    words, end = [], len(lower)
    while end:
        start = before[end] or 0
        words.append(letters[start:end])
        end = start
    return " ".join(reversed(words))
