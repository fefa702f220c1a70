"""What an observer is: it reads a conversation turn by turn and scores what it is asked to score."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from turnwise.conversation import Side, Turn
from turnwise.errors import UsageError
from turnwise.principles import Principle
from turnwise.scoring import Call, Reply, ReplyJournal, Score

if TYPE_CHECKING:
    from turnwise.observers.session import ObservedMany


class Workers(StrEnum):
    """What limits an observer, computing or waiting, and so how it is run in parallel."""

    PROCESSES = "processes"
    THREADS = "threads"


@dataclass(frozen=True, slots=True)
class ObserverInfo:
    """What a person should know of an observer before using it.

    Args:
        name: name under which it is registered.
        version: changes whenever the same text could get another score.
        contexts: context modes that it supports.
        summary: what it is, in a line.
        needs: what it needs beyond the package, such as a file or a key; empty where nothing.
        workers: how it runs in parallel: ``processes`` where it computes, ``threads`` where it waits.
        deterministic: whether the same input always gives the same score.
        independent: whether each score depends on the texts of the turns alone, so that the turns of one
            conversation may be scored at the same time.
        together: whether it scores all principles of a side with one request, so that they are not to be divided.
        operating_points: threshold by context and detector at which the observer was calibrated, in the unit of
            the detector's score; a detector that is named without parameters uses it on the observer's scores.
        principles: names of the principles that it can score, all of them at once; None where it can score any.
        costs: whether each score is paid for; then ``turnwise llm cost`` asks its class for a `CostEstimator`.
        training_sources: data sets that it was trained on, by the name that their conversations have as source; a
            study does not test false positives on them.
        base: hash of the weights on whose states further principles can be taught; None where none can.
    """

    name: str
    version: str
    contexts: tuple[ContextMode, ...]
    summary: str
    needs: str = ""
    workers: Workers = Workers.THREADS
    deterministic: bool = True
    independent: bool = False
    together: bool = False
    operating_points: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    principles: tuple[str, ...] | None = None
    costs: bool = False
    training_sources: tuple[str, ...] = ()
    base: str | None = None

    def revision_of(self, principle: Principle) -> str:
        """What the provenance of its scores names: the principle's revision, and what was taught of it."""
        if self.base is None or self.principles is None or principle.name in self.principles:
            return principle.revision
        return "+".join((principle.revision, *(f"{one.side}.{one.sha256[:12]}" for one in principle.heads)))


class Request(NamedTuple):
    """One score that is wanted of a turn."""

    principle: Principle
    side: Side


def asked_together(wanted: Iterable[Request], *, together: bool) -> list[list[Request]]:
    """What each request to a model asks for: one score, or all of a side."""
    if not together:
        return [[request] for request in wanted]
    sides: dict[Side, list[Request]] = {}
    for request in wanted:
        sides.setdefault(request.side, []).append(request)
    return list(sides.values())


@dataclass(frozen=True, slots=True)
class Stage:
    """What one of several observers made of a text that another decided on; see `SecondLookObserver`.

    Args:
        name: ``screen`` or ``judge``; the scores of a stage are stored in a run of their own, ``RUN.screen``.
        given: its score, its failure, or that it does not read the text.
        why: why it was asked, for a person; empty for the one that reads every text.
        asked: the same in a word, with every stage of a text that the judge was asked about: ``pointed``,
            ``not_read``, ``failed`` or ``sampled``; empty elsewhere.
    """

    name: str
    given: Given
    why: str = ""
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One score that an observer gives.

    Args:
        principle: name of the principle.
        side: the half of the turn.
        reasoning: the reason in words, where the observer gives one.
        raw_reply: the unparsed answer, where there is one.
        latency_s: seconds from request to score.
        cost_usd: what it cost, in US dollars.
        calls: the calls to a language model that it rests on; the score is the mean of theirs.
        stages: what each observer gave where several looked.
    """

    principle: str
    side: Side
    score: Score
    reasoning: str | None = None
    raw_reply: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservationFailure:
    """One score that an observer tried to give and could not; never replaced by a made-up score.

    Args:
        principle: name of the principle.
        side: the half of the turn.
        reason: one word for the kind of failure.
        message: what happened, for a person.
        raw_reply: the unparsed answer, where there is one.
        latency_s: seconds from request to failure.
        cost_usd: what it cost all the same, in US dollars.
        calls: the calls to a language model that were made for it.
        stages: what each observer gave where several looked.
    """

    principle: str
    side: Side
    reason: str
    message: str
    raw_reply: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True, slots=True)
class NotRead:
    """One score that an observer does not give, since it does not read the language of the text.

    It is no failure: nothing went wrong, and asking again gives the same.

    Args:
        principle: name of the principle.
        side: the half of the turn.
        language: the language as a code of BCP 47, such as ``zh``; ``und`` where nobody can tell.
    """

    principle: str
    side: Side
    language: str


Given = Observation | ObservationFailure | NotRead
"""What an observer gives for what was wanted; nothing at all for a gap."""


class Observer(Protocol):
    """Scores the turns of a conversation against principles.

    An observer holds no state of a conversation: that is in what `start` returns, so one observer serves many
    conversations at once, and many threads. Turns arrive in order, every one of them, whether a score of it is
    wanted or not.
    """

    @property
    def info(self) -> ObserverInfo:
        """What a person should know of it."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """Its settings, JSON values, kept with every evaluation."""

    def start(self, conversation_id: str, context: Context, /) -> Any:
        """Return the state of one conversation before its first turn.

        Args:
            conversation_id: id of the sequence, or of the live conversation; a name, not evidence.
            context: what it may see of the conversation.

        Raises:
            ObserverError: the context mode is not supported.
        """

    def observe(self, state: Any, turn: Turn, wanted: Collection[Request], /) -> Sequence[Given]:
        """Take the next turn into the state and give the scores that are asked for.

        The prompt side may depend on earlier turns and on this prompt, never on this turn's response; the
        response side on both. What is wanted but missing from the answer is a gap: the observer has nothing to
        say.
        """


@runtime_checkable
class CanStop(Protocol):
    """An observer that can be told to give up what it only waits for, such as the pause before a retry."""

    def stop(self, reason: str) -> None:
        """Send no further request; those that were sent are still answered."""


@runtime_checkable
class BoundsRequests(Protocol):
    """An observer that limits its requests under way by itself, so that more threads may prepare and store."""

    def bound_requests(self, most: int) -> None:
        """Have at most `most` requests under way; at least 1."""


@runtime_checkable
class SharesAllowance(Protocol):
    """An observer that pays for its scores, and can keep within what several processes may spend together."""

    def with_allowance(self, allowance: Any) -> Observer:
        """Return the same observer, with the budget and pace of an allowance."""


@runtime_checkable
class KeepsReplies(Protocol):
    """An observer that pays for its scores, and wants replies kept before it reads them."""

    def with_journal(self, journal: ReplyJournal) -> Observer:
        """Return the same observer, which looks for replies in a journal first and records those it pays for."""


@runtime_checkable
class CanPark(Protocol):
    """An observer whose state of a conversation can become bytes: the state has a method ``to_bytes``."""

    def restore(self, data: bytes) -> Any:
        """The state that ``to_bytes`` wrote; `ObserverError` for other bytes, or those of another version."""


@runtime_checkable
class HasStages(Protocol):
    """An observer that decides on the scores of others, which a run keeps beside its own."""

    @property
    def stages(self) -> Mapping[str, Observer]:
        """The observers by the name of their stage."""


@runtime_checkable
class TellsAsked(Protocol):
    """A `CostEstimator` of an observer that pays for some turns alone; it screens them to tell which."""

    def asked(self, turns: Sequence[Turn], context: Context) -> frozenset[int]:
        """Return the numbers of the turns of a conversation that would be paid for."""


@runtime_checkable
class ObservesMany(Protocol):
    """An observer that scores whole conversations at once, for less than turn by turn."""

    def observe_many(
        self, conversations: Sequence[Sequence[Turn]], context: Context, wanted: Sequence[Request]
    ) -> ObservedMany:
        """Return what `observe` would give turn by turn, with each of T, I and F within 1e-6 of it.

        Args:
            conversations: turns of each, in order. They alone bound how much memory the answer takes.
            context: what may be seen of them; any that the observer supports, except ``transcript``.
            wanted: what is wanted of every turn; a side that is None or blank has no score.

        Raises:
            ObserverError: the context mode is not supported.
        """


_DIGITS = 10
"""Digits that are surely enough for the turns of a window; Python refuses to read some thousand."""


class ContextMode(StrEnum):
    """What an observer may see."""

    TURN = "turn"
    WINDOW = "window"
    HISTORY = "history"
    TRANSCRIPT = "transcript"


@dataclass(frozen=True, slots=True)
class Context:
    """A context mode with its size.

    Args:
        mode: ``turn`` (this turn alone), ``window`` (the last `size` turns, this one among them), ``history``
            (all turns so far) or ``transcript`` (the whole conversation as one text, scored at its last turn).
        size: turns of a window, at least 1; None for the other modes.

    Raises:
        UsageError: a window without a size, or a size that does not fit.

    >>> Context.parse("window:3")
    Context(mode=<ContextMode.WINDOW: 'window'>, size=3)
    >>> str(Context.parse("history"))
    'history'
    """

    mode: ContextMode
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.mode is ContextMode.WINDOW) != (self.size is not None) or (
            self.size is not None and self.size < 1
        ):
            raise UsageError(f"context {str(self.mode)!r} of size {self.size}: a window has a size, at least 1")

    def __str__(self) -> str:
        return f"{self.mode}:{self.size}" if self.mode is ContextMode.WINDOW else str(self.mode)

    @classmethod
    def parse(cls, text: str) -> Context:
        """Read ``turn``, ``window:k``, ``history`` or ``transcript``.

        Raises:
            UsageError: anything else.
        """
        name, colon, size = text.partition(":")
        if name == ContextMode.WINDOW and size.isdecimal() and len(size) < _DIGITS and int(size) >= 1:
            return cls(ContextMode.WINDOW, int(size))
        if name in tuple(ContextMode) and name != ContextMode.WINDOW and not colon:
            return cls(ContextMode(name))
        raise UsageError(
            f"unknown context {text!r}: use turn, window:k (k turns, at least 1), history or transcript"
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one score may cost before it is asked for.

    Args:
        prompt_tokens: tokens of the requests, about: four bytes of text are taken for one.
        completion_tokens: tokens of the replies, if they are of the usual length.
        cost_usd: what that costs, in US dollars; None where the price is not known.
        most_usd: what it costs if every reply is as long as it may be; None likewise.
    """

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    most_usd: float | None


class CostEstimator(Protocol):
    """Says what scores of an observer would cost, without asking for any; needs no key.

    The class of an observer that is paid for has a class method ``cost_estimator``, which takes what the class
    takes and returns one.
    """

    @property
    def price_as_of(self) -> date | None:
        """The day of the prices; None where no price is known."""

    @property
    def reuses_replies(self) -> bool:
        """Whether a kept reply answers the same request again."""

    @property
    def together(self) -> bool:
        """Whether one request asks for all principles of a side; else each call below is about one principle."""

    def requests(
        self, principles: Sequence[Principle], turns: Sequence[Turn], turn: int, side: Side, context: Context
    ) -> Sequence[tuple[str, int]]:
        """Return key and repeat of every request that these scores rest on, as the journal keeps them."""

    def is_readable(self, reply: Reply, principles: Sequence[Principle]) -> bool:
        """Return whether a kept reply gives a score of one of the principles."""

    def estimate(
        self,
        principles: Sequence[Principle],
        turns: Sequence[Turn],
        turn: int,
        side: Side,
        context: Context,
        requests: int | None = None,
    ) -> Estimate:
        """Return what `requests` of the requests of these scores may cost; all of them where None."""
