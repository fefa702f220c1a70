"""Outcomes on their way to the record: many small ones share a write, and scoring goes on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from turnwise.scoring import Evaluation, Failure
from turnwise.store import Store

Progress = Callable[[int], None]
"""Told how many sequences were finished since it was told last."""

_MOST = 2_000
"""Outcomes that may wait for the write before them; then whoever brings more waits."""


class Outbox:
    """Keeps one write under way, and collects what comes meanwhile for the next.

    Args:
        store: where outcomes go.
        progress: told of sequences once they are durable.
        pause: seconds from the beginning of a write to that of the next, at least; for outcomes that come one by
            one, of whom somebody calls `put` now and then even where none comes.
        monotonic: gives seconds from an arbitrary start.
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
        self._waiting: list[Evaluation | Failure] = []
        self._finished = 0
        self._under_way: Future[None] | None = None
        self._finished_with_it = 0

    def put(self, outcomes: Sequence[Evaluation | Failure], finished: int) -> None:
        """Take outcomes.

        Args:
            outcomes: what is to be stored.
            finished: how many sequences are finished with them.

        Raises:
            TurnwiseError: an earlier write failed.
        """
        self._waiting += outcomes
        self._finished += finished
        free = self._under_way is None or self._under_way.done()
        if (free and self._monotonic() >= self._not_before) or len(self._waiting) >= _MOST:
            self._write()

    def close(self) -> None:
        """Return once everything is durable.

        Raises:
            TurnwiseError: a write failed.
        """
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
