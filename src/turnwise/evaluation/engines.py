"""Ways to get work done: in this thread, in threads, or in processes.

Results come in the order of the work; where an observer's scores don't depend on one another, each score is work
of its own and comes when it is made.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar

from turnwise._support.batches import batched
from turnwise.errors import ObserverError, TurnwiseError
from turnwise.evaluation.plan import Task, split
from turnwise.observers import (
    BoundsRequests,
    CanStop,
    Context,
    ObservedTurn,
    Observer,
    ObserverSession,
    Workers,
)

Item = TypeVar("Item")
Result = TypeVar("Result")

_BATCH = 16
"""Sequences that a computing worker takes at once: enough to outweigh the way there and back."""

_SPARE = 5
"""For so many requests under way there is a thread more, which prepares or stores one meanwhile."""


class Scored(NamedTuple):
    """A sequence with all that came of its task, turn by turn; `wanted` is how many scores were asked for."""

    sequence_id: str
    turns: tuple[ObservedTurn, ...]
    wanted: int


def score_task(observer: Observer, context: Context, task: Task) -> Scored:
    """Score what is wanted of a sequence; errors as for `ObserverSession`."""
    if not task.wanted:
        return Scored(task.sequence_id, (), 0)
    session = ObserverSession(observer, context, task.sequence_id)
    return Scored(task.sequence_id, session.observe_all(task.turns, task.wanted), task.missing)


def score_all(
    observer: Observer, build: Callable[[], Observer] | None, context: Context, tasks: Iterable[Task], jobs: int
) -> Iterator[list[Scored]]:
    """Score tasks, which are taken lazily, in batches; memory is bounded by a few of them.

    For an independent observer a batch holds scores of any sequences, as they come; else whole sequences, in the
    order of the tasks. `build` makes the observer anew in a worker process; None keeps it in this process.

    Where an independent observer can't go on, or at an interrupt, what was under way is finished and yielded
    before the error, since it may have been paid for.
    """
    if observer.info.independent:
        yield from _score_independent(observer, context, itertools.chain.from_iterable(map(split, tasks)), jobs)
        return
    computes = observer.info.workers is Workers.PROCESSES
    batches = batched(tasks, _BATCH if computes else 1)
    if jobs == 1:
        for batch in batches:
            yield [score_task(observer, context, task) for task in batch]
    elif computes and build is not None:
        with _pool(process_pool(jobs)) as pool:
            yield from _in_order(
                pool, functools.partial(_score_in_process, pickle.dumps(build), context), batches, jobs
            )
    else:
        with _pool(ThreadPoolExecutor(jobs, thread_name_prefix="turnwise-evaluate")) as pool:
            yield from _in_order(pool, functools.partial(_score_batch, observer, context), batches, jobs)


def _score_independent(
    observer: Observer, context: Context, units: Iterable[Task], jobs: int
) -> Iterator[list[Scored]]:
    score = functools.partial(score_task, observer, context)
    if jobs == 1:
        for unit in units:
            yield [score(unit)]
        return
    threads = jobs
    if isinstance(observer, BoundsRequests):
        observer.bound_requests(jobs)
        threads += max(1, jobs // _SPARE)
    with _pool(ThreadPoolExecutor(threads, thread_name_prefix="turnwise-evaluate")) as pool:
        try:
            yield from as_they_come(pool, score, units, 2 * threads, functools.partial(_stop, observer))
        except BaseException:
            _stop(observer)  # else closing the pool would wait for the pauses between retries
            raise


def _stop(observer: Observer) -> None:
    if isinstance(observer, CanStop):
        observer.stop("the run was stopped")


def _in_order(
    pool: Executor, score: Callable[[Item], Result], batches: Iterable[Item], jobs: int
) -> Iterator[Result]:
    running: deque[Future[Result]] = deque()
    try:
        for batch in batches:
            running.append(pool.submit(score, batch))
            if len(running) > 2 * jobs:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool as error:
        raise ObserverError(
            "a worker process died; the same command continues where it stopped (-j 1 shows the cause)"
        ) from error


def _score_batch(observer: Observer, context: Context, tasks: list[Task]) -> list[Scored]:
    return [score_task(observer, context, task) for task in tasks]


def _score_in_process(build: bytes, context: Context, tasks: list[Task]) -> list[Scored]:
    try:
        return _score_batch(_observer_of_process(build), context, tasks)
    except TurnwiseError as error:
        # Text travels between processes; an error with arguments of its own may not.
        raise ObserverError(str(error)) from error


@functools.cache
def _observer_of_process(build: bytes) -> Observer:
    observer: Observer = pickle.loads(build)()  # made by the evaluating process, a moment ago
    return observer


def process_pool(jobs: int, begin: Callable[..., None] | None = None, *given: object) -> ProcessPoolExecutor:
    """A pool of spawned processes that leave interrupts to this one and end with it; each first calls `begin`."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        jobs, mp_context=spawn, initializer=functools.partial(_enter_process, begin, *given)
    )


def _enter_process(begin: Callable[..., None] | None, *given: object) -> None:
    """Leave interrupts to the parent, and end when it ends, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        end_with(parent.sentinel)
    if begin is not None:
        begin(*given)


def end_with(waited_for: int | Connection) -> None:
    """End this process, whatever it does, once something is ready: a process has ended, or a pipe is closed."""

    def wait() -> None:
        multiprocessing.connection.wait([waited_for])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _pool(pool: Executor) -> Iterator[Executor]:
    """Close a pool; on an error or interrupt, what has not begun is dropped rather than waited for."""
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_WHILE = 0.05
"""Seconds after which the lack of a result is told."""


def as_they_come(
    pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], most: int, stop: Callable[[], None]
) -> Iterator[list[Result]]:
    """Yield results as they come, all that are there at once; now and then none, where none came for a while.

    `most` bounds the items that are taken and not yet done. After an error or an interrupt no work is begun any
    more; `stop` cuts short what only waits, and what is under way is finished and yielded, since it may have been
    paid for; then the error goes on. A second interrupt ends the wait.
    """
    left = iter(items)
    running: set[Future[Result]] = set()
    ended: SimpleQueue[Future[Result]] = SimpleQueue()
    try:
        while True:
            for item in itertools.islice(left, most - len(running)):
                future = pool.submit(work, item)
                running.add(future)
                future.add_done_callback(ended.put)
            if not running:
                return
            done = _take(ended)
            running.difference_update(done)
            yield [future.result() for future in done if future.exception() is None]
            for future in done:
                future.result()  # the first error, once the results beside it are safe
    except (Exception, KeyboardInterrupt):
        stop()
        for future in as_completed([future for future in running if not future.cancel()]):
            if future.exception() is None:
                yield [future.result()]
        raise


def _take(ended: SimpleQueue[Future[Result]]) -> list[Future[Result]]:
    """All that has ended; waits a while for the first."""
    try:
        done = [ended.get(timeout=_WHILE)]
        while not ended.empty():
            done.append(ended.get())
    except Empty:
        return []
    return done
