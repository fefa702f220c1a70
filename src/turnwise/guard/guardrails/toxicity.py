"""``toxicity``: language that attacks people, by a weighted lexicon that asks whom a word is thrown at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Action, Check, Cost, Finding, Guardrail, On
from turnwise.guard.guardrails.hidden_text import plain_texts, plain_texts_of
from turnwise.guard.guardrails.levels import Levels
from turnwise.guard.guardrails.phrases import TOXICITY_FILE, Phrase, Phrases, load_phrases, shipped_words
from turnwise.linear_regex import WORD, LinearRegex

QUOTED = 0.5
"""What the weight of a phrase is multiplied with that stands in quotation marks only."""

_QUOTATION = LinearRegex(rf"[\"“«][^\"”»\n]{{1,300}}[\"”»]|(?:^|[^{WORD}'])('[^'\n]{{3,300}}')(?:[^{WORD}]|$)")


@dataclass(frozen=True)
class Toxicity(Guardrail):
    """Insults, threats, slurs and hatred, by phrases with weights: what counts is whom a word is thrown at.

    The weights of the phrases that are found add up like independent evidence, 1 - (1 - a)(1 - b); one that is
    only quoted counts half. It is for English, and finds what is said openly: no irony, no code words.

    Args:
        warn_above: toxicity above which it warns, in [0, 1].
        block_above: toxicity above which it finds in full, in [0, 1].
        words: further words or phrases that count by themselves, whatever their case.
        word_weight: what each of them counts, above 0 and at most 1.

    Raises:
        GuardError: a level or weight that can't be, or an empty word.
    """

    warn_above: float = 0.45
    block_above: float = 0.85
    words: tuple[str, ...] = ()
    word_weight: float = 0.9
    _levels: Levels = field(init=False, repr=False, compare=False)
    _phrases: Phrases = field(init=False, repr=False, compare=False)
    _own: Phrases | None = field(init=False, repr=False, compare=False)
    _words: frozenset[str] = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.TEXT
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        if not 0.0 < self.word_weight <= 1.0:
            raise GuardError(f"toxicity: word_weight is {self.word_weight!r}; use a number above 0, at most 1")
        if not all(word.strip() for word in self.words):
            raise GuardError("toxicity: one of words is empty")
        object.__setattr__(self, "_levels", Levels(self.warn_above, self.block_above))
        object.__setattr__(self, "_phrases", load_phrases(TOXICITY_FILE))
        own = _own_words(self.words, self.word_weight) if self.words else None
        object.__setattr__(self, "_own", own)
        object.__setattr__(self, "_words", shipped_words() if own is None else shipped_words() | own.words)

    @property
    def reach(self) -> int:
        """As far as a sentence with its quotation."""
        return 200

    def check(self, check: Check) -> Finding:
        """Return what the phrases in the text say together."""
        found = self._weights(plain_texts(check, self._words))
        if not found:
            return CLEAN
        toxicity = combined(found.values())
        if toxicity <= self._levels.warn:
            return Finding(False, confidence=toxicity)
        names = sorted(found, key=lambda name: (-found[name], name))
        action = None if toxicity > self._levels.block else Action.WARN
        return Finding(True, ", ".join(names), toxicity, action=action, data={"phrases": names})

    def toxicity(self, text: str) -> float:
        """Return how toxic a text is, in [0, 1]."""
        return combined(self._weights(plain_texts_of(text, self._words)).values())

    def _weights(self, texts: Iterable[str]) -> dict[str, float]:
        """Return the weight of each phrase that is found in the readings of a text, by name."""
        weights: dict[str, float] = {}
        for text in texts:
            reading = text.replace("’", "'")
            found = self._find(reading)
            if not found:
                continue
            bare = _unquoted(reading)
            said = found if bare == reading else self._find(bare)
            for phrase in found:
                weight = phrase.weight if phrase in said else phrase.weight * QUOTED
                weights[phrase.name] = max(weight, weights.get(phrase.name, 0.0))
        return weights

    def _find(self, text: str) -> tuple[Phrase, ...]:
        found = self._phrases.find(text)
        return found if self._own is None else (*self._own.find(text), *found)


def _unquoted(text: str) -> str:
    """Return a text with a space in place of each quotation."""
    text = text.encode("utf-8", "replace").decode()
    parts: list[str] = []
    behind = 0
    for whole, single in _QUOTATION.spans(text, overlapping=True):
        start, end = single if single[1] > 0 else whole
        parts += (text[behind:start], " ")
        behind = end
    return "".join((*parts, text[behind:]))


def combined(weights: Iterable[float]) -> float:
    """Return what weights come to like independent pieces of evidence.

    >>> combined([0.5, 0.5])
    0.75
    """
    clean = 1.0
    for weight in weights:
        clean *= 1.0 - weight
    return 1.0 - clean


def _own_words(words: Iterable[str], weight: float) -> Phrases:
    import re2

    patterns = tuple(rf"(?:^|\W){re2.escape(word.strip())}(?:\W|$)" for word in words)
    known = frozenset(word.strip().lower() for word in words if word.strip().isalpha())
    return Phrases([Phrase("a word of your list", weight, patterns)], known)
