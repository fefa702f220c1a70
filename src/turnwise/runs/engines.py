"""Engines: how work gets to workers, in this thread, in threads, or in spawned processes (Ray: `ray_engine`)."""

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
from typing import Any, Final, TypeVar

from turnwise.errors import ObserverError, TurnwiseError, UnknownNameError, UsageError
from turnwise.runs.ray_engine import RayEngine
from turnwise.runs.run import Engine, PaidWork, Work, Worker, check_travels, checked_jobs

Item = TypeVar("Item")
Result = TypeVar("Result")

ENGINES: Final = ("inline", "process", "ray")
"""What ``turnwise scan --engine`` takes."""

_GPU_DEVICES = frozenset({"cuda", "tensorrt", "migraphx"})
"""Devices that Ray counts as a GPU."""


@contextmanager
def shared_allowance(work: Work[Item, Result]) -> Iterator[Work[Item, Result]]:
    """Yield the work for worker processes on this machine, and serve their common allowance meanwhile."""
    if not isinstance(work, PaidWork) or work.limits is None:
        yield work
        return
    from turnwise.observers.llm.limits import Ledger, serve

    with serve(Ledger(*work.limits)) as allowance:
        yield work.with_allowance(allowance)


class InlineEngine:
    """Does items one after the other in this thread."""

    def run(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what comes of each item, in order; see `Engine`."""
        worker = work.open()
        for item in items:
            yield [worker.do(item)]


def _nothing() -> None:
    """What is under way is finished."""


class ThreadEngine:
    """Does items in threads that share a worker, for observers that wait for answers.

    `ordered` gives results in the order of the items. Else they come as they are made, and at an error or an
    interrupt what is under way is finished and given first; `stop` cuts short what only waits.
    """

    def __init__(self, threads: int, *, ordered: bool = False, stop: Callable[[], None] = _nothing) -> None:
        self._threads = threads
        self._ordered = ordered
        self._stop = stop

    def run(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what comes of items; see `Engine`."""
        worker, most = work.open(), 2 * self._threads
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="turnwise-run")
        try:
            if self._ordered:
                yield from _in_order(pool, worker.do, items, most)
            else:
                yield from _as_they_come(pool, worker.do, items, most, self._stop)
        except BaseException:
            self._stop()  # else closing the pool would wait for the pauses between retries
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class ProcessEngine:
    """Does items in several processes at once.

    Workers ignore interrupts, which this process handles, and end with it, even if it is killed. Where the run is
    interrupted, or can't go on, they end at once and the items under way are repeated; what is paid for is
    finished first, unless a second interrupt comes.

    Args:
        jobs: processes, at least 1.
        ordered: whether results come in the order of the items.
        alone: what makes a command do its work in one process, for messages.

    Raises:
        UsageError: fewer than one process.
    """

    def __init__(self, jobs: int, *, ordered: bool = False, alone: str = "--engine inline") -> None:
        self._jobs = checked_jobs(jobs)
        self._ordered = ordered
        self._alone = alone

    def run(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what comes of items; see `Engine`.

        Raises:
            UsageError: the observer or detector can't go to another process.
            ObserverError: a worker can't go on, or died.
        """
        check_travels(work)
        stopped, stop = multiprocessing.Pipe(duplex=False)
        with (
            stopped,
            stop,
            shared_allowance(work) as shared,
            _process_pool(self._jobs, pickle.dumps(shared), stopped) as pool,
        ):
            do: Callable[[Item], Result] = _do
            try:
                if self._ordered:
                    yield from _in_order(pool, do, items, 2 * self._jobs)
                else:
                    # One more than workers, so that none waits for its next item; what is held is bounded by that.
                    cut_short = stop.close if shared is work else _nothing
                    yield from _as_they_come(pool, do, items, self._jobs + 1, cut_short)
            except BrokenProcessPool as error:
                raise ObserverError(
                    f"a worker process died; the same command continues where it stopped ({self._alone} shows the "
                    "cause)"
                ) from error
            except BaseException:
                stop.close()
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def make_engine(
    name: str, jobs: int | None = None, address: str | None = None, device: str | None = None
) -> Engine:
    """Return the engine of a name.

    Args:
        name: one of `ENGINES`.
        jobs: workers, at least 1; ``inline`` always has one, ``process`` has one by default, and ``ray`` one for
            each processor.
        address: of a running Ray cluster, such as ``auto``; for ``ray`` alone.
        device: where the observer runs; Ray gives each worker a GPU where that needs one.

    Raises:
        UnknownNameError: no engine has that name.
        UsageError: fewer than one worker, or an address for another engine than ``ray``.
        PluginError: Ray is not installed.
    """
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    if address is not None and name != "ray":
        raise UsageError(f"--address is that of a Ray cluster, and the engine is {name}: add --engine ray")
    if name == "ray":
        return RayEngine(jobs, address, gpus=float(device in _GPU_DEVICES))
    return InlineEngine() if name == "inline" else ProcessEngine(1 if jobs is None else jobs)


def _in_order(
    pool: Executor, do: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[list[Result]]:
    running: deque[Future[Result]] = deque()
    for item in items:
        running.append(pool.submit(do, item))
        if len(running) > most:
            yield [running.popleft().result()]
    while running:
        yield [running.popleft().result()]


_WHILE = 0.05
"""Seconds after which the lack of a result is told."""


def _as_they_come(
    pool: Executor, do: Callable[[Item], Result], items: Iterable[Item], most: int, stop: Callable[[], None]
) -> Iterator[list[Result]]:
    """Yield all results that are there at once; now and then none, where none came for a while.

    `most` bounds the items that are taken and not yet done. After an error or an interrupt no item is begun any
    more; `stop` cuts short what only waits, and what is under way is finished and yielded, since it may have been
    paid for; then the error goes on. A second interrupt ends the wait.
    """
    left = iter(items)
    running: set[Future[Result]] = set()
    ended: SimpleQueue[Future[Result]] = SimpleQueue()
    try:
        while True:
            for item in itertools.islice(left, most - len(running)):
                future = pool.submit(do, item)
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


def _process_pool(jobs: int, work: bytes, stopped: Connection) -> ProcessPoolExecutor:
    """Spawned processes that leave interrupts to this one, and end once it ends or `stopped` is closed."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        jobs, mp_context=spawn, initializer=functools.partial(_enter_process, work, stopped)
    )


class _Process:
    """What a worker process holds; a class, since a process has only one."""

    work: bytes = b""
    worker: Worker[Any, Any] | None = None


def _enter_process(work: bytes, stopped: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    waited_for: list[Connection | int] = [stopped] if parent is None else [stopped, parent.sentinel]

    def end() -> None:
        multiprocessing.connection.wait(waited_for)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
    _Process.work = work


def _do(item: Any) -> Any:
    try:
        if _Process.worker is None:
            opened: Work[Any, Any] = pickle.loads(_Process.work)  # made by the parent, a moment ago
            _Process.worker = opened.open()
        return _Process.worker.do(item)
    except TurnwiseError as error:
        # Text travels between processes; an error with arguments of its own may not.
        raise ObserverError(str(error)) from error
