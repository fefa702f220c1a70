"""``second_look``: a screen reads every turn, and a judge those that the screen points at.

The judge sees the conversation so far, as it would alone. Its score decides where it was asked, the screen's
elsewhere; both are kept. Who is asked is a function of the screen's scores, so it is the same live, in a study,
and in a run that was stopped and goes on.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from turnwise.conversation import Side, Turn
from turnwise.errors import BudgetError, ObserverError, PatternError, UsageError
from turnwise.observers.protocol import (
    BoundsRequests,
    CanStop,
    Context,
    ContextMode,
    CostEstimator,
    Estimate,
    Given,
    KeepsReplies,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObserverInfo,
    Request,
    SharesAllowance,
    Stage,
    Workers,
)
from turnwise.observers.registry import (
    Setting,
    build_cost_estimator,
    build_live_observer,
    build_observer,
    observer_settings,
)
from turnwise.observers.session import ObserverSession
from turnwise.patterns import Evaluator, parse
from turnwise.principles import Principle, builtin_principles
from turnwise.scoring import ReplyJournal, Score, TurnScores

SCREEN, JUDGE = "screen", "judge"

ASK_ABOVE: Mapping[str, float] = {"local": 0.06}
"""F of a screen from which it asks where nothing else is said: `local` then asks about 10 % of the turns of
ordinary English conversations; docs/model-card.md says what it catches so."""

SUSPICION = 0.5
"""Highest F of a screen so far from which every later turn is asked about: a clear sign, by the guideline."""

POINTED, NOT_READ, FAILED, SAMPLED = "pointed", "not_read", "failed", "sampled"
"""Why the judge is asked, in a word: the pattern holds, the screen gave no score, or chance drew the turn."""

NO_SECOND_LOOK = "no second look"
"""How it is said of a turn that the judge was asked about it and gave no score."""

_BETWEEN = "+"
_NEEDS = "a screen and a judge, such as second_look:local+llm:openai/gpt-4.1-mini"

_Answer = TypeVar("_Answer", Observation, ObservationFailure, Given, Given | None)


def ask_above(threshold: float, side: Side = Side.PROMPT) -> str:
    """The pattern that asks about turns whose F reaches a threshold, and about all once one was a clear sign.

    >>> ask_above(0.2)
    'F >= 0.2 or peak(F) >= 0.5'
    """
    series = "F" if side is Side.PROMPT else "response.F"
    return f"{series} >= {threshold:g} or peak({series}) >= {max(threshold, SUSPICION):g}"


@dataclass(slots=True)
class _TwoStageState:
    """A conversation with both observers and with the rule; `asked` counts the turns that were asked about."""

    name: str
    screen: ObserverSession
    judge: ObserverSession
    rule: dict[str, Any]
    asked: int = 0

    def __deepcopy__(self, memo: object) -> _TwoStageState:
        """The copy goes on by itself; the observers stay the same."""
        return _TwoStageState(
            self.name, self.screen.copy(), self.judge.copy(), copy.deepcopy(self.rule), self.asked
        )


class SecondLookObserver:
    """Scores with a screen, and with a judge where the screen's trajectory asks for it.

    Args:
        argument: ``SCREEN+JUDGE``, the specifications of two observers, or the two observers.
        ask: pattern over the screen's trajectory; the judge is asked about a turn at which it holds. None for
            `ask_above` at the screen's own asking threshold.
        sides: halves of a turn that the pattern reads.
        unread: what happens to a text in a language that the screen does not read: ``ask`` asks the judge,
            ``leave`` leaves it unread.
        unanswered: what counts where the judge was to be asked and gave no score: the screen's (``screen``), or
            a failure (``fail``).
        per_conversation: turns of a conversation that the judge is asked about at most; None for no limit.
        sample: share, in [0, 1], of what the screen does not point at that is judged all the same, so that what
            it misses can be estimated. The screen's score decides there.
        sample_of: what is drawn, ``turns`` or whole ``conversations``.
        seed: of the draw; a turn is drawn by its conversation's id and its number.
        judge_settings: settings of the judge, where it is named; a setting that is not one of these goes there.

    Raises:
        ObserverError: no two observers, or one that can't be built.
        UsageError: a screen without an asking threshold of its own where no pattern is given, or a value out of
            range.
        PatternError: the pattern can't be read.
    """

    def __init__(
        self,
        argument: str | tuple[Observer, Observer] | None = None,
        *,
        ask: str | None = None,
        sides: tuple[str, ...] = ("prompt",),
        unread: Literal["ask", "leave"] = "ask",
        unanswered: Literal["screen", "fail"] = "screen",
        per_conversation: int | None = None,
        sample: float = 0.0,
        sample_of: Literal["turns", "conversations"] = "turns",
        seed: int = 0,
        judge_settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0 <= sample <= 1:
            raise UsageError(f"sample must be a share in [0, 1], not {sample}")
        if per_conversation is not None and per_conversation < 0:
            raise UsageError(f"per_conversation must be a number of turns, not {per_conversation}")
        if isinstance(argument, tuple):
            self._screen, self._judge = argument
            self._specs = tuple(str(getattr(one, "spec", one.info.name)) for one in argument)
        else:
            self._specs = _named(argument)
            self._screen = build_observer(self._specs[0])
            self._judge = build_observer(self._specs[1], **judge_settings or {})
        self._sides = tuple(Side(side) for side in sides)
        self._ask = ask or _default_rule(self._screen.info.name, self._sides)
        known = self._screen.info.principles
        self._rule = Evaluator(parse(self._ask, principles=known))
        if self._rule.other_runs:
            raise PatternError(
                f"the judge is asked by the screen's own scores, not by those of runs: {self._ask!r}"
            )
        self._principles = [one for one in builtin_principles() if known is None or one.name in known]
        self._unread, self._unanswered, self._most = unread, unanswered, per_conversation
        self._sample, self._sample_of, self._seed = sample, sample_of, seed
        common = set(self._screen.info.contexts) & set(self._judge.info.contexts)
        self._contexts = tuple(
            mode for mode in ContextMode if mode in common and mode is not ContextMode.TRANSCRIPT
        )

    @classmethod
    def describe(cls) -> ObserverInfo:
        """What is known before screen and judge are named."""
        return ObserverInfo(
            name="second_look",
            version="1",
            contexts=tuple(mode for mode in ContextMode if mode is not ContextMode.TRANSCRIPT),
            summary="a screen reads every turn, a judge those that the screen points at",
            needs=_NEEDS,
            workers=Workers.THREADS,
            deterministic=False,
            costs=True,
        )

    @classmethod
    def inner_settings(cls, argument: str) -> dict[str, Setting]:
        """The judge's settings, which may be given beside its own."""
        known = observer_settings(_named(argument)[1])
        return {name: replace(setting, parameter="judge_settings") for name, setting in known.items()}

    @classmethod
    def live(
        cls, argument: str | None = None, judge_settings: Mapping[str, Any] | None = None, **settings: object
    ) -> SecondLookObserver:
        """The observer for texts that somebody waits for."""
        screen, judge = _named(argument)
        pair = build_live_observer(screen), build_live_observer(judge, **judge_settings or {})
        return cls(pair, **settings)  # type: ignore[arg-type]  # those of the constructor

    @classmethod
    def cost_estimator(
        cls, argument: str | None = None, judge_settings: Mapping[str, Any] | None = None, **settings: object
    ) -> CostEstimator:
        """Tells what the judge would cost of the turns that the screen points at, which it screens for that."""
        screen, judge = _named(argument)
        pair = build_observer(screen), _Silent()
        screening = cls(pair, **settings)  # type: ignore[arg-type]  # those of the constructor
        return _Estimator(screening, build_cost_estimator(judge, **judge_settings or {}))

    @property
    def info(self) -> ObserverInfo:
        """It supports what both support, and is worth what both are."""
        screen, judge = self._screen.info, self._judge.info
        return replace(
            self.describe(),
            version=f"1+{screen.version}+{judge.version}",
            contexts=self._contexts,
            deterministic=screen.deterministic and judge.deterministic,
            operating_points=judge.operating_points,
            principles=screen.principles,
            costs=judge.costs,
            training_sources=tuple(sorted({*screen.training_sources, *judge.training_sources})),
        )

    @property
    def spec(self) -> str:
        """Its specification, such as ``"second_look:local+llm:openai/gpt-4.1-mini"``."""
        return f"second_look:{_BETWEEN.join(self._specs)}"

    @property
    def stages(self) -> Mapping[str, Observer]:
        """Screen and judge, by the name of their stage."""
        return {SCREEN: self._screen, JUDGE: self._judge}

    @property
    def parameters(self) -> Mapping[str, object]:
        """The rule, and the settings of both."""
        each = {
            stage: {"observer": spec, "version": one.info.version, "parameters": dict(one.parameters)}
            for (stage, one), spec in zip(self.stages.items(), self._specs, strict=True)
        }
        return {
            **each,
            "ask": self._ask,
            "sides": [str(side) for side in self._sides],
            "unread": self._unread,
            "unanswered": self._unanswered,
            "per_conversation": self._most,
            "sample": self._sample,
            "sample_of": self._sample_of,
            "seed": self._seed,
        }

    @property
    def spent_usd(self) -> float:
        """US dollars that the judge spent since it was built."""
        return float(getattr(self._judge, "spent_usd", 0.0))

    def with_journal(self, journal: ReplyJournal) -> SecondLookObserver:
        """The same observer, whose judge looks for replies in a journal first."""
        judge = self._judge
        return self._with(judge.with_journal(journal) if isinstance(judge, KeepsReplies) else judge)

    def with_allowance(self, allowance: Any) -> SecondLookObserver:
        """The same observer, whose judge keeps within what several processes may spend together."""
        judge = self._judge
        return self._with(judge.with_allowance(allowance) if isinstance(judge, SharesAllowance) else judge)

    def bound_requests(self, most: int) -> None:
        """Have the judge send at most `most` requests at a time."""
        if isinstance(self._judge, BoundsRequests):
            self._judge.bound_requests(most)

    def stop(self, reason: str) -> None:
        """Ask the judge nothing any more."""
        if isinstance(self._judge, CanStop):
            self._judge.stop(reason)

    def start(self, conversation_id: str, context: Context) -> _TwoStageState:
        """Begin a conversation; `ObserverError` in a context that one of the two does not support."""
        if context.mode not in self._contexts:
            known = ", ".join(map(str, self._contexts)) or "none"
            raise ObserverError(f"screen and judge can't both score in context {context}; use one of {known}")
        screen = ObserverSession(self._screen, context, conversation_id)
        judge = ObserverSession(self._judge, context, conversation_id)
        return _TwoStageState(conversation_id, screen, judge, self._rule.start())

    def observe(self, state: _TwoStageState, turn: Turn, wanted: Collection[Request]) -> list[Given]:
        """Screen the turn, ask the judge where the rule says so, and give the scores that are wanted of it.

        `ObserverError` means that one of them can't go on; where a budget is used up the judge is not asked.
        """
        screened = self._screened(state, turn, wanted)
        seen = {(one.principle, one.side): one for one in screened if _is_wanted(one, wanted)}
        why = self._why(state, turn, screened)
        sampled = not why and self._is_sampled(state.name, turn.number)
        if not (why or sampled) or not wanted:
            state.judge.observe(turn)
            state.asked += why is not None  # asked about before, where nothing is wanted any more
            return [_with_stages(one, (Stage(SCREEN, one),)) for one in seen.values()]
        word, told = why or (SAMPLED, SAMPLED)
        judged = self._judged(state, turn, wanted, limited=bool(why))
        decided = []
        for request in wanted:
            key = request.principle.name, request.side
            screen, judge = seen.get(key), judged.get(key)
            stages = tuple(
                Stage(name, one, why_judged, word)
                for name, one, why_judged in ((SCREEN, screen, ""), (JUDGE, judge, told))
                if one is not None
            )
            chosen = _paid(screen, judge) if sampled else self._decided(request, screen, judge, told)
            if chosen is not None:
                decided.append(_with_stages(chosen, stages))
        return decided

    def _screened(self, state: _TwoStageState, turn: Turn, wanted: Collection[Request]) -> tuple[Given, ...]:
        """What the screen makes of a turn: of what is wanted, and of what the rule reads."""
        asked = list(wanted)
        named = {(one.principle.name, one.side) for one in wanted}
        asked += [
            Request(principle, side)
            for side in self._sides
            for principle in self._principles
            if turn.text(side) is not None and (principle.name, side) not in named
        ]
        return state.screen.observe(turn, list(dict.fromkeys(asked))).given

    def _why(self, state: _TwoStageState, turn: Turn, screened: Sequence[Given]) -> tuple[str, str] | None:
        """Why the judge is to be asked about a turn, in a word and for a person; None where it is not."""
        scores: dict[Side, dict[str, Score]] = {Side.PROMPT: {}, Side.RESPONSE: {}}
        for one in screened:
            if isinstance(one, Observation):
                scores[one.side][one.principle] = one.score
        lengths = len(turn.prompt), len(turn.response or "")
        told = TurnScores(turn.number, scores[Side.PROMPT], lengths[0], scores[Side.RESPONSE], lengths[1])
        if self._rule.update(state.rule, told).holds:
            highest = max((score.F for side in scores.values() for score in side.values()), default=0.0)
            return POINTED, f"{self._specs[0]} F {highest:.2f}, asked where {self._ask}"
        for one in screened:
            if isinstance(one, NotRead) and self._unread == "ask":
                return NOT_READ, f"{self._specs[0]} does not read {one.language}"
            if isinstance(one, ObservationFailure):
                return FAILED, f"{self._specs[0]} failed: {one.reason}"
        return None

    def _is_sampled(self, conversation: str, turn: int) -> bool:
        """Whether chance has the judge look at a turn."""
        name = conversation if self._sample_of == "conversations" else f"{conversation}\n{turn}"
        return drawn(name, self._sample, self._seed)

    def _judged(
        self, state: _TwoStageState, turn: Turn, wanted: Collection[Request], *, limited: bool
    ) -> dict[tuple[str, Side], Given]:
        """What the judge makes of a turn; failures where it may not be asked any more."""
        if limited and self._most is not None and state.asked >= self._most:
            state.judge.observe(turn)
            return _failures(wanted, "budget", f"the {self._most} second looks of the conversation are used up")
        state.asked += limited
        try:
            given = state.judge.observe(turn, wanted).given
        except BudgetError as error:
            return _failures(wanted, "budget", str(error))
        return {(one.principle, one.side): one for one in given}

    def _decided(self, request: Request, screen: Given | None, judge: Given | None, why: str) -> Given:
        """The score that counts where the judge was to be asked."""
        if isinstance(judge, Observation):
            return judge
        if isinstance(judge, ObservationFailure):
            reason, message = judge.reason, judge.message
        elif judge is not None:
            reason, message = "not_read", f"the judge does not read {judge.language}"
        else:
            reason, message = "no_answer", "the judge gave no score"
        message = f"{NO_SECOND_LOOK}: {message} ({why})"
        if isinstance(screen, NotRead) and not isinstance(judge, ObservationFailure):
            return screen
        if isinstance(screen, Observation) and self._unanswered == "screen":
            decided: Observation | ObservationFailure = replace(screen, reasoning=message)
        else:
            decided = ObservationFailure(request.principle.name, request.side, reason, message)
        return _paid(decided, judge)

    def _with(self, judge: Observer) -> SecondLookObserver:
        other = copy.copy(self)
        other._judge = judge
        return other


def screen_and_judge(spec: str) -> tuple[str, str | None]:
    """The specifications of screen and judge; of any other observer its own, and None.

    >>> screen_and_judge("second_look:local+llm:openai/gpt-4.1-mini"), screen_and_judge("local")
    (('local', 'llm:openai/gpt-4.1-mini'), ('local', None))
    """
    name, _, argument = spec.partition(":")
    return _named(argument) if name == "second_look" else (spec, None)


def drawn(name: str, share: float, seed: int) -> bool:
    """Whether chance draws what has a name: the same for the same name, share and seed, at a larger share too."""
    digest = hashlib.blake2b(f"{seed}\n{name}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _named(argument: str | None) -> tuple[str, str]:
    screen, between, judge = (argument or "").partition(_BETWEEN)
    if not (screen and between and judge):
        raise ObserverError(f"the observer second_look needs {_NEEDS}")
    return screen, judge


def _default_rule(screen: str, sides: Sequence[Side]) -> str:
    if screen not in ASK_ABOVE:
        raise UsageError(
            f"screen {screen!r} has no asking threshold of its own: say where the judge is asked, such as "
            f"ask={ask_above(0.2)!r}"
        )
    return " or ".join(ask_above(ASK_ABOVE[screen], side) for side in sides)


def _is_wanted(one: Given, wanted: Collection[Request]) -> bool:
    return any((request.principle.name, request.side) == (one.principle, one.side) for request in wanted)


def _paid(one: _Answer, judge: Given | None) -> _Answer:
    if one is None or isinstance(one, NotRead) or judge is None or isinstance(judge, NotRead):
        return one
    return replace(one, cost_usd=judge.cost_usd, latency_s=judge.latency_s)


def _with_stages(one: Given, stages: tuple[Stage, ...]) -> Given:
    return one if isinstance(one, NotRead) else replace(one, stages=stages)


def _failures(wanted: Collection[Request], reason: str, message: str) -> dict[tuple[str, Side], Given]:
    return {
        (one.principle.name, one.side): ObservationFailure(one.principle.name, one.side, reason, message)
        for one in wanted
    }


class _Silent:
    """Stands for the judge where only is asked what it would be asked."""

    info = ObserverInfo("silent", "1", tuple(ContextMode), "says nothing")
    parameters: Mapping[str, object] = {}

    def start(self, conversation_id: str, context: Context) -> None:
        """Nothing is kept."""

    def observe(self, state: None, turn: Turn, wanted: Collection[Request]) -> list[Given]:
        """Nothing is said."""
        return []


class _Estimator:
    """What the judge costs where the screen asks for it; nothing elsewhere."""

    def __init__(self, observer: SecondLookObserver, judge: CostEstimator) -> None:
        self._observer, self._judge = observer, judge
        self.price_as_of, self.reuses_replies = judge.price_as_of, judge.reuses_replies
        self.together, self.is_readable = judge.together, judge.is_readable
        self._latest: tuple[Sequence[Turn], Context, frozenset[int]] | None = None

    def requests(
        self, principles: Sequence[Principle], turns: Sequence[Turn], turn: int, side: Side, context: Context
    ) -> Sequence[tuple[str, int]]:
        """The judge's requests; none of a turn that it is not asked about."""
        asked = turn in self.asked(turns, context)
        return self._judge.requests(principles, turns, turn, side, context) if asked else []

    def estimate(
        self,
        principles: Sequence[Principle],
        turns: Sequence[Turn],
        turn: int,
        side: Side,
        context: Context,
        requests: int | None = None,
    ) -> Estimate:
        """What the judge's requests may cost; nothing of a turn that it is not asked about."""
        if turn in self.asked(turns, context):
            return self._judge.estimate(principles, turns, turn, side, context, requests)
        return Estimate(0, 0, 0.0, 0.0)

    def asked(self, turns: Sequence[Turn], context: Context) -> frozenset[int]:
        """The turns that the judge is asked about; drawn by the first text, as the conversation has no name."""
        if self._latest is None or self._latest[:2] != (turns, context):
            observer = self._observer
            state = observer.start(turns[0].prompt if turns else "", context)
            found = set()
            for one in turns:
                if observer._why(state, one, observer._screened(state, one, ())):
                    state.asked += 1
                    if observer._most is None or state.asked <= observer._most:
                        found.add(one.number)
                elif observer._is_sampled(state.name, one.number):
                    found.add(one.number)
            self._latest = turns, context, frozenset(found)
        return self._latest[2]
