"""``prompt_injection``: texts that speak to the model over the head of whoever runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Action, Check, Cost, Finding, Guardrail, On
from turnwise.guard.guardrails.hidden_text import plain_texts
from turnwise.guard.guardrails.levels import Levels, judge, levels_of, read_text, single_turn_scorer
from turnwise.guard.guardrails.phrases import INJECTION_FILES, Phrase, Phrases, load_phrases, shipped_words
from turnwise.guard.observing import Scorer

PRINCIPLE = "context_integrity"

CERTAIN = 0.9
"""Weight of a phrase from which it is a finding in full; a lighter one is a warning."""


@dataclass(frozen=True)
class PromptInjection(Guardrail):
    """Attempts to take the model over: phrases that do so openly, and F of context_integrity of the text alone.

    Phrases are looked for in the whole text, with what hides words undone; the embedded observer reads the start
    and the end of a long one. It looks at what reaches the model: prompts, and what tools give back, which is
    where indirect injections arrive.

    Args:
        observer: ``"local"``, or another observer; then both levels must be given. None for phrases alone.
        warn_above: F above which it warns, in [0, 1]; None for the level set for the shipped weights.
        block_above: F above which it finds in full; None likewise.
        phrases: whether to look for phrases.

    Raises:
        GuardError: a level that can't be, or nothing to look for.
        ObserverError: the observer can't be built.
    """

    observer: str | None = "local"
    warn_above: float | None = None
    block_above: float | None = None
    phrases: bool = True
    _levels: Levels | None = field(init=False, repr=False, compare=False)
    _scorer: Scorer | None = field(init=False, repr=False, compare=False)
    _phrases: Phrases | None = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "_phrases", load_phrases(INJECTION_FILES) if self.phrases else None)

    @property
    def waits(self) -> bool:
        """Whether the observer asks a language model."""
        return self._scorer is not None and self._scorer.waits

    def check(self, check: Check) -> Finding:
        """Return what phrases and F of the text say, whichever is the graver.

        Raises:
            ObserverError: it could not be scored, and no phrase is a finding in full.
        """
        open_ones = self._openly(check)
        if not open_ones.found:
            return self._by_score(check)
        if open_ones.in_full:
            return open_ones
        by_score = self._by_score(check)
        return by_score if by_score.in_full else open_ones

    def _openly(self, check: Check) -> Finding:
        if self._phrases is None:
            return CLEAN
        found: dict[str, Phrase] = {}
        for text in plain_texts(check, shipped_words()):
            for phrase in self._phrases.said(text, found):
                found[phrase.name] = phrase
        if not found:
            return CLEAN
        heaviest = max(found.values(), key=lambda phrase: phrase.weight)
        action = None if heaviest.weight >= CERTAIN else Action.WARN
        return Finding(True, heaviest.name, heaviest.weight, action=action, data={"phrases": sorted(found)})

    def _by_score(self, check: Check) -> Finding:
        if self._scorer is None or self._levels is None:
            return CLEAN
        score = read_text(check, self._scorer).score(PRINCIPLE)
        return CLEAN if score is None else judge(score.F, self._levels, "an attempt to take the model over")
