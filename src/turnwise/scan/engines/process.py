"""The process engine: spawned workers on this machine, each with an observer of its own."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection

from turnwise.errors import ObserverError, TurnwiseError, UsageError
from turnwise.evaluation.engines import as_they_come, end_with, process_pool
from turnwise.scan.engines import Work, Worker
from turnwise.scan.engines.allowance import shared_allowance
from turnwise.scan.parts import Done, Part


class ProcessEngine:
    """Does parts in several processes at once.

    Workers ignore interrupts, which the driver handles, and end with it, even if it is killed. Where the scan is
    interrupted, or can't go on, they end at once and the parts under way are repeated; what is paid for is
    finished first, unless a second interrupt comes.

    Args:
        jobs: processes, at least 1.

    Raises:
        UsageError: fewer than one.
    """

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"a scan needs at least 1 worker, not {jobs}")
        self._jobs = jobs

    def run(self, work: Work, parts: Iterable[Part]) -> Iterator[Done]:
        """Yield what comes of each part as it comes; see `turnwise.scan.engines.Engine`.

        Raises:
            UsageError: the observer or detector can't go to another process.
            ObserverError: a worker can't go on, or died.
        """
        try:
            pickle.dumps(work)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UsageError(
                f"this observer or detector can't go to another process ({error}): use the engine inline"
            ) from error
        stopped, stop = multiprocessing.Pipe(duplex=False)
        with (
            stopped,
            stop,
            shared_allowance(work) as shared,
            process_pool(self._jobs, _open, pickle.dumps(shared), stopped) as pool,
        ):
            paid = shared is not work
            try:
                # One more than workers, so that none waits for its next part; what is held is bounded by that.
                for batch in as_they_come(pool, _do, parts, self._jobs + 1, _wait if paid else stop.close):
                    yield from batch
            except BrokenProcessPool as error:
                raise ObserverError(
                    "a worker process died; the same command continues where it stopped "
                    "(--engine inline shows the cause)"
                ) from error
            except BaseException:
                stop.close()
                pool.shutdown(wait=True, cancel_futures=True)
                raise


class _Process:
    """What a worker process holds; a class, since a process has only one."""

    work: bytes = b""
    worker: Worker | None = None


def _wait() -> None:
    """Let workers finish what they have begun."""


def _open(work: bytes, stopped: Connection) -> None:
    end_with(stopped)
    _Process.work = work


def _do(part: Part) -> Done:
    try:
        if _Process.worker is None:
            opened: Work = pickle.loads(_Process.work)  # made by the driver, a moment ago
            _Process.worker = opened.open()
        return _Process.worker.do(part)
    except TurnwiseError as error:
        # Text travels between processes; an error with arguments of its own may not.
        raise ObserverError(str(error)) from error
