"""The inline engine: one worker in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnwise.scan.engines import Work
from turnwise.scan.parts import Done, Part


class InlineEngine:
    """Does parts one after the other in this process."""

    def run(self, work: Work, parts: Iterable[Part]) -> Iterator[Done]:
        """Yield what comes of each part, in order; see `turnwise.scan.engines.Engine`."""
        worker = work.open()
        for part in parts:
            yield worker.do(part)
