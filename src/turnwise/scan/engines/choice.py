"""Engines by name, for the command line."""

from __future__ import annotations

from typing import Final

from turnwise.errors import UnknownNameError
from turnwise.scan.engines import Engine
from turnwise.scan.engines.inline import InlineEngine
from turnwise.scan.engines.process import ProcessEngine

ENGINES: Final = ("inline", "process")
"""What ``--engine`` takes."""


def make_engine(name: str, jobs: int = 1) -> Engine:
    """Return the engine of a name.

    Args:
        name: one of `ENGINES`.
        jobs: workers, at least 1; ``inline`` has one whatever this says.

    Raises:
        UnknownNameError: no engine has that name.
        UsageError: fewer than one worker.
    """
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    return InlineEngine() if name == "inline" else ProcessEngine(jobs)
