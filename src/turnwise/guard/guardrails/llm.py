"""``llm``: a language model that judges each text against principles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from turnwise.conversation import Side, Turn
from turnwise.errors import GuardError
from turnwise.guard.finding import Action, Cost, Finding, On
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.scorer import Levels, Scorer, SideScores, judge
from turnwise.observers import Context, ContextMode, build_live_observer, describe_observer

_REASON = 300  # characters of a model's reasoning that a finding keeps


@dataclass(frozen=True)
class Llm(Guardrail):
    """A language model reads the text, with as much of the conversation as it may see, and scores it.

    One request for each principle and text. A call that fails is a failed check and never a score. What is sent is
    the text as redacted so far; of earlier turns, and of the prompt before a response, what the conversation
    holds.

    Args:
        observer: the model, such as ``"llm:openai/gpt-4.1-mini"`` or ``"llm:ollama/qwen3:8b"``.
        context: what it may see: ``turn``, ``window:k``, ``history`` or ``transcript``.
        principles: what the text is judged against; names, or folders with principles.
        warn_above: F above which it warns, in [0, 1]; the default is a convention, as no model has a level set.
        block_above: F above which it finds in full, in [0, 1].
        uncertain_above: I above which it warns, in [0, 1]; None for never.
        base_url: where to send requests, instead of the provider's own address.
        request_seconds: seconds that one request may take, above 0.
        max_retries: how often a request is sent again after a fault that may pass, at least 0.
        budget_usd: US dollars after which every check fails; None for no limit.

    Raises:
        GuardError: a level that can't be, or an observer that is no language model.
        ObserverError: there is no key, or the extra is not installed: ``pip install "turnwise[llm]"``.
        UsageError: another setting that can't be, such as a budget for a model without a known price.
    """

    observer: str
    context: str = "turn"
    principles: tuple[str, ...] = ("context_integrity", "third_party_harm")
    warn_above: float = 0.5
    block_above: float = 0.75
    uncertain_above: float | None = None
    base_url: str | None = None
    request_seconds: float = 10.0
    max_retries: int = 1
    budget_usd: float | None = None
    _levels: Levels = field(init=False, repr=False, compare=False)
    _scorer: Scorer = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.REMOTE
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_timeout: ClassVar[float | None] = 30.0

    def __post_init__(self) -> None:
        if not describe_observer(self.observer).costs:
            raise GuardError(
                f"llm: observer is {self.observer!r}; give a language model, such as llm:openai/gpt-4.1-mini"
            )
        if not self.principles:
            raise GuardError("llm: principles is empty; give at least one, such as third_party_harm")
        if self.uncertain_above is not None and not 0.0 <= self.uncertain_above <= 1.0:
            raise GuardError(f"llm: uncertain_above is {self.uncertain_above!r}; use a number in [0, 1]")
        object.__setattr__(self, "_levels", Levels(self.warn_above, self.block_above))
        observer = build_live_observer(
            self.observer,
            base_url=self.base_url,
            timeout=self.request_seconds,
            max_retries=self.max_retries,
            budget_usd=self.budget_usd,
        )
        object.__setattr__(self, "_scorer", Scorer(observer, self.context, self.principles))

    def check(self, check: Check) -> Finding:
        reading = self._scorer.score_after(
            self._earlier(check), _judged(check), check.side, check.conversation.conversation_id
        )
        return reading.settle(self._finding(reading))

    def _finding(self, reading: SideScores) -> Finding:
        if not reading.scores:
            return Finding(False)
        gravest = max(reading.scores, key=lambda name: reading.scores[name].F)
        score = reading.scores[gravest]
        data = {
            "scores": {name: one.to_dict() for name, one in reading.scores.items()},
            "reasoning": {name: text[:_REASON] for name, text in reading.reasonings.items()},
        }
        finding = judge(score.F, self._levels, f"{gravest} is violated")
        if finding.found:
            return replace(finding, data=data)
        unsure = max(reading.scores, key=lambda name: reading.scores[name].I)
        doubt = reading.scores[unsure].I
        if self.uncertain_above is not None and doubt > self.uncertain_above:
            reason = f"{unsure} can't be told: I {doubt:.2f} above {self.uncertain_above:.2f}"
            return Finding(True, reason, score.F, action=Action.WARN, data=data)
        return Finding(False, confidence=score.F, data=data)

    def _earlier(self, check: Check) -> Iterator[Turn]:
        """The turns that the model may see before the one that is judged."""
        context = Context.parse(self.context)
        if context.mode is ContextMode.TURN:
            return
        number = check.turn.number
        first = 1 if context.size is None else number - context.size + 1
        for turn in check.conversation.turns:
            if first <= turn.number < number:
                yield turn


def _judged(check: Check) -> Turn:
    """The turn as judged; what a tool gave back stands as a prompt, arguments of a call as a response."""
    if check.side is Side.PROMPT:
        return Turn(check.turn.number, check.text)
    return Turn(check.turn.number, check.turn.prompt, check.text)
