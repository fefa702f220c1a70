"""Runs: what a sink lacks goes through an engine to workers (here, in threads or processes; Ray: `ray_engine`)."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from turnwise.errors import ObserverError, TurnwiseError, UnknownNameError, UsageError
from turnwise.findings import Counts

Item = TypeVar("Item")
Result = TypeVar("Result")
Given_contra = TypeVar("Given_contra", contravariant=True)
Made_co = TypeVar("Made_co", covariant=True)

ENGINES: Final = ("inline", "process", "ray")
"""What ``turnwise scan --engine`` takes."""

_GPU_DEVICES = frozenset({"cuda", "tensorrt", "migraphx"})
"""Devices that Ray counts as a GPU."""

_WHILE = 0.05
"""Seconds after which the lack of a result is told."""


class WorkerSetup(Protocol[Given_contra, Made_co]):
    """All that a worker must know. Picklable and light where it goes to other processes."""

    def open(self) -> Callable[[Given_contra], Made_co]:
        """Load what is slow to load, and return what does an item; TurnwiseError where nothing can be done."""


class Engine(Protocol):
    """Gives items to workers."""

    def run(self, work: WorkerSetup[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what came since the last time, now and then nothing; TurnwiseError where a worker can't go on.

        Items are taken only as there is room, so that memory is bounded; their generator may raise. Where the
        iterator is closed, or an error ends it, items that have not begun are dropped and no worker is left
        running.
        """


class SpendingLimits(NamedTuple):
    """What all workers of a paid observer together may spend, and send in a minute; None for no limit."""

    budget_usd: float | None = None
    per_minute: float | None = None


@runtime_checkable
class PaidWork(Protocol):
    """Work that may be paid for: its workers share one budget and one pace, however many they are."""

    @property
    def limits(self) -> SpendingLimits | None: ...  # None where nothing is paid for
    def with_allowance(self, allowance: Any) -> Any: ...  # a `turnwise.observers.llm.limits.Allowance`


def checked_jobs(jobs: int) -> int:
    if jobs < 1:
        raise UsageError(f"a scan needs at least 1 worker, not {jobs}")
    return jobs


def check_travels(work: object) -> None:
    """Raise UsageError unless work can go to another process."""
    try:
        pickle.dumps(work)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(
            f"this observer or detector can't go to another process ({error}): use the engine inline"
        ) from error


class Sink(Protocol[Made_co, Given_contra]):
    """Where results go. It knows what it has, so that a run goes on where it was stopped or killed."""

    def missing(self) -> Iterator[Made_co]:
        """Yield the work that is left; it is taken only as there is room."""

    def take(self, results: Sequence[Given_contra]) -> None:
        """Take what came since the last time, perhaps nothing."""

    def close(self, *, complete: bool) -> None:
        """Return once all that was taken is durable; `complete` says that nothing is missing any more."""


def carry_out(work: WorkerSetup[Item, Result], engine: Engine, sink: Sink[Item, Result]) -> None:
    """Do what a sink lacks. After an error or an interrupt too, what was done is durable before it goes on."""
    complete = False
    try:
        for results in engine.run(work, sink.missing()):
            sink.take(results)
        complete = True
    finally:
        sink.close(complete=complete)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Args:
        done: how much is done of `total`: bytes of the inputs of a scan, sequences of an evaluation.
        total: how much there is.
        before: what of it needed nothing any more in this call.
        here: conversations that this call finished.
        seconds: seconds since this call began.
        counts: what came of it: of a scan in all calls, of an evaluation in this one.
    """

    done: int
    total: int
    before: int
    here: int
    seconds: float
    counts: Counts = field(default_factory=Counts)

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace of this call; None while nothing is done."""
        done = self.done - self.before
        return self.seconds * (self.total - self.done) / done if done > 0 else None


Tell = Callable[[Progress], None]
"""Is told how far a run is, each time that more of it is done and durable."""


@contextmanager
def shared_allowance(work: WorkerSetup[Item, Result]) -> Iterator[WorkerSetup[Item, Result]]:
    """Yield the work for worker processes on this machine, and serve their common allowance meanwhile."""
    if not isinstance(work, PaidWork) or work.limits is None:
        yield work
        return
    from turnwise.observers.llm.limits import Ledger, serve

    with serve(Ledger(*work.limits)) as allowance:
        yield work.with_allowance(allowance)


class InlineEngine:
    """Does items one after the other in this thread."""

    def run(self, work: WorkerSetup[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what comes of each item, in order; see `Engine`."""
        do = work.open()
        for item in items:
            yield [do(item)]


class ThreadEngine:
    """Does items in threads that share a worker, for observers that wait for answers.

    `ordered` gives results in the order of the items. Else they come as they are made, and at an error or an
    interrupt what is under way is finished and given first; `stop` cuts short what only waits.
    """

    def __init__(self, threads: int, *, ordered: bool = False, stop: Callable[[], None] = lambda: None) -> None:
        self._threads = threads
        self._ordered = ordered
        self._stop = stop

    def run(self, work: WorkerSetup[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what comes of items; see `Engine`."""
        do, most = work.open(), 2 * self._threads
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="turnwise-run")
        try:
            if self._ordered:
                yield from _in_order(pool, do, items, most)
            else:
                yield from _as_they_come(pool, do, items, most, self._stop)
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

    def run(self, work: WorkerSetup[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what comes of items; see `Engine`.

        Raises:
            UsageError: the observer or detector can't go to another process.
            ObserverError: a worker can't go on, or died.
        """
        check_travels(work)
        stopped, stop = multiprocessing.Pipe(duplex=False)
        spawn = multiprocessing.get_context("spawn")
        with (
            stopped,
            stop,
            shared_allowance(work) as shared,
            ProcessPoolExecutor(self._jobs, spawn, _enter_process, (pickle.dumps(shared), stopped)) as pool,
        ):
            do: Callable[[Item], Result] = _do
            try:
                if self._ordered:
                    yield from _in_order(pool, do, items, 2 * self._jobs)
                else:
                    # One more than workers, so that none waits for its next item; what is held is bounded by that.
                    cut_short = stop.close if shared is work else (lambda: None)
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
        from turnwise.runs.ray_engine import RayEngine

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


def _as_they_come(
    pool: Executor, do: Callable[[Item], Result], items: Iterable[Item], most: int, stop: Callable[[], None]
) -> Iterator[list[Result]]:
    """Yield all results that are there at once; now and then none, where none came for a while."""
    # After an error or an interrupt no item is begun any more; `stop` cuts short what only waits, and what is
    # under way is finished and yielded, since it may have been paid for; then the error goes on. A second
    # interrupt ends the wait.
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
    try:
        done = [ended.get(timeout=_WHILE)]
        while not ended.empty():
            done.append(ended.get())
    except Empty:
        return []
    return done


class _Process:
    """What a worker process holds; a class, since a process has only one."""

    work: bytes = b""
    do: Callable[[Any], Any] | None = None


def _enter_process(work: bytes, stopped: Connection) -> None:
    """Leave interrupts to the parent, and end once that ends or `stopped` is closed."""
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
        if _Process.do is None:
            opened: WorkerSetup[Any, Any] = pickle.loads(_Process.work)  # made by the parent, a moment ago
            _Process.do = opened.open()
        return _Process.do(item)
    except TurnwiseError as error:
        # Text travels between processes; an error with arguments of its own may not.
        raise ObserverError(str(error)) from error
