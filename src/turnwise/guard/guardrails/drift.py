"""``drift``: the guardrail that sees where a conversation is heading."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Literal

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Conversation, ParticipantType, Side
from turnwise.detectors import Detector, format_spec, name_detector
from turnwise.errors import GuardError, ObserverError, StateError
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, IfUnread, On, TextKind
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.guardrails.drift_judging import (
    DriftSessions,
    TurnJudge,
    actions_by_mode,
    person_of,
    responder_session,
)
from turnwise.guard.guardrails.drift_second_look import SecondLook, Unanswered, When
from turnwise.guard.guardrails.drift_speaker import Speakers, TrajectoryOf
from turnwise.guard.results import Detail
from turnwise.guard.scorer import Scorer
from turnwise.guard.turn_checks import DriftData, readable_checks
from turnwise.observers import DEFAULT_OBSERVER
from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions import MemoryStateStore, SessionMemory, Sessions, SessionSettings, StateStore, preset
from turnwise.sessions.evidence import BLOCKED
from turnwise.sessions.reply_outcome import GAVE_WAY_FROM

Judge = Literal["auto", "initiator", "responder", "both", "replies"]  # whose texts are judged

GaveWay = Literal["ignore", "warn", "block"]
"""What becomes of a conversation in which the model gave way: nothing, a warning, or that it is held."""

_KEY = "gave_way"  # in the data of a check: the turn at which the model gave way, from there on

_MACHINES = (ParticipantType.BOT, ParticipantType.AGENT)


@dataclass(frozen=True)
class Drift(Guardrail):
    """Blocks a turn where the conversation so far adds up to manipulation; the single turn need not show it.

    Every prompt is scored by an observer that sees the turns before it, and a detector or pattern decides on the
    trajectory, at the same cost at every turn. It judges the present: a turn that was blocked does not block later
    ones by itself, and the detector starts afresh after each. What lasts is the session memory: trust, circuit
    breaker and stance, which goes with every result. A response tells the memory whether it refused, and is read
    by the observer before the next prompt, as it then stands; one that was blocked is not.

    A blocked prompt reached nobody. The observer keeps it in view for 8 turns, so that a further try is seen for
    what it is; but a turn that looks bad is then read again without it, and by itself. What rests on the blocked
    prompt is only warned of: its F falls below 0.8 of itself without that prompt, and below half alone (where
    ``third_party_harm`` is under 0.2 alone, just the latter). So somebody who changes the subject is served.

    Either side may lead the other where two people talk, or bots and agents among themselves. There the
    responder's texts are a trajectory of their own, in which they are the prompts and the initiator's texts the
    replies, with a detector state and a session of their own; see `judge`.

    A conversation with earlier turns that is seen for the first time, such as one loaded from a file, is read
    first: its last 200 turns, with scores that were kept where there are any; of those without the last 10 are
    scored, but never by a language model, so that the first check takes no time that a user would notice. Prompts
    of up to 4,000 characters that another guardrail blocked are scored later, longer ones have no score.

    Args:
        observer: what scores turns, such as ``local`` or ``llm:openai/gpt-4.1-mini``.
        context: what it may see of the conversation: ``history``, ``window:k`` or ``turn``.
        principles: what turns are judged against; all that ship by default.
        detector: a detector's specification, such as ``cusum:drift=0.5``, a pattern as
            ``pattern:slope(reciprocity.F) > 0.1``, or a YAML file as ``turnwise study tune`` writes it.
        patterns: YAML file of your own named patterns, which the detector may use; null for none.
        block_at: score of the detector at which a turn is blocked. ``calibrated`` is the observer's operating
            point, where it publishes one (0.5 for ``local`` with ``any_turn``), and else the threshold that the
            specification has. With ``any_turn`` it is the F, in (0, 1], from which the session memory takes a turn
            for a breach, too; with 1 none is.
        warn_share: share of the blocking score from which a turn is warned of, in (0, 1]; null for no warning.
        session: preset of the session memory, or null for none; see ``turnwise list session-presets``.
        sustained: sum of F, less what an ordinary turn may have (see docs/session-memory.md), from which a session
            is guarded; from twice that its circuit breaker opens. Above 0, at most 100.
        person_half_life: days after which what a named initiator did in other conversations weighs half, above 0;
            null for no memory over conversations.
        block_stance: engagement mode from which a turn is blocked: ``terminated``, ``guarded`` or ``never``.
        warn_stance: engagement mode from which a turn is warned of.
        breaker: what becomes of a turn while the session's circuit breaker is open, until trust is earned back:
            ``block``, ``warn`` or ``ignore``. It blocks once two of the session's last ten turns broke trust;
            after a single one, which may be wrong, it warns.
        judge: whose texts are judged: those of the ``initiator``, of the ``responder``, of ``both``; or
            ``replies``, which asks of the responder's texts whether they, as replies, carry harm on. ``auto`` is
            both where two people talk, or bots and agents among themselves, and else the initiator.
        gave_way: with ``judge: replies``, what becomes of a conversation in which the model gave way, which is a
            reply with F of 0.5 or more: ``ignore``, ``warn`` of that reply, or ``block``: that reply and every
            later prompt and reply of the conversation are blocked.
        unread: what becomes of a text in a language that the observer does not read: ``allow``, ``block`` or
            ``warn``. It has no score and changes neither trajectory nor trust; later texts are read after it.
        second_look: a judge, such as ``llm:openai/gpt-4.1-mini``, that is asked about texts that the observer
            points at; its scores count there. null for none. See docs/second-look.md.
        ask: pattern over the observer's scores at whose texts the judge is asked; null for the observer's own
            asking threshold.
        second_look_wait: seconds that the judge's answer may take.
        unanswered: what becomes of a text that the judge was to be asked about and gave no score of in time:
            the observer's score counts (``screen``), the guardrail fails (``hold``; `on_error` says what then), or
            the text is blocked (``block``).
        second_looks: texts of a speaker in a conversation that the judge is asked about; null for no limit.
        second_looks_a_minute: texts of all conversations that the judge is asked about within a minute; null for
            no limit.
        second_look_when: ``inline``: the check waits for the judge. ``afterwards``: the check ends with the
            observer's scores, and the judge's, once they are there, correct trajectory and session before the next
            text; the audit and ``on_correction`` of the pipeline are told.

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
    sustained: float = 2.0
    person_half_life: float | None = 14.0
    block_stance: Literal["guarded", "terminated", "never"] = "terminated"
    warn_stance: Literal["cautious", "guarded", "terminated", "never"] = "guarded"
    breaker: Literal["block", "warn", "ignore"] = "warn"
    judge: Judge = "auto"
    gave_way: GaveWay = "ignore"
    unread: IfUnread = "allow"
    second_look: str | None = None
    ask: str | None = None
    second_look_wait: float = 10.0
    unanswered: Unanswered = "screen"
    second_looks: int | None = None
    second_looks_a_minute: int | None = None
    second_look_when: When = "inline"
    _judges_prompts: bool = field(init=False, repr=False, compare=False)
    _judge: TurnJudge = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scorer = Scorer(self.observer, self.context, self.principles)
        points = scorer.operating_points if isinstance(self.block_at, str) else None
        named = name_detector(self.detector, points, self.patterns)
        detector, spec = self._blocking_from(named.detector), format_spec(named.plain)
        warn, memory = self._warns_from(detector.threshold), self._memory(scorer, detector)
        speakers = Speakers(scorer, detector, spec)
        second_look = None
        if self.second_look is not None:
            settings = self.ask, self.second_look_wait, self.unanswered, self.second_looks
            pace = self.second_looks_a_minute
            second_look = SecondLook.of(scorer, self.second_look, *settings, pace, self.second_look_when)
        judge = TurnJudge(scorer, speakers, detector, spec, warn, memory, self.unread, second_look)
        object.__setattr__(self, "_judge", judge)
        object.__setattr__(self, "_judges_prompts", self.judge not in ("responder", "replies"))
        if self.gave_way != "ignore" and self.judge != "replies":
            raise GuardError(f"gave_way is {self.gave_way}, and judge {self.judge}: it needs judge: replies")
        if not self._judges_prompts and self.gave_way != "block":
            object.__setattr__(self, "default_on", On.OUTPUT)

    def _blocking_from(self, detector: Detector) -> Detector:
        if isinstance(self.block_at, str):
            return detector
        detector = detector.with_threshold(self.block_at)
        if detector.name == "any_turn" and not 0.0 < self.block_at <= 1.0:
            raise GuardError(
                f"block_at is {self.block_at:g}; any_turn compares it with F: use a number above 0, at most 1 "
                "(action: log reports and never blocks)"
            )
        if detector.threshold == math.inf:
            raise GuardError(f"block_at is {self.block_at:g}, which no score reaches: use a lower number")
        return detector

    def _warns_from(self, threshold: float) -> float | None:
        if self.warn_share is None:
            return None
        if not 0.0 < self.warn_share <= 1.0:
            raise GuardError(f"warn_share is {self.warn_share}; use a share above 0, at most 1")
        if not 0.0 < threshold < math.inf:
            raise GuardError(f"warn_share is a share of the blocking score, which is {threshold:g}: leave it out")
        return self.warn_share * threshold

    def _memory(self, scorer: Scorer, detector: Detector) -> DriftSessions | None:
        if self.session is None:
            return None
        point = scorer.operating_points.get("any_turn")
        if not isinstance(self.block_at, str) and detector.name == "any_turn":
            point = self.block_at  # what blocks a turn is what breaks trust
        point = point if point is not None and 0.0 < point <= 1.0 else None
        return DriftSessions(
            Sessions(MemoryStateStore(), utc_now, SessionMemory(self._rules(self.session), point or HOSTILE_F)),
            point,
            actions_by_mode(self.block_stance, self.warn_stance),
            self.breaker,
            persons=self.person_half_life is not None,
        )

    def _rules(self, name: str) -> SessionSettings:
        """The rules of the session memory by the name of a preset, with what is set here."""
        rules, days = preset(name), self.person_half_life
        if days is not None and not 0.0 < days <= 36_500.0:
            raise GuardError(f"person_half_life is {days}; use days above 0, at most 36500, or null")
        if rules.evidence is None:
            return rules
        half_life = rules.evidence.half_life if days is None else timedelta(days=days)
        return replace(rules, evidence=replace(rules.evidence, limit=self.sustained, half_life=half_life))

    @property
    def waits(self) -> bool:
        second_look = self._judge.second_look
        asked = second_look is not None and second_look.when == "inline" and second_look.judge.waits
        return self._judge.scorer.waits or asked

    @property
    def remembers(self) -> bool:
        """Always, since every text joins the trajectory."""
        return True

    def take_over(self, before: Guardrail) -> None:
        """Go on with the sessions of another one, and where nothing else is set with its conversations as well."""
        if not isinstance(before, Drift):
            return
        own, given = self._judge.memory, before._judge.memory
        if own is None or given is None:
            return
        # A file may say something else than it did then.
        if before == self and self.patterns is None and not self.detector.endswith((".yaml", ".yml")):
            object.__setattr__(self, "_judge", before._judge)
        else:
            self._set(memory=replace(own, sessions=given.sessions.ruled_by(own.sessions.memory)))
            looks, known = self._judge.second_look, before._judge.second_look
            if looks is not None and known is not None:
                self._set(second_look=replace(looks, answers=known.answers))

    def close(self) -> None:
        """Take second looks that are under way for unanswered."""
        if self._judge.second_look is not None:
            self._judge.second_look.answers.close()

    def placed(self, name: str, clock: Clock) -> Drift:
        """The guardrail under the name and by the clock of a pipeline; sessions and conversations stay."""
        if name == self._judge.name and clock is utc_now:
            return self
        memory = self._judge.memory
        if memory is not None:
            memory = replace(memory, sessions=memory.sessions.over(clock=clock), name=name)
        other = copy.copy(self)
        other._set(memory=memory, name=name)
        return other

    def _set(self, **changed: Any) -> None:
        object.__setattr__(self, "_judge", replace(self._judge, **changed))

    def sessions(self, store: StateStore | None = None) -> Sessions | None:
        """The session memory; in a state store a session has the digest of its name (`digest_of`) for an id."""
        memory = self._judge.memory
        return None if memory is None else memory.sessions if store is None else memory.over(store)

    def park(self, conversation: Conversation) -> bytes | None:
        """At most 4 kB with ``any_turn`` a speaker, twice that after a block, 3 kB more while a judge is asked."""
        return self._judge.speakers.park(conversation)

    def resume(self, conversation: Conversation, parked: bytes) -> None:
        """Go on with a conversation; where observer or detector are others by now, it is read again."""
        try:
            self._judge.speakers.resume(conversation, parked)
        except (ValueError, TypeError, LookupError, AttributeError, ObserverError) as error:
            raise StateError(
                f"the state of guardrail {self._judge.name} is broken ({error}); forget the conversation"
            ) from error

    def note(self, check: Check, said: Mapping[str, Detail]) -> None:
        """Let a prompt that another guardrail blocked speak against whoever wrote it."""
        if check.against and self._judge.memory is not None and check.kind is TextKind.INPUT:
            person = person_of(check.turn, TrajectoryOf.INITIATOR, check.person)
            check.stance = self._judge.memory.note(check, check.session_id, BLOCKED, person)

    def check(self, check: Check) -> Finding:
        """Take a text into its speaker's trajectory and judge it, or tell the session of a reply."""
        if check.side is Side.RESPONSE:
            return self._replied(check)
        if not self._judges_prompts:
            since = self._held_since(check)
            return CLEAN if since is None else held(since)
        judge, turn = self._judge, check.turn
        speaker = judge.speakers.of(check.conversation, TrajectoryOf.INITIATOR)
        with speaker.lock:
            judge.catch_up(speaker, check, check.session_id)
            if turn.number > speaker.turns:
                return judge.take(speaker, turn, check.text, check, check.session_id)
            finding = speaker.ahead.pop(turn.number, None)
        if finding is None:
            raise GuardError(f"turn {turn.number}: its prompt was already checked; drift checks a prompt once")
        if isinstance(finding, Exception):
            raise finding
        return finding

    def _replied(self, check: Check) -> Finding:
        """Tell the initiator's session whether a reply refused, and judge the reply where that is asked for."""
        judge, conversation, turn = self._judge, check.conversation, check.turn
        trajectory = trajectory_of_replies(self.judge, conversation)
        answered = CLEAN
        if self._judges_prompts or trajectory is None:
            answered = judge.answered(check, check.session_id, check.text)
        if trajectory is None:
            return answered
        session_id = responder_session(check.session_id, conversation)
        speaker = judge.speakers.of(conversation, trajectory)
        with speaker.lock:
            judge.catch_up(speaker, check, session_id)
            if turn.prompt:
                judge.answered(check, session_id, turn.prompt)
            finding = judge.take(speaker, turn, check.text, check, session_id)
        return finding if self.gave_way == "ignore" else of_reply(finding, self._held_since(check), self.gave_way)

    def _held_since(self, check: Check) -> int | None:
        return held_since(check, self._judge.name) if self.gave_way == "block" else None


def trajectory_of_replies(judge: Judge, conversation: Conversation) -> TrajectoryOf | None:
    """The trajectory that a text of the responder is part of; None where nobody asked for one."""
    if judge == "replies":
        return TrajectoryOf.REPLIES
    if judge in ("responder", "both") or (judge == "auto" and are_peers(conversation)):
        return TrajectoryOf.RESPONDER
    return None


def are_peers(conversation: Conversation) -> bool:
    """Whether either side may lead the other: two people, or bots and agents among themselves.

    >>> are_peers(Conversation.bot_to_bot("a", "b")), are_peers(Conversation.human_ai("ann", "model"))
    (True, False)
    """
    first, second = conversation.initiator_type, conversation.responder_type
    return first is second is ParticipantType.HUMAN or (first in _MACHINES and second in _MACHINES)


# The model has given way: what becomes of a reply that breaks a principle, and of the texts after it


def held_since(check: Check, name: str) -> int | None:
    """The turn at which the model gave way, from the latest check that repeats it; None where it did not."""
    for number in range(check.turn.number - 1, 0, -1):
        checks = readable_checks(check.conversation.turn(number).checks, number)
        for text in () if checks is None else (checks.output, checks.input):
            detail = None if text is None else text.details.get(name)
            data = None if detail is None else detail.data
            if data is not None:
                known = data.get(_KEY)
                return known if isinstance(known, int) else None
    return None


def held(since: int) -> Finding:
    """What is found of a prompt to a model that gave way at an earlier turn."""
    return Finding(True, _held_words(since), 1.0, data={_KEY: since})


def of_reply(finding: Finding, since: int | None, what: GaveWay) -> Finding:
    """What is found of a reply: that the model gives way in it, or that it did at the turn `since`."""
    data = finding.data
    if since is not None:
        told = replace(data, gave_way=since) if isinstance(data, DriftData) else {_KEY: since}
        return replace(finding, found=True, reason=_held_words(since), action=None, data=told)
    if not isinstance(data, DriftData):
        return finding
    name, worst = max(
        ((name, one["F"]) for name, one in data.scores.items()), key=lambda one: one[1], default=("", 0.0)
    )
    if worst < GAVE_WAY_FROM:
        return finding
    reason = f"the model gave way at turn {data.turn}: {name} F {worst:.3f} of its reply"
    blocked = what == "block" or finding.in_full
    return replace(
        finding,
        found=True,
        reason=f"{reason}; {finding.reason}" if finding.found else reason,
        action=None if blocked else finding.action or Action.WARN,
        data=replace(data, gave_way=data.turn) if what == "block" else data,
    )


def _held_words(since: int) -> str:
    return f"the conversation is held: the model gave way at turn {since}"
