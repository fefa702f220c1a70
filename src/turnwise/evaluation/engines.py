"""Ways to get work done: in this thread, in threads, or in processes.

Results come in the order of the work, but for observers whose scores do not hang on one another: there each score
is work of its own, and comes when it is made.
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

from turnwise.batches import batched
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
    """A sequence with all that came of its task.

    Args:
        sequence_id: id of the sequence.
        turns: scores, failures and gaps of the turns of which something was wanted, in order.
        wanted: how many scores were asked for.
    """

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
    """Score work in batches, memory bounded by a few of them.

    Where the observer is independent, a batch holds scores of any sequences, as they come; else it holds whole
    sequences in the order of the work.

    Args:
        observer: scores; used as it is in this thread and in threads.
        build: builds the observer anew in a worker process; None keeps it in this process.
        context: what the observer may see.
        tasks: what to score; taken lazily.
        jobs: how many workers, at least 1.

    Raises:
        ObserverError: the observer can't go on. Where it is independent, what was under way is finished and
            yielded first, since it may have been paid for; the same holds for an interrupt.
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
    """Return a pool of spawned processes, which leave interrupts to this one and end when it does.

    Args:
        jobs: how many.
        begin: called in each process before its first work; None for nothing.
        given: what it is called with.
    """
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

    After an error or an interrupt no work is begun any more; what is under way is finished and its results are
    yielded, since they may have been paid for; then the error goes on. A second interrupt ends the wait.

    Args:
        pool: does the work.
        work: makes a result of an item.
        items: taken only as there is room.
        most: items that are taken and not yet done, at least 1.
        stop: called after an error or interrupt, to cut short what only waits.
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
    """Return all that has ended; wait a while for the first."""
    try:
        done = [ended.get(timeout=_WHILE)]
        while not ended.empty():
            done.append(ended.get())
    except Empty:
        return []
    return done
