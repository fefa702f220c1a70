"""``drift``: the guardrail that sees where a conversation is heading."""

from __future__ import annotations

import copy
import math
import threading
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.turn import CHECKING_KEYS
from turnwise.detectors import Detector, format_spec, name_detector
from turnwise.detectors.kit.protocol import Signal
from turnwise.errors import GuardError, ObserverError, StateError, TurnwiseError
from turnwise.guard.fields import GuardMetadataError
from turnwise.guard.guardrail import CLEAN, Action, Check, Cost, Finding, Guardrail, IfUnread, On, not_read
from turnwise.guard.guardrails.drift_sessions import DriftSessions, actions_by_mode, responder_session
from turnwise.guard.guardrails.speakers import (
    Judge,
    Progress,
    of_outputs,
    park,
    resume,
    speaker_of,
)
from turnwise.guard.metadata import kept_scores
from turnwise.guard.observing import Scorer
from turnwise.guard.records import DriftData
from turnwise.guard.request import digest_of, short_id
from turnwise.guard.scorer_state import SideScores, Trajectory
from turnwise.observers import DEFAULT_OBSERVER
from turnwise.scoring import Score, TurnScores
from turnwise.sessions import (
    MemoryStateStore,
    SessionMemory,
    Sessions,
    Stance,
    StateStore,
    preset,
)

_CATCH_UP, _SCORED = 200, 10
"""Earlier turns that are read when a conversation is seen for the first time, and the latest that are scored then;
they bound the time that takes."""

_DOUBTFUL = 0.5
"""F from which a text is read again where earlier ones were blocked, unless the detector fires below."""

_LONGEST_REFUSED = 4_000
"""Characters of a prompt that another guardrail blocked up to which it is scored before the next one."""

_WAITING = 1_000
"""Findings that wait for the check of their turn at most."""

_WHOSE = {
    Trajectory.INITIATOR: "",
    Trajectory.RESPONDER: "the responder's texts: ",
    Trajectory.REPLIES: "the replies: ",
}
"""Begins a reason that is not about the initiator."""


@dataclass(frozen=True, slots=True)
class _Built:
    """What is built once from the settings.

    `warn` is the detector's score from which a turn is warned of, `doubtful` the F from which a text is read again
    where earlier ones were blocked. `initiators` and `responders` say where each conversation stands with either,
    and forget one that nobody holds any more; `lock` is held while one is added. `fingerprint` tells parked states
    of this observer and detector from those of others.
    """

    scorer: Scorer
    detector: Detector
    detector_name: str
    warn: float | None
    memory: DriftSessions | None
    doubtful: float
    initiators: WeakKeyDictionary[Conversation, Progress] = field(default_factory=WeakKeyDictionary)
    responders: WeakKeyDictionary[Conversation, Progress] = field(default_factory=WeakKeyDictionary)
    lock: threading.Lock = field(default_factory=threading.Lock)
    name: str = "drift"
    fingerprint: str = ""

    def of(self, trajectory: Trajectory) -> WeakKeyDictionary[Conversation, Progress]:
        """Where conversations stand with the speaker of a trajectory."""
        return self.initiators if trajectory is Trajectory.INITIATOR else self.responders


@dataclass(frozen=True)
class Drift(Guardrail):
    """Blocks a turn where the conversation so far adds up to manipulation; the single turn need not show it.

    Every prompt is scored by an observer that sees the turns before it, and a detector or pattern decides on the
    trajectory, at the same cost at every turn. It judges the present: a turn that was blocked does not block later
    ones by itself, and the detector starts afresh after each. What lasts is the session memory: trust, circuit
    breaker and stance, which goes with every result. A response tells the memory whether it refused, and is read
    by the observer before the next prompt, as it then stands; one that was blocked is not.

    A blocked prompt reached nobody. The observer keeps it in view for 8 turns, so that a further try is seen for
    what it is; but a turn that looks bad is then read again without it, and by itself, and is blocked for what it
    says in those readings, at somewhat lower thresholds. What rests on the blocked prompt alone is warned of.

    Either side may lead the other where two people talk, or bots and agents among themselves. There the
    responder's texts are a trajectory of their own, in which they are the prompts and the initiator's texts the
    replies, with a detector state and a session of their own; see `judge`.

    A conversation with earlier turns that is seen for the first time, such as one loaded from a file, is read
    first: its last 200 turns, with scores that were kept where there are any; of those without the last 10 are
    scored, so that the first check takes no time that a user would notice.

    Args:
        observer: what scores turns, such as ``local`` or ``llm:openai/gpt-4.1-mini``.
        context: what it may see of the conversation: ``history``, ``window:k`` or ``turn``.
        principles: what turns are judged against; all that ship by default.
        detector: a detector's specification, such as ``cusum:drift=0.5``, a pattern as
            ``pattern:slope(reciprocity.F) > 0.1``, or a YAML file as ``turnwise study tune`` writes it.
        patterns: YAML file of your own named patterns, which the detector may use; null for none.
        block_at: score of the detector at which a turn is blocked. ``calibrated`` is the observer's operating
            point, where it publishes one, and else the threshold that the specification has. With ``any_turn`` it
            is the F from which the session memory takes a turn for a breach, too.
        warn_share: share of the blocking score from which a turn is warned of, in (0, 1]; null for no warning.
        session: preset of the session memory, or null for none; see ``turnwise list session-presets``.
        block_stance: engagement mode from which a turn is blocked: ``terminated``, ``guarded`` or ``never``.
        warn_stance: engagement mode from which a turn is warned of.
        breaker: what becomes of a turn while the session's circuit breaker is open, until trust is earned back:
            ``block``, ``warn`` or ``ignore``. It blocks once two of the session's last ten turns broke trust;
            after a single one, which may be wrong, it warns.
        judge: whose texts are judged: those of the ``initiator``, of the ``responder``, of ``both``; or
            ``replies``, which asks of the responder's texts whether they, as replies, carry harm on. ``auto`` is
            both where two people talk, or bots and agents among themselves, and else the initiator.
        unread: what becomes of a text in a language that the observer does not read: ``allow``, ``block`` or
            ``warn``. It has no score and changes neither trajectory nor trust; later texts are read after it.

    Raises:
        GuardError: a value that does not fit.
        TurnwiseError: observer, detector, pattern or session preset can't be built.
    """

    cost: ClassVar[Cost] = Cost.MODEL
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    reads: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_timeout: ClassVar[float | None] = None
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {"patterns": (), "detector": (".yaml", ".yml")}

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
    judge: Judge = "auto"
    unread: IfUnread = "allow"
    _judges_prompts: bool = field(init=False, repr=False, compare=False)
    _built: _Built = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scorer = Scorer(self.observer, self.context, self.principles)
        calibrated = isinstance(self.block_at, str)
        named = name_detector(self.detector, scorer.operating_points if calibrated else None, self.patterns)
        detector = named.detector
        point = scorer.operating_point("any_turn")
        if not isinstance(self.block_at, str):
            detector = detector.with_threshold(self.block_at)
            if detector.name == "any_turn":
                if not 0.0 < self.block_at <= 1.0:
                    raise GuardError(
                        f"block_at is {self.block_at:g}; any_turn compares it with F: use a number above 0, at "
                        "most 1 (action: log tells and never blocks)"
                    )
                point = self.block_at  # what blocks a turn is what breaks trust
            if detector.threshold == math.inf:
                raise GuardError(f"block_at is {self.block_at:g}, which no score reaches: use a lower number")
        warn = None
        if self.warn_share is not None:
            if not 0.0 < self.warn_share <= 1.0:
                raise GuardError(f"warn_share is {self.warn_share}; use a share above 0, at most 1")
            if not 0.0 < detector.threshold < math.inf:
                blocking = f"{detector.threshold:g}"
                raise GuardError(f"warn_share is a share of the blocking score, which is {blocking}: leave it out")
            warn = self.warn_share * detector.threshold
        memory = None
        if self.session is not None:
            memory = DriftSessions(
                Sessions(MemoryStateStore(), utc_now, SessionMemory(preset(self.session))),
                point if point is not None and 0.0 < point <= 1.0 else None,
                actions_by_mode(self.block_stance, self.warn_stance),
                self.breaker,
            )
        limit, spec = detector.threshold, format_spec(named.plain)
        built = _Built(
            scorer=scorer,
            detector=detector,
            detector_name=spec,
            warn=warn,
            memory=memory,
            doubtful=min(limit, _DOUBTFUL) if limit > 0.0 else _DOUBTFUL,
            fingerprint=_fingerprint(scorer, spec),
        )
        object.__setattr__(self, "_judges_prompts", self.judge not in ("responder", "replies"))
        if not self._judges_prompts:
            object.__setattr__(self, "default_on", On.OUTPUT)
        object.__setattr__(self, "_built", built)

    @property
    def waits(self) -> bool:
        """Whether the observer asks a language model."""
        return self._built.scorer.waits

    @property
    def remembers(self) -> bool:
        """Always, since every text joins the trajectory."""
        return True

    def take_over(self, before: Guardrail) -> None:
        """Go on with the sessions of another one, and where nothing else is set with its conversations as well."""
        if not isinstance(before, Drift) or before._built.memory is None or self._built.memory is None:
            return
        # A file may say something else than it did then.
        if before == self and self.patterns is None and not self.detector.endswith((".yaml", ".yml")):
            object.__setattr__(self, "_built", before._built)
        else:
            rules = SessionMemory(preset(self.session or "default"))
            memory = replace(self._built.memory, sessions=before._built.memory.sessions.ruled_by(rules))
            object.__setattr__(self, "_built", replace(self._built, memory=memory))

    def placed(self, name: str, clock: Clock) -> Drift:
        """The guardrail under the name and by the clock of a pipeline; sessions and conversations stay."""
        built = self._built
        if name == built.name and clock is utc_now:
            return self
        memory = built.memory
        if memory is not None:
            memory = replace(memory, sessions=memory.sessions.over(clock=clock), name=name)
        other = copy.copy(self)
        object.__setattr__(other, "_built", replace(built, name=name, memory=memory))
        return other

    def sessions(self, store: StateStore | None = None) -> Sessions | None:
        """The session memory, as it stands in a state store where one is given; None without a memory.

        In a state store a session has the digest of its name (`digest_of`) for an id.
        """
        memory = self._built.memory
        return None if memory is None else memory.sessions if store is None else memory.over(store)

    def park(self, conversation: Conversation) -> bytes | None:
        """Where a conversation stands; None for one that is not known.

        At most 4 kB with ``any_turn`` for each speaker who is judged, and as much again after a block.
        """
        built = self._built
        known = (built.initiators.get(conversation), built.responders.get(conversation))
        speakers = [progress for progress in known if progress is not None]
        return park(built.scorer, built.fingerprint, speakers) if speakers else None

    def resume(self, conversation: Conversation, parked: bytes) -> None:
        """Go on with a conversation where `park` was called.

        Where observer or detector are others by now, it is read again as one that began elsewhere.
        """
        built = self._built
        try:
            found = resume(built.scorer, built.fingerprint, conversation, parked)
        except (ValueError, TypeError, ObserverError) as error:
            raise StateError(f"the state of guardrail {built.name} can't be read: {error}") from error
        if found is None:
            built.initiators.pop(conversation, None)
            built.responders.pop(conversation, None)
            return
        with built.lock:
            for progress in found:
                built.of(progress.trajectory)[conversation] = progress

    def check(self, check: Check) -> Finding:
        """Take a text into its speaker's trajectory and judge it, or tell the session of a reply."""
        if check.side is Side.RESPONSE:
            return self._replied(check)
        if not self._judges_prompts:
            return CLEAN
        progress = self._built.initiators.get(check.conversation)
        if progress is None:
            progress = self._begin(check.conversation, Trajectory.INITIATOR)
        with progress.lock:
            if progress.turns < check.turn.number - 1:
                self._catch_up(progress, check, check.session_id)
            if check.turn.number > progress.turns:
                return self._take(progress, check.turn, check.text, check, check.session_id)
            finding = progress.ahead.pop(check.turn.number, None)
        if finding is None:
            raise GuardError(
                f"turn {check.turn.number}: its prompt was already checked; drift checks a prompt once"
            )
        if isinstance(finding, Exception):
            raise finding
        return finding

    def _replied(self, check: Check) -> Finding:
        """Tell the initiator's session whether a reply refused, and judge the reply where that is asked for."""
        trajectory = of_outputs(self.judge, check.conversation)
        if trajectory is None:
            return self._answered(check)
        built, conversation, number = self._built, check.conversation, check.turn.number
        if self._judges_prompts:
            self._answered(check)
        session_id = responder_session(check.session_id, conversation)
        progress = built.responders.get(conversation)
        if progress is None:
            progress = self._begin(conversation, trajectory)
        with progress.lock:
            if progress.turns < number - 1:
                self._catch_up(progress, check, session_id)
            if built.memory is not None and check.turn.prompt:
                built.memory.answered(check, session_id, check.turn.prompt)
            return self._take(progress, check.turn, check.text, check, session_id)

    def _begin(self, conversation: Conversation, trajectory: Trajectory) -> Progress:
        """Where a speaker stands who was not known; another thread may have added that by now."""
        built = self._built
        name = conversation.conversation_id
        scores, speaker = built.scorer.start(name, trajectory), speaker_of(conversation, trajectory)
        fresh = Progress(short_id(name), trajectory, speaker, scores, built.detector.start())
        with built.lock:
            return built.of(trajectory).setdefault(conversation, fresh)

    def _catch_up(self, progress: Progress, check: Check, session_id: str) -> None:
        """Take in the turns before this one that nobody has taken in: earlier ones, or those of other threads."""
        number, conversation, memory = check.turn.number, check.conversation, self._built.memory
        # The session knows the turns of a conversation that was followed elsewhere; of one that is followed here,
        # those that drift was skipped at are still to be told.
        take = memory is not None and (progress.turns > 0 or memory.stance(check, session_id) is None)
        if not progress.turns and number - 1 > _CATCH_UP:
            progress.turns = number - 1 - _CATCH_UP
        for before in range(progress.turns + 1, number):
            turn = conversation.turn(before)
            if progress.trajectory is not Trajectory.INITIATOR:
                if turn.response is None or turn.own_metadata.get(CHECKING_KEYS[Side.RESPONSE]) is True:
                    continue  # replies that are under check come by themselves
            elif turn.checks is None and turn.response is None:
                # It is under check by another thread at this moment, which will ask for what is found here.
                progress.ahead[before] = self._tried(progress, turn, check)
                if len(progress.ahead) > _WAITING:
                    del progress.ahead[min(progress.ahead)]
                continue
            self._recall(progress, turn, check, session_id, take=take, recent=before >= number - _SCORED)

    def _tried(self, progress: Progress, turn: Turn, check: Check) -> Finding | Exception:
        try:
            return self._take(progress, turn, turn.prompt, check, check.session_id)
        except TurnwiseError as error:
            return error

    def _recall(
        self, progress: Progress, turn: Turn, check: Check, session_id: str, *, take: bool, recent: bool
    ) -> None:
        """Take in a turn of which the check is over, with the scores that were kept where there are any.

        One that can't be scored is a gap: its failure is none of the turn that is under check.
        """
        built = self._built
        scores = _kept(turn, progress.trajectory)
        side = progress.trajectory.side
        text = turn.text(side) or ""
        try:
            refused = turn.blocked(side) and len(text) > _LONGEST_REFUSED
            if scores is None and recent and not (built.scorer.waits or refused):
                scores = dict(self._scored(progress, turn, text).scores)
            else:
                # Nobody waits, or pays a language model, for turns long past, or long and blocked.
                built.scorer.skip(progress.scores, turn)
        except TurnwiseError:
            scores = None
        finally:
            progress.turns = turn.number
        told = TurnScores(turn.number, scores or {}, len(text))
        signal = built.detector.update(progress.detected, told)
        if signal.active:
            progress.detected = built.detector.start()
        if take and built.memory is not None:
            built.memory.take(check, session_id, told, progress.conversation_id, turn.timestamp)

    def _take(self, progress: Progress, turn: Turn, text: str, check: Check, session_id: str) -> Finding:
        built = self._built
        try:  # noqa: SIM105 - this runs at every check, and `suppress` takes three calls
            # The observer reads the latest turns as they stand: replies have come, later guardrails redacted.
            built.scorer.follow(progress.scores)
        except TurnwiseError:
            pass  # they are read as they were taken then, and the turn under check is scored all the same
        try:
            given = built.scorer.score(progress.scores, turn, text)
        except Exception:
            # The turn was said, though it could not be scored.
            progress.turns = max(progress.turns, turn.number)
            raise
        progress.turns = max(progress.turns, turn.number)
        first = given
        if progress.scores.passed is not None:
            given = self._settled(progress, turn, text, given)
        told = TurnScores(turn.number, given.scores, len(text))
        signal = built.detector.update(progress.detected, told)
        if signal.active:
            progress.detected = built.detector.start()
        stance = None
        if built.memory is not None:
            stance = built.memory.take(check, session_id, told, progress.conversation_id, turn.timestamp)
        finding = self._finding(progress, told, signal, stance)
        if first is not given and not finding.in_full:
            finding = _carried_over(finding, first, given)
        if given.unread is not None:
            finding = not_read(given.unread, self.unread, finding)
        return given.settle(finding) if given.failures else finding

    def _scored(self, progress: Progress, turn: Turn, text: str) -> SideScores:
        """The scores of an earlier turn, read after those before it as they stand."""
        scorer, scores = self._built.scorer, progress.scores
        scorer.follow(scores)
        given = scorer.score(scores, turn)
        return given if scores.passed is None else self._settled(progress, turn, text, given)

    def _settled(self, progress: Progress, turn: Turn, text: str, given: SideScores) -> SideScores:
        """Scores that don't rest on blocked texts alone; the same object where nothing changed."""
        doubtful = self._built.doubtful
        if all(doubtful > score.F for score in given.scores.values()):
            return given
        settled = self._built.scorer.without_blocked(progress.scores, turn, text, given)
        return given if settled.scores == given.scores else settled

    def _finding(self, progress: Progress, told: TurnScores, signal: Signal, stance: Stance | None) -> Finding:
        """What the trajectory up to a turn and the stance towards the session say of the turn."""
        built = self._built
        components, confidence = array("d"), 0.0
        for score in told.scores.values():
            components.extend((score.T, score.I, score.F))
            confidence = max(confidence, score.F)
        data = DriftData(
            detector=built.detector_name,
            score=signal.score,
            threshold=built.detector.threshold,
            warn=built.warn,
            active=signal.active,
            turn=told.turn,
            trajectory=progress.trajectory,
            speaker=progress.speaker,
            principles=_shared(tuple(told.scores)),
            components=components,
        )
        whose = _WHOSE[progress.trajectory]
        if signal.active:
            return Finding(True, whose + signal.reason, confidence, data=data, stance=stance)
        reason, action = "", None
        memory = built.memory
        if memory is not None and stance is not None and (not stance.processing or stance.mode in memory.by_mode):
            reason, action = memory.asks(stance)
            reason = reason and whose + reason
        if action is Action.BLOCK:
            return Finding(True, reason, confidence, data=data, stance=stance)
        if signal.evidence and built.warn is not None and signal.score >= built.warn:
            reason, action = f"{whose}{signal.reason} (warned from {built.warn:.3f})", Action.WARN
        return Finding(action is not None, reason, confidence, action=action, data=data, stance=stance)

    def _answered(self, check: Check) -> Finding:
        memory = self._built.memory
        stance = None if memory is None else memory.answered(check, check.session_id, check.text)
        return CLEAN if stance is None else Finding(found=False, stance=stance)


def _carried_over(finding: Finding, first: SideScores, settled: SideScores) -> Finding:
    """The finding with the warning that a text looks bad only together with texts that were blocked."""
    name, score = max(first.scores.items(), key=lambda item: item[1].F)
    left = settled.scores[name].F
    reason = f"{name} F {score.F:.3f} rests on a blocked text before it, {left:.3f} without"
    told = f"{reason}; {finding.reason}" if finding.found else reason
    return replace(finding, found=True, reason=told, action=finding.action or Action.WARN)


def _kept(turn: Turn, trajectory: Trajectory) -> dict[str, Score] | None:
    """The scores that an earlier check kept with a turn; None where there are none that can be read."""
    try:
        return kept_scores(turn, str(trajectory))
    except GuardMetadataError:
        return None


def _fingerprint(scorer: Scorer, detector: str) -> str:
    """What tells parked states of an observer and a detector from those of others."""
    named = (scorer.spec, scorer.info.version, scorer.context, scorer.principles, detector)
    return digest_of(repr(named))[:8]


@cache
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for equal ones, so that a long conversation keeps it once."""
    return names
