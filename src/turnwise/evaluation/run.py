"""A run: plan what is missing, score it, store it, again and again until nothing is missing."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field

from turnwise._support.revision import code_version
from turnwise.clock import Clock, utc_now
from turnwise.conversation import Label, Side
from turnwise.conversation.json_values import json_object
from turnwise.errors import UsageError
from turnwise.evaluation.engines import Scored, score_all
from turnwise.evaluation.plan import Plan, Task, tasks_of
from turnwise.observers import (
    DEFAULT_OBSERVER,
    Context,
    KeepsReplies,
    NotRead,
    Observation,
    Observer,
    build_observer,
    check_asked,
    check_supported,
)
from turnwise.principles import Principle, builtin_principles
from turnwise.scoring import Evaluation, EvaluationKey, Failure, FailureReason, FailureReasons, Provenance, Unread
from turnwise.store import Run, Store

_PAUSE = 0.05
"""Seconds between writes of scores that come one by one: replies that were paid for are kept before that."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What one call of `evaluate` did; counts are of this call.

    Args:
        run: name of the run.
        sequences: sequences that were looked at.
        evaluations: scores that were made and stored.
        failures: scores that were tried and failed, each stored with its reason.
        skipped: scores that the run had already, and those of texts that it did not read.
        gaps: scores on which the observer had nothing to say.
        seconds: how long the call took.
        calls: calls to a language model that the scores and failures rest on.
        cached: how many of them were answered by a reply that had been paid for before.
        prompt_tokens: tokens of the requests that were paid for, as far as they were counted.
        completion_tokens: tokens of their replies, as far as they were counted.
        cost_usd: what the scores and failures cost, in US dollars; None where no price is known.
        structured: how many replies came to requests that asked for JSON by ``json_schema``, ``json_object`` and
            ``none``; a weaker one than was wanted where the server refused that.
        commonest_failure: the reason that most of the failures have, with an example; None where nothing failed.
        unread: scores that were not made since the observer does not read the text, by its language. They are
            stored as such, and are no failures.
    """

    run: str
    sequences: int
    evaluations: int
    failures: int
    skipped: int
    gaps: int
    seconds: float
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    structured: Mapping[str, int] = field(default_factory=dict)
    commonest_failure: FailureReason | None = None
    unread: Mapping[str, int] = field(default_factory=dict)


def evaluate(
    store: Store,
    run: str,
    observer: str | Observer = DEFAULT_OBSERVER,
    *,
    principles: Ordered[Principle] | None = None,
    context: str | Context = "history",
    sides: Ordered[Side] = (Side.PROMPT,),
    ids: Collection[str] | None = None,
    label: Label | None = None,
    only: Collection[EvaluationKey] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    settings: Mapping[str, object] | None = None,
    clock: Clock = utc_now,
) -> Summary:
    """Score every turn that a run lacks, and store each score when it is made.

    Calling it again continues: what is stored is not scored twice, failures are tried again, texts that the
    observer does not read are not, and a principle that is added is scored alone. It may be interrupted or killed
    at any moment.

    An observer that keeps replies is given the store's journal, so that none is paid for twice. Where its scores
    don't depend on one another, the turns of a conversation are scored at the same time.

    Args:
        store: where the sequences are and the scores go.
        run: name of the run; made if it does not exist.
        observer: a specification such as ``"local"``, or an observer.
        principles: what to judge against; those that ship by default.
        context: what the observer may see.
        sides: halves of a turn to judge.
        ids: only these sequences.
        label: only sequences with this ground truth.
        only: of all that is missing, only these scores.
        jobs: parallel workers, at least 1; processes where a named observer computes, else threads.
        progress: told how many sequences more are finished and stored.
        settings: settings of an observer that is named; see `turnwise.observers.observer_settings`.
        clock: gives the times that are recorded.

    Raises:
        UsageError: no principle, two of one name, a principle or context that the observer does not support, or a
            run of that name with another configuration or another version of a principle.
        UnknownNameError: one of the sequences is not in the store.
        ObserverError: the observer can't be built, or can't go on; what was scored before is stored.
    """
    began = time.perf_counter()
    principles = builtin_principles() if principles is None else principles
    build = functools.partial(build_observer, observer, **settings or {}) if isinstance(observer, str) else None
    scorer = build_observer(observer, **settings or {}) if isinstance(observer, str) else observer
    seen = Context.parse(context) if isinstance(context, str) else context
    _refuse_what_cannot_be(scorer, principles, seen, sides, jobs)
    started = store.start_run(
        Run(
            name=run,
            observer=observer if isinstance(observer, str) else _spec_of(observer, store, run),
            observer_version=scorer.info.version,
            context=str(seen),
            parameters=json_object(scorer.parameters, f"parameters of the observer {scorer.info.name!r}"),
            operating_points=scorer.info.operating_points.get(str(seen), {}),
            code_version=code_version(),
            created_at=clock(),
        )
    )
    versions = {principle.name: principle.revision for principle in principles}
    _refuse_other_versions(run, store.principle_versions(run), versions)
    stamp = _Stamp.of(started, versions, clock)

    if isinstance(scorer, KeepsReplies):
        scorer = scorer.with_journal(store.journal)

    count = _Count()
    open_scores: dict[str, int] = {}  # of the sequences under way, so that progress is told in whole ones
    plan = Plan(principles, seen, sides, ids, label, only)

    def tasks() -> Iterator[Task]:
        for task in tasks_of(store, run, plan):
            count.sequences += 1
            count.skipped += task.present
            if task.missing:
                open_scores[task.sequence_id] = task.missing
                yield task
            elif progress:
                progress(1)

    # After an error or interrupt too, what was scored is stored before the caller hears of it.
    with closing(Outbox(store, progress, pause=_PAUSE if scorer.info.independent else 0.0)) as outbox:
        for batch in score_all(scorer, build, seen, tasks(), jobs):
            outcomes = [outcome for scored in batch for outcome in stamp.outcomes(scored)]
            outbox.put(outcomes, sum(_finished(open_scores, scored) for scored in batch))
            count.add(outcomes, sum(scored.wanted for scored in batch))
    return count.summary(run, time.perf_counter() - began)


def _spec_of(observer: Observer, store: Store, run: str) -> str:
    """The name under which a run keeps an observer object: its specification, where it has one.

    A run that was begun under the bare name goes on under it.
    """
    name = observer.info.name
    begun = any((known.name, known.observer) == (run, name) for known in store.runs())
    return name if begun else str(getattr(observer, "spec", name))


def _finished(open_scores: dict[str, int], scored: Scored) -> bool:
    """Note that scores of a sequence are done, and tell whether those were the last of it."""
    left = open_scores.pop(scored.sequence_id) - scored.wanted
    if left:
        open_scores[scored.sequence_id] = left
    return not left


@dataclass(slots=True)
class _Count:
    """Counts what one call of `evaluate` does."""

    sequences: int = 0
    skipped: int = 0
    evaluations: int = 0
    failures: int = 0
    gaps: int = 0
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    structured: Counter[str] = field(default_factory=Counter)
    reasons: FailureReasons = field(default_factory=FailureReasons)
    unread: Counter[str] = field(default_factory=Counter)

    def add(self, outcomes: Ordered[Evaluation | Failure | Unread], wanted: int) -> None:
        """Count what came of so many scores that were wanted; the rest are gaps."""
        self.gaps += wanted - len(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Unread):
                self.unread[outcome.language] += 1
                continue
            self.calls += len(outcome.calls)
            self.cached += sum(call.cached for call in outcome.calls)
            paid = [call.reply for call in outcome.calls if call.reply is not None and not call.cached]
            self.prompt_tokens += sum(reply.prompt_tokens or 0 for reply in paid)
            self.completion_tokens += sum(reply.completion_tokens or 0 for reply in paid)
            self.structured.update(
                call.reply.structured for call in outcome.calls if call.reply and call.reply.structured
            )
            if isinstance(outcome, Failure):
                self.failures += 1
                self.reasons.add(outcome.reason, outcome.message)
            else:
                self.evaluations += 1
            if outcome.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + outcome.cost_usd

    def summary(self, run: str, seconds: float) -> Summary:
        counts = {name: getattr(self, name) for name in _Count.__slots__}
        counts |= {"structured": dict(self.structured), "commonest_failure": counts.pop("reasons").commonest}
        counts["unread"] = dict(self.unread.most_common())
        return Summary(run=run, seconds=seconds, **counts)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """Puts key, provenance and time on what an observer gave."""

    run: str
    provenances: Mapping[str, Provenance]
    clock: Clock

    @classmethod
    def of(cls, run: Run, versions: Mapping[str, str], clock: Clock) -> _Stamp:
        provenances = {name: run.provenance(version, code_version()) for name, version in versions.items()}
        return cls(run.name, provenances, clock)

    def outcomes(self, scored: Scored) -> Iterator[Evaluation | Failure | Unread]:
        now = self.clock()
        for turn, given in ((observed.turn, one) for observed in scored.turns for one in observed.given):
            key = EvaluationKey(self.run, scored.sequence_id, turn, given.side, given.principle)
            origin = self.provenances[given.principle]
            if isinstance(given, NotRead):
                yield Unread(key, given.language, origin, now)
                continue
            rests = given.raw_reply, given.latency_s, given.cost_usd, given.calls
            if isinstance(given, Observation):
                yield Evaluation(key, given.score, origin, now, given.reasoning, *rests)
            else:
                yield Failure(key, given.reason, given.message, origin, now, *rests)


def _refuse_other_versions(run: str, stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name in sorted(stored.keys() & wanted.keys()):
        if stored[name] != wanted[name]:
            raise UsageError(
                f"run {run!r} was scored against version {stored[name]} of principle {name!r}, not "
                f"{wanted[name]}: a run never mixes versions; use another --run"
            )


def _refuse_what_cannot_be(
    observer: Observer, principles: Ordered[Principle], context: Context, sides: Ordered[Side], jobs: int
) -> None:
    check_asked(principles, sides)
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    check_supported(observer.info, context, (principle.name for principle in principles))


Progress = Callable[[int], None]
"""Told how many sequences were finished since it was told last."""

_MOST = 2_000
"""Outcomes that may wait for the write before them; then whoever brings more waits."""


class Outbox:
    """Keeps one write under way, and collects what comes meanwhile for the next.

    `pause` is the least time from the beginning of one write to that of the next, in seconds, for outcomes that
    come one by one; somebody has to call `put` now and then even where none comes.
    """

    def __init__(
        self,
        store: Store,
        progress: Progress | None,
        *,
        pause: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._progress = progress
        self._pause = pause
        self._monotonic = monotonic
        self._not_before = monotonic()
        self._waiting: list[Evaluation | Failure | Unread] = []
        self._finished = 0
        self._under_way: Future[None] | None = None
        self._finished_with_it = 0

    def put(self, outcomes: Ordered[Evaluation | Failure | Unread], finished: int) -> None:
        """Take outcomes, with which so many sequences are finished; raises if an earlier write failed."""
        self._waiting += outcomes
        self._finished += finished
        free = self._under_way is None or self._under_way.done()
        if (free and self._monotonic() >= self._not_before) or len(self._waiting) >= _MOST:
            self._write()

    def close(self) -> None:
        """Return once everything is durable; raises if a write failed."""
        while self._under_way is not None or self._waiting or self._finished:
            self._write()

    def _write(self) -> None:
        """Wait for the write under way, and begin the next with all that waits."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
            if self._progress and self._finished_with_it:
                self._progress(self._finished_with_it)
        if self._waiting or self._finished:
            self._not_before = self._monotonic() + self._pause
            self._under_way = self._store.append_soon(self._waiting)
            self._waiting, self._finished_with_it, self._finished = [], self._finished, 0
