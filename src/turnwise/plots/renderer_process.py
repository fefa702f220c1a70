"""Draws charts in a process of its own, which may die of one: run as a script, it imports nothing of turnwise.

Standard input holds jobs as JSON, the argument is an empty folder. The result of job N is the file ``N`` in it; of
a job that failed, the file ``N.error`` says why in a line. A job that ends the process leaves neither.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def _svg(job: Mapping[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_svg(job["spec"], vl_version=job["version"]).encode()


def _png(job: Mapping[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_png(job["spec"], vl_version=job["version"], scale=job["scale"])


def _pdf(job: Mapping[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_pdf(job["spec"], vl_version=job["version"])


def _pdf_of_svg(job: Mapping[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.svg_to_pdf(job["svg"])


def _library(job: Mapping[str, Any]) -> bytes:
    import vl_convert

    return str(vl_convert.javascript_bundle(vl_version=job["version"])).encode()  # type: ignore[call-arg]  # it has a default


_MAKE: Mapping[str, Callable[[Mapping[str, Any]], bytes]] = {
    "svg": _svg,
    "png": _png,
    "pdf": _pdf,
    "pdf of svg": _pdf_of_svg,
    "library": _library,
}


def main() -> None:
    """Do the jobs in order."""
    folder = Path(sys.argv[1])
    given = json.load(sys.stdin)
    for number, job in enumerate(given["jobs"]):
        if hasattr(signal, "setitimer"):  # its signal ends the process, whatever is running
            signal.setitimer(signal.ITIMER_REAL, given["seconds"])
        try:
            content = _MAKE[job["make"]](job)
        except Exception as error:  # noqa: BLE001 - said by the process that asked
            (folder / f"{number}.error").write_text(str(error) or type(error).__name__, encoding="utf-8")
            continue
        part = folder / f"{number}.part"
        part.write_bytes(content)
        part.replace(folder / str(number))


if __name__ == "__main__":
    main()
