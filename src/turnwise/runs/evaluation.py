"""An evaluation: a run whose sink is the store."""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Ordered

from turnwise._support.revision import code_version
from turnwise.clock import Clock, utc_now
from turnwise.conversation import Label, Side
from turnwise.errors import UsageError
from turnwise.observers import (
    DEFAULT_OBSERVER,
    BoundsRequests,
    CanStop,
    Context,
    KeepsReplies,
    Observer,
    Workers,
    build_observer,
    check_asked,
    check_supported,
)
from turnwise.principles import Principle, builtin_principles
from turnwise.runs.engines import InlineEngine, ProcessEngine, ThreadEngine
from turnwise.runs.plan import Plan, describe_run, describe_stages
from turnwise.runs.run import Engine, Tell, carry_out
from turnwise.runs.store_sink import StoreSink, Summary
from turnwise.runs.task_work import TaskWork
from turnwise.scoring import EvaluationKey
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
    started = store.start_run(Run(**told, code_version=code_version(), created_at=clock()))
    stages = {
        name: store.start_run(Run(**one, code_version=code_version(), created_at=clock()))
        for name, one in describe_stages(run, scorer, seen).items()
    }
    versions = {principle.name: scorer.info.revision_of(principle) for principle in judged}
    _refuse_other_versions(run, store.principle_versions(run), versions)
    if isinstance(scorer, KeepsReplies):
        scorer = scorer.with_journal(store.journal)

    independent, computes = scorer.info.independent, scorer.info.workers is Workers.PROCESSES
    apart = computes and not independent and jobs > 1 and isinstance(observer, str)
    engine = ProcessEngine(jobs, ordered=True, alone="-j 1") if apart else _engine_here(scorer, jobs)
    work = TaskWork(observer if apart else scorer, seen, settings or {})
    sink = StoreSink(
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
    """The engine for an observer in this process."""
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
    """The name under which a run keeps an observer object: its specification, where it has one.

    A run that was begun under the bare name goes on under it.
    """
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
