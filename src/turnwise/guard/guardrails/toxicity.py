"""``toxicity``: language that attacks people, by a weighted lexicon that asks whom a word is thrown at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, IfUnread, On, not_read
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.hidden_text import plain_texts, plain_texts_of
from turnwise.guard.recognisers.patterns import check_types
from turnwise.guard.recognisers.phrases import TOXICITY_FILES, Phrase, Phrases, load_phrases, shipped_words
from turnwise.guard.scorer import Levels, Scorer, judge, levels_of, read_text, single_turn_scorer

ToxicityType = Literal["insults", "hostility", "slurs", "hate", "threats", "self_harm", "sexual"]

PRINCIPLE = "third_party_harm"

OWN = "a word of your list"


@dataclass(frozen=True)
class Toxicity(Guardrail):
    """Insults, threats, slurs, hatred and the like: what counts is whom a word is thrown at.

    The weights of the phrases that are found add up like independent evidence, 1 - (1 - a)(1 - b). What is only
    quoted, reported, asked about or part of a story or game does not count, but what a drafted message says does.
    With an observer, the graver of the two decides.

    The full grammar is English. Open insults, threats and encouragement of self-harm are found in Spanish, French,
    German, Portuguese, Italian, Russian, Turkish, Hindi, Urdu, Bengali, Arabic, Mandarin and Japanese; shorter
    lists cover Polish, Dutch, Swedish, Danish, Norwegian, Czech, Romanian, Hungarian, Ukrainian, Greek, Hebrew,
    Persian, Korean, Vietnamese, Thai, Indonesian, Tagalog, Swahili and romanised Hindi. It misses contempt without
    hard words, code words and irony.

    Threats include blackmail, publishing addresses and pictures, and veiled threats ("nice shop, shame if it
    burned"), by signs within 320 characters of each other; not idioms, games, stories, advice or reports. What
    follows "novel" or "she said" in a sentence passes.

    Args:
        types: what to look for, any of ``insults``, ``hostility``, ``slurs``, ``hate`` (of groups), ``threats``,
            ``self_harm`` (encouragement of it) and ``sexual`` (harassment).
        warn_above: toxicity above which it warns, in [0, 1].
        block_above: toxicity above which it finds in full, in [0, 1].
        words: further words or phrases that count by themselves, whatever their case.
        word_weight: what each of them counts, above 0 and at most 1.
        observer: ``"local"`` or another observer, whose F of third_party_harm counts beside the lexicon; None for
            the lexicon alone.
        observer_warn_above: F above which it warns, in [0, 1]; None for the level set for the shipped weights.
        observer_block_above: F above which it finds in full; None likewise.
        unread: what becomes of a text in a language that the observer does not read, where the phrases do not
            block it: ``allow``, ``block`` or ``warn``.

    Raises:
        GuardError: a level or weight that can't be, an empty word, or no types.
        UnknownNameError: an unknown type.
        ObserverError: the observer can't be built.
    """

    types: tuple[ToxicityType, ...] = get_args(ToxicityType)
    warn_above: float = 0.45
    block_above: float = 0.85
    words: tuple[str, ...] = ()
    word_weight: float = 0.9
    observer: str | None = None
    observer_warn_above: float | None = None
    observer_block_above: float | None = None
    unread: IfUnread = "allow"
    cost: Cost = field(init=False, repr=False, compare=False, default=Cost.TEXT)  # type: ignore[misc]
    _levels: Levels = field(init=False, repr=False, compare=False)
    _observer_levels: Levels | None = field(init=False, repr=False, compare=False)
    _scorer: Scorer | None = field(init=False, repr=False, compare=False)
    _phrases: Phrases = field(init=False, repr=False, compare=False)
    _own: Phrases | None = field(init=False, repr=False, compare=False)
    _words: frozenset[str] = field(init=False, repr=False, compare=False)

    counts_against: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        if not 0.0 < self.word_weight <= 1.0:
            raise GuardError(f"toxicity: word_weight is {self.word_weight!r}; use a number above 0, at most 1")
        if not all(word.strip() for word in self.words):
            raise GuardError("toxicity: one of words is empty")
        check_types("type of toxicity", self.types, get_args(ToxicityType))
        object.__setattr__(self, "_levels", Levels(self.warn_above, self.block_above))
        wanted = frozenset[str](self.types)
        every = wanted == set(get_args(ToxicityType))
        object.__setattr__(self, "_phrases", load_phrases(TOXICITY_FILES, None if every else wanted))
        own = _own_words(self.words, self.word_weight) if self.words else None
        object.__setattr__(self, "_own", own)
        object.__setattr__(self, "_words", shipped_words() if own is None else shipped_words() | own.words)
        levels = scorer = None
        if self.observer is not None:
            scorer = single_turn_scorer(self.observer, PRINCIPLE)
            given = self.observer_warn_above, self.observer_block_above
            levels = levels_of("harm", self.observer, *given)
            object.__setattr__(self, "cost", Cost.MODEL)
        object.__setattr__(self, "_observer_levels", levels)
        object.__setattr__(self, "_scorer", scorer)

    @property
    def waits(self) -> bool:
        return self._scorer is not None and self._scorer.waits

    @property
    def reach(self) -> int | None:
        """As far as a sentence with its quotation; an observer reads the whole text."""
        return 200 if self._scorer is None else None

    def check(self, check: Check) -> Finding:
        found = self._found(plain_texts(check, self._words, "".join(self.words)))
        by_phrases = self._together(found) if found else CLEAN
        if self._scorer is None or self._observer_levels is None or by_phrases.in_full:
            return by_phrases
        read = read_text(check, self._scorer)
        if read.unread is not None:
            return not_read(read.unread, self.unread, by_phrases)
        score = read.score(PRINCIPLE)
        if score is None:
            return by_phrases
        by_score = judge(score.F, self._observer_levels, "harm to others")
        return by_score if by_score.in_full or not by_phrases.found else by_phrases

    def _together(self, found: Mapping[str, Phrase]) -> Finding:
        toxicity = combined(phrase.weight for phrase in found.values())
        if toxicity <= self._levels.warn:
            return Finding(False, confidence=toxicity)
        names = sorted(found, key=lambda name: (-found[name].weight, name))
        types = list(dict.fromkeys(found[name].type for name in names if found[name].type))
        action = None if toxicity > self._levels.block else Action.WARN
        return Finding(True, ", ".join(names), toxicity, action=action, data={"phrases": names, "types": types})

    def toxicity(self, text: str) -> float:
        """How toxic a text is by its phrases, in [0, 1]."""
        return combined(
            phrase.weight
            for phrase in self._found(plain_texts_of(text, self._words, "".join(self.words))).values()
        )

    def _found(self, texts: Iterable[str]) -> dict[str, Phrase]:
        """The phrases that the readings of a text say, by name."""
        found: dict[str, Phrase] = {}
        for text in texts:
            reading = text.replace("’", "'").replace("‘", "'")
            for phrase in self._phrases.said(reading, found):
                found[phrase.name] = phrase
            for phrase in () if self._own is None else self._own.find(reading):
                found[phrase.name] = phrase
        return found


def combined(weights: Iterable[float]) -> float:
    """The weights put together like independent pieces of evidence.

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
    return Phrases([Phrase(OWN, weight, patterns)], known)
