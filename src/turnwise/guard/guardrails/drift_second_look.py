"""The second look of ``drift``: a judge is asked about texts that the observer, as a screen, points at.

A check waits for the answer, or ends at once, and the answer corrects it later (`OpenQuestions`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from time import monotonic, perf_counter
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from turnwise.conversation import Conversation, Side, Turn
from turnwise.deadline import current_deadline
from turnwise.errors import GuardError, ObserverError, TurnwiseError
from turnwise.guard.guardrails.drift_speaker import Speaker
from turnwise.guard.scorer import Scorer, SideScores
from turnwise.guard.threads import TimedThreads, TookTooLongError
from turnwise.observers.second_look import ASK_ABOVE, ask_above
from turnwise.patterns import Evaluator, parse
from turnwise.scoring import Score, TurnScores, from_triples, to_triples

Unanswered = Literal["screen", "hold", "block"]
"""What becomes of a text that the judge was to be asked about and gave no score of."""

When = Literal["inline", "afterwards"]
"""Whether a check waits for the judge, or its answer corrects the check later."""

LATER: Final = "later"  # the path of a second look that was not waited for
AFTERWARDS: Final = "afterwards"  # the path of a second look that came after its check had ended

_WORKERS: Final = TimedThreads[SideScores]()
_ASKING: Final = TimedThreads[None]()
_LOG = logging.getLogger("turnwise.guard")


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """What the judge said of a turn; `trouble` is why it said nothing."""

    scores: Mapping[str, Score] = field(default_factory=dict)
    trouble: str = ""

    @classmethod
    def of(cls, call: Callable[[], SideScores]) -> JudgeAnswer:
        """Ask, and take whatever goes wrong for an answer."""
        try:
            said = call()
        except Exception as error:  # noqa: BLE001 - a judge may be foreign code, and nobody waits for it here
            trouble = str(error) if isinstance(error, TurnwiseError) else f"{type(error).__name__}: {error}"
            return cls(trouble=trouble)
        if said.unread is not None or not said.scores:
            return cls(trouble="it has nothing to say of the text")
        return cls(dict(said.scores))

    def to_dict(self) -> dict[str, Any]:
        return to_triples(self.scores)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JudgeAnswer:
        return cls(from_triples(data))


Arrived = Callable[[JudgeAnswer, float], None]  # takes an answer, and the seconds that it took


class OpenQuestions:
    """Questions under way in this process, and their answers until the speaker's next check takes them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known = WeakKeyDictionary[Conversation, dict[str, JudgeAnswer | None]]()
        self._open: dict[object, Callable[[JudgeAnswer], None]] = {}

    def ask(self, conversation: Conversation, key: str, call: Callable[[], SideScores], arrived: Arrived) -> None:
        """Ask in a thread of its own, each question once; `arrived` is called there, or by `close`, but once."""
        ticket, told = object(), partial(self._arrive, conversation, key, arrived, perf_counter())
        with self._lock:
            known = self._known.setdefault(conversation, {})
            if key in known:
                return
            known[key] = None
            self._open[ticket] = told
        try:
            _ASKING.begin(lambda: self._end(ticket, JudgeAnswer.of(call)))
        except TookTooLongError as error:
            self._end(ticket, JudgeAnswer(trouble=str(error)))

    def asked(self, conversation: Conversation, key: str) -> bool:
        return key in self._known.get(conversation, {})

    def take(self, conversation: Conversation, key: str) -> JudgeAnswer | None:
        """The answer to a question, which is then let go of; None where there is none yet."""
        with self._lock:
            known = self._known.get(conversation, {})
            answer = known.get(key)
            if answer is not None:
                del known[key]
            return answer

    def drop(self, conversation: Conversation, key: str) -> None:
        """Let go of a question; its answer still arrives."""
        with self._lock:
            self._known.get(conversation, {}).pop(key, None)

    def close(self) -> None:
        """Take every question that is under way for unanswered."""
        with self._lock:
            tickets = [*self._open]
        for ticket in tickets:
            self._end(ticket, JudgeAnswer(trouble="the guard was closed before it answered"))

    def _end(self, ticket: object, answer: JudgeAnswer) -> None:
        with self._lock:
            arrived = self._open.pop(ticket, None)
        if arrived is not None:
            arrived(answer)

    def _arrive(
        self, conversation: Conversation, key: str, arrived: Arrived, start: float, answer: JudgeAnswer
    ) -> None:
        try:
            arrived(answer, perf_counter() - start)
        except Exception:  # noqa: BLE001 - an audit, a state store, or a callback that is foreign code
            # The next check corrects what it can.
            _LOG.exception("a second look was answered, and could not be told")
        with self._lock:
            known = self._known.get(conversation, {})
            if key in known:
                known[key] = answer


@dataclass(frozen=True, slots=True)
class JudgedLook:
    """What a second look came to: `path` says what counts, `screen` is T, I, F of the screen, by principle."""

    judge: str
    why: str
    path: str  # ``judge`` where it answered, `LATER`, `AFTERWARDS`, else what is done about its silence
    trouble: str = ""  # why the judge gave no score
    screen: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "judge": self.judge,
            "why": self.why,
            "path": self.path,
            "trouble": self.trouble,
            "screen": {name: dict(zip("TIF", triple, strict=True)) for name, triple in self.screen.items()},
        }

    def __str__(self) -> str:
        told = "second look" if self.path != LATER else "second look to come"
        told = f"no second look of {self.judge} ({self.trouble})" if self.trouble else f"{told} of {self.judge}"
        return f"{told}: {self.why}"


class PerMinute:
    """Counts what is asked within a minute, for all conversations; `most` is None for no limit."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._times: deque[float] = deque()
        self._lock = Lock()

    def counted(self) -> bool:
        """Count one more unless the minute is full; returns whether it was counted."""
        if self.most is None:
            return True
        with self._lock:
            now = monotonic()
            while self._times and now - self._times[0] >= 60.0:
                self._times.popleft()
            if len(self._times) >= self.most:
                return False
            self._times.append(now)
            return True


@dataclass(frozen=True, slots=True)
class SecondLook:
    """Asks a judge where `rule` holds over the screen's scores, for at most `wait` seconds."""

    screen: Scorer
    judge: Scorer
    rule: Evaluator
    wait: float
    unanswered: Unanswered
    most: int | None  # texts of a speaker; None for no limit
    pace: PerMinute
    when: When
    answers: OpenQuestions = field(default_factory=OpenQuestions)

    @classmethod
    def of(
        cls,
        screen: Scorer,
        judge: str,
        ask: str | None,
        wait: float,
        unanswered: Unanswered,
        most: int | None,
        a_minute: int | None,
        when: When,
    ) -> SecondLook:
        """Make one of the guardrail's settings."""
        name = screen.info.name
        if ask is None and name not in ASK_ABOVE:
            raise GuardError(f"say where the judge is asked, such as ask: {ask_above(0.2)}; {name} has no default")
        if not wait > 0:
            raise GuardError(f"second_look_wait is {wait:g}; use a number of seconds above 0")
        for setting, number in (("second_looks", most), ("second_looks_a_minute", a_minute)):
            if number is not None and number < 0:
                raise GuardError(f"{setting} is {number}; use a number of texts, or null for no limit")
        if when == "afterwards" and unanswered != "screen":
            raise GuardError(
                f"unanswered is {unanswered}, and second_look_when afterwards: the check has ended by then; use "
                "unanswered: screen, or second_look_when: inline"
            )
        rule = Evaluator(parse(ask or ask_above(ASK_ABOVE[name]), principles=screen.principles))
        if rule.other_runs:
            raise GuardError(f"ask: {ask}: the judge is asked by the screen's own scores, not by those of runs")
        asked = Scorer(judge, screen.context, screen.principles)
        return cls(screen, asked, rule, wait, unanswered, most, PerMinute(a_minute), when)

    def wanted(self, speaker: Speaker, told: TurnScores, given: SideScores) -> JudgedLook | None:
        """What is to be asked of a text, counted as asked; with trouble where no more may be, None for nothing."""
        held = speaker.rule_holds(self.rule, told)
        if not (held or given.unread or given.failures):
            return None
        before = {name: (score.T, score.I, score.F) for name, score in given.scores.items()}
        look = JudgedLook(self.judge.spec, self._why(given, held=held), "judge", screen=before)
        trouble = self.refused(speaker)
        return replace(look, path=self.unanswered, trouble=trouble) if trouble else look

    def refused(self, speaker: Speaker) -> str:
        """Count a question; why it may not be asked, empty where it may."""
        if self.most is not None and speaker.asked >= self.most:
            return f"its {self.most} second looks are used up"
        if not self.pace.counted():
            return f"{self.pace.most} second looks were asked for within a minute"
        speaker.asked += 1
        return ""

    def look(
        self, look: JudgedLook, given: SideScores, earlier: Sequence[Turn], turn: Turn, side: Side
    ) -> tuple[SideScores, JudgedLook]:
        """The scores that count once the judge was asked; an ObserverError where the text is to be held."""
        if look.trouble:
            return self._silent(given, look, look.trouble)
        try:
            answer = _WORKERS.run(
                lambda: self.judge.score_after(earlier, turn, side), self.wait, current_deadline()
            )
        except (TookTooLongError, ObserverError) as error:
            return self._silent(given, look, str(error))
        if answer.unread is not None or not answer.scores:
            return self._silent(given, look, "it has nothing to say of the text")
        if answer.failures:  # of some principles; those keep the screen's score
            answer = replace(answer, scores={**given.scores, **answer.scores})
        return answer, look

    def _why(self, given: SideScores, *, held: bool) -> str:
        if held:
            highest = max((score.F for score in given.scores.values()), default=0.0)
            return f"{self.screen.spec} F {highest:.2f}, asked where {self.rule.expression}"
        return f"{self.screen.spec} does not read {given.unread}" if given.unread else f"{self.screen.spec} failed"

    def _silent(self, given: SideScores, look: JudgedLook, trouble: str) -> tuple[SideScores, JudgedLook]:
        """What counts where the judge was to be asked and said nothing."""
        if self.unanswered == "hold":
            raise ObserverError(f"no second look of {self.judge.spec}: {trouble}")
        return given, replace(look, path=self.unanswered, trouble=trouble)
