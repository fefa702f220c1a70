"""``drift``: the guardrail that sees where a conversation is heading."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Literal

from turnwise.clock import utc_now
from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.turn import GUARD_KEY
from turnwise.detectors import Detector, format_spec, name_detector
from turnwise.detectors.kit.protocol import Signal
from turnwise.errors import GuardError, TurnwiseError
from turnwise.guard.drift_state import DriftData, Followed, Following, packed
from turnwise.guard.guardrail import Action, Check, Cost, Finding, Guardrail
from turnwise.guard.metadata import GuardMetadataError, kept_scores
from turnwise.guard.observing import KEPT, Scorer
from turnwise.guard.request import short_id
from turnwise.observers import DEFAULT_OBSERVER
from turnwise.scoring import Score, TurnScores
from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions import EngagementMode, MemoryStateStore, SessionMemory, Sessions, Stance, preset

_MODES = tuple(EngagementMode)
_CATCH_UP, _SCORED = 200, 10
"""Earlier turns that are read when a conversation is seen for the first time, and the latest that are scored then;
they bound the time that takes."""

_LONGEST_REFUSED = 4_000
"""Characters of a prompt that another guardrail blocked up to which it is scored before the next one."""

_WAITING = 1_000
"""Findings that wait for the check of their turn at most."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """Built once from what is set."""

    scorer: Scorer
    detector: Detector
    detector_name: str
    warn: float | None
    point: float | None
    sessions: Sessions | None
    followed: Followed = field(default_factory=Followed)


@dataclass(frozen=True)
class Drift(Guardrail):
    """Blocks a turn where the conversation so far adds up to manipulation; the single turn need not show it.

    Every prompt is scored by an observer that sees the turns before it, and a detector or pattern decides on the
    trajectory, at the same cost at every turn. It judges the present: a turn that was blocked does not block later
    ones by itself, and the detector starts afresh after each. What lasts is the session memory: trust, circuit
    breaker and stance, which goes with every result. A response tells the memory whether it refused, and is read
    by the observer before the next prompt, as it then stands; one that was blocked is not.

    A conversation with earlier turns that is seen for the first time, such as one loaded from a file, is read
    first: its last 200 turns, with scores that were kept where there are any; of those without the last 10 are
    scored, so that the first check takes no time that a user would notice.

    Args:
        observer: what scores turns, such as ``local`` or ``llm:openai/gpt-4.1-mini``.
        context: what it may see of the conversation: ``history``, ``window:k`` or ``turn``.
        principles: what turns are judged against; all that ship by default.
        detector: a detector's specification, such as ``cusum:drift=0.5``, a pattern as
            ``pattern:slope(reciprocity.F) > 0.1``, or a YAML file as ``turnwise tune`` writes it.
        patterns: YAML file of your own named patterns, which the detector may use; null for none.
        block_at: score of the detector at which a turn is blocked. ``calibrated`` is the observer's operating
            point, where it publishes one, and else the threshold that the specification has.
        warn_share: share of the blocking score from which a turn is warned of, in (0, 1]; null for no warning.
        session: preset of the session memory, or null for none; see ``turnwise sessions presets``.
        block_stance: engagement mode from which a turn is blocked: ``terminated``, ``guarded`` or ``never``.
        warn_stance: engagement mode from which a turn is warned of.
        breaker: what becomes of a turn while the session's circuit breaker is open, until trust is earned back:
            ``block``, ``warn`` or ``ignore``.

    Raises:
        GuardError: a value that does not fit.
        TurnwiseError: observer, detector, pattern or session preset can't be built.
    """

    cost: ClassVar[Cost] = Cost.MODEL
    default_timeout: ClassVar[float | None] = None

    observer: str = DEFAULT_OBSERVER
    context: str = "history"
    principles: tuple[str, ...] | None = None
    detector: str = "any_turn"
    patterns: str | None = None
    block_at: float | Literal["calibrated"] = "calibrated"
    warn_share: float | None = None
    session: str | None = "default"
    block_stance: Literal["guarded", "terminated", "never"] = "terminated"
    warn_stance: Literal["cautious", "guarded", "terminated", "never"] = "guarded"
    breaker: Literal["block", "warn", "ignore"] = "warn"
    _built: _Settings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scorer = Scorer(self.observer, self.context, self.principles)
        calibrated = isinstance(self.block_at, str)
        named = name_detector(self.detector, scorer.operating_points if calibrated else None, self.patterns)
        detector = named.detector
        if not isinstance(self.block_at, str):
            detector = detector.with_threshold(self.block_at)
        warn = None
        if self.warn_share is not None:
            if not 0.0 < self.warn_share <= 1.0:
                raise GuardError(f"warn_share is {self.warn_share}; use a share above 0, at most 1")
            if not 0.0 < detector.threshold < math.inf:
                blocking = f"{detector.threshold:g}"
                raise GuardError(f"warn_share is a share of the blocking score, which is {blocking}; leave it out")
            warn = self.warn_share * detector.threshold
        sessions = None
        if self.session is not None:
            sessions = Sessions(MemoryStateStore(), utc_now, SessionMemory(preset(self.session)))
        built = _Settings(
            scorer=scorer,
            detector=detector,
            detector_name=format_spec(named.plain),
            warn=warn,
            point=scorer.operating_point("any_turn"),
            sessions=sessions,
        )
        object.__setattr__(self, "_built", built)

    @property
    def waits(self) -> bool:
        """Whether the observer asks a language model."""
        return self._built.scorer.waits

    def forget_session(self, session_id: str) -> bool:
        """Forget a session, a terminated one as well, so that it may begin anew; return whether it was known."""
        return self._built.sessions is not None and self._built.sessions.forget(short_id(session_id))

    def check(self, check: Check) -> Finding:
        """Take a prompt into the conversation's trajectory and judge it, or a response into the session.

        Raises:
            ObserverError: a principle could not be scored, and the others do not block the turn for sure.
        """
        if check.side is Side.RESPONSE:
            return self._answered(check)
        following = self._following(check.conversation)
        with following.lock:
            self._catch_up(following, check)
            if check.turn.number > following.turns:
                return self._take(following, check.turn, check.text, check.conversation, check.session_id)
            finding = following.ahead.pop(check.turn.number, None)
        if finding is None:
            raise GuardError(f"turn {check.turn.number} was checked before; its prompt is checked once")
        if isinstance(finding, Exception):
            raise finding
        return finding

    def _following(self, conversation: Conversation) -> Following:
        built = self._built
        known = built.followed.get(conversation)
        if known is None:
            fresh = Following(built.scorer.start(conversation.conversation_id), built.detector.start())
            known = built.followed.add(conversation, fresh)
        return known

    def _catch_up(self, following: Following, check: Check) -> None:
        """Take in the turns before this one that nobody has taken in: earlier ones, or those of other threads."""
        number, conversation = check.turn.number, check.conversation
        if following.turns >= number - 1:
            return
        sessions = self._built.sessions
        # The session knows the turns of a conversation that was followed elsewhere; of one that is followed here,
        # those that drift was skipped at are still to be told.
        take = sessions is not None and (following.turns > 0 or sessions.stance(check.session_id) is None)
        if not following.turns and number - 1 > _CATCH_UP:
            following.turns = number - 1 - _CATCH_UP
        for before in range(following.turns + 1, number):
            turn = conversation.turn(before)
            if turn.metadata.get(GUARD_KEY) is None and turn.response is None:
                # It is under check by another thread at this moment, which will ask for what is found here.
                following.ahead[before] = self._tried(following, turn, check)
                if len(following.ahead) > _WAITING:
                    del following.ahead[min(following.ahead)]
            else:
                self._recall(following, turn, check, take=take, recent=before >= number - _SCORED)

    def _tried(self, following: Following, turn: Turn, check: Check) -> Finding | Exception:
        try:
            return self._take(following, turn, turn.prompt, check.conversation, check.session_id)
        except TurnwiseError as error:
            return error

    def _recall(self, following: Following, turn: Turn, check: Check, *, take: bool, recent: bool) -> None:
        """Take in a turn of which the check is over, with the scores that were kept where there are any.

        One that can't be scored is a gap: its failure is none of the turn that is under check.
        """
        built = self._built
        scores = _kept(turn)
        try:
            refused = turn.blocked(Side.PROMPT) and len(turn.prompt) > _LONGEST_REFUSED
            if scores is None and recent and not (built.scorer.waits or refused):
                scores = dict(built.scorer.score(following.scores, turn).scores)
            else:
                # Nobody waits, or pays a language model, for turns long past, or long and blocked.
                built.scorer.skip(following.scores, turn)
        except TurnwiseError:
            scores = None
        finally:
            following.turns = turn.number
        told = TurnScores(turn.number, scores or {}, len(turn.prompt))
        signal = built.detector.update(following.detected, told)
        if signal.active:
            following.detected = built.detector.start()
        if take and built.sessions is not None:
            self._session(built.sessions, check.conversation, check.session_id, told, turn)

    def _take(
        self, following: Following, turn: Turn, text: str, conversation: Conversation, session_id: str
    ) -> Finding:
        built = self._built
        self._follow(following, conversation)
        try:
            read = Turn(turn.number, text, turn.response) if text != turn.prompt else turn
            given = built.scorer.score(following.scores, read)
        finally:
            # The turn was said, whether it could be scored or not.
            following.turns = turn.number
        told = TurnScores(turn.number, given.scores, len(text))
        signal = built.detector.update(following.detected, told)
        if signal.active:
            following.detected = built.detector.start()
        stance = None
        if built.sessions is not None:
            stance = self._session(built.sessions, conversation, session_id, told, turn)
        return given.settle(self._finding(told, signal, stance))

    def _finding(self, told: TurnScores, signal: Signal, stance: Stance | None) -> Finding:
        """Return what the trajectory up to a turn and the stance towards the session say of the turn."""
        built = self._built
        data = DriftData(
            detector=built.detector_name,
            score=signal.score,
            threshold=built.detector.threshold,
            warn=built.warn,
            active=signal.active,
            turn=told.turn,
            principles=_shared(tuple(told.scores)),
            components=packed(told.scores),
        )
        confidence = max((score.F for score in told.scores.values()), default=0.0)
        if signal.active:
            return Finding(True, signal.reason, confidence, data=data, stance=stance)
        reason, action = self._of_stance(stance)
        if action is Action.BLOCK:
            return Finding(True, reason, confidence, data=data, stance=stance)
        if signal.contributions and built.warn is not None and signal.score >= built.warn:
            reason, action = f"{signal.reason} (warned from {built.warn:.3f})", Action.WARN
        return Finding(action is not None, reason, confidence, action=action, data=data, stance=stance)

    def _follow(self, following: Following, conversation: Conversation) -> None:
        """Let the observer read the latest turns as they stand: replies have come, later guardrails redacted.

        A reply that was blocked, or is still checked, reached nobody and is left out.
        """
        built, last = self._built, following.turns
        turns = (conversation.turn(number) for number in range(max(1, last - KEPT + 1), last + 1))
        said = (Turn(one.number, one.prompt) if one.withheld(Side.RESPONSE) else one for one in turns)
        try:
            built.scorer.follow(following.scores, said)
        except TurnwiseError:
            # What was said before is read as it was taken then; the turn under check is scored all the same.
            return

    def _session(
        self, sessions: Sessions, conversation: Conversation, session_id: str, told: TurnScores, turn: Turn
    ) -> Stance:
        scaled = TurnScores(
            told.turn, {name: self._scaled(score) for name, score in told.scores.items()}, told.length
        )
        conversation_id = short_id(conversation.conversation_id)
        return sessions.take(session_id, scaled, conversation_id=conversation_id, now=turn.timestamp)

    def _scaled(self, score: Score) -> Score:
        """Return a score on the scale of the session memory: the observer's operating point becomes its limit.

        The memory's rules were written for observers whose F means a breach from 0.65 on.
        """
        point = self._built.point
        if point is None or not 0.0 < point < 1.0:
            return score
        if point > score.F:
            return Score(score.T, score.I, score.F * HOSTILE_F / point)
        # Just above the limit, which itself is no breach yet.
        share = (score.F - point) / (1.0 - point)
        return Score(score.T, score.I, min(1.0, HOSTILE_F + 1e-6 + share * (1.0 - HOSTILE_F)))

    def _of_stance(self, stance: Stance | None) -> tuple[str, Action | None]:
        """Return what the stance towards the session asks for, and why."""
        if stance is None:
            return "", None
        rank = _MODES.index(stance.mode)
        if self.block_stance != "never" and rank >= _MODES.index(EngagementMode(self.block_stance)):
            return f"session {stance.mode}: {stance.rationale}", Action.BLOCK
        if not stance.processing and self.breaker != "ignore":
            return f"circuit breaker {stance.phase}: {stance.rationale}", Action(self.breaker)
        if self.warn_stance != "never" and rank >= _MODES.index(EngagementMode(self.warn_stance)):
            return f"session {stance.mode}: {stance.rationale}", Action.WARN
        return "", None

    def _answered(self, check: Check) -> Finding:
        sessions = self._built.sessions
        if sessions is None or sessions.stance(check.session_id) is None:
            return Finding(found=False)
        return Finding(found=False, stance=sessions.answered(check.session_id, check.text))


def _kept(turn: Turn) -> dict[str, Score] | None:
    """Return the scores that an earlier check kept with a turn; None where there are none that can be read."""
    try:
        return kept_scores(turn)
    except GuardMetadataError:
        return None


@cache
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one tuple for equal ones, so that a long conversation keeps it once."""
    return names
