"""Drawing charts, each in a process that may die of it: what draws them ends the whole process where it fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.errors import ChartError
from turnwise.visible import visible, visible_lines

Spec = Mapping[str, Any]
"""A chart as Vega-Lite describes it: JSON values."""

PNG_SCALE = 2.0
"""Pixels of a PNG for each unit of the chart."""

SECONDS = 60.0
"""How long one drawing may take."""

_START_SECONDS = 30.0
"""What a process may take beside its drawings."""

_SHOWN = 200
"""Characters of a reason that a message shows."""


def chart(spec: Spec, kind: str) -> dict[str, Any]:
    """Return the job of drawing a chart.

    Args:
        spec: the chart; its texts are drawn as `cleaned` gives them.
        kind: ``"svg"``, ``"png"`` or ``"pdf"``.
    """
    return {"make": kind, "spec": cleaned(spec), "version": vl_version(spec), "scale": PNG_SCALE}


def pdf_of(svg: str) -> dict[str, Any]:
    """Return the job of making a PDF of a drawing."""
    return {"make": "pdf of svg", "svg": svg}


def library(version: str) -> dict[str, Any]:
    """Return the job of putting together the JavaScript that draws charts, for a version of Vega-Lite."""
    return {"make": "library", "version": version}


def render(jobs: Sequence[Mapping[str, Any]], *, seconds: float = SECONDS) -> list[bytes | ChartError]:
    """Return the file of each job, or why there is none.

    All jobs share a process; where one ends it, the jobs after that one get another.

    Args:
        jobs: what `chart`, `pdf_of` and `library` give.
        seconds: how long one job may take; a longer one is ended.
    """
    made: list[bytes | ChartError] = []
    while len(made) < len(jobs):
        made += _tried(jobs[len(made) :], seconds)
    return made


def drawn(job: Mapping[str, Any]) -> bytes:
    """Return the file of one job.

    Raises:
        ChartError: it could not be made.
    """
    [made] = render([job])
    if isinstance(made, ChartError):
        raise made
    return made


def _tried(jobs: Sequence[Mapping[str, Any]], seconds: float) -> list[bytes | ChartError]:
    """Return what a process made of the first jobs, up to the first one that ended it."""
    with tempfile.TemporaryDirectory(prefix="turnwise-") as folder:
        # -P: no module of the working directory or of this folder is taken for one of the library.
        command = [sys.executable, "-P", str(Path(__file__).with_name("renderer.py")), folder]
        given = json.dumps({"seconds": seconds, "jobs": list(jobs)})
        try:
            limit = _START_SECONDS + seconds * len(jobs)
            ended = subprocess.run(command, input=given.encode(), capture_output=True, timeout=limit, check=False)
            reason = _reason(ended.returncode, ended.stderr, seconds)
        except subprocess.TimeoutExpired:
            reason = f"it took longer than {limit:g} s"
        except OSError as error:
            reason = f"no process can be started: {error.strerror}"
        made: list[bytes | ChartError] = []
        for number in range(len(jobs)):
            result, failure = Path(folder, str(number)), Path(folder, f"{number}.error")
            if result.exists():
                made.append(result.read_bytes())
            elif failure.exists():
                made.append(_error(failure.read_text(encoding="utf-8")))
            else:
                return [*made, _error(reason)]
        return made


def _reason(code: int, said: bytes, seconds: float) -> str:
    if code >= 0:
        lines = said.decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), f"it ended with exit code {code}")
    if code == -getattr(signal, "SIGALRM", 0):
        return f"it took longer than {seconds:g} s"
    return f"the process that draws was ended ({signal.strsignal(-code)}); it may need more memory (ulimit -v)"


def _error(reason: str) -> ChartError:
    line = visible(reason.split("\n", 1)[0])
    return ChartError(f"a chart can't be drawn: {line[:_SHOWN]}")


def cleaned(value: Any) -> Any:
    r"""Return a chart, or a part of it, with its texts as they may be shown.

    >>> cleaned({"title": "a\x01b", "values": [1, "c\nd"]})
    {'title': 'a\\x01b', 'values': [1, 'c\nd']}
    """
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, Mapping):
        return {key: cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    return value


def vl_version(spec: Spec) -> str:
    """Return the version of Vega-Lite that a chart is written for, as vl-convert takes it.

    >>> vl_version({"$schema": "https://vega.github.io/schema/vega-lite/v6.4.1.json"})
    '6.4'
    """
    return ".".join(str(spec["$schema"]).rpartition("/v")[2].split(".")[:2])
