"""Figures as SVG and PDF whose bytes depend on the figure alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from turnwise.linear_regex import LinearRegex, Match
from turnwise.study.report.canonical_pdf import canonical

_NUMBERED = LinearRegex(r'(\bid="|url\(#)((clip|gradient_)\d+)("|\))')


def to_svg(spec: Mapping[str, Any]) -> str:
    """Return a chart as SVG.

    The library numbers clipping regions and gradients through the life of a process; here it is from 1 on.

    Args:
        spec: the chart as Vega-Lite describes it.
    """
    import vl_convert

    return numbered_anew(vl_convert.vegalite_to_svg(dict(spec), vl_version=vl_version(spec)))


def to_pdf(svg: str) -> bytes:
    """Return a drawing as PDF, the same bytes at each call.

    Args:
        svg: the drawing, as `to_svg` gives it.
    """
    import vl_convert

    return canonical(vl_convert.svg_to_pdf(svg))


@functools.cache
def library_of(version: str) -> str:
    """Return the JavaScript that draws charts, which takes two seconds to put together.

    Args:
        version: of Vega-Lite, as `vl_version` gives it.
    """
    import vl_convert

    return str(vl_convert.javascript_bundle(vl_version=version))  # type: ignore[call-arg]  # it has a default


def numbered_anew(svg: str) -> str:
    """Return a drawing with its clipping regions and gradients numbered from 1.

    >>> numbered_anew('<clipPath id="clip17"></clipPath><g clip-path="url(#clip17)"/><g clip-path="url(#clip9)"/>')
    '<clipPath id="clip1"></clipPath><g clip-path="url(#clip1)"/><g clip-path="url(#clip2)"/>'
    """
    names: dict[str, str] = {}

    def renamed(found: Match) -> str:
        return found[1] + names.setdefault(found[2], f"{found[3]}{len(names) + 1}") + found[4]

    return _NUMBERED.sub(renamed, svg)


def vl_version(spec: Mapping[str, Any]) -> str:
    """Return the version of Vega-Lite that a chart is written for, as vl-convert takes it.

    >>> vl_version({"$schema": "https://vega.github.io/schema/vega-lite/v6.4.1.json"})
    '6.4'
    """
    return ".".join(str(spec["$schema"]).rpartition("/v")[2].split(".")[:2])
