"""Writing a chart to a file."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from turnwise.errors import UsageError
from turnwise.plots.render import Spec, chart, cleaned, drawn, library, vl_version

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
        UsageError: its kind is unknown, its folder does not exist, or what draws charts is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UsageError(f"{path} is no chart that can be written: its name must end in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise UsageError(f"can't write {path}: there is no folder {target.parent}")
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        raise UsageError('charts need altair and vl-convert: python -m pip install "turnwise[study]"')
    return target


def save(spec: Spec, path: str | Path) -> None:
    """Write a chart to a file, as its name says: HTML that needs nothing else, SVG, PNG or PDF.

    Args:
        spec: the chart.
        path: ends in .html, .svg, .png or .pdf.

    Raises:
        UsageError: as `check_target`, or the file can't be written.
        ChartError: it can't be drawn.
    """
    target = check_target(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind == "html":
        content = page(spec, drawn(library(vl_version(spec))).decode()).encode()
    else:
        content = drawn(chart(spec, kind))
    try:
        target.write_bytes(content)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from error


def page(spec: Spec, library: str) -> str:
    """Return a web page that shows a chart and needs no other file.

    Texts of conversations are in the chart, and anybody may have written those: no ``<`` of theirs reaches the
    page, so that none can end the script or begin another.

    Args:
        spec: the chart.
        library: the JavaScript that draws it.

    >>> made = page({"title": {"text": "</script><b>"}}, "")
    >>> "</script><b>" in made, made.count("<script>")
    (False, 2)
    """
    shown = cleaned(spec)
    title = shown.get("title", "")
    text = title.get("text", "") if isinstance(title, Mapping) else title
    data = json.dumps(shown, allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(title=html.escape(str(text)), library=library, spec=data)
