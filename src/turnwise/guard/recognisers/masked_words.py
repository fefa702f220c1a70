"""Words in which signs and digits stand for letters or hide them, or letters are drawn out."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from turnwise._support.regex_sets import RegexSet
from turnwise.linear_regex import replace_characters

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

_LETTERS = tuple({**_SIGNS, **dict.fromkeys(_STROKES, letter)} for letter in "il")
_TABLES = tuple(map(str.maketrans, _LETTERS))
_MASKS = "*#_·•×"
_MASK = frozenset(_MASKS)
SIGNS = "".join(each for each in (*_SIGNS, *_STROKES, *_MASKS) if not each.isascii())
"""What stands for letters or over them and is not in ASCII."""

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


class Unmasking:
    """Finds what masked words stand for; remembers them, for texts have most of them in common.

    Only words that are `known`, in lower case, count.

    >>> sorted(Unmasking(frozenset({"hate", "fool"})).forms({"h@te", "f**l!", "off"}).items())
    [('f**l!', 'fool!'), ('h@te', 'hate')]
    """

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._seen: set[str] = set()
        self._forms: dict[str, str] = {}

    def forms(self, words: set[str]) -> Mapping[str, str]:
        """What masked words stand for, earlier ones too; empty where none of `words` is masked."""
        unseen = [*words.difference(self._seen)] if self._seen else [*words]
        if unseen:
            self._seen.update(unseen)
            for word in _suspects(unseen, self._known):
                form = _plain(word, self._known)
                if form != word:
                    self._forms[word] = form
        return {} if self._forms.keys().isdisjoint(words) else self._forms


def _suspects(words: Sequence[str], known: frozenset[str]) -> list[str]:
    """The words that may be masked: all at once, for there can be thousands of them."""
    bares = {word: bare for word in words if 2 < len(bare := word.strip(_ENDS)) <= _LONGEST}
    lower = " ".join(bares.values()).lower()
    singles = _singled_out(known)
    found: dict[str, None] = {}
    for number, letters in enumerate(_LETTERS):
        if number and not any(stroke in lower for stroke in _STROKES):
            break
        forms = _single(replace_characters(lower, letters)).split(" ")
        found.update((word, None) for word, form in zip(bares, forms, strict=bool(bares)) if form in singles)
    if any(mark in lower for mark in _MASKS):
        shapes = _by_shape(known)
        for word, bare in zip(bares, lower.split(" "), strict=True):
            if bare[:1].isalpha() and not _MASK.isdisjoint(bare) and (bare[0], len(bare)) in shapes:
                found[word] = None
    return [*found]


def _single(text: str) -> str:
    """A text in lower case with one letter of each row of equal ones.

    >>> _single("stuuupid gross")
    'stupid gros'
    """
    for letter in string.ascii_lowercase:
        while 2 * letter in text:
            text = text.replace(2 * letter, letter)
    return text


def _drawn_out(word: str) -> bool:
    lower = word[:_LONGEST].lower()
    # Most words have too many different letters for a run of three.
    return len(lower) - len(set(lower)) > 1 and any(
        first == second == third for first, second, third in zip(lower, lower[1:], lower[2:], strict=False)
    )


def _plain(word: str, known: frozenset[str]) -> str:
    """A word without its mask, or as it is where that gives no known word."""
    if len(word) > 2 * _LONGEST or (word.isalpha() and not _drawn_out(word)):
        return word
    bare = word.strip(_ENDS)
    start = word.index(bare) if bare else 0
    # An exclamation mark or a bracket at an end may be a letter as well: "p!g!", "$hit".
    if 2 < len(bare) <= _LONGEST:
        for form in _forms(bare.lower(), known):
            return f"{word[:start]}{form}{word[start + len(bare) :]}"
    return word


def _forms(lower: str, known: frozenset[str]) -> Iterator[str]:
    for form in dict.fromkeys([lower.translate(table) for table in _TABLES]):
        if form != lower and form in known:
            yield form
        if not form.isascii() or not _drawn_out(form):
            continue
        for most in (2, 1):
            short = _squeezed(form, most)
            if short != lower and short in known:
                yield short
    if not _MASK.isdisjoint(lower):
        yield from _masked(lower, known)


def _squeezed(word: str, most: int) -> str:
    """A word with runs of three equal letters or more cut down.

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
    """The known words that fit a mask, of which the first letter and one more are seen."""
    if lower[0] in _MASKS or sum(each not in _MASKS for each in lower) < _FEWEST_SEEN:
        return
    for word in _by_shape(known).get((lower[0], len(lower)), ()):
        if all(seen == letter or seen in _MASKS for seen, letter in zip(lower, word, strict=True)):
            yield word


@lru_cache(maxsize=16)
def _by_shape(known: Collection[str]) -> dict[tuple[str, int], list[str]]:
    shapes: dict[tuple[str, int], list[str]] = {}
    for word in sorted(known):
        shapes.setdefault((word[0], len(word)), []).append(word)
    return shapes


@lru_cache(maxsize=16)
def _singled_out(known: Collection[str]) -> frozenset[str]:
    return frozenset(map(_single, known))
