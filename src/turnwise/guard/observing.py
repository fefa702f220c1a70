"""Scores of a live text: the one place where guardrails ask an observer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from turnwise.conversation import Conversation, Side, Turn
from turnwise.errors import ObserverError
from turnwise.guard.guardrail import Finding
from turnwise.guard.request import encodable
from turnwise.observers import (
    DEFAULT_OBSERVER,
    Context,
    ContextMode,
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

KEPT = 4
"""Turns whose beginning a state remembers, so that a response may arrive after later prompts."""

_BUILDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SideScores:
    """What an observer says of one side of a turn.

    Args:
        scores: score by principle; one that the observer says nothing about is not there.
        failures: what it tried to score and could not.
        reasonings: the reason in words by principle, where the observer gives one.
    """

    scores: Mapping[str, Score]
    failures: tuple[ObservationFailure, ...] = ()
    reasonings: Mapping[str, str] = field(default_factory=dict)

    def score(self, principle: str) -> Score | None:
        """Return the score of one principle, or None where the observer has nothing to say of it.

        Raises:
            ObserverError: the observer tried to score it and could not.
        """
        for failure in self.failures:
            if failure.principle == principle:
                raise ObserverError(_told(failure))
        return self.scores.get(principle)

    def settle(self, finding: Finding) -> Finding:
        """Return what was found in the scores, unless a principle without one could make it graver.

        A finding in full stands, and says what could not be scored.

        Args:
            finding: what the scores say.

        Raises:
            ObserverError: a principle could not be scored, and nothing was found in full.
        """
        if not self.failures:
            return finding
        told = "; ".join(map(_told, self.failures))
        if not finding.in_full:
            raise ObserverError(told)
        return replace(finding, reason=f"{finding.reason}; {told}")


@dataclass(slots=True)
class _Taken:
    """A turn, with the session before it, and its prompt and reply as they were taken.

    A prompt that is None was taken elsewhere, and is read again.
    """

    turn: Turn
    before: ObserverSession
    prompt: str | None
    response: str | None


@dataclass(slots=True)
class ScorerState:
    """What a scorer remembers of one conversation.

    Args:
        session: the observer's, after the latest turn.
        recent: the last `KEPT` turns by number, as they were taken.
    """

    session: ObserverSession
    recent: dict[int, _Taken] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


class Scorer:
    """Asks one observer for scores of the turns of live conversations.

    Every conversation has a state of its own, from `start`; one scorer serves many of them, and threads. Observers
    that are named by the same text are one: drift and single-turn guardrails share the weights of ``local``.

    Args:
        observer: its specification, such as ``"local"`` or ``"llm:openai/gpt-4.1-mini"``, or an observer.
        context: what it may see: ``turn``, ``window:k`` or ``history``.
        principles: what turns are judged against: names, folders or principles; all that ship where None.

    Raises:
        UnknownNameError: no observer or principle of that name.
        UsageError: no such context, or the observer does not support it, or one of the principles.
        ObserverError: the observer can't be built.

    >>> scorer = Scorer("scripted:0.1,0.9", "history", ["reciprocity"])
    >>> state = scorer.start("c1")
    >>> scorer.score(state, Turn(1, "Hello")).scores
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
        self._forgets = self._context.mode is ContextMode.TURN
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

    def start(self, conversation_id: str) -> ScorerState:
        """Return the state of one conversation before its first turn."""
        return ScorerState(ObserverSession(self._observer, self._context, conversation_id, goes_on=True))

    def score(self, state: ScorerState, turn: Turn, text: str | None = None) -> SideScores:
        """Take the next turn into the state and return the scores of its prompt.

        Checks of one conversation take turns; those of several don't wait.

        Args:
            state: what `start` gave.
            turn: the turn; it comes after those that the state has. An empty text has no scores.
            text: what is read in place of its prompt, such as the redacted prompt; None for the prompt as it is.

        Raises:
            ObserverError: nothing could be scored, because of a failure: the text is not checked.
        """
        read = turn if text is None or text == turn.prompt else Turn(turn.number, text, turn.response)
        if self._forgets:
            return self._scores(state.session.copy(), read, Side.PROMPT)
        with state.lock:
            state.recent[turn.number] = _Taken(turn, state.session.copy(), read.prompt, read.response)
            if len(state.recent) > KEPT:
                del state.recent[min(state.recent)]
            # Where scoring fails the turn was said all the same, and later ones are read after it.
            return self._scores(state.session, read, Side.PROMPT)

    def skip(self, state: ScorerState, turn: Turn) -> None:
        """Take a turn into the state without asking for scores of it.

        Args:
            state: what `start` gave.
            turn: the turn; it comes after those that the state has.
        """
        if not self._forgets:
            with state.lock:
                state.session.observe(_readable(turn))

    def follow(self, state: ScorerState) -> None:
        """Read the last `KEPT` turns again as they stand now: with replies that came, and as redacted since.

        A reply that was blocked, or is still being checked, reached nobody and is left out. Nothing happens where
        turns stand as they were taken.

        Args:
            state: what `start` gave.

        Raises:
            ObserverError: the observer failed.
        """
        if self._forgets:
            return
        with state.lock:
            session: ObserverSession | None = None
            for taken in state.recent.values():
                turn = taken.turn
                prompt, response = turn.prompt, turn.response
                if session is None and taken.response == response and taken.prompt == prompt:
                    continue
                if response is not None and turn.withheld(Side.RESPONSE):
                    response = None
                    if session is None and taken.response is None and taken.prompt == prompt:
                        continue
                if session is None:
                    session = taken.before.copy()
                else:
                    taken.before = session.copy()
                session.observe(_readable(turn if response is turn.response else Turn(turn.number, prompt)))
                taken.prompt, taken.response = prompt, response
            if session is not None:
                state.session = session

    def park(self, state: ScorerState, taken: int) -> tuple[int, bytes | None]:
        """Return where a conversation stands before the turns that may still change, for `resume`.

        Args:
            state: what `start` gave.
            taken: turns that it has.

        Returns:
            The first turn that has to be read again, and the observer's state before it; None where all turns have
            to be, as that state can't become bytes.
        """
        if self._forgets:
            return taken + 1, b""
        with state.lock:
            first = taken + 1
            while first - 1 in state.recent:
                first -= 1
            session = state.recent[first].before if first <= taken else state.session
            return first, session.park()

    def resume(self, conversation: Conversation, taken: int, first: int, parked: bytes | None) -> ScorerState:
        """Return the state of a conversation that was followed elsewhere. Nothing is scored.

        Args:
            conversation: the conversation, with at least the turns that were taken in.
            taken: turns that were taken in.
            first: what `park` gave.
            parked: what `park` gave.

        Raises:
            ObserverError: the bytes are no state of this observer.
        """
        name = conversation.conversation_id
        if self._forgets:
            return self.start(name)
        if parked is None:
            session = ObserverSession(self._observer, self._context, name, goes_on=True)
            for number in range(1, first):
                turn = conversation.turn(number)
                spoken = turn.response is None or not turn.withheld(Side.RESPONSE)
                session.observe(_readable(turn if spoken else Turn(number, turn.prompt)))
        else:
            session = ObserverSession.resumed(self._observer, self._context, name, parked, goes_on=True)
        state = ScorerState(session)
        for number in range(first, taken + 1):
            state.recent[number] = _Taken(conversation.turn(number), session, None, None)
        self.follow(state)
        return state

    def score_after(
        self, earlier: Iterable[Turn], turn: Turn, side: Side, conversation_id: str = ""
    ) -> SideScores:
        """Return the scores of one side of a turn, after earlier turns that are only listened to.

        Nothing is remembered, so checks of one conversation don't wait for each other. For observers that ask a
        language model this costs what `score` does; one that computes reads every earlier turn anew.

        Args:
            earlier: the turns before, in order.
            turn: the turn, with the text to be judged on its side.
            side: the half of it that is judged.
            conversation_id: the conversation.

        Raises:
            ObserverError: as for `score`.
        """
        session = ObserverSession(self._observer, self._context, conversation_id, goes_on=True)
        for one in earlier:
            session.observe(_readable(one))
        return self._scores(session, turn, side)

    @property
    def operating_points(self) -> Mapping[str, float]:
        """The thresholds at which detectors were calibrated on the observer's scores, by name."""
        return self.info.operating_points.get(self.context, {})

    def operating_point(self, detector_name: str) -> float | None:
        """Return the threshold at which a detector was calibrated on the observer's scores, or None."""
        return self.operating_points.get(detector_name)

    def _scores(self, session: ObserverSession, turn: Turn, side: Side) -> SideScores:
        scores: dict[str, Score] = {}
        reasonings: dict[str, str] = {}
        failures: list[ObservationFailure] = []
        for one in session.observe(_readable(turn), self._wanted[side]).given:
            if isinstance(one, ObservationFailure):
                failures.append(one)
                continue
            scores[one.principle] = one.score
            if one.reasoning:
                reasonings[one.principle] = one.reasoning
        if failures and not scores:
            first = failures[0]
            raise ObserverError(f"observer {self.spec} could not score a {side}: {first.reason}: {first.message}")
        return SideScores(scores, tuple(failures), reasonings)


def _told(failure: ObservationFailure) -> str:
    return f"{failure.principle} could not be scored: {failure.reason}: {failure.message}"


def _readable(turn: Turn) -> Turn:
    """Return a turn whose texts are Unicode: a lone surrogate must not keep a text from being read."""
    if turn.prompt.isascii() and (turn.response is None or turn.response.isascii()):
        return turn
    prompt, response = encodable(turn.prompt), None if turn.response is None else encodable(turn.response)
    if prompt == turn.prompt and response == turn.response:
        return turn
    return replace(turn, prompt=prompt, response=response)


def shared_observer(spec: str) -> Observer:
    """Return the observer of a specification; the same one for the same text, built once in a process.

    It is built for texts that somebody waits for; see `turnwise.observers.build_live_observer`.

    Args:
        spec: such as ``"local"``.

    Raises:
        UnknownNameError: no observer has that name.
        ObserverError: it can't be built.
    """
    with _BUILDING:
        return _built(spec)


@cache
def _built(spec: str) -> Observer:
    return build_live_observer(spec)
