"""Engines by name, for the command line."""

from __future__ import annotations

from typing import Final

from turnwise.errors import UnknownNameError, UsageError
from turnwise.scan.engines import Engine, InlineEngine
from turnwise.scan.engines.process import ProcessEngine

ENGINES: Final = ("inline", "process", "ray")
"""What ``--engine`` takes."""

GPU_DEVICES = frozenset({"cuda", "tensorrt", "migraphx"})
"""Devices that Ray counts as a GPU."""


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
        from turnwise.scan.engines.ray import RayEngine

        return RayEngine(jobs, address, gpus=float(device in GPU_DEVICES))
    return InlineEngine() if name == "inline" else ProcessEngine(1 if jobs is None else jobs)
