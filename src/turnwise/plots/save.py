"""Writing a chart to a file."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turnwise.errors import UsageError

Spec = Mapping[str, Any]
"""A chart as Vega-Lite describes it: JSON values."""

FORMATS = (".html", ".svg", ".png", ".pdf")
"""Kinds of file that a chart can be written as."""

PNG_SCALE = 2.0
"""Pixels of a PNG for each unit of the chart."""

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
    """
    target = check_target(path)
    import vl_convert

    version = "{}.{}".format(*spec["$schema"].rpartition("/v")[2].split(".")[:2])
    given = dict(spec)
    kind = target.suffix.lower()
    if kind == ".html":
        library = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub asks for more
        content = page(spec, library).encode()
    elif kind == ".svg":
        content = vl_convert.vegalite_to_svg(given, vl_version=version).encode()
    elif kind == ".png":
        content = vl_convert.vegalite_to_png(given, vl_version=version, scale=PNG_SCALE)
    else:
        content = vl_convert.vegalite_to_pdf(given, vl_version=version)
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
    title = spec.get("title", "")
    text = title.get("text", "") if isinstance(title, Mapping) else title
    data = json.dumps(spec, allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(title=html.escape(str(text)), library=library, spec=data)
