"""``llm:provider/model``: scores by asking a language model."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import mean
from typing import Any

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Side, Turn
from turnwise.errors import BudgetError, ObserverError
from turnwise.observers.llm.calls import Calls
from turnwise.observers.llm.chat import ChatClient, Message
from turnwise.observers.llm.endpoint import Endpoint, resolve
from turnwise.observers.llm.guard_models import PRINCIPLE
from turnwise.observers.llm.limits import Allowance
from turnwise.observers.llm.openai_client import OpenAIClient
from turnwise.observers.llm.prompt import NonceSource, fresh_nonce, hex_nonce, load_frame, shown_texts
from turnwise.observers.llm.settings import INLINE, LlmSettings
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    Observation,
    ObservationFailure,
    Observer,
    ObserverInfo,
    Request,
    Workers,
    asked_together,
)
from turnwise.scoring import Call, ReplyJournal, Score

VERSION = "2"
"""Version of what the code makes of texts and replies; the texts themselves have the version of the frame."""


@dataclass(slots=True)
class LlmState:
    """A conversation so far, and what the model may see of it."""

    context: Context
    turns: list[Turn] = field(default_factory=list)


class LlmObserver:
    """Scores each wanted side of a turn against each principle with a request of its own to a language model.

    With the setting `together` one request asks for all principles of a side, and its cost is divided among them.
    A score rests on all of its repeats or there is none: where one fails, the score is a failure, and the replies
    that came are found in the journal the next time.

    Safe to use from several threads; the turns of a conversation may be scored in any order, each from a state
    that has seen the earlier ones.

    Args:
        argument: ``provider/model``.
        settings: how it is asked.
        client: sends requests; by default over the ``openai`` SDK, with the key from `environ`.
        journal: keeps replies.
        environ: the environment, which has the key.
        draw: gives nonces.
        clock: gives the times that are recorded.
        wait: makes the pause before a retry, in seconds.
        jitter: spreads retries.

    Raises:
        ObserverError: no such provider or model, no key, or the package ``openai`` is missing.
    """

    def __init__(
        self,
        argument: str | None = None,
        settings: LlmSettings | None = None,
        *,
        client: ChatClient | None = None,
        journal: ReplyJournal | None = None,
        environ: Mapping[str, str] = os.environ,
        draw: NonceSource = hex_nonce,
        clock: Clock = utc_now,
        wait: Callable[[float], None] | None = None,
        jitter: Random | None = None,
    ) -> None:
        self.endpoint: Endpoint = resolve(argument, settings)
        self._journal = journal
        self._draw = draw
        self._calls = Calls(
            self.endpoint,
            client or OpenAIClient(self.endpoint, self.endpoint.key(environ), clock),
            clock=clock,
            wait=wait,
            jitter=jitter or Random(),
        )

    @classmethod
    def live(cls, argument: str | None, settings: LlmSettings = INLINE) -> Observer:
        """An observer for texts that somebody waits for; see `LastingLlmObserver`."""
        return LastingLlmObserver(argument, settings)

    @classmethod
    def cost_estimator(cls, argument: str | None, settings: LlmSettings | None = None) -> Endpoint:
        """Tells what scores would cost; needs no key."""
        return resolve(argument, settings)

    @classmethod
    def describe(cls) -> ObserverInfo:
        """What is known before a model is named."""
        return ObserverInfo(
            name="llm",
            version=f"{VERSION}+frame.{load_frame().revision}",
            contexts=tuple(ContextMode),
            summary="asks a language model, one request a score",
            needs='provider and model, such as llm:openai/gpt-4.1-mini; a key; pip install "turnwise[llm]"',
            workers=Workers.THREADS,
            deterministic=False,
            independent=True,
            costs=True,
        )

    @property
    def info(self) -> ObserverInfo:
        """What is known of the observer, whatever the model."""
        return replace(self.describe(), together=self.endpoint.together)

    @property
    def spec(self) -> str:
        """Its specification, such as ``"llm:openai/gpt-4.1-mini"``."""
        return self.endpoint.spec

    @property
    def parameters(self) -> Mapping[str, object]:
        """All that a score may depend on beside principle and turns: no key, nothing that only governs a run."""
        return self.endpoint.parameters

    @property
    def spent_usd(self) -> float:
        """US dollars spent since it was built, including those that replies lost on the way may have cost."""
        return self._calls.limits.spent_usd

    def __repr__(self) -> str:
        return f"LlmObserver({self.spec!r})"

    def with_journal(self, journal: ReplyJournal) -> LlmObserver:
        """The same observer with a journal; both share budget, pace and the end of the run."""
        other = copy.copy(self)
        other._journal = journal
        return other

    def with_allowance(self, allowance: Allowance) -> LlmObserver:
        """The same observer with an allowance in place of the settings budget_usd and requests_per_minute."""
        other = copy.copy(self)
        other._calls = self._calls.sharing(allowance)
        return other

    def bound_requests(self, most: int) -> None:
        """Have at most `most` requests under way."""
        self._calls.limits.bound(most)

    def stop(self, reason: str) -> None:
        """Send no further request, and wake whoever waits to send one; they get an `ObserverError`."""
        self._calls.halt.now(ObserverError(reason))

    def start(self, conversation_id: str, context: Context) -> LlmState:
        """Begin a conversation; nothing of its id reaches the model."""
        return LlmState(context)

    def observe(
        self, state: LlmState, turn: Turn, wanted: Collection[Request]
    ) -> list[Observation | ObservationFailure]:
        """Take the next turn into the state and ask for the scores that are wanted of it.

        A side that said nothing is a gap; in the context ``transcript`` only if nobody said anything.
        `ObserverError` means that the run can't go on.
        """
        state.turns.append(turn)
        said = [request for request in wanted if _said(state, turn, request.side)]
        groups = asked_together(said, together=self.endpoint.together)
        return [one for group in groups for one in self._scores(state, turn, group)]

    def _scores(
        self, state: LlmState, turn: Turn, requests: Sequence[Request]
    ) -> list[Observation | ObservationFailure]:
        """What one request, with its repeats, gives for principles of the same side."""
        principles, side = [request.principle for request in requests], requests[0].side
        names = [principle.name for principle in principles]
        if not all(map(self.endpoint.scores, principles)):
            knows = f"{self.endpoint.settings.format} models know harm: only {PRINCIPLE} has a score of theirs"
            return [ObservationFailure(name, side, "unsupported", knows) for name in names]
        key = self.endpoint.request_key(principles, state.turns, turn.number, side, state.context)

        def make() -> tuple[str, tuple[Message, ...]]:
            texts = shown_texts(state.turns, turn.number, side, state.context)
            nonce = fresh_nonce((text for _, _, text in texts), self._draw)
            return nonce, self.endpoint.messages(principles, state.turns, turn.number, side, state.context, nonce)

        sent: list[Call] = []
        given: list[list[Call]] = [[] for _ in requests]
        for repeat in range(1, self.endpoint.settings.repeats + 1):
            answers = self._calls.ask(key, repeat, names, make, self._journal)
            sent.append(answers[0])
            for calls, call in zip(given, answers, strict=True):
                if not calls or calls[-1].score is not None:
                    calls.append(call)
            if all(calls[-1].score is None for calls in given):  # other repeats would be paid for in vain
                break
        cost = _cost(sent)
        share = None if cost is None else cost / len(requests)
        return [_outcome(request, calls, share) for request, calls in zip(requests, given, strict=True)]


class LastingLlmObserver:
    """Asks a language model as `LlmObserver` does, and again after what would end a run, such as a refused key.

    In a guard the check that met this fails, and the next one tries anew. Only a budget that is used up stays so.
    What requests that were under way spend after such an end is not counted.
    """

    def __init__(
        self,
        argument: str | None,
        settings: LlmSettings | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._argument = argument
        self._settings = settings or INLINE
        self._environ = environ
        self._spent = 0.0
        self._lock = threading.Lock()
        self._observer = LlmObserver(argument, self._settings, environ=environ)

    @property
    def info(self) -> ObserverInfo:
        """What is known of the observer, whatever the model."""
        return self._observer.info

    @property
    def parameters(self) -> Mapping[str, object]:
        """What a score may depend on beside principle and turns."""
        return self._observer.parameters

    @property
    def spent_usd(self) -> float:
        """US dollars spent since it was built."""
        with self._lock:
            return self._spent + self._observer.spent_usd

    def __repr__(self) -> str:
        return f"LastingLlmObserver({self._observer.spec!r})"

    def start(self, conversation_id: str, context: Context) -> LlmState:
        """Begin a conversation."""
        return self._observer.start(conversation_id, context)

    def observe(
        self, state: LlmState, turn: Turn, wanted: Collection[Request]
    ) -> list[Observation | ObservationFailure]:
        """Ask for the scores that are wanted; after an `ObserverError` the next call tries anew."""
        observer = self._observer
        try:
            return observer.observe(state, turn, wanted)
        except ObserverError as error:
            self._replace(observer, error)
            raise

    def _replace(self, ended: LlmObserver, error: ObserverError) -> None:
        if isinstance(error, BudgetError):
            return
        budget = self._settings.budget_usd
        with self._lock:
            if self._observer is not ended:  # another thread met the same
                return
            self._spent += ended.spent_usd
            left = None if budget is None else max(0.0, budget - self._spent)
            settings = replace(self._settings, budget_usd=left)
            self._observer = LlmObserver(self._argument, settings, environ=self._environ)


def _said(state: LlmState, turn: Turn, side: Side) -> bool:
    if turn.text(side) is None:
        return False
    texts = shown_texts(state.turns, turn.number, side, state.context)
    judged = texts if state.context.mode is ContextMode.TRANSCRIPT else texts[-1:]
    return any(text.strip() for _, _, text in judged)


def _outcome(request: Request, calls: Sequence[Call], cost: float | None) -> Observation | ObservationFailure:
    last = calls[-1]
    told = last
    scores = [call.score for call in calls if call.score is not None]
    middle = _mean(scores) if last.score is not None else None
    if middle is not None:
        # Of several reasons the one is told whose score is nearest to the mean that is stored beside it.
        told = min(calls, key=lambda call: _distance(call.score or middle, middle))
    about: dict[str, Any] = {
        "principle": request.principle.name,
        "side": request.side,
        "raw_reply": told.reply.text if told.reply else None,
        "latency_s": sum(call.reply.latency_s for call in calls if call.reply is not None and not call.cached),
        "cost_usd": cost,
        "calls": tuple(calls),
    }
    if middle is not None:
        return Observation(score=middle, reasoning=told.reasoning, **about)
    several = f"repeat {last.repeat}: " if last.repeat > 1 else ""
    return ObservationFailure(reason=last.reason or "error", message=f"{several}{last.message}", **about)


def _mean(scores: Sequence[Score]) -> Score:
    """The mean of scores; `statistics.mean` is exact, so equal scores have themselves as mean."""
    if len(scores) == 1:
        return scores[0]
    return Score(mean(one.T for one in scores), mean(one.I for one in scores), mean(one.F for one in scores))


def _distance(score: Score, other: Score) -> float:
    return (score.T - other.T) ** 2 + (score.I - other.I) ** 2 + (score.F - other.F) ** 2


def _cost(calls: Sequence[Call]) -> float | None:
    """What these calls cost in US dollars, those without a reply nothing; None where it is not known of one."""
    costs = [call.cost_usd for call in calls]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
