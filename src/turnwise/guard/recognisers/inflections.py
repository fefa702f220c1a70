"""The regular forms of English words."""

from __future__ import annotations

_VOWELS = "aeiou"
_SHORTEST = 3
"""Letters of a word that has other forms, at least."""

_LONG = 5
"""Letters of a word in e that has a form in er of the same sense, at least: "trade", but not "late"."""


def inflections(word: str) -> tuple[str, ...]:
    """Return the regular English forms of a word beside itself: plural, past, gerund, and some of who does it.

    Not all of them are words; those that are none occur in no text.

    Args:
        word: a word or phrase in lower case; of a phrase the last word changes.

    >>> inflections("bet"), inflections("gamble")
    (('betting', 'betted', 'bettor', 'bettors', 'bets'), ('gambling', 'gambled', 'gambler', 'gamblers', 'gambles'))
    """
    start, _, last = word.rpartition(" ")
    if len(last) < _SHORTEST or not (last.isascii() and last.isalpha()):
        return ()
    forms = [f"{stem}{ending}" for stem, endings in _stems(last) for ending in endings]
    return tuple(f"{start} {form}" if start else form for form in (*forms, _plural(last)))


def _plural(last: str) -> str:
    if last.endswith("y") and last[-2] not in _VOWELS:
        return f"{last[:-1]}ies"
    return f"{last}es" if last.endswith(("s", "x", "z", "ch", "sh")) else f"{last}s"


def _stems(last: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if last.endswith("e"):
        return ((last[:-1], ("ing", "ed", "er", "ers") if len(last) >= _LONG else ("ing", "ed")),)
    if last.endswith("y") and last[-2] not in _VOWELS:
        return ((last, ("ing",)), (last[:-1], ("ied",)))
    if len(last) == _SHORTEST and last[-1] not in f"{_VOWELS}wxy" and last[-2] in _VOWELS:
        return ((f"{last}{last[-1]}", ("ing", "ed", "or", "ors")),)
    return ((last, ("ing", "ed")),)
