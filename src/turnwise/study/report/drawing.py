"""Figures as SVG and PDF whose bytes depend on the figure alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnwise.errors import ChartError
from turnwise.linear_regex import LinearRegex, Match
from turnwise.plots.render import chart, library, pdf_of, render, vl_version
from turnwise.study.report.canonical_pdf import canonical
from turnwise.study.report.figure_parts import Figure

_NUMBERED = LinearRegex(r'(\bid="|url\(#)((clip|gradient_)\d+)("|\))')


class Drawings(NamedTuple):
    """The figures of a report, drawn.

    Args:
        svg: by name of the figure, or why it could not be drawn.
        pdf: the same of those that were drawn.
        library: the JavaScript that draws them in a browser; empty where it could not be put together.
        failures: what could not be made, a line each.
    """

    svg: Mapping[str, str | ChartError]
    pdf: Mapping[str, bytes]
    library: str
    failures: tuple[str, ...]


def draw(figures: Sequence[Figure]) -> Drawings:
    """Return figures as SVG and PDF; what fails leaves the others as they are.

    The library numbers clipping regions and gradients through the life of a process; here it is from 1 on.

    Args:
        figures: at least one.
    """
    made = render([*(chart(figure.spec, "svg") for figure in figures), library(vl_version(figures[0].spec))])
    svg: dict[str, str | ChartError] = {
        figure.name: drawing if isinstance(drawing, ChartError) else numbered_anew(drawing.decode())
        for figure, drawing in zip(figures, made, strict=False)
    }
    whole = {name: drawing for name, drawing in svg.items() if isinstance(drawing, str)}
    prints = dict(zip(whole, render([pdf_of(drawing) for drawing in whole.values()]), strict=True))
    failures = [f"figure {name}: {drawing}" for name, drawing in svg.items() if isinstance(drawing, ChartError)]
    failures += [f"figure {name} as PDF: {one}" for name, one in prints.items() if isinstance(one, ChartError)]
    script = made[-1]
    if isinstance(script, ChartError):
        failures.append(f"the figures do not answer to the pointer: {script}")
    return Drawings(
        svg=svg,
        pdf={name: canonical(one) for name, one in prints.items() if isinstance(one, bytes)},
        library="" if isinstance(script, ChartError) else script.decode(),
        failures=tuple(failures),
    )


def numbered_anew(svg: str) -> str:
    """Return a drawing with its clipping regions and gradients numbered from 1.

    >>> numbered_anew('<clipPath id="clip17"></clipPath><g clip-path="url(#clip17)"/><g clip-path="url(#clip9)"/>')
    '<clipPath id="clip1"></clipPath><g clip-path="url(#clip1)"/><g clip-path="url(#clip2)"/>'
    """
    names: dict[str, str] = {}

    def renamed(found: Match) -> str:
        return found[1] + names.setdefault(found[2], f"{found[3]}{len(names) + 1}") + found[4]

    return _NUMBERED.sub(renamed, svg)
