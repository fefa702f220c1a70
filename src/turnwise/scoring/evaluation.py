"""What is kept of one scoring: an evaluation, a failure or neither, and the calls to a model behind it."""

from __future__ import annotations

import statistics
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from turnwise._support.visible import visible
from turnwise.conversation import Side
from turnwise.scoring.score import Score


class EvaluationKey(NamedTuple):
    """What one stored score is about. Sorts by run, sequence, turn, side, principle.

    Args:
        run: name of the run.
        sequence_id: id of the sequence.
        turn: number of the turn, from 1.
        side: the half of the turn that was judged.
        principle: name of the principle that it was judged against.
    """

    run: str
    sequence_id: str
    turn: int
    side: Side
    principle: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a score came about; the same for all evaluations of a principle in one run.

    Args:
        observer: specification of the observer, such as ``"local"`` or ``"replay:scores.jsonl"``.
        observer_version: its version; for trained weights with the hash of the weights.
        principle_version: version of the principle.
        context: what the observer could see, such as ``"history"`` or ``"window:3"``.
        parameters: settings of the observer, JSON values.
        code_version: version and revision of turnwise.
    """

    observer: str
    observer_version: str
    principle_version: str
    context: str
    parameters: Mapping[str, object]
    code_version: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One stored score.

    Args:
        key: what it is about.
        score: T, I and F.
        provenance: how it came about.
        created_at: when it was made, aware and in UTC.
        reasoning: the observer's reason in words, where it gives one.
        raw_reply: the observer's unparsed answer, where it has one.
        latency_s: seconds from request to score.
        cost_usd: what it cost, in US dollars.
        calls: the calls to a language model that it rests on; empty for other observers.
    """

    key: EvaluationKey
    score: Score
    provenance: Provenance
    created_at: datetime
    reasoning: str | None = None
    raw_reply: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()

    @property
    def spread(self) -> Spread | None:
        """How far the scores of its calls lie apart; None where fewer than two calls gave one."""
        return spread(call.score for call in self.calls if call.score is not None)


@dataclass(frozen=True, slots=True)
class Failure:
    """A scoring that failed. It has no score, and none is ever made up for it.

    Args:
        key: what was to be scored.
        reason: one word for the kind of failure, such as ``"malformed"``, ``"refused"`` or ``"error"``.
        message: what happened, for a person.
        provenance: how it was tried.
        created_at: when it was tried, aware and in UTC.
        raw_reply: the observer's unparsed answer, where it has one.
        latency_s: seconds from request to failure.
        cost_usd: what it cost all the same, in US dollars.
        calls: the calls to a language model that were made for it; empty for other observers.
    """

    key: EvaluationKey
    reason: str
    message: str
    provenance: Provenance
    created_at: datetime
    raw_reply: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()


NOT_READ = "not_read"
"""The reason under which stores and exports keep an `Unread` beside failures."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A text without a score, since the observer does not read its language. No failure: it is not tried again.

    Args:
        key: what was to be scored.
        language: the language as a code of BCP 47, such as ``zh``; ``und`` where nobody can tell.
        provenance: how it was looked at.
        created_at: when it was, aware and in UTC.
    """

    key: EvaluationKey
    language: str
    provenance: Provenance
    created_at: datetime


_LONGEST = 240
"""Characters of an example at most."""


@dataclass(frozen=True, slots=True)
class FailureReason:
    """A reason for which scores failed.

    Args:
        reason: one word for the kind of failure, such as ``"server"`` or ``"malformed"``.
        count: how many scores failed for it.
        example: what happened to one of them, in a line of at most 240 visible characters; it may quote a server
            or a model.
    """

    reason: str
    count: int
    example: str


@dataclass(slots=True)
class FailureReasons:
    """Counts failures by reason, with the first message of each.

    >>> reasons = FailureReasons()
    >>> for reason in ("timeout", "server", "server"):
    ...     reasons.add(reason, f"the {reason} failed\\n\\x1b[2J")
    >>> reasons.commonest
    FailureReason(reason='server', count=2, example='the server failed \\\\x1b[2J')
    """

    _counts: Counter[str] = field(default_factory=Counter)
    _examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, message: str, count: int = 1) -> None:
        """Count failures of a reason, of which one has this message."""
        self._counts[reason] += count
        self._examples.setdefault(reason, message)

    @property
    def commonest(self) -> FailureReason | None:
        """The reason that was given most often, the first of equally common ones; None where nothing failed."""
        if not self._counts:
            return None
        ((reason, count),) = self._counts.most_common(1)
        return FailureReason(_line(reason), count, _line(self._examples[reason]))


_LANGUAGES = 8
"""Languages that are named at most."""


def unread_in_words(languages: Mapping[str, int]) -> str:
    """Say how many texts, or scores of them, were not read, with their languages, the commonest first.

    >>> unread_in_words({"ru": 2, "zh": 1_200})
    '1,202 not read (zh 1,200, ru 2)'
    """
    named = sorted(languages.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{_line(name)} {count:,}" for name, count in named[:_LANGUAGES]]
    if len(named) > _LANGUAGES:
        told.append("and others")
    return f"{sum(languages.values()):,} not read ({', '.join(told)})"


def _line(text: str) -> str:
    """A text of others as one visible line of bounded length."""
    line = visible(" ".join(text[: 4 * _LONGEST].split()))
    if len(line) <= _LONGEST:
        return line
    whole_words = line[: _LONGEST - 1].rpartition(" ")[0]
    return f"{whole_words or line[: _LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a language model, as it came; kept before anybody reads it.

    Args:
        request_key: hash of everything that the reply may depend on: base URL, model, parameters, messages without
            their nonce, and version of the prompt.
        repeat: which of several askings of the same request, from 1.
        text: the reply, unparsed.
        model: model that answered, as the provider names it.
        finish_reason: why it stopped, as the provider names it; None where it does not say.
        refusal: the refusal, where the provider marks one apart from the text.
        prompt_tokens: tokens of the request; None where the provider does not count.
        completion_tokens: tokens of the reply; None where the provider does not count.
        cost_usd: what it cost, in US dollars; None where the price is not known.
        latency_s: seconds from sending the request to the end of the reply, retries not counted.
        nonce: what the request marked its untrusted part with.
        received_at: when it came, aware and in UTC.
        structured: how the request asked for JSON: ``json_schema``, ``json_object`` or ``none``; weaker than the
            setting where the server refused that; None where it is not known. Of a guard model ``logprobs`` or
            ``none``.
        logprobs: JSON, a list with each of the first tokens and, by token, the natural logarithms of the
            probabilities of those that might have stood there; None where they were not given.
    """

    request_key: str
    repeat: int
    text: str
    model: str
    finish_reason: str | None
    refusal: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    latency_s: float
    nonce: str
    received_at: datetime
    structured: str | None = None
    logprobs: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a language model for a score: how it ended, and the reply that it rests on.

    Args:
        repeat: which of several askings for the same score, from 1.
        reply: the reply; None where none came.
        score: the score that was read from it; None where there is none to read.
        reasoning: the reason in words, as the model gives it.
        reason: where there is no score, one word for the kind of failure.
        message: where there is no score, what happened, for a person.
        cached: whether the reply had been paid for before; then this call cost nothing.
        attempts: requests that were sent, retries among them; 0 where the reply was there already.
    """

    repeat: int
    reply: Reply | None
    score: Score | None
    reasoning: str | None = None
    reason: str | None = None
    message: str | None = None
    cached: bool = False
    attempts: int = 1

    @property
    def cost_usd(self) -> float | None:
        """What this call cost, in US dollars: nothing where the reply was stored already."""
        if self.cached or self.reply is None:
            return 0.0
        return self.reply.cost_usd


class Spread(NamedTuple):
    """How far repeated scores of one thing lie apart: sample standard deviations, each at least 0."""

    T: float
    I: float  # noqa: E741 - the field's name for indeterminacy
    F: float


def spread(scores: Iterable[Score]) -> Spread | None:
    """Return how far scores lie apart, or None for fewer than two.

    >>> spread([Score(0.5, 0.0, 0.25), Score(0.5, 0.0, 0.75)])
    Spread(T=0.0, I=0.0, F=0.3535533905932738)
    >>> spread([Score(0.5, 0.0, 0.25)]) is None
    True
    """
    given = list(scores)
    if len(given) < 2:
        return None
    columns = zip(*((score.T, score.I, score.F) for score in given), strict=True)
    return Spread(*map(statistics.stdev, columns))


class ReplyJournal(Protocol):
    """Keeps replies durably, and finds them again, so that none is paid for twice. Used from several threads."""

    @property
    def final(self) -> bool:
        """Whether a kept reply stands even where no score can be read from it; else it is asked for again."""

    def find(self, request_key: str, repeat: int) -> Reply | None:
        """Return the newest reply to this repeat of a request, or None."""

    def record(self, reply: Reply) -> None:
        """Keep a reply; durable when this returns."""


class MemoryJournal:
    """A `ReplyJournal` that lasts as long as the program.

    >>> MemoryJournal().find("a key", 1) is None
    True
    """

    final = False

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self._newest: dict[tuple[str, int], Reply] = {}
        self._lock = threading.Lock()

    def find(self, request_key: str, repeat: int) -> Reply | None:
        """Return the newest reply to this repeat of a request, or None."""
        return self._newest.get((request_key, repeat))

    def record(self, reply: Reply) -> None:
        """Keep a reply."""
        with self._lock:
            self.replies.append(reply)
            self._newest[reply.request_key, reply.repeat] = reply
