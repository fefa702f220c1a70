"""Scores of live texts: the one place where guardrails ask an observer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.guard.guardrail import Finding
from turnwise.guard.request import encodable
from turnwise.observers import (
    DEFAULT_OBSERVER,
    Context,
    ContextMode,
    NotRead,
    ObservationFailure,
    Observer,
    ObserverInfo,
    ObserverSession,
    Request,
    Workers,
    build_live_observer,
    check_supported,
)
from turnwise.principles import Principle, load_principle, principle_names
from turnwise.scoring import Score

_BUILDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SideScores:
    """What an observer says of one side of a turn.

    A principle that the observer says nothing about has no score, and failures are what it tried to score and
    could not. `unread` is the language of a text that it does not read, so that there is no score.
    """

    scores: Mapping[str, Score]
    failures: tuple[ObservationFailure, ...] = ()
    reasonings: Mapping[str, str] = field(default_factory=dict)
    unread: str | None = None

    def score(self, principle: str) -> Score | None:
        """The score of a principle; None where there is nothing to say of it. A failure is an `ObserverError`."""
        for failure in self.failures:
            if failure.principle == principle:
                raise ObserverError(_told(failure))
        return self.scores.get(principle)

    def settle(self, finding: Finding) -> Finding:
        """The finding, or an `ObserverError` where a principle that could not be scored might make it graver.

        A finding in full stands, and says what could not be scored.
        """
        if not self.failures:
            return finding
        told = "; ".join(map(_told, self.failures))
        if not finding.in_full:
            raise ObserverError(told)
        return replace(finding, reason=f"{finding.reason}; {told}")


class Scorer:
    """Asks one observer for scores of live texts; one scorer serves many conversations, and threads.

    Observers that are named by the same text are one: drift and single-turn guardrails share the weights of
    ``local``. The observer may see ``turn``, ``window:k`` or ``history``; without `principles` all that ship are
    judged against.

    >>> scorer = Scorer("scripted:0.1,0.9", "history", ["reciprocity"])
    >>> scorer.score(scorer.session("c1"), Turn(1, "Hello"), Side.PROMPT).scores
    {'reciprocity': Score(T=0.9, I=0.0, F=0.1)}
    """

    def __init__(
        self,
        observer: Observer | str = DEFAULT_OBSERVER,
        context: str | Context = "turn",
        principles: Sequence[Principle | str] | None = None,
    ) -> None:
        self.spec = observer if isinstance(observer, str) else f"{observer.info.name}#{id(observer):x}"
        self._observer = shared_observer(observer) if isinstance(observer, str) else observer
        self._context = context if isinstance(context, Context) else Context.parse(context)
        named = principle_names() if principles is None else principles
        judged_against = [one if isinstance(one, Principle) else load_principle(one) for one in named]
        self._wanted = {side: tuple(Request(one, side) for one in judged_against) for side in Side}
        self.forgets = self._context.mode is ContextMode.TURN
        """Whether the observer sees no earlier turn."""
        self.context = str(self._context)
        """What the observer may see, such as ``"turn"``."""
        self.principles = tuple(one.name for one in judged_against)
        """Names of the principles that turns are judged against."""
        check_supported(self.info, self._context, self.principles)

    @property
    def info(self) -> ObserverInfo:
        """What is to be known of the observer."""
        return self._observer.info

    @property
    def waits(self) -> bool:
        """Whether the observer waits for something outside this process, such as a language model."""
        return self.info.workers is Workers.THREADS

    @property
    def operating_points(self) -> Mapping[str, float]:
        """The thresholds at which detectors were calibrated on the observer's scores, by name."""
        return self.info.operating_points.get(self.context, {})

    def session(self, conversation_id: str, parked: bytes | None = None) -> ObserverSession:
        """The observer's session of a conversation, at its beginning or as `ObserverSession.park` left it."""
        if parked is None:
            return ObserverSession(self._observer, self._context, conversation_id, goes_on=True)
        return ObserverSession.resumed(self._observer, self._context, conversation_id, parked, goes_on=True)

    def score(self, session: ObserverSession, turn: Turn, side: Side) -> SideScores:
        """Take the next turn into a session and return the scores of one side of it.

        An empty text has no scores. An `ObserverError` means that nothing could be scored: it is not checked.
        """
        scores: dict[str, Score] = {}
        reasonings: dict[str, str] = {}
        failures: list[ObservationFailure] = []
        unread: str | None = None
        for one in session.observe(readable(turn), self._wanted[side]).given:
            if isinstance(one, ObservationFailure):
                failures.append(one)
                continue
            if isinstance(one, NotRead):
                unread = one.language
                continue
            scores[one.principle] = one.score
            if one.reasoning:
                reasonings[one.principle] = one.reasoning
        if failures and not scores:
            first = failures[0]
            raise ObserverError(f"observer {self.spec} could not score a {side}: {first.reason}: {first.message}")
        return SideScores(scores, tuple(failures), reasonings, unread)

    def score_after(
        self, earlier: Iterable[Turn], turn: Turn, side: Side, conversation_id: str = ""
    ) -> SideScores:
        """The scores of one side of a turn, after earlier turns that are only listened to.

        Nothing is remembered, so checks of one conversation don't wait for each other. For observers that ask a
        language model this costs no more than a session; one that computes reads every earlier turn anew.
        """
        session = self.session(conversation_id)
        for one in earlier:
            session.observe(readable(one))
        return self.score(session, turn, side)


def readable(turn: Turn) -> Turn:
    """A turn whose texts are Unicode: a lone surrogate must not keep a text from being read."""
    if turn.prompt.isascii() and (turn.response is None or turn.response.isascii()):
        return turn
    prompt, response = encodable(turn.prompt), None if turn.response is None else encodable(turn.response)
    if prompt == turn.prompt and response == turn.response:
        return turn
    return replace(turn, prompt=prompt, response=response)


def shared_observer(spec: str) -> Observer:
    """The observer of a specification, built once in a process, for texts that somebody waits for."""
    with _BUILDING:
        return _built(spec)


@cache
def _built(spec: str) -> Observer:
    return build_live_observer(spec)


def _told(failure: ObservationFailure) -> str:
    return f"{failure.principle} could not be scored: {failure.reason}: {failure.message}"
