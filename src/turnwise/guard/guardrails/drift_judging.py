"""Drift over turns: each turn's scores go to detectors and into sessions, whose stance says what to do."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from typing import Any, Literal

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.turn import CHECKING_KEYS, GUARD_KEY
from turnwise.detectors import Detector, Signal
from turnwise.errors import TurnwiseError
from turnwise.guard.finding import CLEAN, Action, Finding, IfUnread, not_read
from turnwise.guard.guardrail import Check
from turnwise.guard.guardrails.drift_second_look import AFTERWARDS, LATER, JudgeAnswer, JudgedLook, SecondLook
from turnwise.guard.guardrails.drift_speaker import LATE, Speaker, Speakers, TrajectoryOf, advanced
from turnwise.guard.names import UNNAMED, canonical_name, digest_of, short_id
from turnwise.guard.results import Correction, Detail, GuardrailStatus
from turnwise.guard.scorer import Scorer, SideScores
from turnwise.guard.state.stores import Prefixed, key_of
from turnwise.guard.turn_checks import DriftData, drift_in, kept_scores, readable_checks
from turnwise.guard.written_values import INITIATOR, GuardMetadataError
from turnwise.scoring import Score, TurnScores
from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions import EngagementMode, Sessions, Stance
from turnwise.sessions.state_store import ChangesStates

_RESPONDER_MARK = "/responder"  # follows a session id in the id of the responder's session

_ALARMS = 2
"""Turns of a session's last 10 that broke trust, from which an open circuit breaker blocks: one may be wrong."""

_REPEATED = 2  # incidents that still count from which one such turn is enough


@dataclass(frozen=True, slots=True)
class DriftSessions:
    """The sessions that turns are taken into (in a state store by the digest of a name), and what they ask for."""

    sessions: Sessions
    point: float | None  # the F that breaks trust, in (0, 1]; None leaves scores as they are
    by_mode: Mapping[EngagementMode, Action]
    breaker: Literal["block", "warn", "ignore"]
    name: str = "drift"
    persons: bool = True  # what speaks against a person counts in other sessions of that person

    def over(self, states: ChangesStates) -> Sessions:
        return self.sessions.over(Prefixed(states, key_of(self.name, "")))

    def stance(self, check: Check, session_id: str) -> Stance | None:
        sessions, kept_id = self._of(check.state, session_id)
        return sessions.stance(kept_id)

    def take(
        self,
        check: Check,
        session_id: str,
        told: TurnScores,
        conversation_id: str,
        now: datetime | None,
        key: str = "",
        person: str = "",
    ) -> Stance:
        """Take a turn into its session; `now` is None for the present, `key` names a turn to be corrected."""
        sessions, kept_id = self._of(check.state, session_id)
        who, scaled = self._kept(check.state, person), self._scaled(told)
        return sessions.take(kept_id, scaled, conversation_id=conversation_id, now=now, key=key, person=who)

    def note(self, check: Check, session_id: str, weight: float, person: str) -> Stance:
        """Take an event that is no evaluated turn into its session, and return the stance after it."""
        sessions, kept_id = self._of(check.state, session_id)
        return sessions.note(kept_id, weight, person=self._kept(check.state, person))

    def correct(
        self,
        states: ChangesStates | None,
        session_id: str,
        key: str,
        told: TurnScores,
        answer: JudgeAnswer,
        person: str,
    ) -> Stance | None:
        """Give a turn of a session the judge's scores; None where they can't be given any more."""
        sessions, kept_id = self._of(states, session_id)
        who, scaled = self._kept(states, person), self._scaled(told)
        return sessions.correct(kept_id, key, scaled, answer.to_dict(), person=who)

    def answer(self, states: ChangesStates | None, session_id: str, key: str) -> JudgeAnswer | None:
        """What a judge that was asked by another process said of a turn; None where nothing is known."""
        sessions, kept_id = self._of(states, session_id)
        state = sessions.state(kept_id)
        turn = None if state is None or state.open is None else state.open.find(key)
        return None if turn is None or turn.answer is None else JudgeAnswer.from_dict(turn.answer)

    def settle(self, states: ChangesStates | None, session_id: str, key: str) -> None:
        sessions, kept_id = self._of(states, session_id)
        sessions.settle(kept_id, key)

    def _scaled(self, told: TurnScores) -> TurnScores:
        if self.point is None:
            return told
        return TurnScores(told.turn, scaled_scores(told.scores, self.point), told.length)

    def answered(self, check: Check, session_id: str, text: str) -> Stance | None:
        """Tell a session of the reply to its latest turn; return the stance, None for a session not known."""
        sessions, kept_id = self._of(check.state, session_id)
        return None if sessions.stance(kept_id) is None else sessions.answered(kept_id, text)

    def asks(self, stance: Stance) -> tuple[str, Action | None]:
        """Why a stance asks for something, and for what; None for nothing."""
        action = self.by_mode.get(stance.mode)
        if action is not Action.BLOCK and not stance.processing and self.breaker != "ignore":
            needed = 1 if stance.strikes >= _REPEATED else _ALARMS
            opened = Action(self.breaker) if stance.alarms >= needed else Action.WARN
            return f"circuit breaker open: {stance.rationale}", opened
        return ("", None) if action is None else (f"session {stance.mode}: {stance.rationale}", action)

    def _of(self, states: ChangesStates | None, session_id: str) -> tuple[Sessions, str]:
        if states is None:
            return self.sessions, session_id
        return self.over(states), digest_of(session_id)

    def _kept(self, states: ChangesStates | None, person: str) -> str:
        if not person or not self.persons:
            return ""
        return short_id(person) if states is None else digest_of(short_id(person))


def sessions_of(session_id: str) -> tuple[str, str]:
    """A session and that of the responder beside it, which are forgotten together.

    >>> sessions_of("c1")
    ('c1', 'c1/responder')
    """
    return session_id, short_id(f"{session_id}{_RESPONDER_MARK}")


def person_of(turn: Turn, trajectory: TrajectoryOf, unnamed: str) -> str:
    """Who says the judged texts of a turn; `unnamed` stands for names that show nothing, empty for nobody."""
    if trajectory is not TrajectoryOf.INITIATOR:
        return ""
    person = canonical_name(turn.speaker)
    return canonical_name(unnamed) if person in UNNAMED else person


def responder_session(session_id: str, conversation: Conversation) -> str:
    """The id of the responder's session, which is never the initiator's.

    One that is the named initiator's own has its like in the named responder's; any other has one beside it.

    >>> responder_session("ann", Conversation.human_to_human("ann", "ben"))
    'ben'
    >>> responder_session("c1", Conversation.human_to_human("ann", "ben", conversation_id="c1"))
    'c1/responder'
    """
    initiator, responder = (canonical_name(one) for one in (conversation.initiator, conversation.responder))
    if initiator not in UNNAMED and session_id == short_id(initiator):
        if responder in UNNAMED:
            # Nobody's name is not one person's: the session ends with the conversation.
            return sessions_of(conversation.conversation_id)[1]
        if responder != initiator:
            return short_id(responder)
    return sessions_of(session_id)[1]


def actions_by_mode(block_from: str, warn_from: str) -> dict[EngagementMode, Action]:
    """The action by engagement mode, from the two given modes on; ``never`` stands for none."""
    actions: dict[EngagementMode, Action] = {}
    for first, action in ((warn_from, Action.WARN), (block_from, Action.BLOCK)):
        if first != "never":
            modes = tuple(EngagementMode)
            actions |= dict.fromkeys(modes[modes.index(EngagementMode(first)) :], action)
    return actions


def scaled_scores(scores: Mapping[str, Score], point: float) -> dict[str, Score]:
    """Scores on the scale of the session memory, whose rules take F from 0.65 for a breach; `point` in (0, 1]."""
    scaled = {}
    for name, score in scores.items():
        if point > score.F or point == 1.0:
            F = score.F * HOSTILE_F / point
        else:
            # Just above the limit, which itself is no breach yet.
            F = min(1.0, HOSTILE_F + 1e-6 + (score.F - point) / (1.0 - point) * (1.0 - HOSTILE_F))
        scaled[name] = Score(score.T, score.I, F)
    return scaled


_CATCH_UP, _SCORED = 200, 10
"""Earlier turns that are read when a conversation is seen for the first time, and the latest that are scored then;
they bound the time that takes."""

_DOUBTFUL = 0.5
"""F from which a text is read again where earlier ones were blocked, unless the detector fires below."""

_LONGEST_REFUSED = 4_000
"""Characters of a prompt that another guardrail blocked up to which it is scored before the next one."""

_WAITING = 1_000  # findings that wait for the check of their turn at most

_WHOSE = {
    TrajectoryOf.INITIATOR: "",
    TrajectoryOf.RESPONDER: "the responder's texts: ",
    TrajectoryOf.REPLIES: "the replies: ",
}
"""Begins a reason that is not about the initiator."""


@dataclass(frozen=True, slots=True)
class TurnJudge:
    """What decides on turns; all methods are called with the lock of the speaker held."""

    scorer: Scorer
    speakers: Speakers
    detector: Detector
    detector_name: str
    warn: float | None  # the detector's score from which a turn is warned of
    memory: DriftSessions | None
    unread: IfUnread
    second_look: SecondLook | None = None
    name: str = "drift"

    def take(self, speaker: Speaker, turn: Turn, text: str, check: Check, session_id: str) -> Finding:
        # The observer reads the latest turns as they stand: replies have come, later guardrails redacted. Where
        # that fails they are read as they were taken then, and the turn under check is scored all the same.
        with suppress(TurnwiseError):
            speaker.follow()
        late = self._taken_late(speaker, check, session_id)
        try:
            first = speaker.score(turn, text)
        finally:
            speaker.said(turn.number)  # even if it can't be scored
        given = self._settled(speaker, turn, text, first)
        told = TurnScores(turn.number, given.scores, len(text))
        look, key = None, ""
        if self.second_look is not None:
            look = self.second_look.wanted(speaker, told, given)
        if self.second_look is not None and look is not None:
            if self.second_look.when == "inline":
                earlier, heard = self._as_judged(speaker, check.conversation, turn, text)
                side = speaker.trajectory.read_as
                judged, look = self.second_look.look(look, given, earlier, heard, side)
                if judged is not given:
                    first = given = judged
                    told = TurnScores(turn.number, given.scores, len(text))
            elif not look.trouble:
                look, key = replace(look, path=LATER), self._key(speaker, check.conversation, turn.number)
                speaker.wait_for(turn.number, turn.number)
                self._ask_later(speaker, check, session_id, turn.number, told, look)
        signal = speaker.detect(told)
        stance = None
        if self.memory is not None:
            person, chat = person_of(turn, speaker.trajectory, check.person), speaker.conversation_id
            stance = self.memory.take(check, session_id, told, chat, turn.timestamp, key, person)
        finding = self._finding(speaker, told, signal, stance)
        if first is not given and not finding.in_full:
            finding = _carried_over(finding, first, given)
        if given.unread is not None:
            finding = not_read(given.unread, self.unread, finding)
        if look is not None:
            finding = _with_look(finding, look)
        for one in late:
            finding = _with_late(finding, one)
        return given.settle(finding) if given.failures else finding

    def _as_judged(
        self, speaker: Speaker, conversation: Conversation, turn: Turn, text: str
    ) -> tuple[list[Turn], Turn]:
        """The turns before one as a judge hears them, and the turn as it is judged."""
        before = map(conversation.turn, range(max(1, turn.number - _CATCH_UP), turn.number))
        earlier = [heard for one in before for heard in speaker.as_heard(one)]
        *said, judged = speaker.under_check(turn, text)
        return [*earlier, *said], judged

    @staticmethod
    def _key(speaker: Speaker, conversation: Conversation, number: int) -> str:
        """Names a turn of a speaker among all that a session or a process knows."""
        return digest_of(f"{conversation.conversation_id}/{speaker.trajectory}/{number}")[:16]

    def _ask_later(
        self, speaker: Speaker, check: Check, session_id: str, number: int, told: TurnScores, look: JudgedLook
    ) -> None:
        """Have the judge asked once the check has ended; what it says corrects session and audit when it comes."""
        looks, chat, key = self.second_look, check.conversation, self._key(speaker, check.conversation, number)
        if looks is None:
            return
        turn, before = chat.turn(number), speaker.detected_before(number)
        text = check.text if number == check.turn.number else turn.text(speaker.trajectory.side) or ""
        earlier, judged = self._as_judged(speaker, chat, turn, text)
        states = None if check.state is None else check.state.store
        trajectory, name = speaker.trajectory, speaker.name
        person = person_of(turn, trajectory, check.person)

        def arrived(tell: Callable[[Correction], None], answer: JudgeAnswer, seconds: float) -> None:
            after = TurnScores(number, {**told.scores, **answer.scores}, told.length)
            _, signal = advanced(self.detector, before, after)
            said = replace(look, path=LATER if answer.trouble else AFTERWARDS, trouble=answer.trouble)
            stance = None
            if self.memory is not None and not answer.trouble:
                stance = self.memory.correct(states, session_id, key, after, answer, person)
            data = replace(self._data(trajectory, name, after, signal), second_look=said.to_dict())
            reason = f"{_WHOSE[trajectory]}{signal.reason}; {said}" if signal.active else str(said)
            detail = Detail(
                GuardrailStatus.FAILED if answer.trouble else GuardrailStatus.EVALUATED,
                blocked=signal.active and not answer.trouble,
                found=signal.active,
                confidence=max((score.F for score in after.scores.values()), default=0.0),
                reason=reason,
                seconds=seconds,
                data=data,
            )
            tell(
                Correction(
                    chat.conversation_id, number, session_id, self.name, check.kind, detail, stance, seconds
                )
            )

        def begin(tell: Callable[[Correction], None]) -> None:
            call = partial(looks.judge.score_after, earlier, judged, trajectory.read_as)
            looks.answers.ask(chat, key, call, partial(arrived, tell))

        check.afterwards.append(begin)

    def _taken_late(self, speaker: Speaker, check: Check, session_id: str) -> list[Late]:
        """Take in what the judge said of earlier turns since, and ask again where nobody has an answer."""
        looks, chat, memory = self.second_look, check.conversation, self.memory
        if looks is None:
            return []
        answers: dict[int, JudgeAnswer] = {}
        overdue = speaker.overdue
        for number, asked in speaker.open.items():
            key, told = self._key(speaker, chat, number), speaker.told_of(number)
            known = None if memory is None else memory.answer(check.state, session_id, key)
            answer = looks.answers.take(chat, key) or known
            if answer is None and number in overdue:
                answer = JudgeAnswer(trouble=f"no answer for {LATE} turns")
            if answer is None:
                if not looks.answers.asked(chat, key) and self._waited(chat, asked, check.turn):
                    if looks.refused(speaker):
                        continue
                    speaker.wait_for(number, check.turn.number)
                    why = f"asked at turn {asked} by a process that has no answer"
                    self._ask_later(
                        speaker, check, session_id, number, told, JudgedLook(looks.judge.spec, why, LATER)
                    )
                continue
            looks.answers.drop(chat, key)
            answers[number] = answer
            if memory is not None:
                if known is None and not answer.trouble:  # the session could not be corrected when it came
                    person = person_of(chat.turn(number), speaker.trajectory, check.person)
                    after = TurnScores(number, {**told.scores, **answer.scores}, told.length)
                    memory.correct(check.state, session_id, key, after, answer, person)
                memory.settle(check.state, session_id, key)
        if not answers:
            return []
        fires = speaker.correct({number: answer.scores for number, answer in answers.items()})
        late = [Late(number, answers[number], fired) for number, fired in fires.items()]
        for one in late:
            kept = partial(_with_answer, one, self.name, speaker.trajectory)
            chat.history.annotate(one.number, GUARD_KEY, kept)
            if check.state is not None:
                check.state.turns.add(one.number)
        return [one for one in late if not one.answer.trouble]

    def _waited(self, conversation: Conversation, asked: int, turn: Turn) -> bool:
        """Whether a question of a turn had its time by now, wherever it was asked."""
        then, looks = conversation.turn(asked).timestamp, self.second_look
        if then is None or turn.timestamp is None or looks is None:
            return True
        return (turn.timestamp - then).total_seconds() > looks.wait

    def answered(self, check: Check, session_id: str, text: str) -> Finding:
        """Tell a session of the reply to its latest turn."""
        stance = None if self.memory is None else self.memory.answered(check, session_id, text)
        return CLEAN if stance is None else Finding(found=False, stance=stance)

    def catch_up(self, speaker: Speaker, check: Check, session_id: str) -> None:
        """Take in the turns before this one that nobody has taken in: earlier ones, or those of other threads."""
        number, conversation = check.turn.number, check.conversation
        if speaker.turns >= number - 1:
            return
        # The session knows the turns of a conversation that was followed elsewhere; of one that is followed here,
        # those that drift was skipped at are still to be told.
        memory = self.memory
        if memory is not None and not speaker.turns:
            stance = memory.stance(check, session_id)
            # One that only heard of blocked prompts has no turns yet.
            memory = memory if stance is None or not stance.interactions else None
        if not speaker.turns:
            speaker.said(max(0, number - 1 - _CATCH_UP))
        for before in range(speaker.turns + 1, number):
            turn = conversation.turn(before)
            if speaker.trajectory is not TrajectoryOf.INITIATOR:
                if turn.response is None or turn.own_metadata.get(CHECKING_KEYS[Side.RESPONSE]) is True:
                    continue  # replies that are under check come by themselves
            elif turn.checks is None and turn.response is None:
                # It is under check by another thread at this moment, which will ask for what is found here.
                speaker.ahead[before] = self._tried(speaker, turn, check)
                if len(speaker.ahead) > _WAITING:
                    del speaker.ahead[min(speaker.ahead)]
                continue
            told = self._recalled(speaker, turn, recent=before >= number - _SCORED)
            if self.second_look is not None:
                speaker.rule_holds(self.second_look.rule, told)
            speaker.detect(told)
            if memory is not None:
                person, chat = person_of(turn, speaker.trajectory, check.person), speaker.conversation_id
                memory.take(check, session_id, told, chat, turn.timestamp, person=person)

    def _tried(self, speaker: Speaker, turn: Turn, check: Check) -> Finding | Exception:
        try:
            return self.take(speaker, turn, turn.prompt, check, check.session_id)
        except TurnwiseError as error:
            return error

    def _recalled(self, speaker: Speaker, turn: Turn, *, recent: bool) -> TurnScores:
        """An earlier turn by its kept scores; one that can't be scored is a gap, no failure of the turn now."""
        scores = _kept(turn, speaker.trajectory)
        side = speaker.trajectory.side
        text = turn.text(side) or ""
        try:
            refused = turn.blocked(side) and len(text) > _LONGEST_REFUSED
            if scores is None and recent and not (self.scorer.waits or refused):
                speaker.follow()
                first = speaker.score(turn)
                scores = self._settled(speaker, turn, text, first).scores
            else:
                # Nobody waits, or pays a language model, for turns long past, or long and blocked.
                speaker.skip(turn)
        except TurnwiseError:
            scores = None
        finally:
            speaker.said(turn.number)
        return TurnScores(turn.number, dict(scores or {}), len(text))

    def _settled(self, speaker: Speaker, turn: Turn, text: str, given: SideScores) -> SideScores:
        """Scores that don't rest on blocked texts alone; the same object where nothing changed."""
        if not speaker.blocked_of_late:
            return given
        limit = self.detector.threshold
        doubtful = min(limit, _DOUBTFUL) if limit > 0.0 else _DOUBTFUL
        if all(doubtful > score.F for score in given.scores.values()):
            return given
        settled = speaker.without_blocked(turn, text, given)
        return given if settled.scores == given.scores else settled

    def _finding(self, speaker: Speaker, told: TurnScores, signal: Signal, stance: Stance | None) -> Finding:
        """What the trajectory up to a turn and the stance towards the session say of the turn."""
        data, whose = self._data(speaker.trajectory, speaker.name, told, signal), _WHOSE[speaker.trajectory]
        confidence = max((score.F for score in told.scores.values()), default=0.0)
        if signal.active:
            return Finding(True, whose + signal.reason, confidence, data=data, stance=stance)
        reason, action = "", None
        if self.memory is not None and stance is not None:
            reason, action = self.memory.asks(stance)
            reason = reason and whose + reason
        if action is Action.BLOCK:
            return Finding(True, reason, confidence, data=data, stance=stance)
        if signal.evidence and self.warn is not None and signal.score >= self.warn:
            reason, action = f"{whose}{signal.reason} (warned from {self.warn:.3f})", Action.WARN
        return Finding(action is not None, reason, confidence, action=action, data=data, stance=stance)

    def _data(self, trajectory: TrajectoryOf, name: str, told: TurnScores, signal: Signal) -> DriftData:
        components = array("d")
        for score in told.scores.values():
            components.extend((score.T, score.I, score.F))
        return DriftData(
            detector=self.detector_name,
            score=signal.score,
            threshold=self.detector.threshold,
            warn=self.warn,
            active=signal.active,
            turn=told.turn,
            trajectory=trajectory,
            speaker=name,
            principles=_shared(tuple(told.scores)),
            components=components,
        )


@dataclass(frozen=True, slots=True)
class Late:
    """An answer that came after the check of its turn; `fires` says whether the turn would have been blocked."""

    number: int
    answer: JudgeAnswer
    fires: bool


def _carried_over(finding: Finding, first: SideScores, settled: SideScores) -> Finding:
    """The finding with the warning that a text looks bad only together with texts that were blocked."""
    name, score = max(first.scores.items(), key=lambda item: item[1].F)
    left = settled.scores[name].F
    reason = f"{name} F {score.F:.3f} rests on a blocked text before it, {left:.3f} without"
    told = f"{reason}; {finding.reason}" if finding.found else reason
    return replace(finding, found=True, reason=told, action=finding.action or Action.WARN)


def _with_look(finding: Finding, look: JudgedLook) -> Finding:
    """The finding with what a second look came to; a text is blocked where that is asked for without one."""
    blocked = look.path == "block"
    reason = f"{finding.reason}; {look}" if finding.found or blocked else finding.reason
    data = finding.data
    if isinstance(data, DriftData):
        data = replace(data, second_look=look.to_dict())
    if blocked and not finding.in_full:
        return replace(finding, found=True, reason=reason.removeprefix("; "), action=None, data=data)
    return replace(finding, reason=reason, data=data)


def _with_late(finding: Finding, late: Late) -> Finding:
    """The finding with a warning where an earlier turn, which went on, would have been blocked."""
    if not late.fires:
        return finding
    name, score = max(late.answer.scores.items(), key=lambda item: item[1].F)
    told = f"turn {late.number} would have been blocked by what the second look said since: {name} F {score.F:.2f}"
    reason = f"{finding.reason}; {told}" if finding.found else told
    return replace(finding, found=True, reason=reason, action=finding.action if finding.found else Action.WARN)


def _kept(turn: Turn, trajectory: TrajectoryOf) -> Mapping[str, Score] | None:
    """The scores that an earlier check kept with a turn; None where there are none that can be read."""
    try:
        return kept_scores(turn, str(trajectory))
    except GuardMetadataError:
        return None


@cache
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for equal ones, so that a long conversation keeps it once."""
    return names


def _with_answer(late: Late, name: str, trajectory: str, before: object) -> object:
    """What a turn keeps, with the judge's scores in place of the screen's where it still has its check."""
    checks = readable_checks(before, late.number)
    if checks is None:
        return before
    side = "input" if trajectory == INITIATOR else "output"
    record = checks.input if side == "input" else checks.output
    if record is None or name not in record.names:
        return before
    at = record.names.index(name)
    data = drift_in(record.verdicts[at], f"turn {late.number}: {GUARD_KEY}.{side}.details.{name}.data")
    if data is None or data.second_look is None:
        return before
    scores = {principle: Score(**triple) for principle, triple in data.scores.items()} | dict(late.answer.scores)
    path = LATER if late.answer.trouble else AFTERWARDS
    look = {**data.second_look, "path": path, "trouble": late.answer.trouble}
    data = replace(data, active=data.active or late.fires, second_look=look).with_scores(scores)
    verdicts = [*record.verdicts]
    verdicts[at] = replace(verdicts[at], data=data)
    changed: dict[str, Any] = {side: replace(record, verdicts=tuple(verdicts))}
    return replace(checks, **changed)
