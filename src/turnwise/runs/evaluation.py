"""An evaluation: a run whose sink is the store; what that has of a run is not scored again."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from turnwise._support.batches import batched
from turnwise._support.revision import code_version
from turnwise.clock import Clock, utc_now
from turnwise.conversation import Label, Side
from turnwise.errors import UsageError
from turnwise.findings import Counts
from turnwise.observers import (
    DEFAULT_OBSERVER,
    BoundsRequests,
    CanStop,
    Context,
    KeepsReplies,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    Workers,
    build_observer,
    check_asked,
    check_supported,
)
from turnwise.principles import Principle, builtin_principles
from turnwise.runs.engines import Engine, InlineEngine, ProcessEngine, Progress, Tell, ThreadEngine, carry_out
from turnwise.runs.plan import Plan, ScoredTask, Task, TaskWork, describe_run, describe_stages, tasks_of
from turnwise.scoring import Evaluation, EvaluationKey, Failure, FailureReason, FailureReasons, Provenance, Unread
from turnwise.store import Run, Store

_BATCH = 16
"""Sequences that a computing worker takes at once: enough to outweigh the way there and back."""

_SPARE = 5
"""For so many requests under way there is a thread more, which prepares or stores one meanwhile."""

_PAUSE = 0.05
"""Seconds between writes of scores that come one by one: replies that were paid for are kept before that."""


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
    progress: Tell | None = None,
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
        progress: called each time that sequences are finished and stored.
        settings: settings of an observer that is named; see `turnwise.observers.observer_settings`.
        clock: gives the times that are recorded.

    Raises:
        UsageError: no principle, two of one name, a principle or context that the observer does not support, or a
            run of that name with another configuration or another version of a principle.
        UnknownNameError: one of the sequences is not in the store.
        ObserverError: the observer can't be built, or can't go on; what was scored before is stored.
    """
    began = time.perf_counter()
    total = 0 if progress is None else sum(1 for _ in store.heads(ids=ids, label=label))
    judged = builtin_principles() if principles is None else principles
    scorer = build_observer(observer, **settings or {}) if isinstance(observer, str) else observer
    seen = Context.parse(context) if isinstance(context, str) else context
    check_asked(judged, sides)
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    check_supported(scorer.info, seen, judged, sides)
    spec = observer if isinstance(observer, str) else _spec_of(observer, store, run)
    told = describe_run(run, spec, scorer.info, scorer.parameters, seen)

    def begun(told: Mapping[str, Any]) -> Run:
        return store.start_run(Run(**told, code_version=code_version(), created_at=clock()))

    started = begun(told)
    stages = {name: begun(one) for name, one in describe_stages(run, scorer, seen).items()}
    versions = {principle.name: scorer.info.revision_of(principle) for principle in judged}
    _refuse_other_versions(run, store.principle_versions(run), versions)
    if isinstance(scorer, KeepsReplies):
        scorer = scorer.with_journal(store.journal)

    independent, computes = scorer.info.independent, scorer.info.workers is Workers.PROCESSES
    apart = computes and not independent and jobs > 1 and isinstance(observer, str)
    engine = ProcessEngine(jobs, ordered=True, alone="-j 1") if apart else _engine_here(scorer, jobs)
    work = TaskWork(observer if apart else scorer, seen, settings or {})
    sink = ScoreSink(
        store,
        started,
        Plan(judged, seen, sides, ids, label, only),
        versions,
        clock,
        batch=None if independent else _BATCH if computes else 1,
        together=scorer.info.together,
        pause=_PAUSE if independent else 0.0,
        total=total,
        tell=progress,
        stages=stages,
    )
    carry_out(work, engine, sink)
    return sink.summary(time.perf_counter() - began)


def _engine_here(observer: Observer, jobs: int) -> Engine:
    if jobs == 1:
        return InlineEngine()
    if not observer.info.independent:
        return ThreadEngine(jobs, ordered=True)
    threads = jobs
    if isinstance(observer, BoundsRequests):
        observer.bound_requests(jobs)
        threads += max(1, jobs // _SPARE)
    return ThreadEngine(threads, stop=functools.partial(_stop, observer))


def _stop(observer: Observer) -> None:
    if isinstance(observer, CanStop):
        observer.stop("the run was stopped")


def _spec_of(observer: Observer, store: Store, run: str) -> str:
    """The name under which a run keeps an observer object: its specification, unless it was begun without."""
    name = observer.info.name
    begun = any((known.name, known.observer) == (run, name) for known in store.runs())
    return name if begun else str(getattr(observer, "spec", name))


def _refuse_other_versions(run: str, stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name in sorted(stored.keys() & wanted.keys()):
        if stored[name] != wanted[name]:
            raise UsageError(
                f"run {run!r} was scored against version {stored[name]} of principle {name!r}, not "
                f"{wanted[name]}: a run never mixes versions; use another --run"
            )


_MOST = 2_000
"""Outcomes that may wait for the write before them; then whoever brings more waits."""

Outcome = Evaluation | Failure | Unread


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


class ScoreSink:
    """Takes the scores of a run, and keeps one write under way while the next ones come."""

    # A worker takes `batch` sequences at once; with None each score is work of its own, or with `together` those
    # of a side of a turn. Writes begin at least `pause` seconds apart. `stages` are the runs of screen and judge.

    def __init__(
        self,
        store: Store,
        run: Run,
        plan: Plan,
        versions: Mapping[str, str],
        clock: Clock,
        *,
        batch: int | None,
        together: bool,
        pause: float,
        total: int,
        tell: Tell | None,
        stages: Mapping[str, Run],
    ) -> None:
        self._store = store
        self._run = run.name
        self._plan = plan
        self._provenances = _provenances(run, versions)
        self._stages = {name: (run.name, _provenances(run, versions)) for name, run in stages.items()}
        self._clock = clock
        self._batch = batch
        self._together = together
        self._tell = tell
        self._began = time.perf_counter()
        self._total = total
        self._done = self._before = 0
        self._count = _EvaluationTally()
        self._open: dict[str, int] = {}  # missing scores of sequences under way: progress goes by whole sequences
        self._outbox = _Outbox(store, self._finished, pause)

    def missing(self) -> Iterator[list[Task]]:
        tasks = self._tasks()
        if self._batch is None:
            return ([one] for task in tasks for one in task.split(together=self._together))
        return batched(tasks, self._batch)

    def _tasks(self) -> Iterator[Task]:
        for task in tasks_of(self._store, self._run, self._plan):
            self._count.sequences += 1
            self._count.skipped += task.present
            if task.missing:
                self._open[task.sequence_id] = task.missing
                yield task
            else:
                self._before += 1
                self._finished(1)

    def take(self, results: Ordered[list[ScoredTask]]) -> None:
        scored = [one for batch in results for one in batch]
        outcomes = [outcome for one in scored for outcome in self._outcomes(one)]
        of_stages = [outcome for one in scored for outcome in self._outcomes_of_stages(one)]
        self._count.add(outcomes, sum(one.wanted for one in scored), of_stages)
        self._outbox.put([*outcomes, *of_stages], sum(map(self._ends, scored)))

    def close(self, *, complete: bool) -> None:
        self._outbox.close()

    def summary(self, seconds: float) -> Summary:
        return self._count.summary(self._run, seconds)

    def _outcomes(self, scored: ScoredTask) -> Iterator[Outcome]:
        now = self._clock()
        for observed in scored.turns:
            for given in observed.given:
                yield _outcome(self._run, scored.sequence_id, observed.turn, given, self._provenances, now)

    def _outcomes_of_stages(self, scored: ScoredTask) -> Iterator[Outcome]:
        """What the observers gave on which the run's own decided; what an earlier try has stored is left out."""
        now = self._clock()
        given = [
            (observed.turn, stage)
            for observed in scored.turns
            for one in observed.given
            if not isinstance(one, NotRead)
            for stage in one.stages
        ]
        known: set[EvaluationKey] = set()
        for run, _ in self._stages.values() if given else ():
            known |= self._store.recorded(run, [scored.sequence_id])
            known |= {one.key for one in self._store.unread(run, ids=[scored.sequence_id])}
        for turn, stage in given:
            run, origins = self._stages[stage.name]
            outcome = _outcome(run, scored.sequence_id, turn, stage.given, origins, now, stage.why)
            if outcome.key not in known:
                yield outcome

    def _ends(self, scored: ScoredTask) -> bool:
        """Note that scores of a sequence are done, and tell whether those were the last of it."""
        left = self._open.pop(scored.sequence_id) - scored.wanted
        if left:
            self._open[scored.sequence_id] = left
        return not left

    def _finished(self, sequences: int) -> None:
        self._done += sequences
        if self._tell is not None:
            here, seconds = self._done - self._before, time.perf_counter() - self._began
            counts = Counts(conversations=here, scores=self._count.evaluations, failures=self._count.failures)
            self._tell(Progress(self._done, self._total, self._before, here, seconds, counts))


def _provenances(run: Run, versions: Mapping[str, str]) -> dict[str, Provenance]:
    return {name: run.provenance(version, code_version()) for name, version in versions.items()}


def _outcome(
    run: str,
    sequence_id: str,
    turn: int,
    given: Observation | ObservationFailure | NotRead,
    origins: Mapping[str, Provenance],
    now: datetime,
    why: str = "",
) -> Outcome:
    """Put key, provenance and time on what an observer gave; `why` tells why a stage was asked."""
    key = EvaluationKey(run, sequence_id, turn, given.side, given.principle)
    origin = origins[given.principle]
    if isinstance(given, NotRead):
        return Unread(key, given.language, origin, now)
    calls = () if given.stages else given.calls  # they are with the stage that made them
    rests = None if given.stages else given.raw_reply, given.latency_s, given.cost_usd, calls
    if isinstance(given, Observation):
        told = ". ".join(filter(None, (f"Asked: {why}" if why else "", given.reasoning)))
        return Evaluation(key, given.score, origin, now, told or None, *rests)
    return Failure(key, given.reason, given.message, origin, now, *rests)


@dataclass(slots=True)
class _EvaluationTally:
    """Counts what one call of `evaluate` does; the fields are those of `Summary`."""

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

    def add(self, outcomes: Ordered[Outcome], wanted: int, of_stages: Ordered[Outcome] = ()) -> None:
        """Count what came of so many scores that were wanted; the rest are gaps. Of stages only calls count."""
        self.gaps += wanted - len(outcomes)
        calls = {  # one may be for several principles
            (one.key.sequence_id, one.key.turn, one.key.side, id(call.reply or call)): call
            for one in (*outcomes, *of_stages)
            if not isinstance(one, Unread)
            for call in one.calls
        }.values()
        self.calls += len(calls)
        self.cached += sum(call.cached for call in calls)
        paid = [call.reply for call in calls if call.reply is not None and not call.cached]
        self.prompt_tokens += sum(reply.prompt_tokens or 0 for reply in paid)
        self.completion_tokens += sum(reply.completion_tokens or 0 for reply in paid)
        self.structured.update(call.reply.structured for call in calls if call.reply and call.reply.structured)
        for outcome in outcomes:
            if isinstance(outcome, Unread):
                self.unread[outcome.language] += 1
                continue
            if isinstance(outcome, Failure):
                self.failures += 1
                self.reasons.add(outcome.reason, outcome.message)
            else:
                self.evaluations += 1
            if outcome.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + outcome.cost_usd

    def summary(self, run: str, seconds: float) -> Summary:
        counts = {name: getattr(self, name) for name in _EvaluationTally.__slots__}
        counts |= {"structured": dict(self.structured), "commonest_failure": counts.pop("reasons").commonest}
        counts["unread"] = dict(self.unread.most_common())
        return Summary(run=run, seconds=seconds, **counts)


class _Outbox:
    """Keeps one write under way, and collects what comes meanwhile for the next; `finished` is told how many
    sequences more are durable. `put` has to be called now and then even where nothing comes."""

    def __init__(self, store: Store, finished: Callable[[int], None], pause: float) -> None:
        self._store = store
        self._tell = finished
        self._pause = pause
        self._not_before = time.monotonic()
        self._waiting: list[Outcome] = []
        self._finished = 0
        self._under_way: Future[None] | None = None
        self._finished_with_it = 0

    def put(self, outcomes: Ordered[Outcome], finished: int) -> None:
        self._waiting += outcomes
        self._finished += finished
        free = self._under_way is None or self._under_way.done()
        if (free and time.monotonic() >= self._not_before) or len(self._waiting) >= _MOST:
            self._write()

    def close(self) -> None:
        while self._under_way is not None or self._waiting or self._finished:
            self._write()

    def _write(self) -> None:
        """Wait for the write under way, and begin the next with all that waits."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
            if self._finished_with_it:
                self._tell(self._finished_with_it)
        if self._waiting or self._finished:
            self._not_before = time.monotonic() + self._pause
            self._under_way = self._store.append_soon(self._waiting)
            self._waiting, self._finished_with_it, self._finished = [], self._finished, 0
