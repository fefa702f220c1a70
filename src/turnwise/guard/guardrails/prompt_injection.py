"""``prompt_injection``: attempts to take the model over, by phrases, a model of orders, and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, IfUnread, On, not_read
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.names import is_name
from turnwise.guard.recognisers.earlier_texts import OVER_TURNS, check_over_turns
from turnwise.guard.recognisers.hidden_text import plain_texts, plain_texts_of
from turnwise.guard.recognisers.order_models import EnglishOrders, ForeignOrders
from turnwise.guard.recognisers.phrases import (
    INJECTION_FILES,
    LANGUAGE_FILES,
    Phrase,
    Phrases,
    load_phrases,
    shipped_words,
)
from turnwise.guard.recognisers.split_orders import orders_over_turns
from turnwise.guard.scorer import Levels, Scorer, SideScores, judge, levels_of, read_text, single_turn_scorer

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRINCIPLE = "context_integrity"

CERTAIN = 0.9  # weight of a phrase from which it is a finding in full; a lighter one is a warning
MENTIONED = -3.5  # Log-odds by words, 1 to 33, at which a phrase in English is only mentioned
UNLIKE = -2.2  # Log-odds in other languages up to which a phrase of theirs is only mentioned
ORDER = "an order to the model against its instructions"


@dataclass(frozen=True, slots=True)
class Words:
    """What is looked for: phrases, and models that tell an order from a mention, with levels of probabilities."""

    english: Phrases
    others: Phrases
    orders: EnglishOrders
    observer: str  # what `orders` was fitted with
    alone: Levels  # by words
    joined: Levels  # with scores of that observer
    languages: ForeignOrders
    foreign: Levels


@cache
def shipped_words_of_orders() -> Words:
    """What ships; ``training.orders`` and ``training.order_languages`` write the files of the learned parts."""
    return read_words(resources.files("turnwise.guard.guardrails"))


def read_words(folder: Traversable) -> Words:
    """The shipped phrases with the learned parts in a folder, ``orders`` and ``order_languages``."""
    import yaml

    name = "order_languages"
    try:
        known, weights = _read_learned(folder, name)
        languages, foreign = ForeignOrders(weights, **known["model"]), Levels(**known["levels"])
        name = "orders"
        known, weights = _read_learned(folder, name)
        levels = {of: Levels(**each) for of, each in known["levels"].items()}
        return Words(
            english=load_phrases(INJECTION_FILES),
            others=load_phrases(LANGUAGE_FILES),
            orders=EnglishOrders(weights, **known["model"]),
            observer=known["observer"],
            alone=levels["words"],
            joined=levels["with_scores"],
            languages=languages,
            foreign=foreign,
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise GuardError(
            f"prompt_injection: {name}.yaml and {name}.bin in {folder} can't be used; install anew: {error!r}"
        ) from error


def _read_learned(folder: Traversable, name: str) -> tuple[Mapping[str, Any], NDArray[np.int8]]:
    import yaml

    known: Mapping[str, Any] = yaml.safe_load(folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    data = folder.joinpath(f"{name}.bin").read_bytes()
    if sha256(data).hexdigest() != known["sha256"]:
        raise ValueError(f"{name}.bin has other bytes than {name}.yaml says")
    return known, np.frombuffer(data, np.int8)


@dataclass(frozen=True)
class PromptInjection(Guardrail):
    """Attempts to take the model over: what the words of a text say, and F of context_integrity of the text alone.

    The words: phrases that do so openly, and a model that tells an order from a mention of one. They are looked at
    in the whole text, with what hides words undone; the embedded observer reads the start and the end of a long
    one, and no text that is but one word or name of at most 64 characters. It looks at what reaches the model:
    prompts, and what tools give back, which is where indirect injections arrive.

    Found are orders against the model's instructions in English, Arabic, Bengali, Czech, Dutch, French, German,
    Hindi, Hungarian, Indonesian, Italian, Japanese, Korean, Mandarin, Persian, Polish, Portuguese, Russian,
    Spanish, Swedish, Turkish, Ukrainian, Urdu and Vietnamese; chat-template tokens; false role marks; requests for
    hidden instructions; personas without limits; orders to an assistant in a document. In English a negation or
    quotation alone excuses nothing; other languages have lists of exceptions. An order in several messages, or
    begun by one and ended by what a tool gave back, is found by its words once they are joined.

    Args:
        observer: ``"local"``, or another observer; then both levels must be given. None for the words alone.
        warn_above: F above which it warns, in [0, 1]; None for the level set for the shipped weights.
        block_above: F above which it finds in full; None likewise.
        phrases: whether to look at the words.
        unread: what becomes of a text in a language that the observer does not read, where the words do not block
            it: ``allow``, ``block`` or ``warn``.
        over_turns: turns before a text, 0 to 50, with which its words are joined; 0 for none.

    Raises:
        GuardError: a level or a number of turns that can't be, or nothing to look for.
        ObserverError: the observer can't be built.
    """

    observer: str | None = "local"
    warn_above: float | None = None
    block_above: float | None = None
    phrases: bool = True
    unread: IfUnread = "allow"
    over_turns: int = OVER_TURNS
    _levels: Levels | None = field(init=False, repr=False, compare=False)
    _scorer: Scorer | None = field(init=False, repr=False, compare=False)
    _words: Words | None = field(init=False, repr=False, compare=False)

    counts_against: ClassVar[bool] = True
    cost: ClassVar[Cost] = Cost.MODEL
    reads_names: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = (On.INPUT, On.TOOL_RESULT)
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_over_turns("prompt_injection", self.over_turns)
        levels = scorer = None
        if self.observer is not None:
            scorer = single_turn_scorer(self.observer, PRINCIPLE)
            levels = levels_of("prompt_injection", self.observer, self.warn_above, self.block_above)
        elif not self.phrases:
            raise GuardError("prompt_injection: observer is null and phrases is false; set one of them")
        object.__setattr__(self, "_levels", levels)
        object.__setattr__(self, "_scorer", scorer)
        object.__setattr__(self, "_words", shipped_words_of_orders() if self.phrases else None)

    @property
    def waits(self) -> bool:
        return self._scorer is not None and self._scorer.waits

    def check(self, check: Check) -> Finding:
        """The graver of what the words and the scores of the text say; of a name, what the words say."""
        words = self._words
        if words is None:
            return self._by_scores(check, (check.text,), None, None)
        texts = plain_texts(check, shipped_words())
        order, found = _by_words(words, texts, check.text)
        if self.over_turns and not found.in_full:
            fully = partial(self._find_fully, check)
            found = _graver(found, orders_over_turns(check, self.over_turns, _find_words, fully, found))
        return found if found.in_full or is_name(check.text) else self._by_scores(check, texts, order, found)

    def _find_fully(self, check: Check, text: str) -> Finding:
        whole = Check(text, check.side, check.turn, check.conversation, check.session_id, alone=True)
        whole.deadline = check.deadline
        return self.check(whole)

    def _by_scores(
        self, check: Check, texts: Sequence[str], order: float | None, by_words: Finding | None
    ) -> Finding:
        """What the scores say, or the words where that is graver."""
        if self._scorer is None or self._levels is None:
            return by_words or CLEAN
        said = _wordiest(check.text, texts)
        read = read_text(check, self._scorer, undisguised=said)
        if read.unread is not None:
            return not_read(read.unread, self.unread, by_words or CLEAN)
        found = self._judged(read, order)
        if found.found and (words := _words_alone(said)) is not None:
            again = self._judged(read_text(check, self._scorer, undisguised=words), order) if words else CLEAN
            found = min(found, again, key=lambda each: (each.found, each.in_full))
        return found if by_words is None else _graver(by_words, found)

    def _judged(self, read: SideScores, order: float | None) -> Finding:
        """What scores say, alone and with the log-odds of words."""
        score = read.score(PRINCIPLE)
        if score is None or self._levels is None or self._scorer is None:
            return CLEAN
        found = judge(score.F, self._levels, "an attempt to take the model over")
        words = self._words
        if words is not None and order is not None and self._scorer.spec == words.observer:
            joined = _probability(words.orders.with_scores(order, read.scores))
            found = _graver(found, judge(joined, words.joined, ORDER, "probability"))
        return found


def _wordiest(text: str, texts: Sequence[str]) -> str:
    """Of what a text says undisguised, that in which two known words or more come to light; else the text."""
    if len(texts) < 2:
        return text
    shown = [{word.strip(",.;:!?") for word in each.lower().split()} for each in texts]
    own = {word.strip(",.;:!?") for word in text.lower().split()}
    counts = [len((words - own) & shipped_words()) for words in shown]
    most = max(counts)
    return text if most < _MORE_WORDS else texts[counts.index(most)]


_MORE_WORDS = 2
# share of words among the signs of a text from which it is prose; the scores of code or data are less sure
_PROSE = 0.6

_FEWEST_WORDS = 4


def _words_alone(text: str) -> str | None:
    """The words of a text that is no prose, empty where they are too few to say anything; None of prose.

    >>> [_words_alone(text) for text in ("id=8f3a-77; path=/;Max=3 is all we set", "0 0 obj << 12", "Oh, no!")]
    ['is all we set', '', None]
    """
    parts = text.split()
    words = [part for part in parts if _is_word(part)]
    if sum(map(len, words)) >= _PROSE * sum(map(len, parts)):
        return None
    return " ".join(words) if len(words) >= _FEWEST_WORDS else ""


def _is_word(part: str) -> bool:
    bare = part.strip(".,;:!?\"'()").replace("'", "").replace("-", "").replace("’", "")
    return (len(bare) > 1 or bare in ("a", "A", "I")) and (bare.isalpha() if bare.isascii() else True)


def _by_words(words: Words, texts: Sequence[str], given: str) -> tuple[float, Finding]:
    """The log-odds of an order, and what the words say."""
    order = max(map(words.orders.by_words, texts))
    # What is left without mentions can look like an order, and so can a mention with its negation.
    foreign = max(
        min(map(words.languages.log_odds, {text, words.others.without_mentions(text)}))
        for text in dict.fromkeys((given, *texts))
    )
    by_words = _graver(
        judge(_probability(order), words.alone, ORDER, "probability"),
        judge(_probability(foreign), words.foreign, ORDER, "probability"),
    )
    return order, _graver(_by_phrases(words, texts, order, foreign), by_words)


def _find_words(text: str) -> Finding:
    return _by_words(shipped_words_of_orders(), plain_texts_of(text, shipped_words()), text)[1]


def _by_phrases(words: Words, texts: Sequence[str], order: float, foreign: float) -> Finding:
    found: dict[str, Phrase] = {}
    for text in texts:
        said: list[Phrase] = []
        if foreign > UNLIKE:
            said += words.others.said(text, found)
        if order > MENTIONED:
            said += words.english.said(text, found)
        found |= {phrase.name: phrase for phrase in said}
    if not found:
        return CLEAN
    heaviest = max(found.values(), key=lambda phrase: phrase.weight)
    action = None if heaviest.weight >= CERTAIN else Action.WARN
    return Finding(True, heaviest.name, heaviest.weight, action=action, data={"phrases": sorted(found)})


def _graver(one: Finding, other: Finding) -> Finding:
    """The graver of two findings, and the first of two alike."""
    return other if (other.found, other.in_full) > (one.found, one.in_full) else one


def _probability(log_odds: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * log_odds))
