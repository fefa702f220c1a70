"""The page of a report, one file that opens offline, and the files beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from turnwise.errors import ChartError, UsageError
from turnwise.plots.render import Drawings, cleaned, draw
from turnwise.plots.style import Figure
from turnwise.study.compare import Study
from turnwise.study.compare.warnings import Part
from turnwise.study.report.figures import all_figures
from turnwise.study.report.results import all_tables, record, verdicts_as_parquet
from turnwise.study.report.table import Table, as_csv, as_html, as_latex, as_markdown, html_text, markdown_text
from turnwise.study.report.verdict_text import answer, methods, question, verdict

STYLE = """
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; font: 16px/1.55 Georgia, 'Times New Roman', serif; }
h1 { font-size: 1.4rem; } .answer { font-size: 1.35rem; line-height: 1.35; max-width: 52rem; }
#figure-answer svg { max-width: 100%; height: auto; }
h2 { font-size: 1.25rem; margin-top: 2.4rem; }
.warnings { border-left: 4px solid #D55E00; padding: .2rem 1rem; background: #fdf4ee; }
.wide { overflow-x: auto; } figure { margin: 1.6rem 0; overflow-x: auto; }
figcaption, .note { font-size: .88rem; color: #444; max-width: 46rem; }
table { border-collapse: collapse; font: 13px/1.35 sans-serif; border-top: 2px solid; border-bottom: 2px solid; }
caption { text-align: left; font: bold 15px/2 Georgia, serif; } thead tr { border-bottom: 1px solid; }
th, td { padding: .18rem .6rem; text-align: right; vertical-align: top; }
th.text, td.text { text-align: left; overflow-wrap: anywhere; min-width: 6rem; }
code { font-size: .85rem; overflow-wrap: anywhere; } dl { font-size: .88rem; } dt { font-weight: bold; }
@media print { table { font-size: 7pt; } th, td { padding: .1rem .3rem; } }
@media print { body { max-width: none; } figure, table { break-inside: avoid; } }
"""

_DRAW = """
for (const [name, spec] of Object.entries(JSON.parse(document.getElementById("charts").textContent))) {
  vegaEmbed("#figure-" + name, spec, {renderer: "svg", actions: false});
}
"""

SECTIONS: tuple[tuple[str, tuple[Part, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    ("What the observer sees, and what decides", ("gains",), (), ("two_by_two", "gains")),
    ("The same detector on two runs", ("runs",), (), ("runs", "runs_further")),
    ("At the same false-positive rate", (), (), ("matched",)),
    ("Against a reader of the turns", (), (), ("reader",)),
    ("Where the model gave way", (), (), ("outcomes",)),
    ("Detection", ("detection",), ("recall", "roc"), ("detectors", "tests", "differences", "final")),
    ("When attacks are flagged", (), ("survival",), ("delay",)),
    ("Where the gain comes from", (), ("gain",), ("by_source", "by_category", "by_tactic", "by_length")),
    ("What the scores look like", ("scores",), ("courses", "single"), ()),
    (
        "Checks",
        ("checks",),
        ("shuffle", "calibration"),
        ("missing", "shuffle", "lengths", "left_out", "transfer", "label_noise", "agreement"),
    ),
    ("Why it flagged what it flagged", (), (), ("why",)),
    ("Further figures", (), (), ("further", "baselines", "splits")),
)
"""Heading, warnings, figures and tables of each part, in order."""


def page(study: Study, figures: Sequence[Figure], tables: Sequence[Table], drawings: Drawings) -> str:
    """The page. Names and ids come from data sets that anybody may have written: all are escaped."""
    # The drawings are in the page as they are, so that it reads without JavaScript and prints; where JavaScript
    # runs, the same charts replace them and show figures on hover.
    by_name = {figure.name: figure for figure in figures}
    in_tables = {table.name: table for table in tables}
    parts = [f"<h1>{question(study)}</h1>", f'<p class="answer"><strong>{html_text(answer(study))}</strong></p>']
    if "answer" in by_name:
        parts.append(_figure(by_name["answer"], drawings.svg["answer"], ""))
    parts += [_where_warned(study), "<h2>Result</h2>", _warnings(study, ("everything",))]
    parts += [f"<p>{html_text(line)}</p>" for line in verdict(study)]
    parts += ["<h2>Method</h2>", *(f"<p>{html_text(line)}</p>" for line in methods(study))]
    number = 0
    for title, concerned, figure_names, table_names in SECTIONS:
        inside = [warned] if (warned := _warnings(study, concerned)) else []
        for name in figure_names:
            if name in by_name:
                number += 1
                inside.append(_figure(by_name[name], drawings.svg[name], f"Figure {number}. "))
        inside += [as_html(in_tables[name]) for name in table_names if name in in_tables]
        if inside:
            parts += [f"<h2>{title}</h2>", *inside]
    parts.append(_provenance(study))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>turnwise: {question(study)}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n"
        + (_scripts(figures, drawings.library) if drawings.library else "")
        + "</body>\n</html>\n"
    )


def _scripts(figures: Sequence[Figure], library: str) -> str:
    specs = {figure.name: cleaned(figure.spec) for figure in figures}
    data = json.dumps(specs, allow_nan=False).replace("<", "\\u003c")
    return (
        f'<script type="application/json" id="charts">{data}</script>\n'
        f"<script>{library}</script>\n<script>{_DRAW}</script>\n"
    )


def _where_warned(study: Study) -> str:
    """How many warnings there are, and where they stand."""
    titles = {part: title for title, parts, _, _ in SECTIONS for part in parts} | {"everything": "Result"}
    told = Counter(titles[one.about] for one in study.cautions)
    if not told:
        return ""
    places = ", ".join(f"{title} ({count})" for title, count in told.items())
    return f'<p class="note">Warnings stand at what they concern: {places}.</p>'


def _warnings(study: Study, about: Sequence[Part]) -> str:
    items = "".join(f"<li>{html_text(one.text)}</li>" for one in study.cautions if one.about in about)
    return (
        f'<div class="warnings"><p><strong>Before you believe it</strong></p><ul>{items}</ul></div>'
        if items
        else ""
    )


def _figure(figure: Figure, drawing: str | ChartError, number: str) -> str:
    shown = drawing if isinstance(drawing, str) else f'<p class="note">{html_text(str(drawing))}</p>'
    return (
        f'<figure><div id="figure-{figure.name}">{shown}</div>'
        f"<figcaption><strong>{number}{html_text(figure.title)}.</strong> {html_text(figure.caption)}"
        "</figcaption></figure>"
    )


def _provenance(study: Study) -> str:
    found = record(study)
    rows = {
        "settings": json.dumps(found["settings"], ensure_ascii=False),
        "versions": json.dumps(found["versions"]),
        "conversations, SHA-256": found["data"]["sha256"],
        **{
            f"run {run['name']}": f"observer {run['observer']} {run['observer_version']}, context "
            f"{run['context']}, scores SHA-256 {run['scores_sha256']}"
            for run in found["data"]["runs"]
        },
    }
    items = "".join(
        f"<dt>{html_text(name)}</dt><dd><code>{html_text(value)}</code></dd>" for name, value in rows.items()
    )
    return f"<h2>Where this comes from</h2><dl>{items}</dl><p>results.json beside this page has every number.</p>"


PAGE = "report.html"
NUMBERS = "results.json"
TEXT = "report.md"
VERDICTS = "verdicts.parquet"
FOLDERS = ("tables", "figures")


def check_folder(folder: Path) -> None:
    """Check that a report can be written there, before any work is done for it.

    Raises:
        UsageError: the folder is a file, what it would stand in does not exist, or what draws charts is missing.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"can't write a report to {folder}: it is a file, not a folder")
    if not folder.resolve().parent.is_dir():
        raise UsageError(f"can't write a report to {folder}: there is no folder {folder.parent}; make it first")
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        raise UsageError('a report needs altair and vl-convert: python -m pip install "turnwise[study]"')


def write_report(study: Study, folder: Path, *, tell: Callable[[str], None] | None = None) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md``, ``results.json``, ``verdicts.parquet``, tables and figures.

    Tables are Markdown, CSV and LaTeX, figures SVG and PDF. The same study gives the same bytes. A figure that
    can't be drawn is left out, and the page says so.

    Args:
        folder: where to; made if its parent exists.
        tell: is told of each figure that is left out.

    Returns:
        The files that were written.

    Raises:
        UsageError: it can't be written.
    """
    check_folder(folder)
    figures, tables = all_figures(study), all_tables(study)
    drawings = draw({one.name: one.spec for one in figures}, for_print=True)
    if tell is not None:
        for failure in drawings.failures:
            tell(failure)
    files: dict[str, str | bytes] = {
        PAGE: page(study, figures, tables, drawings),
        TEXT: as_text(study),
        VERDICTS: verdicts_as_parquet(study),
        NUMBERS: json.dumps(record(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }
    for table in tables:
        files[f"tables/{table.name}.md"] = as_markdown(table)
        files[f"tables/{table.name}.csv"] = as_csv(table)
        files[f"tables/{table.name}.tex"] = as_latex(table)
    for name, drawing in drawings.svg.items():
        if isinstance(drawing, str):
            files[f"figures/{name}.svg"] = drawing
    files |= {f"figures/{name}.pdf": drawing for name, drawing in drawings.pdf.items()}
    try:
        for inside in FOLDERS:
            (folder / inside).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            encoded = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
            (folder / name).write_bytes(encoded)
    except OSError as error:
        raise UsageError(f"can't write a report to {folder}: {error.strerror or error}") from error
    return tuple(folder / name for name in files)


def as_text(study: Study) -> str:
    """Answer, warnings, verdict and all tables as Markdown."""
    lines = [f"# {question(study)}", "", f"**{markdown_text(answer(study))}**", ""]
    if study.cautions:
        lines += ["Before you believe it:", "", *(f"- {markdown_text(one.text)}" for one in study.cautions), ""]
    for paragraph in verdict(study):
        lines += [markdown_text(paragraph), ""]
    lines += [as_markdown(table) for table in all_tables(study)]
    return "\n".join(lines)
