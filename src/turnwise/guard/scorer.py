"""Scores for guardrails that ask an observer, and the levels of a score at which they warn and block."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.errors import GuardError, ObserverError
from turnwise.guard.finding import CLEAN, Action, Finding
from turnwise.guard.guardrail import Check
from turnwise.guard.tool_texts import encodable
from turnwise.linear_regex import LinearRegex
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
from turnwise.observers.local.normalise import normalise
from turnwise.principles import Principle, load_principle, principle_names
from turnwise.scoring import Score

_BUILDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SideScores:
    """What an observer says of one side of a turn."""

    scores: Mapping[str, Score]
    failures: tuple[ObservationFailure, ...] = ()  # what it tried to score and could not
    reasonings: Mapping[str, str] = field(default_factory=dict)
    unread: str | None = None  # the language of a text that it does not read, so that there is no score

    def score(self, principle: str) -> Score | None:
        """The score of a principle; None where there is nothing to say of it. A failure is an `ObserverError`."""
        for failure in self.failures:
            if failure.principle == principle:
                raise ObserverError(_told(failure))
        return self.scores.get(principle)

    def settle(self, finding: Finding) -> Finding:
        """The finding, or an `ObserverError` where a principle that could not be scored might make it graver."""
        if not self.failures:
            return finding
        told = "; ".join(map(_told, self.failures))
        if not finding.in_full:
            raise ObserverError(told)
        return replace(finding, reason=f"{finding.reason}; {told}")


class Scorer:
    """Asks one observer for scores of live texts; one scorer serves many conversations, and threads.

    Observers that are named by the same text are one: drift and single-turn guardrails share the weights of
    ``local``. The observer may see ``turn``, ``window:k`` or ``history``; without `principles` all that ship are
    judged against.

    >>> scorer = Scorer("scripted:0.1,0.9", "history", ["reciprocity"])
    >>> scorer.score(scorer.session("c1"), Turn(1, "Hello"), Side.PROMPT).scores
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
        self.forgets = self._context.mode is ContextMode.TURN
        """Whether the observer sees no earlier turn."""
        self.context = str(self._context)
        """What the observer may see, such as ``"turn"``."""
        self.principles = tuple(one.name for one in judged_against)
        """Names of the principles that turns are judged against."""
        check_supported(self.info, self._context, judged_against)

    @property
    def info(self) -> ObserverInfo:
        """What is to be known of the observer."""
        return self._observer.info

    @property
    def waits(self) -> bool:
        """Whether the observer waits for something outside this process, such as a language model."""
        return self.info.workers is Workers.THREADS

    @property
    def operating_points(self) -> Mapping[str, float]:
        """The thresholds at which detectors were calibrated on the observer's scores, by name."""
        return self.info.operating_points.get(self.context, {})

    def session(self, conversation_id: str, parked: bytes | None = None) -> ObserverSession:
        """The observer's session of a conversation, at its beginning or as `ObserverSession.park` left it."""
        if parked is None:
            return ObserverSession(self._observer, self._context, conversation_id, goes_on=True)
        return ObserverSession.resumed(self._observer, self._context, conversation_id, parked, goes_on=True)

    def score(self, session: ObserverSession, turn: Turn, side: Side) -> SideScores:
        """Take the next turn into a session; the scores of one side, an `ObserverError` if all failed."""
        observed = session.observe(readable(turn), self._wanted[side]).given
        if not self.waits and hardly_words(turn.text(side) or ""):
            observed = ()
        scores: dict[str, Score] = {}
        reasonings: dict[str, str] = {}
        failures: list[ObservationFailure] = []
        unread: str | None = None
        for one in observed:
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

    def score_after(
        self, earlier: Iterable[Turn], turn: Turn, side: Side, conversation_id: str = ""
    ) -> SideScores:
        """The scores of one side of a turn, after earlier turns that are only listened to, each time anew."""
        session = self.session(conversation_id)
        for one in earlier:
            session.observe(readable(one))
        return self.score(session, turn, side)


_WORDS = LinearRegex(r"[\pL\pM]{3,}")
_FEWEST_SIGNS = 12
_FEW, _SHARE = 2, 0.25
"""A text of 12 signs or more is hardly one (but a picture, formula, or row of numbers) that has so many words of 3
letters or more at most, and below that share of its signs in them."""


def hardly_words(text: str) -> bool:
    """Whether a text is hardly made of words once what hides them is undone, so that its scores say nothing.

    >>> hardly_words("(o o)  | O |\\n '~~~'  boo!"), hardly_words("i g n o r e  a l l  o f  it")
    (True, False)
    """
    return _few_words(text) and _few_words(normalise(text).text)


def _few_words(text: str) -> bool:
    words = [end - start for ((start, end),) in islice(_WORDS.spans(text), _FEW + 1)]
    signs = len("".join(text.split())) if len(words) <= _FEW else 0
    return signs >= _FEWEST_SIGNS and sum(words) < _SHARE * signs


def readable(turn: Turn) -> Turn:
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


def _told(failure: ObservationFailure) -> str:
    return f"{failure.principle} could not be scored: {failure.reason}: {failure.message}"


# Guardrails that judge a text by one score

LEVELS_FILE = "levels.yaml"


@dataclass(frozen=True, slots=True)
class Levels:
    """Where a guardrail warns and where it blocks: above these F, in [0, 1], `warn` the lower one.

    >>> Levels(0.5, 0.4)
    Traceback (most recent call last):
        ...
    turnwise.errors.GuardError: warn_above 0.5 must be at most block_above 0.4, both in [0, 1]
    """

    warn: float
    block: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.warn <= self.block <= 1.0:
            raise GuardError(
                f"warn_above {self.warn:g} must be at most block_above {self.block:g}, both in [0, 1]"
            )


@cache
def shipped_levels() -> Mapping[str, Any]:
    """The levels that ship, by guardrail and side; written by ``guard_models.py --calibrate --write``."""
    import yaml

    text = resources.files("turnwise.guard.guardrails").joinpath(LEVELS_FILE).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.safe_load(text)
    return data


def levels_of(
    name: str, observer: str, warn_above: float | None, block_above: float | None, side: Side = Side.PROMPT
) -> Levels:
    """The levels that were set, and the shipped ones for those that were not; these fit one observer only."""
    known = shipped_levels()
    if (warn_above is None or block_above is None) and observer != known["observer"]:
        raise GuardError(
            f"{name}: the shipped levels were set for observer {known['observer']}, not for {observer}; give "
            "warn_above and block_above, set on your own traffic"
        )
    shipped = known["levels"][name][str(side)] if observer == known["observer"] else {}
    return Levels(
        warn=shipped["warn"] if warn_above is None else warn_above,
        block=shipped["block"] if block_above is None else block_above,
    )


def single_turn_scorer(observer: str, principle: str) -> Scorer:
    """A scorer of single texts."""
    # One with principles of its own gives all their scores at once, so that guardrails can share them.
    own = shared_observer(observer).info.principles
    return Scorer(observer, "turn", own or [principle])


def read_text(
    check: Check, scorer: Scorer, side: Side = Side.PROMPT, undisguised: str | None = None
) -> SideScores:
    """The scores of the text under check, as a prompt by itself or as a reply, asked for once in a check."""
    text = check.text if undisguised is None else undisguised
    prompt = check.turn.prompt if side is Side.RESPONSE else text
    # The texts are in the key: a guardrail in between may have redacted one.
    key = ("scores", scorer.spec, scorer.context, scorer.principles, side, prompt, text)
    scores: SideScores | None = check.shared.get(key)
    if scores is None:
        turn = Turn(1, prompt, text if side is Side.RESPONSE else None)
        scores = check.shared[key] = scorer.score_after((), turn, side, check.session_id)
    return scores


def judge(value: float, levels: Levels, what: str, of: str = "F") -> Finding:
    """The finding that a falsity or a probability, in [0, 1], deserves; `what` and `of` are for its reason.

    >>> judge(0.7, Levels(0.5, 0.9), "harm to others").action.value
    'warn'
    """
    if value > levels.block:
        return Finding(True, f"{what}: {of} {value:.2f} above {levels.block:.2f}", value)
    if value > levels.warn:
        reason = f"perhaps {what}: {of} {value:.2f} above {levels.warn:.2f}"
        return Finding(True, reason, value, action=Action.WARN)
    return Finding(False, confidence=value) if value else CLEAN
