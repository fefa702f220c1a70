"""The session memory: a fold over the turns of a session that gives a state and a stance after each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from operator import attrgetter
from typing import Any

from turnwise.conversation.json_values import as_utc
from turnwise.scoring import TurnScores, balance, trust_strength
from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions.breaker import BreakerState, Phase, next_breaker
from turnwise.sessions.evidence import NO_EVIDENCE, NO_PRIOR, Evidence, Prior, event_of, faded
from turnwise.sessions.refusal import is_refusal
from turnwise.sessions.settings import F_HISTORY, HISTORY, SessionSettings
from turnwise.sessions.stance import Stance, assess
from turnwise.sessions.state import (
    CONVERSATIONS,
    DIGITS,
    LONGEST,
    BreakerCounts,
    ExchangeCounts,
    OpenTurns,
    SessionState,
    TakenTurn,
    checked_id,
)

_BITS: int = 2**HISTORY - 1
_F = attrgetter("F")
_ROLE_CONFUSION = 0.3
"""Trust strength of a turn that confuses roles and does not saturate its context."""


_PAUSE = 1e-3
"""Share of the half-life beyond which a pause counts: 10 minutes by default."""


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """Takes the turns of a session into its state and derives the stance from it.

    Pure: states are never changed, and the time is passed in. A turn counts by its worst principle: the highest F,
    the lowest balance. A turn that was not evaluated is skipped: it changes neither trust nor breaker, nor
    anything else that is read off scores. The scores of responses are not used; a response counts only as refused
    or not.

    Args:
        settings: the rules; see `turnwise.sessions.preset`.
        point: F of the observer that is a breach, in (0, 1], which only the words of a stance tell.

    >>> from datetime import UTC, datetime
    >>> from turnwise.scoring import Score
    >>> memory, now = SessionMemory(), datetime(2025, 1, 1, tzinfo=UTC)
    >>> state = memory.start("user-1", now)
    >>> for turn, F in enumerate((0.1, 0.2, 0.1), start=1):
    ...     scores = TurnScores(turn, {"reciprocity": Score(T=0.8, I=0.3, F=F)}, length=80)
    ...     state, stance = memory.update(state, scores, now)
    >>> stance.mode.value, stance.rationale
    ('normal', 'trust 0.828 after 3 turns, stable')
    """

    settings: SessionSettings = field(default_factory=SessionSettings)
    point: float = HOSTILE_F
    _pause: timedelta = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        half_life, expires_after = self.settings.half_life, self.settings.expires_after
        limits = [limit for limit in (half_life and half_life * _PAUSE, expires_after) if limit is not None]
        object.__setattr__(self, "_pause", min(limits, default=timedelta.max))

    def start(self, session_id: str, now: datetime) -> SessionState:
        """Return the state of a session before its first turn.

        Args:
            session_id: id of the session, at most 64 bytes.
            now: the present time, aware.

        Raises:
            SessionError: an id that is empty or too long.
            ConversationError: a time without a zone.
        """
        settings, stamp = self.settings, as_utc(now, "now")
        return SessionState(
            session_id=checked_id(session_id, "session_id"),
            started_at=stamp,
            last_at=stamp,
            trust=settings.initial,
            breaker=BreakerState(trust=settings.breaker.initial),
        )

    def update(
        self,
        state: SessionState,
        scores: TurnScores,
        now: datetime,
        *,
        response: str | None = None,
        conversation_id: str | None = None,
        key: str = "",
        prior: Prior = NO_PRIOR,
    ) -> tuple[SessionState, Stance]:
        """Return the session after a turn, and the stance that follows.

        Args:
            state: the session before the turn; it is not changed.
            scores: scores of the turn. A blocked turn is passed as well: failed tries are evidence.
            now: the present time, aware. A clock that went back counts as no time passed.
            response: text of the response, if there is one yet; only whether it refuses is kept. One that comes
                later is passed to `answered`.
            conversation_id: the conversation that the turn is part of, at most 64 bytes.
            key: names the turn for `correct`, where its scores may still be corrected; empty where not.
            prior: what is known of the person from other sessions.

        Raises:
            SessionError: a conversation id that is empty or too long.
            ConversationError: a time without a zone.
        """
        refused = response is not None and is_refusal(response)
        after, stance = self._taken(state, scores, now, conversation_id, refused, prior)
        if state.open is None and not key:
            return after, stance
        opened = OpenTurns(state) if state.open is None else state.open
        turn = TakenTurn(scores, as_utc(now, "now"), conversation_id, refused, key, prior=prior)
        return replace(after, open=self._shortened(replace(opened, turns=(*opened.turns, turn)))), stance

    def correct(
        self, state: SessionState, key: str, scores: TurnScores, answer: Mapping[str, Any]
    ) -> SessionState | None:
        """Return the session as though a turn had had other scores; None where they can't be corrected any more.

        All turns since the first open one are taken again, so nothing is approximated. A turn can be corrected
        until `LONGEST` more were taken, or the session was released.

        Args:
            state: the session; it is not changed.
            key: names the turn, as `update` was given it.
            scores: its scores.
            answer: JSON values that are kept with it until `settle`.
        """
        if state.open is None or state.open.find(key) is None:
            return None
        turns = [replace(one, scores=scores, answer=answer) if one.key == key else one for one in state.open.turns]
        after = self._again(state.open.before, turns)
        return replace(after, open=replace(state.open, turns=tuple(turns)))

    def settle(self, state: SessionState, key: str) -> SessionState:
        """Return the session with a turn that won't be corrected any more."""
        if state.open is None:
            return state
        turns = tuple(replace(one, key="", answer=None) if one.key == key else one for one in state.open.turns)
        return replace(state, open=self._shortened(replace(state.open, turns=turns)))

    def _again(self, state: SessionState, turns: Iterable[TakenTurn]) -> SessionState:
        for one in turns:
            if one.weight:
                if self.expired(state, one.at):
                    state = self.start(state.session_id, one.at)
                evidence = self._evidence(state, one.at, one.prior, None).noted(one.weight)
                state = replace(state, last_at=max(one.at, state.last_at), evidence=evidence)
                continue
            rest = one.conversation_id, one.refused, one.prior
            state, _ = self._taken(state, one.scores, one.at, *rest)
        return state

    def _shortened(self, opened: OpenTurns) -> OpenTurns | None:
        """The same from its first open turn on, and no longer than is kept; None where no turn is open."""
        turns = list(opened.turns)
        turns = turns[max(0, len(turns) - LONGEST) :]
        first = next((number for number, one in enumerate(turns) if one.key), None)
        if first is None:
            return None
        dropped = len(opened.turns) - len(turns) + first
        if not dropped:
            return opened
        return OpenTurns(self._again(opened.before, opened.turns[:dropped]), tuple(turns[first:]))

    def _taken(
        self,
        state: SessionState,
        scores: TurnScores,
        now: datetime,
        conversation_id: str | None,
        refused: bool,
        prior: Prior,
    ) -> tuple[SessionState, Stance]:
        settings = self.settings
        if now.tzinfo is not UTC:
            now = as_utc(now, "now")
        restarted = False
        trust, breaker = state.trust, state.breaker
        if now - state.last_at > self._pause:
            restarted = self.expired(state, now)
            if restarted:
                state = self.start(state.session_id, now)
            trust, breaker = self._rested(state, now)
        ids = state.conversation_ids
        if conversation_id is not None and (not ids or ids[-1] != conversation_id):
            checked_id(conversation_id, "conversation_id")
            ids = (*(known for known in ids if known != conversation_id), conversation_id)[-CONVERSATIONS:]
        rules, known = settings.evidence, scores.scores
        evidence = NO_EVIDENCE if rules is None else self._evidence(state, now, prior, conversation_id)
        if not known:
            state = replace(
                state,
                last_at=max(now, state.last_at),
                interactions=state.interactions + 1,
                trust=trust,
                breaker=breaker,
                refusals=state.refusals + refused,
                refusal_bits=push_bit(state.refusal_bits, refused),
                conversation_ids=ids,
                evidence=evidence,
                open=None,
            )
            return state, assess(state, settings, self.point, restarted=restarted)

        length = scores.length
        worst = max(known.values(), key=_F)
        F = worst.F
        low = round(min(map(balance, known.values(), repeat(length))), DIGITS)
        strength = trust_strength(worst, length)
        confused = F > HOSTILE_F
        saturated = strength < (_ROLE_CONFUSION if confused else 1.0)
        broken = confused or saturated
        breakers = state.breakers
        if broken:
            breakers = BreakerCounts(breakers.role_confusion + confused, breakers.context_saturation + saturated)
        strikes = 0
        if rules is not None and (evidence is not NO_EVIDENCE or broken or rules.drift < F):
            strikes = evidence.strikes_before
            evidence = evidence.taken(F, rules)
            weight = event_of(F, evidence, rules, broken=broken)
            broken |= rules.drift < F and evidence.cusum >= rules.limit * (1 if strikes else 2)
            evidence = evidence.noted(weight)
        stands = rules is not None and evidence.cusum >= rules.limit
        trajectory = settings.trajectory
        state = SessionState(
            state.session_id,
            state.started_at,
            max(now, state.last_at),
            state.interactions + 1,
            trust_ema(trust, strength, settings.alpha),
            round(F, DIGITS) if state.F_first is None else state.F_first,
            round(falsity_ema(state.F_fast, F, trajectory.fast), DIGITS),
            round(falsity_ema(state.F_slow, F, trajectory.slow), DIGITS),
            (*state.F_history, round(F, DIGITS))[-F_HISTORY:],
            (*state.balances, low)[-HISTORY - 1 :],
            breakers,
            push_bit(state.breaker_bits, broken),
            state.refusals + refused,
            push_bit(state.refusal_bits, refused),
            _counted(state.exchanges, low),
            ids,
            next_breaker(
                breaker, F, violation=broken, settings=settings.breaker, strikes=strikes, held_open=stands
            ),
            evidence,
        )
        return state, assess(state, settings, self.point, restarted=restarted)

    def _evidence(self, state: SessionState, now: datetime, prior: Prior, conversation_id: str | None) -> Evidence:
        """The evidence before a turn at a time."""
        rules, ids, idle = self.settings.evidence, state.conversation_ids, now - state.last_at
        evidence = state.evidence
        if rules is None or (evidence is NO_EVIDENCE and prior is NO_PRIOR):
            return NO_EVIDENCE
        if idle > self._pause and evidence.cusum:
            evidence = evidence._replace(cusum=round(faded(evidence.cusum, idle, self.settings.half_life), DIGITS))
        elsewhere = conversation_id is not None and bool(ids) and ids[-1] != conversation_id
        return evidence.rested(idle, rules.half_life, prior, elsewhere=elsewhere)

    def noted(self, state: SessionState, weight: float, now: datetime, prior: Prior = NO_PRIOR) -> SessionState:
        """Return the session after an event that is no evaluated turn, such as a block by another guardrail.

        Args:
            state: the session; it is not changed.
            weight: what the event weighs, at least 0, such as `turnwise.sessions.evidence.BLOCKED`.
            now: the present time, aware.
            prior: what is known of the person from other sessions.
        """
        if self.settings.evidence is None:
            return state
        event = TakenTurn(TurnScores(1, {}), as_utc(now, "now"), prior=prior, weight=weight)
        after, opened = self._again(replace(state, open=None), [event]), state.open
        if opened is None:
            return after
        return replace(after, open=self._shortened(replace(opened, turns=(*opened.turns, event))))

    def added(self, before: SessionState, after: SessionState) -> tuple[float, int]:
        """Weight and number of the incidents that a session has more than before, as of its latest turn."""
        rules = self.settings.evidence
        own, begun = before.evidence, before.started_at == after.started_at
        if rules is None or not begun:
            return after.evidence.weight, after.evidence.incidents
        left = own.weight and faded(own.weight, after.last_at - before.last_at, rules.half_life)
        return after.evidence.weight - left, after.evidence.incidents - own.incidents

    def answered(self, state: SessionState, response: str) -> SessionState:
        """Return the session after the response to its latest turn; no turn is counted.

        Args:
            state: the session after the turn; it is not changed.
            response: text of the response. A second response to a turn adds nothing where the first refused.
        """
        if not state.interactions or state.refusal_bits & 1 or not is_refusal(response):
            return state
        opened = state.open
        if opened is not None:
            turns = list(opened.turns)
            last = max((at for at, one in enumerate(turns) if not one.weight), default=None)
            if last is not None:
                turns[last] = replace(turns[last], refused=True)
            opened = replace(opened, turns=tuple(turns))
        return replace(state, refusals=state.refusals + 1, refusal_bits=state.refusal_bits | 1, open=opened)

    def assess(self, state: SessionState) -> Stance:
        """Return the stance towards a session as it is, without a turn."""
        return assess(state, self.settings, self.point)

    def expired(self, state: SessionState, now: datetime) -> bool:
        """Return whether a turn at this time (aware) would begin the session anew; a terminated one never does."""
        limit = self.settings.expires_after
        return limit is not None and not state.terminated and now - state.last_at > limit

    def _rested(self, state: SessionState, now: datetime) -> tuple[float, BreakerState]:
        """Trust and breaker after a pause: trust moves back to where sessions start."""
        half_life, breaker, idle = self.settings.half_life, state.breaker, now - state.last_at
        if half_life is None or not state.interactions:
            return state.trust, breaker
        if breaker.phase is Phase.NORMAL:
            # Waiting is no recovery: that takes clean turns.
            rested = decayed(breaker.trust, self.settings.breaker.initial, idle, half_life)
            breaker = BreakerState(Phase.NORMAL, breaker.attempts, rested, breaker.violations)
        return decayed(state.trust, self.settings.initial, idle, half_life), breaker


def trust_ema(trust: float, strength: float, alpha: float = 0.3) -> float:
    """Trust after a turn, in [0, 1]: alpha·strength + (1 − alpha)·trust.

    Source: the specification's session memory; the average is that of S. W. Roberts, "Control chart tests based
    on geometric moving averages", Technometrics 1 (1959).

    >>> round(trust_ema(trust=0.5, strength=1.0), 9)
    0.65
    >>> round(trust_ema(trust=0.65, strength=0.3), 9)
    0.545
    """
    return alpha * strength + (1.0 - alpha) * trust


def falsity_ema(average: float | None, F: float, alpha: float) -> float:
    """The moving average of F after a turn; the first F is its own average.

    >>> falsity_ema(None, F=0.2, alpha=0.5), falsity_ema(0.2, F=0.6, alpha=0.5)
    (0.2, 0.4)
    """
    return F if average is None else alpha * F + (1.0 - alpha) * average


def decayed(trust: float, initial: float, idle: timedelta, half_life: timedelta) -> float:
    """Trust after a time without a turn: its distance from the initial trust halves with each half-life.

    >>> decayed(0.9, 0.5, idle=timedelta(days=2), half_life=timedelta(days=1))
    0.6
    """
    rested: float = initial + (trust - initial) * 0.5 ** (idle / half_life)
    return rested


def push_bit(bits: int, happened: bool) -> int:
    """Add a turn to the bits of the last 10 turns; the latest is the lowest bit.

    >>> push_bit(0b1000000001, happened=False)
    2
    """
    return (bits << 1 | happened) & _BITS


def _counted(exchanges: ExchangeCounts, low: float) -> ExchangeCounts:
    extractive, neutral, reciprocal, generative = exchanges
    if low < -0.3:
        return ExchangeCounts(extractive + 1, neutral, reciprocal, generative)
    if low > 0.5:
        return ExchangeCounts(extractive, neutral, reciprocal, generative + 1)
    if abs(low) < 0.1:
        return ExchangeCounts(extractive, neutral + 1, reciprocal, generative)
    return ExchangeCounts(extractive, neutral, reciprocal + 1, generative)
