"""Drawing charts and writing them to files; a crash while drawing ends another process, not this one."""

from __future__ import annotations

import functools
import html
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from turnwise._support.visible import visible, visible_lines
from turnwise.errors import ChartError, UsageError
from turnwise.linear_regex import LinearRegex, Match

_OBJECT = re.compile(rb"(\d+) 0 obj\n")
_LENGTH = re.compile(rb"/Length (\d+)")
_REFERENCE = re.compile(rb"(?<![\d.])(\d+) 0 R\b")
_NAMED_REFERENCES = re.compile(rb"(?:^ +/[A-Za-z]+\d+ \d+ 0 R\n){2,}", re.MULTILINE)
_ROOT = re.compile(rb"/Root (\d+) 0 R")
_STREAM = b"\nstream\n"
_END = b"\nendobj\n"


def canonical(pdf: bytes) -> bytes:
    """A PDF of vl-convert with its resources sorted and its objects numbered in order of reference."""
    # The writer behind vl-convert keeps resources in hash tables, so that the same drawing comes out with other
    # numbers at each call. A file that is not of its simple form (whole objects, no object streams, one table of
    # offsets; ISO 32000-1, sections 7.3.10 and 7.5) is returned as it is.
    root = _ROOT.search(pdf)
    objects = _objects(pdf)
    if root is None or int(root[1]) not in objects:
        return pdf
    numbers: dict[int, int] = {}
    waiting = [int(root[1])]
    while waiting:
        number = waiting.pop(0)
        if number in numbers or number not in objects:
            continue
        numbers[number] = len(numbers) + 1
        waiting += [int(found) for found in _REFERENCE.findall(_head(objects[number]))]
    header = pdf[: pdf.index(b"\n\n") + 2]
    return _written(header, objects, numbers)


def _objects(pdf: bytes) -> dict[int, bytes]:
    """What stands in each object; a stream is skipped by its length, for it may hold anything."""
    found: dict[int, bytes] = {}
    place = 0
    while match := _OBJECT.search(pdf, place):
        begin = match.end()
        end = pdf.find(_END, begin)
        stream = pdf.find(_STREAM, begin)
        if 0 <= stream < end:
            length = _LENGTH.search(pdf, begin, stream)
            if length is None:
                return {}
            end = pdf.find(_END, stream + len(_STREAM) + int(length[1]))
        if end < 0:
            return {}
        content = pdf[begin:end]
        head = _head(content)
        ordered = _NAMED_REFERENCES.sub(lambda run: b"".join(sorted(run[0].splitlines(keepends=True))), head)
        found[int(match[1])] = ordered + content[len(head) :]
        place = end + len(_END)
    return found


def _head(content: bytes) -> bytes:
    """The part of an object before its stream."""
    place = content.find(_STREAM)
    return content if place < 0 else content[:place]


def _written(header: bytes, objects: dict[int, bytes], numbers: dict[int, int]) -> bytes:
    def renumbered(found: re.Match[bytes]) -> bytes:
        return b"%d 0 R" % numbers.get(int(found[1]), int(found[1]))

    made = bytearray(header)
    offsets = []
    for number, new in numbers.items():
        content = objects[number]
        head = _head(content)
        offsets.append(len(made))
        made += b"%d 0 obj\n" % new + _REFERENCE.sub(renumbered, head) + content[len(head) :] + _END + b"\n"
    table = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f\r\n" % (len(offsets) + 1)
    made += b"".join(b"%010d 00000 n\r\n" % offset for offset in offsets)
    made += b"trailer\n<<\n  /Size %d\n  /Root 1 0 R\n>>\nstartxref\n%d\n%%%%EOF" % (len(offsets) + 1, table)
    return bytes(made)


_NUMBERED = LinearRegex(r'(\bid="|url\(#)((clip|gradient_)\d+)("|\))')


def numbered_anew(svg: str) -> str:
    """A drawing with its clipping regions and gradients numbered from 1.

    >>> numbered_anew('<clipPath id="clip17"></clipPath><g clip-path="url(#clip17)"/><g clip-path="url(#clip9)"/>')
    '<clipPath id="clip1"></clipPath><g clip-path="url(#clip1)"/><g clip-path="url(#clip2)"/>'
    """
    names: dict[str, str] = {}

    def renamed(found: Match) -> str:
        return found[1] + names.setdefault(found[2], f"{found[3]}{len(names) + 1}") + found[4]

    return _NUMBERED.sub(renamed, svg)


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
    """The job of drawing a chart as ``"svg"``, ``"png"`` or ``"pdf"``, with its texts `cleaned`."""
    return {"make": kind, "spec": cleaned(spec), "version": vl_version(spec), "scale": PNG_SCALE}


def pdf_of(svg: str) -> dict[str, Any]:
    """The job of making a PDF of a drawing."""
    return {"make": "pdf of svg", "svg": svg}


def library(version: str) -> dict[str, Any]:
    """The job of putting together the JavaScript that draws charts, for a version of Vega-Lite."""
    return {"make": "library", "version": version}


def render(jobs: Sequence[Mapping[str, Any]], *, seconds: float = SECONDS) -> list[bytes | ChartError]:
    """The file of each job, or why there is none; a job that takes more than so many seconds is ended.

    All jobs share a process; where one ends it, the jobs after that one get another.
    """
    made: list[bytes | ChartError] = []
    while len(made) < len(jobs):
        made += _tried(jobs[len(made) :], seconds)
    return made


class Drawings(NamedTuple):
    """Charts that were drawn; each file depends only on its chart, byte for byte.

    Args:
        svg: by name of the chart, the drawing or why there is none.
        pdf: the same drawings as PDF; empty where it was not asked for.
        library: the JavaScript that draws them in a browser; empty where it was not asked for, or not made.
        failures: what could not be made, a line each.
    """

    svg: Mapping[str, str | ChartError]
    pdf: Mapping[str, bytes]
    library: str
    failures: tuple[str, ...]


def draw(charts: Mapping[str, Spec], *, for_print: bool = False) -> Drawings:
    """Return charts as SVG; what fails leaves the others as they are.

    Args:
        charts: the charts by name.
        for_print: draw them as PDF as well, and put together the JavaScript that shows them in a browser.
    """
    if not charts:
        return Drawings({}, {}, "", ())
    made = render([chart(spec, "svg") for spec in charts.values()])
    script: str | ChartError = ""
    if for_print:
        try:
            script = browser_library(vl_version(next(iter(charts.values()))))
        except ChartError as error:
            script = error
    svg: dict[str, str | ChartError] = {
        name: drawing if isinstance(drawing, ChartError) else numbered_anew(drawing.decode())
        for name, drawing in zip(charts, made, strict=True)
    }
    failures = [f"figure {name}: {drawing}" for name, drawing in svg.items() if isinstance(drawing, ChartError)]
    whole = {name: drawing for name, drawing in svg.items() if for_print and isinstance(drawing, str)}
    pdf = dict(zip(whole, render([pdf_of(drawing) for drawing in whole.values()]), strict=True))
    failures += [f"figure {name} as PDF: {one}" for name, one in pdf.items() if isinstance(one, ChartError)]
    if isinstance(script, ChartError):
        failures.append(f"the figures do not answer to the pointer: {script}")
    return Drawings(
        svg=svg,
        pdf={name: canonical(one) for name, one in pdf.items() if isinstance(one, bytes)},
        library="" if isinstance(script, ChartError) else script,
        failures=tuple(failures),
    )


def drawn(job: Mapping[str, Any]) -> bytes:
    """The file of one job; ChartError where it could not be made."""
    [made] = render([job])
    if isinstance(made, ChartError):
        raise made
    return made


@functools.cache
def browser_library(version: str) -> str:
    """The JavaScript that draws charts in a browser, made once since it takes longer than any chart."""
    return drawn(library(version)).decode()


def _tried(jobs: Sequence[Mapping[str, Any]], seconds: float) -> list[bytes | ChartError]:
    """What a process made of the first jobs, up to the first one that ended it."""
    with tempfile.TemporaryDirectory(prefix="turnwise-") as folder:
        # -P: no module of the working directory or of this folder is taken for one of the library.
        command = [sys.executable, "-P", str(Path(__file__).with_name("renderer_process.py")), folder]
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
    r"""A chart, or a part of it, with its texts as they may be shown.

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
    """The version of Vega-Lite that a chart is written for, as vl-convert takes it.

    >>> vl_version({"$schema": "https://vega.github.io/schema/vega-lite/v6.4.1.json"})
    '6.4'
    """
    return ".".join(str(spec["$schema"]).rpartition("/v")[2].split(".")[:2])


FORMATS = (".html", ".svg", ".png", ".pdf")
"""Kinds of file that a chart can be written as."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 1.5rem; font-family: sans-serif; }} #vg-tooltip-element {{ max-width: 32rem; }}</style>
</head>
<body>
<div id="chart"></div>
<script>{library}</script>
<script>vegaEmbed("#chart", {spec}, {{"renderer": "svg", "actions": {{"export": true}}}});</script>
</body>
</html>
"""


def check_target(path: str | Path) -> Path:
    """Return the path of a chart that can be written, before any work is done for it.

    Raises:
        UsageError: its kind is unknown, its folder does not exist, or altair or vl-convert is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UsageError(f"can't write {path} as a chart: its name must end in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise UsageError(f"can't write {path}: there is no folder {target.parent}; make it first")
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        raise UsageError('charts need altair and vl-convert: python -m pip install "turnwise[study]"')
    return target


def save(spec: Spec, path: str | Path) -> None:
    """Write a chart to a file of the kind that its name says: HTML that needs no other file, SVG, PNG or PDF.

    Args:
        spec: the chart.
        path: ends in .html, .svg, .png or .pdf.

    Raises:
        UsageError: as for `check_target`, or the file can't be written.
        ChartError: it can't be drawn.
    """
    target = check_target(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind == "html":
        content = page(spec, browser_library(vl_version(spec))).encode()
    else:
        content = drawn(chart(spec, kind))
    try:
        target.write_bytes(content)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from error


def page(spec: Spec, library: str) -> str:
    """A web page that shows a chart and needs no other file; no ``<`` of a text can end its script.

    >>> made = page({"title": {"text": "</script><b>"}}, "")
    >>> "</script><b>" in made, made.count("<script>")
    (False, 2)
    """
    shown = cleaned(spec)
    title = shown.get("title", "")
    text = title.get("text", "") if isinstance(title, Mapping) else title
    data = json.dumps(shown, allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(title=html.escape(str(text)), library=library, spec=data)
