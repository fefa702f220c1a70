"""``prompt_injection``: texts that speak to the model over the head of whoever runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, ClassVar

from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Action, Check, Cost, Finding, Guardrail, IfUnread, On, not_read
from turnwise.guard.guardrails.levels import Levels, judge, levels_of, read_text, single_turn_scorer
from turnwise.guard.recognisers.hidden_text import plain_texts
from turnwise.guard.recognisers.orders import Orders
from turnwise.guard.recognisers.phrases import (
    INJECTION_FILES,
    LANGUAGE_FILES,
    Phrase,
    Phrases,
    load_phrases,
    shipped_words,
)
from turnwise.guard.recognisers.spoken_names import is_name
from turnwise.guard.scorer import Scorer

PRINCIPLE = "context_integrity"

CERTAIN = 0.9
"""Weight of a phrase from which it is a finding in full; a lighter one is a warning."""

MENTIONED = -3.5
"""Log-odds by words, 1 to 33, at which a phrase in English is only mentioned."""

ORDER = "an order to the model against its instructions"


@dataclass(frozen=True, slots=True)
class Words:
    """What is looked for in the words of a text.

    `orders` tells an order from a mention of one, in English, and was fitted with `observer`. The levels are those
    of the probability by words `alone`, and `joined` with scores of that observer.
    """

    english: Phrases
    others: Phrases
    orders: Orders
    observer: str
    alone: Levels
    joined: Levels


@cache
def shipped_words_of_orders() -> Words:
    """What ships; ``python -m training.orders`` writes the files of the learned part."""
    return read_words(resources.files("turnwise.guard.guardrails"))


def read_words(folder: Traversable) -> Words:
    """The shipped phrases with the learned part in a folder, ``orders.yaml`` and ``orders.bin``."""
    import numpy as np
    import yaml

    try:
        known: Mapping[str, Any] = yaml.safe_load(folder.joinpath("orders.yaml").read_text(encoding="utf-8"))
        data = folder.joinpath("orders.bin").read_bytes()
        if sha256(data).hexdigest() != known["sha256"]:
            raise ValueError("orders.bin has other bytes than orders.yaml says")
        levels = {name: Levels(**each) for name, each in known["levels"].items()}
        return Words(
            english=load_phrases(INJECTION_FILES),
            others=load_phrases(LANGUAGE_FILES),
            orders=Orders(np.frombuffer(data, np.int8), **known["model"]),
            observer=known["observer"],
            alone=levels["words"],
            joined=levels["with_scores"],
        )
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError, GuardError) as error:
        raise GuardError(
            f"prompt_injection: orders.yaml and orders.bin in {folder} can't be used; install anew: {error!r}"
        ) from error


@dataclass(frozen=True)
class PromptInjection(Guardrail):
    """Attempts to take the model over: what the words of a text say, and F of context_integrity of the text alone.

    The words: phrases that do so openly, and a model that tells an order from a mention of one. They are looked at
    in the whole text, with what hides words undone; the embedded observer reads the start and the end of a long
    one, and no text that is but one word or name of at most 64 characters. It looks at what reaches the model:
    prompts, and what tools give back, which is where indirect injections arrive.

    Args:
        observer: ``"local"``, or another observer; then both levels must be given. None for the words alone.
        warn_above: F above which it warns, in [0, 1]; None for the level set for the shipped weights.
        block_above: F above which it finds in full; None likewise.
        phrases: whether to look at the words.
        unread: what becomes of a text in a language that the observer does not read, where the words do not block
            it: ``allow``, ``block`` or ``warn``.

    Raises:
        GuardError: a level that can't be, or nothing to look for.
        ObserverError: the observer can't be built.
    """

    observer: str | None = "local"
    warn_above: float | None = None
    block_above: float | None = None
    phrases: bool = True
    unread: IfUnread = "allow"
    _levels: Levels | None = field(init=False, repr=False, compare=False)
    _scorer: Scorer | None = field(init=False, repr=False, compare=False)
    _words: Words | None = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.MODEL
    reads_names: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = (On.INPUT, On.TOOL_RESULT)
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        levels = scorer = None
        if self.observer is not None:
            scorer = single_turn_scorer(self.observer, PRINCIPLE)
            levels = levels_of("prompt_injection", self.observer, self.warn_above, self.block_above)
        elif not self.phrases:
            raise GuardError("prompt_injection: observer is null and phrases is false, so there is nothing to do")
        object.__setattr__(self, "_levels", levels)
        object.__setattr__(self, "_scorer", scorer)
        object.__setattr__(self, "_words", shipped_words_of_orders() if self.phrases else None)

    @property
    def waits(self) -> bool:
        """Whether the observer asks a language model."""
        return self._scorer is not None and self._scorer.waits

    def check(self, check: Check) -> Finding:
        """The graver of what the words and the scores of the text say; of a name, what the words say."""
        words = self._words
        if words is None:
            return self._by_scores(check, None, None)
        texts = plain_texts(check, shipped_words())
        order = max(map(words.orders.by_words, texts))
        by_words = judge(_probability(order), words.alone, ORDER, "probability")
        found = _graver(_by_phrases(words, texts, order), by_words)
        return found if found.in_full or is_name(check.text) else self._by_scores(check, order, found)

    def _by_scores(self, check: Check, order: float | None, by_words: Finding | None) -> Finding:
        """What the scores say, or the words where that is graver."""
        if self._scorer is None or self._levels is None:
            return by_words or CLEAN
        read = read_text(check, self._scorer)
        if read.unread is not None:
            return not_read(read.unread, self.unread, by_words or CLEAN)
        score = read.score(PRINCIPLE)
        if score is None:
            return by_words or CLEAN
        found = judge(score.F, self._levels, "an attempt to take the model over")
        words = self._words
        if words is not None and order is not None and self._scorer.spec == words.observer:
            joined = _probability(words.orders.with_scores(order, read.scores))
            found = _graver(found, judge(joined, words.joined, ORDER, "probability"))
        return found if by_words is None else _graver(by_words, found)


def _by_phrases(words: Words, texts: Sequence[str], order: float) -> Finding:
    found: dict[str, Phrase] = {}
    for text in texts:
        said = [*words.others.said(text, found)]
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
