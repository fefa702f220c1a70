"""Results as they come: the order of the work is given up, so that nobody waits for the slowest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, as_completed
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

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
