"""A speaker in a conversation as drift follows it: the one owner of what is known of it, from turn to turn.

That is what the observer heard, the latest turns, where the detector stands, and what a second look was asked. All
of it is parked as a line of JSON with the observer's states behind it.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from weakref import WeakKeyDictionary

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.turn import CHECKING_KEYS
from turnwise.deadline import WorkStopped
from turnwise.detectors import Detector, State
from turnwise.detectors.protocol import Signal
from turnwise.guard.finding import Finding
from turnwise.guard.names import digest_of, short_id
from turnwise.guard.scorer import Scorer, SideScores, readable
from turnwise.observers import ObserverSession
from turnwise.patterns import Evaluator
from turnwise.scoring import Score, TurnScores, from_triples, to_triples

KEPT: Final = 4  # turns whose beginning a speaker remembers, so that a response may arrive after later prompts

LEFT_OUT_FOR: Final = 8
"""Turns after a blocked text for which the observer still has it before it; then it is left out for good."""

AS_PASSED, ALONE = 0.8, 0.5
"""After a block, the shares of its F that a text must have without the blocked ones, or alone, to keep that F.

Set on the dev splits of the pairs and of people's red-team chats; `benchmarks/guard_sides.py` measures them."""

HARM, OWN_HARM = "third_party_harm", 0.2
"""The principle that is about what is asked and not about how the other side is treated, and F of a text alone
below which what is before it makes no harm of it there; set likewise."""

LATE: Final = 16  # turns of a speaker over which an answer may be late; then the question is given up
_VERSION: Final = 1  # version of what `Speakers.park` writes


class TrajectoryOf(StrEnum):
    """Whose texts make a trajectory, and as what they are read."""

    INITIATOR = "initiator"
    """The initiator's prompts; the replies to them are heard."""

    RESPONDER = "responder"
    """The responder's texts, read as prompts to the initiator, whose texts are heard as the replies."""

    REPLIES = "replies"
    """The responder's texts, read as replies: whether they carry harm on."""

    @property
    def side(self) -> Side:
        return Side.PROMPT if self is TrajectoryOf.INITIATOR else Side.RESPONSE

    @property
    def read_as(self) -> Side:
        """The side as which the observer reads the texts."""
        return Side.RESPONSE if self is TrajectoryOf.REPLIES else Side.PROMPT


@dataclass(slots=True)
class Heard:
    """What the observer heard: in `tried` all, in `passed` no blocked text (None: nothing was blocked of late)."""

    tried: ObserverSession
    passed: ObserverSession | None = None

    def copy(self) -> Heard:
        return Heard(self.tried.copy(), None if self.passed is None else self.passed.copy())

    def hear(self, turn: Turn, *, left_out: bool = False) -> None:
        """Listen to a turn; one that is left out was blocked and reached nobody."""
        turn = readable(turn)
        if left_out and self.passed is None:
            self.passed = self.tried.copy()
        self.tried.observe(turn)
        if self.passed is not None and not left_out:
            self.passed.observe(turn)

    def drop_blocked(self) -> None:
        """Leave blocked texts out for good."""
        if self.passed is not None:
            self.tried, self.passed = self.passed, None

    def park(self) -> tuple[bytes, bytes | None] | None:
        """Both as bytes; None where the observer's states can't become bytes."""
        tried, passed = self.tried.park(), None if self.passed is None else self.passed.park()
        return None if tried is None or (passed is None) is not (self.passed is None) else (tried, passed)


@dataclass(slots=True)
class AbsorbedTurn:
    """A turn as it was taken in, with its texts then (None where that was elsewhere, so they are read again)."""

    turn: Turn
    before: Heard
    prompt: str | None
    response: str | None
    left_out: bool = False  # the judged text was blocked and reached nobody


@dataclass(slots=True)
class JudgedTurn:
    """A turn as the detector was told of it, and whether it fired."""

    told: TurnScores
    fired: bool

    def to_list(self) -> list[Any]:
        return [self.told.turn, self.told.length, to_triples(self.told.scores), self.fired]

    @classmethod
    def from_list(cls, values: list[Any]) -> JudgedTurn:
        number, length, triples, fired = values
        return cls(TurnScores(number, from_triples(triples), length), fired)


@dataclass(slots=True)
class Later:
    """While answers about the `open` turns are to come: the detector's state before the first, and all since."""

    before: State
    judged: list[JudgedTurn] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)  # the turn at whose check each was last asked about

    def to_dict(self) -> dict[str, Any]:
        return {"from": self.before, "turns": [one.to_list() for one in self.judged], "open": self.open}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Later:
        opened = {int(number): asked for number, asked in data["open"].items()}
        return cls(data["from"], [JudgedTurn.from_list(one) for one in data["turns"]], opened)


class Speaker:
    """One speaker in one conversation, changed by its own methods alone; hold `lock` meanwhile."""

    __slots__ = (
        *("_blocked_at", "_detected", "_detector", "_heard", "_later", "_recent", "_rule", "_scorer"),
        *("ahead", "asked", "conversation_id", "lock", "name", "trajectory", "turns"),
    )

    def __init__(
        self,
        scorer: Scorer,
        detector: Detector,
        conversation_id: str,
        trajectory: TrajectoryOf = TrajectoryOf.INITIATOR,
        name: str = "",
    ) -> None:
        self.conversation_id = short_id(conversation_id)
        self.trajectory = trajectory
        self.name = name
        self.turns = 0
        self.ahead: dict[int, Finding | Exception] = {}
        self.lock = threading.Lock()
        self._scorer = scorer
        self._detector = detector
        self._detected = detector.start()
        self._rule: State | None = None
        self.asked = 0
        self._later: Later | None = None
        self._heard = Heard(scorer.session(conversation_id))
        self._blocked_at = 0
        self._recent: dict[int, AbsorbedTurn] = {}

    def said(self, number: int) -> None:
        """Count the turns up to one as taken in."""
        self.turns = max(self.turns, number)

    # What the detector makes of the scores

    def detect(self, told: TurnScores) -> Signal:
        """What the detector says of one more turn."""
        self._detected, signal = advanced(self._detector, self._detected, told)
        if self._later is not None:
            self._later.judged.append(JudgedTurn(told, signal.active))
        return signal

    # What a second look was asked

    def rule_holds(self, rule: Evaluator, told: TurnScores) -> bool:
        """Take the screen's scores of a turn in, and say whether the rule for asking a judge holds there."""
        if self._rule is None:
            self._rule = rule.start()
        return rule.update(self._rule, told).holds

    @property
    def open(self) -> dict[int, int]:
        """Turns of which an answer is to come, and the turn at whose check each was last asked about."""
        return {} if self._later is None else dict(self._later.open)

    def wait_for(self, number: int, at: int) -> None:
        """Note that an answer, asked for at turn `at`, is to come of a turn, the next or an earlier one."""
        if self._later is None:
            self._later = Later(copy.deepcopy(self._detected))
        self._later.open[number] = at

    @property
    def overdue(self) -> list[int]:
        """Open turns that are too far back by now."""
        judged = [] if self._later is None else [one.told.turn for one in self._later.judged]
        late = judged[: max(0, len(judged) + 1 - LATE)]
        return [number for number in self.open if number in late]

    def told_of(self, number: int) -> TurnScores:
        """What the detector was told of a turn that is open or comes after one."""
        judged = [] if self._later is None else self._later.judged
        return next(one.told for one in judged if one.told.turn == number)

    def detected_before(self, number: int) -> State:
        """The detector's state before a turn that is open or comes after one."""
        if self._later is None:
            return copy.deepcopy(self._detected)
        state = copy.deepcopy(self._later.before)
        for one in self._later.judged:
            if one.told.turn == number:
                break
            state, _ = advanced(self._detector, state, one.told)
        return state

    def correct(self, answers: Mapping[int, Mapping[str, Score]]) -> dict[int, bool]:
        """Give open turns a judge's scores, as far as it has some, and close them; which of them fire only now."""
        later, fires = self._later, {}
        if later is None:
            return {}
        state = copy.deepcopy(later.before)
        for one in later.judged:
            number = one.told.turn
            if number in answers:
                one.told = TurnScores(number, {**one.told.scores, **answers[number]}, one.told.length)
            state, signal = advanced(self._detector, state, one.told)
            if number in answers:
                fires[number] = signal.active and not one.fired
            one.fired = signal.active
        self._detected = state
        for number in answers:
            later.open.pop(number, None)
        while later.open and later.judged and later.judged[0].told.turn < min(later.open):
            later.before, _ = advanced(self._detector, later.before, later.judged.pop(0).told)
        if not later.open:
            self._later = None
        return fires

    # What the observer hears

    @property
    def blocked_of_late(self) -> bool:
        """Whether the observer still has blocked texts before it."""
        return self._heard.passed is not None

    def score(self, turn: Turn, text: str | None = None) -> SideScores:
        """Take the next turn in and score its judged text, read as `text`; it was said even if that fails."""
        of_initiator = self.trajectory is TrajectoryOf.INITIATOR
        prompt, response = turn.prompt, turn.response
        if text is not None:
            prompt, response = (text, response) if of_initiator else (prompt, text)
        read, side = self._as_judged(turn, prompt, response), self.trajectory.read_as
        if self._scorer.forgets:
            return self._scorer.score(self._heard.tried.copy(), read, side)
        if not of_initiator:
            self._take_back(turn.number)
        if self.blocked_of_late and turn.number - self._blocked_at > LEFT_OUT_FOR:
            for known in (self._heard, *(taken.before for taken in self._recent.values())):
                known.drop_blocked()
        heard = self._heard
        self._recent[turn.number] = AbsorbedTurn(turn, heard.copy(), prompt, response)
        if len(self._recent) > KEPT:
            del self._recent[next(iter(self._recent))]
        self._listen(heard, turn.number, prompt)
        if heard.passed is not None:
            heard.passed.observe(readable(read))
        try:
            return self._scorer.score(heard.tried, read, side)
        except WorkStopped:
            self._take_back(turn.number)
            raise

    def without_blocked(self, turn: Turn, text: str, given: SideScores) -> SideScores:
        """The scores of the turn just taken in, lowered where they stand on blocked texts that reached nobody."""
        taken = self._recent.get(turn.number)
        if taken is None or taken.before.passed is None:
            return given
        of_initiator = self.trajectory is TrajectoryOf.INITIATOR
        prompt, response = (text, None) if of_initiator else (taken.prompt or "", text)
        read, side = self._as_judged(turn, prompt, response), self.trajectory.read_as
        before = Heard(taken.before.passed.copy())
        self._listen(before, turn.number, prompt)
        passed = self._scorer.score(before.tried, read, side)
        single = None
        settled = dict(given.scores)
        for name, score in given.scores.items():
            other = passed.scores.get(name)
            if other is None or (name != HARM and other.F >= AS_PASSED * score.F):
                continue
            if single is None:
                single = self._scorer.score_after((), read, side)
            alone, F = single.scores.get(name), other.F / AS_PASSED
            if alone is not None:
                own = name == HARM and alone.F < OWN_HARM
                F = alone.F / ALONE if own else max(F, alone.F / ALONE)
            if score.F > F:
                settled[name] = Score(other.T, other.I, F)
        return replace(given, scores=settled)

    def skip(self, turn: Turn) -> None:
        """Take in the next turn without asking for scores of it."""
        if self._scorer.forgets:
            return
        left_out = self._left_out(turn)
        self._listen(self._heard, turn.number, turn.prompt)
        self._heard.hear(self._as_judged(turn, turn.prompt, turn.response), left_out=left_out)
        if left_out:
            self._blocked_at = turn.number

    def follow(self) -> None:
        """Read the last `KEPT` turns again as they stand now: what reached nobody left out, blocked tries kept."""
        of_initiator = self.trajectory is TrajectoryOf.INITIATOR
        heard: Heard | None = None
        for taken in self._recent.values():
            turn = taken.turn
            prompt, response, left_out = turn.prompt, turn.response, taken.left_out
            # A prompt that was answered went on; whether the others were blocked is asked until they are.
            if not left_out and (not of_initiator or response is None):
                left_out = self._left_out(turn)
            same = heard is None and taken.prompt == prompt and left_out is taken.left_out
            if same and taken.response == response:
                continue
            if of_initiator and response is not None:
                if not turn.withheld(Side.RESPONSE):
                    left_out = False  # it was answered all the same, so it is part of what was said
                elif same and taken.response is None:
                    continue
                else:
                    response = None
            if heard is None:
                heard = taken.before.copy()
            else:
                taken.before = heard.copy()
            if left_out:
                self._blocked_at = max(self._blocked_at, turn.number)
            self._listen(heard, turn.number, prompt)
            heard.hear(self._as_judged(turn, prompt, response), left_out=left_out)
            taken.prompt, taken.response, taken.left_out = prompt, response, left_out
        if heard is not None:
            self._heard = heard

    def as_heard(self, turn: Turn) -> list[Turn]:
        """An earlier turn as whoever has read nothing yet hears it: without a reply that reached nobody."""
        response = None if turn.response is None or turn.withheld(Side.RESPONSE) else turn.response
        if self.trajectory is TrajectoryOf.RESPONDER and response is None:
            return [Turn(2 * turn.number - 1, "", turn.prompt)] if turn.prompt.strip() else []
        return self.under_check(
            turn, turn.prompt if self.trajectory is TrajectoryOf.INITIATOR else response or "", response
        )

    def under_check(self, turn: Turn, text: str, response: str | None = None) -> list[Turn]:
        """A turn with its judged text, and before it what the initiator said where that is a turn of its own."""
        if self.trajectory is TrajectoryOf.INITIATOR:
            return [readable(Turn(turn.number, text, response))]
        if self.trajectory is TrajectoryOf.REPLIES:
            return [readable(Turn(turn.number, turn.prompt, text or None))]
        said = [Turn(2 * turn.number - 1, "", turn.prompt)] if turn.prompt.strip() else []
        return [readable(one) for one in (*said, Turn(2 * turn.number, text))]

    def park(self) -> tuple[str, bytes]:
        """Where the speaker stands as a line of JSON, and the observer's states before turns that may change."""
        with self.lock:
            first = next(iter(self._recent.values()), None)
            before = self._heard if first is None else first.before
            # Without `whole` every turn is read again: the observer's states can't become bytes.
            states = (b"", None) if self._scorer.forgets else before.park()
            whole, (session, passed) = states is not None, states or (b"", None)
            recent, blocked_at = (list(self._recent), self._blocked_at) if whole else ([], 0)
            sizes = [len(session), None if passed is None else len(passed)]
            head = [
                self.trajectory,
                self.turns,
                whole,
                recent,
                blocked_at,
                *sizes,
                self._detected,
                *([] if self._rule is None else [self._second_look()]),
            ]
            # Encoded here: a detector may change its state as soon as the lock is let go.
            return json.dumps(head, separators=(",", ":")), session + (passed or b"")

    def _second_look(self) -> dict[str, Any]:
        later = {} if self._later is None else {"later": self._later.to_dict()}
        return {"rule": self._rule, "asked": self.asked, **later}

    def resume(self, conversation: Conversation, place: Sequence[Any], rest: bytes) -> bytes:
        """Go on where `park` was called, and return the bytes that follow; nothing is scored."""
        turns, whole, recent, blocked_at, size, size_passed, detected, *asking = place
        if not 0 <= turns <= conversation.get_turn_count() or not isinstance(detected, dict):
            raise ValueError(f"{turns} turns, and the detector's state is {type(detected).__name__}")
        if any(not 0 < number <= turns for number in recent):
            raise ValueError(f"turns {recent} of {turns}")
        end = size + (size_passed or 0)
        if not 0 <= size <= end <= len(rest):
            raise ValueError(f"{end} bytes, and {len(rest)} are left")
        self.turns, self._detected = turns, detected
        if asking:
            self._rule, self.asked = asking[0]["rule"], asking[0]["asked"]
            self._later = Later.from_dict(asking[0]["later"]) if "later" in asking[0] else None
        if self._scorer.forgets:
            return rest[end:]
        if not whole:
            for number in range(1, turns + 1):
                turn = conversation.turn(number)
                if turn.text(self.trajectory.side) is not None:
                    self.skip(turn)
            return rest[end:]
        name = conversation.conversation_id
        passed = None if size_passed is None else self._scorer.session(name, rest[size:end])
        self._heard, self._blocked_at = Heard(self._scorer.session(name, rest[:size]), passed), blocked_at
        for number in recent:
            self._recent[number] = AbsorbedTurn(conversation.turn(number), self._heard, None, None)
        self.follow()
        return rest[end:]

    def _take_back(self, number: int) -> None:
        """Forget the first try of a text that comes again; one that is not the latest stays as it was heard."""
        latest = next(reversed(self._recent), None)
        taken = self._recent.pop(number, None)
        if taken is not None and latest == number:
            self._heard = taken.before

    def _listen(self, heard: Heard, number: int, prompt: str) -> None:
        """Hear what the initiator said before a text of the responder."""
        if self.trajectory is TrajectoryOf.RESPONDER and prompt.strip():
            heard.hear(Turn(2 * number - 1, "", prompt))

    def _as_judged(self, turn: Turn, prompt: str, response: str | None) -> Turn:
        """A turn as the observer reads it; of the responder every text, said or heard, is a turn by itself."""
        if self.trajectory is TrajectoryOf.RESPONDER:
            return Turn(2 * turn.number, response or "")
        if prompt == turn.prompt and response == turn.response:
            return turn
        return Turn(turn.number, prompt, response)

    def _left_out(self, turn: Turn) -> bool:
        """Whether the judged text of a turn was blocked and reached nobody."""
        if self.trajectory is TrajectoryOf.INITIATOR:
            return turn.response is None and turn.blocked(Side.PROMPT)
        return turn.blocked(Side.RESPONSE) and turn.own_metadata.get(CHECKING_KEYS[Side.RESPONSE]) is not True


class Speakers:
    """The speakers of the conversations that anybody holds."""

    def __init__(self, scorer: Scorer, detector: Detector, detector_name: str) -> None:
        self._scorer = scorer
        self._detector = detector
        named = (scorer.spec, scorer.info.version, scorer.context, scorer.principles, detector_name)
        self._fingerprint = digest_of(repr(named))[:8]
        self._known = WeakKeyDictionary[Conversation, dict[TrajectoryOf, Speaker]]()
        self._adding = threading.Lock()

    def of(self, conversation: Conversation, trajectory: TrajectoryOf) -> Speaker:
        """The speaker of a trajectory, at the beginning where nobody asked before."""
        known = self._known.get(conversation)
        speaker = None if known is None else known.get(trajectory)
        if speaker is not None:
            return speaker
        fresh = self._fresh(conversation, trajectory)
        with self._adding:  # another thread may have added one by now
            return self._known.setdefault(conversation, {}).setdefault(trajectory, fresh)

    def park(self, conversation: Conversation) -> bytes | None:
        """Where the speakers of a conversation stand, for `resume`; None for one that is not known."""
        parked = [speaker.park() for _, speaker in sorted(self._known.get(conversation, {}).items())]
        if not parked:
            return None
        heads = ",".join(head for head, _ in parked)
        line = f"[{_VERSION},{json.dumps(self._fingerprint)},[{heads}]]\n"
        return b"".join([line.encode("ascii"), *(body for _, body in parked)])

    def resume(self, conversation: Conversation, parked: bytes) -> None:
        """Go on where it was parked, or forget that where observer or detector were others then."""
        line, _, rest = parked.partition(b"\n")
        version, written_for, heads = read_json(line)
        if version != _VERSION:
            raise ValueError(f"version {version}")
        if written_for != self._fingerprint:
            self._known.pop(conversation, None)
            return
        found: dict[TrajectoryOf, Speaker] = {}
        for head in heads:
            trajectory, *place = head
            speaker = self._fresh(conversation, TrajectoryOf(trajectory))
            rest = speaker.resume(conversation, place, rest)
            found[speaker.trajectory] = speaker
        with self._adding:
            self._known.setdefault(conversation, {}).update(found)

    def _fresh(self, conversation: Conversation, trajectory: TrajectoryOf) -> Speaker:
        of_initiator = trajectory is TrajectoryOf.INITIATOR
        name = conversation.initiator if of_initiator else conversation.responder
        return Speaker(self._scorer, self._detector, conversation.conversation_id, trajectory, name)


def advanced(detector: Detector, state: State, told: TurnScores) -> tuple[State, Signal]:
    """The detector's state after one more turn, and what it says there; it starts afresh after it fired."""
    signal = detector.update(state, told)
    return detector.start() if signal.active else state, signal
