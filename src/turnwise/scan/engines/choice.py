"""Engines by name, for the command line."""

from __future__ import annotations

from typing import Final

from turnwise.errors import UnknownNameError, UsageError
from turnwise.scan.engines import Engine
from turnwise.scan.engines.inline import InlineEngine
from turnwise.scan.engines.process import ProcessEngine

ENGINES: Final = ("inline", "process", "ray")
"""What ``--engine`` takes."""


def make_engine(name: str, jobs: int = 1, address: str | None = None, gpus: float = 0.0) -> Engine:
    """Return the engine of a name.

    Args:
        name: one of `ENGINES`.
        jobs: workers, at least 1; ``inline`` has one whatever this says.
        address: of the Ray cluster, such as ``auto``; None for this machine.
        gpus: share of a GPU that each Ray worker needs, for an observer that runs on one.

    Raises:
        UnknownNameError: no engine has that name.
        UsageError: fewer than one worker, or an address for an engine that has none.
        PluginError: Ray is not installed.
    """
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    if name == "ray":
        from turnwise.scan.engines.ray import RayEngine

        return RayEngine(jobs, address, gpus)
    if address is not None:
        raise UsageError(f"the engine {name} runs on this machine and takes no address; use --engine ray")
    return InlineEngine() if name == "inline" else ProcessEngine(jobs)
