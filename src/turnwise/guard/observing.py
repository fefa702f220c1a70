"""Scores of live texts: the one place where guardrails ask an observer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.turn import CHECKING_KEYS
from turnwise.deadline import WorkStopped
from turnwise.errors import ObserverError
from turnwise.guard.request import encodable
from turnwise.guard.scorer_state import KEPT, Parked, ScorerState, SideScores, Taken, Trajectory
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

LEFT_OUT_FOR = 8
"""Turns after a blocked text for which the observer still has it before it; then it is left out for good."""

AS_PASSED, ALONE = 0.8, 0.5
"""After a block, the shares of its F that a text must have without the blocked ones, or alone, to keep that F.

Set on the dev splits of the pairs and of people's red-team chats; `benchmarks/guard_sides.py` measures them."""

HARM, OWN_HARM = "third_party_harm", 0.2
"""The principle that is about what is asked and not about how the other side is treated, and F of a text alone
below which what is before it makes no harm of it there; set likewise."""

_BUILDING = threading.Lock()


class Scorer:
    """Asks one observer for scores of the turns of live conversations.

    Every conversation has a state of its own, from `start`; one scorer serves many of them, and threads. Observers
    that are named by the same text are one: drift and single-turn guardrails share the weights of ``local``. The
    observer may see ``turn``, ``window:k`` or ``history``; without `principles` all that ship are judged against.

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

    def start(self, conversation_id: str, trajectory: Trajectory = Trajectory.INITIATOR) -> ScorerState:
        """The state of one speaker in one conversation before its first turn."""
        session = ObserverSession(self._observer, self._context, conversation_id, goes_on=True)
        return ScorerState(session, trajectory)

    def score(self, state: ScorerState, turn: Turn, text: str | None = None) -> SideScores:
        """Take the next turn into the state and return the scores of the text that is judged of it.

        Checks of one conversation take turns; those of several don't wait. Prompts come in the order of their
        turns; the responder's texts may come in another, and one may come again where the first try was blocked.
        `text` is read in place of the judged text, such as the redacted one; an empty text has no scores. An
        `ObserverError` means that nothing could be scored: the text is not checked.
        """
        trajectory = state.trajectory
        if trajectory is Trajectory.INITIATOR:
            prompt, response, side = (turn.prompt if text is None else text), turn.response, Side.PROMPT
            read = turn if prompt == turn.prompt else Turn(turn.number, prompt, response)
        else:
            prompt, response, side = turn.prompt, (turn.response if text is None else text), Side.RESPONSE
            read, side = _as_judged(trajectory, turn.number, prompt, response)
        if self._forgets:
            return self._scores(state.session.copy(), read, side)
        with state.lock:
            if trajectory is not Trajectory.INITIATOR:
                self._say_again(state, turn.number)
            passed = state.passed
            if passed is not None and turn.number - state.blocked_at > LEFT_OUT_FOR:
                self._let_go(state)
                passed = None
            before = None if passed is None else passed.copy()
            state.recent[turn.number] = Taken(turn, state.session.copy(), before, prompt, response)
            if len(state.recent) > KEPT:
                del state.recent[next(iter(state.recent))]
            if trajectory is Trajectory.RESPONDER:
                self._listen(state.session, passed, turn.number, prompt)
            if passed is not None:
                passed.observe(_readable(read))
            try:
                # Where scoring fails the turn was said all the same, and later ones are read after it.
                return self._scores(state.session, read, side)
            except WorkStopped:
                self._say_again(state, turn.number)
                raise

    def without_blocked(self, state: ScorerState, turn: Turn, text: str, given: SideScores) -> SideScores:
        """The scores of the turn just taken in, as they settle where earlier texts were blocked.

        What the observer makes of a text stands on the blocked ones before it, which reached nobody. So the text
        is read again without them, and by itself. A principle keeps its F where the text has 0.8 of it without
        them or half of it alone; else F is as much lower. Harm to others is in what is asked: there F is at most
        twice that of the text alone, where that is below 0.2.
        """
        taken = state.recent.get(turn.number)
        if taken is None or taken.passed is None:
            return given
        trajectory = state.trajectory
        prompt, response = (text, None) if trajectory is Trajectory.INITIATOR else (taken.prompt or "", text)
        read, side = _as_judged(trajectory, turn.number, prompt, response)
        with state.lock:
            session = taken.passed.copy()
            if trajectory is Trajectory.RESPONDER:
                self._listen(session, None, turn.number, prompt)
        passed = self._scores(session, read, side)
        single = None
        settled = dict(given.scores)
        for name, score in given.scores.items():
            other = passed.scores.get(name)
            if other is None or (name != HARM and other.F >= AS_PASSED * score.F):
                continue
            if single is None:
                single = self.score_after((), read, side)
            alone, F = single.scores.get(name), other.F / AS_PASSED
            if alone is not None:
                own = name == HARM and alone.F < OWN_HARM
                F = alone.F / ALONE if own else max(F, alone.F / ALONE)
            if score.F > F:
                settled[name] = Score(other.T, other.I, F)
        return replace(given, scores=settled)

    def skip(self, state: ScorerState, turn: Turn) -> None:
        """Take in the next turn without asking for scores of it."""
        if self._forgets:
            return
        with state.lock:
            trajectory, passed = state.trajectory, state.passed
            prompt, response = turn.prompt, turn.response
            left_out = _left_out(trajectory, turn)
            if left_out and passed is None:
                passed = state.passed = state.session.copy()
            if trajectory is Trajectory.RESPONDER:
                self._listen(state.session, passed, turn.number, prompt)
            read = _readable(_as_judged(trajectory, turn.number, prompt, response)[0])
            state.session.observe(read)
            if left_out:
                state.blocked_at = turn.number
            elif passed is not None:
                passed.observe(read)

    def follow(self, state: ScorerState) -> None:  # noqa: PLR0912 - it runs at every check, where a call counts
        """Read the last `KEPT` turns again as they stand now: with replies that came, and as redacted since.

        A reply that was blocked, or is still being checked, reached nobody and is left out. A judged text that was
        blocked stays in the session, where a further try is read after it, and is left out of `passed`. Nothing
        happens where turns stand as they were taken.
        """
        if self._forgets:
            return
        trajectory = state.trajectory
        of_initiator = trajectory is Trajectory.INITIATOR
        with state.lock:
            session = passed = None
            for taken in state.recent.values():
                turn = taken.turn
                prompt, response, left_out = turn.prompt, turn.response, taken.left_out
                # A prompt that was answered went on; whether the others were blocked is asked until they are.
                if not left_out and (not of_initiator or response is None):
                    left_out = _left_out(trajectory, turn)
                same = taken.prompt == prompt and left_out is taken.left_out
                if session is None and same and taken.response == response:
                    continue
                if of_initiator and response is not None and turn.withheld(Side.RESPONSE):
                    response = None
                    if session is None and same and taken.response is None:
                        continue
                if session is None:
                    session, passed = taken.before.copy(), None if taken.passed is None else taken.passed.copy()
                else:
                    taken.before, taken.passed = session.copy(), None if passed is None else passed.copy()
                if left_out and of_initiator and response is not None:
                    left_out = False  # it was answered all the same, so it is part of what was said
                if left_out:
                    state.blocked_at = max(state.blocked_at, turn.number)
                    passed = session.copy() if passed is None else passed
                if trajectory is Trajectory.RESPONDER:
                    self._listen(session, passed, turn.number, prompt)
                read = turn
                if not of_initiator or response is not turn.response:
                    read = _as_judged(trajectory, turn.number, prompt, response)[0]
                read = _readable(read)
                session.observe(read)
                if passed is not None and not left_out:
                    passed.observe(read)
                taken.prompt, taken.response, taken.left_out = prompt, response, left_out
            if session is not None:
                state.session, state.passed = session, passed

    def _say_again(self, state: ScorerState, number: int) -> None:
        """Forget the first try of a text that comes again; one that is not the latest stays in the session."""
        if state.recent and next(reversed(state.recent)) == number:
            taken = state.recent.pop(number)
            state.session, state.passed = taken.before, taken.passed
        else:
            state.recent.pop(number, None)

    def _let_go(self, state: ScorerState) -> None:
        """Leave blocked texts out for good."""
        if state.passed is not None:
            state.session, state.passed = state.passed, None
        for taken in state.recent.values():
            if taken.passed is not None:
                taken.before, taken.passed = taken.passed, None

    def _listen(self, session: ObserverSession, passed: ObserverSession | None, number: int, prompt: str) -> None:
        """Hear what the initiator said before a text of the responder."""
        if prompt.strip():
            heard = _readable(Turn(2 * number - 1, "", prompt))
            session.observe(heard)
            if passed is not None:
                passed.observe(heard)

    def park(self, state: ScorerState) -> Parked:
        """Where a speaker stands before the turns that may still change, for `resume`."""
        if self._forgets:
            return Parked()
        with state.lock:
            first = next(iter(state.recent.values()), None)
            session, passed = (state.session, state.passed) if first is None else (first.before, first.passed)
            kept, kept_passed = session.park(), None if passed is None else passed.park()
            if kept is None or (passed is not None and kept_passed is None):
                return Parked(whole=False)
            return Parked(tuple(state.recent), state.blocked_at, kept, kept_passed)

    def resume(
        self,
        conversation: Conversation,
        taken: int,
        parked: Parked,
        trajectory: Trajectory = Trajectory.INITIATOR,
    ) -> ScorerState:
        """The state of a speaker whose first `taken` turns were followed elsewhere. Nothing is scored."""
        name = conversation.conversation_id
        state = self.start(name, trajectory)
        if self._forgets:
            return state
        if not parked.whole:
            for number in range(1, taken + 1):
                turn = conversation.turn(number)
                if turn.text(trajectory.side) is not None:
                    self.skip(state, turn)
            return state
        resumed = partial(ObserverSession.resumed, self._observer, self._context, name, goes_on=True)
        state.session, state.blocked_at = resumed(parked.session), parked.blocked_at
        if parked.passed is not None:
            state.passed = resumed(parked.passed)
        for number in parked.recent:
            state.recent[number] = Taken(conversation.turn(number), state.session, state.passed, None, None)
        self.follow(state)
        return state

    def score_after(
        self, earlier: Iterable[Turn], turn: Turn, side: Side, conversation_id: str = ""
    ) -> SideScores:
        """The scores of one side of a turn, after earlier turns that are only listened to.

        Nothing is remembered, so checks of one conversation don't wait for each other. For observers that ask a
        language model this costs what `score` does; one that computes reads every earlier turn anew.
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
        """The threshold at which a detector was calibrated on the observer's scores, or None."""
        return self.operating_points.get(detector_name)

    def _scores(self, session: ObserverSession, turn: Turn, side: Side) -> SideScores:
        scores: dict[str, Score] = {}
        reasonings: dict[str, str] = {}
        failures: list[ObservationFailure] = []
        unread: str | None = None
        for one in session.observe(_readable(turn), self._wanted[side]).given:
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


def _as_judged(trajectory: Trajectory, number: int, prompt: str, response: str | None) -> tuple[Turn, Side]:
    """A turn as the observer reads it, and the side of it that is judged.

    Of the responder every text is a turn by itself, and so is what it hears; they are counted by text.
    """
    if trajectory is Trajectory.RESPONDER:
        return Turn(2 * number, response or ""), Side.PROMPT
    return Turn(number, prompt, response), trajectory.side


def _left_out(trajectory: Trajectory, turn: Turn) -> bool:
    """Whether the judged text of a turn was blocked and reached nobody."""
    if trajectory is Trajectory.INITIATOR:
        return turn.response is None and turn.blocked(Side.PROMPT)
    return turn.blocked(Side.RESPONSE) and turn.own_metadata.get(CHECKING_KEYS[Side.RESPONSE]) is not True


def _readable(turn: Turn) -> Turn:
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
