"""What a conversation may be about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, On
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.guardrails.keywords import WordSearch
from turnwise.guard.recognisers.hidden_text import plain_texts
from turnwise.guard.recognisers.patterns import check_count, check_known
from turnwise.guard.recognisers.phrases import shipped_words

_SURE = 3  # different phrases of a topic that make it certain
_VOWELS = "aeiou"
_SHORTEST = 3  # letters of a word that has other forms, at least
_LONG = 5  # letters of a word in e that has a form in er of the same sense, at least: "trade", but not "late"


@dataclass(frozen=True)
class Topics(Guardrail):
    """Topics by their words and phrases: those that are denied, or those that alone are allowed.

    A topic is a name and its words and phrases. They count as whole words, whatever their case and accents, and
    in their regular English forms (``vote``, ``votes``, ``voting``, ``voted``); a trailing ``*`` stands for any
    ending (``diagnos*``). What hides words, such as ``p0ker``, is undone. A topic occurs where at least `hits`
    different ones of its phrases do. With allowed topics, a text of at least `min_words` words in which none of
    them occurs is off topic; shorter ones, such as "yes, please", are left alone.

    It does not understand: a topic in other words is not found, a denied word in another sense is, and a text that
    names an allowed topic may go on about anything. Each text is judged by itself.

    Args:
        deny: words and phrases by topic; an occurring topic is a finding.
        allow: words and phrases by topic; denied topics win over allowed ones.
        hits: different phrases of a topic that have to occur, at least 1.
        min_words: words of a text from which it may be off topic, at least 1.
        off_topic: the strictest action that being off topic deserves, ``warn`` or ``block``. The configured action
            still limits it.
        inflect: whether forms other than singular and plural count, such as ``voting``.

    Raises:
        GuardError: no topics, a topic without a phrase, a number below 1, or fewer phrases than `hits`.

    >>> from turnwise.guard.kit import finding_of
    >>> topics = Topics(deny={"gambling": ("casino", "sports bet*")})
    >>> finding_of(topics, "Which casinos take sports betting?").reason
    'topic gambling (2 phrases)'
    """

    cost: ClassVar[Cost] = Cost.TEXT
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_timeout: ClassVar[float | None] = None

    deny: Mapping[str, tuple[str, ...]] | None = None
    allow: Mapping[str, tuple[str, ...]] | None = None
    hits: int = 1
    min_words: int = 8
    off_topic: Literal["warn", "block"] = "warn"
    inflect: bool = True
    _known: frozenset[str] = field(init=False, repr=False, compare=False)
    _phrases: WordSearch = field(init=False, repr=False, compare=False)
    _topics: tuple[tuple[str, bool, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.deny and not self.allow:
            raise GuardError("no topics; give deny or allow, as NAME: [words and phrases]")
        check_count("hits", self.hits)
        check_count("min_words", self.min_words)
        check_known("action for off_topic", self.off_topic, ("warn", "block"))
        phrases: list[str] = []
        topics: list[tuple[str, bool, str]] = []
        for denied, group in ((True, self.deny), (False, self.allow)):
            for topic, words in (group or {}).items():
                if isinstance(words, str) or len(set(words)) < self.hits:
                    raise GuardError(f"topic {topic!r} needs a list of at least {self.hits} words or phrases")
                for word in dict.fromkeys(words):
                    forms = [word, *self._forms(word)]
                    phrases += forms
                    topics += [(topic, denied, word)] * len(forms)
        object.__setattr__(self, "_topics", tuple(topics))
        known = frozenset(word.lower() for word in phrases if word.isascii() and word.isalpha())
        object.__setattr__(self, "_known", known | shipped_words())
        object.__setattr__(self, "_phrases", WordSearch(phrases, accents=False, inflect=True))

    def check(self, check: Check) -> Finding:
        occurring = self._occurring(check)
        denied = {topic: count for (topic, is_denied), count in occurring.items() if is_denied}
        if denied:
            named = ", ".join(
                f"{topic} ({count} phrase{'s' if count != 1 else ''})" for topic, count in denied.items()
            )
            return Finding(
                found=True,
                reason=f"topic{'s' if len(denied) > 1 else ''} {named}",
                confidence=min(1.0, max(denied.values()) / _SURE),
                data={"topics": list(denied)},
            )
        if self.allow and not occurring and len(check.text.split(None, self.min_words)) >= self.min_words:
            return Finding(
                found=True,
                reason=f"off topic: none of {', '.join(self.allow)}",
                confidence=0.5,
                action=Action(self.off_topic),
                data={"topics": []},
            )
        return CLEAN

    def _forms(self, word: object) -> tuple[str, ...]:
        if not isinstance(word, str) or word.endswith("*"):
            return ()
        forms = inflections(" ".join(word.lower().split()))
        return forms if self.inflect else forms[-1:]

    def _occurring(self, check: Check) -> dict[tuple[str, bool], int]:
        """How many different phrases of each topic occur, of topics of which enough do."""
        found = {
            self._topics[each.phrase]
            for text in plain_texts(check, self._known)
            for each in self._phrases.find(self._phrases.fold(text))
        }
        counts = Counter((topic, is_denied) for topic, is_denied, _ in sorted(found))
        return {topic: count for topic, count in counts.items() if count >= self.hits}


def inflections(word: str) -> tuple[str, ...]:
    """The regular English forms of a word beside itself, or of a phrase's last word; some are no words.

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
