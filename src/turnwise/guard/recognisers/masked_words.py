"""Words in which signs and digits stand for letters, are put over them, or letters are drawn out."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator
from functools import lru_cache

from turnwise.linear_regex import RegexSet

_SIGNS = {
    "@": "a",
    "4": "a",
    "3": "e",
    "€": "e",
    "0": "o",
    "5": "s",
    "$": "s",
    "7": "t",
    "+": "t",
    "8": "b",
    "9": "g",
}
_STROKES = "1!|¡"
"""What stands for i or for l."""

_TABLES = tuple(str.maketrans({**_SIGNS, **dict.fromkeys(_STROKES, letter)}) for letter in "il")
_MASKS = "*#_·•×"
_ENDS = ".,;:?!\"'()[]{}«»“”‘’"
HINT = RegexSet(
    {
        "masked": [
            "[a-z][@$!|+*#·•×€0-9]+[a-z@$]",
            "(?:^|[^a-z0-9])[@$!|0-9][a-z]{2}",
            "[a-z][@$*0134578][^a-z]",
            *(f"{letter}{{3}}" for letter in string.ascii_lowercase),
        ]
    },
    ignore_case=True,
)
"""What a text has at least in which a word is masked."""

_LONGEST = 24
"""Letters of a word that is looked at."""

_FEWEST_SEEN = 2
"""Letters that a mask leaves at least."""


def unmasked(text: str, known: frozenset[str]) -> str:
    """Return a text with the known words that are masked in it; in single spaces where there are any.

    Args:
        text: the text.
        known: words in lower case that count.

    >>> unmasked("I h@te y0u, f**k  off", frozenset({"hate", "you", "fuck"})), unmasked("a mp3  file", frozenset())
    ('I hate you, fuck off', 'a mp3  file')
    """
    if not HINT.present(text):
        return text
    words = text.split()
    plain = {word: _plain(word, known) for word in set(words) if not word.isalpha() or _drawn_out(word)}
    if all(word == form for word, form in plain.items()):
        return text
    return " ".join([plain.get(word, word) for word in words])


def _drawn_out(word: str) -> bool:
    lower = word[:_LONGEST].lower()
    return any(lower[at] == lower[at + 1] == lower[at + 2] for at in range(len(lower) - 2))


def _plain(word: str, known: frozenset[str]) -> str:
    """Return a word without its mask, or as it is where this gives no known one."""
    if len(word) > 2 * _LONGEST:
        return word
    bare = word.strip(_ENDS)
    start = word.index(bare) if bare else 0
    # An exclamation mark or a bracket at an end may be a letter as well: "p!g!", "$hit".
    if 2 < len(bare) <= _LONGEST:
        for form in _forms(bare.lower(), known):
            return f"{word[:start]}{form}{word[start + len(bare) :]}"
    return word


def _forms(lower: str, known: frozenset[str]) -> Iterator[str]:
    for table in _TABLES:
        form = lower.translate(table)
        if form != lower and form in known:
            yield form
        if not form.isascii():
            continue
        for most in (2, 1):
            short = _squeezed(form, most)
            if short != lower and short in known:
                yield short
    if any(mark in lower for mark in _MASKS):
        yield from _masked(lower, known)


def _squeezed(word: str, most: int) -> str:
    """Return a word with runs of three equal letters or more cut down.

    >>> _squeezed("stuuupid", 1), _squeezed("asssss", 2)
    ('stupid', 'ass')
    """
    letters: list[str] = []
    at = 0
    while at < len(word):
        end = at
        while end < len(word) and word[end] == word[at]:
            end += 1
        letters.append(word[at] * (most if end - at > 2 else end - at))
        at = end
    return "".join(letters)


def _masked(lower: str, known: frozenset[str]) -> Iterator[str]:
    """Yield the known words that fit a mask, of which the first letter and one more are seen."""
    if lower[0] in _MASKS or sum(each not in _MASKS for each in lower) < _FEWEST_SEEN:
        return
    for word in _by_shape(known).get((lower[0], len(lower)), ()):
        if all(seen == letter or seen in _MASKS for seen, letter in zip(lower, word, strict=True)):
            yield word


@lru_cache(maxsize=16)
def _by_shape(known: Collection[str]) -> dict[tuple[str, int], list[str]]:
    """Return the known words by first letter and length."""
    shapes: dict[tuple[str, int], list[str]] = {}
    for word in sorted(known):
        shapes.setdefault((word[0], len(word)), []).append(word)
    return shapes
