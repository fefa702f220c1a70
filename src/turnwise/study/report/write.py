"""Writing a report: the page, the tables, the figures, the numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from turnwise.errors import UsageError
from turnwise.study.compare import Study
from turnwise.study.report.record import record
from turnwise.study.report.table import as_csv, as_latex, as_markdown, markdown_text
from turnwise.study.report.tables import all_tables
from turnwise.study.report.words import verdict

PAGE = "report.html"
NUMBERS = "results.json"
TEXT = "report.md"
FOLDERS = ("tables", "figures")


def check_folder(folder: Path) -> None:
    """Check that a report can be written there, before any work is done for it.

    Raises:
        UsageError: the folder is a file, what it would stand in does not exist, or what draws charts is missing.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"can't write a report to {folder}: it is a file, not a folder")
    if not folder.resolve().parent.is_dir():
        raise UsageError(f"can't write a report to {folder}: there is no folder {folder.parent}")
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        raise UsageError('a report needs altair and vl-convert: python -m pip install "turnwise[study]"')


def write_report(study: Study, folder: Path, *, tell: Callable[[str], None] | None = None) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md``, ``results.json``, tables (Markdown, CSV, LaTeX), figures (SVG, PDF).

    The same study gives the same bytes. A figure that can't be drawn is left out, and the page says so.

    Args:
        study: the study.
        folder: where to; made if its parent exists.
        tell: is told of each figure that is left out.

    Returns:
        The files that were written.

    Raises:
        UsageError: it can't be written.
    """
    check_folder(folder)
    from turnwise.study.report.drawing import draw
    from turnwise.study.report.figures import all_figures
    from turnwise.study.report.page import page

    figures, tables = all_figures(study), all_tables(study)
    drawings = draw(figures)
    if tell is not None:
        for failure in drawings.failures:
            tell(failure)
    files: dict[str, str | bytes] = {
        PAGE: page(study, figures, tables, drawings),
        TEXT: as_text(study),
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
        raise UsageError(f"can't write the report: {error}") from error
    return tuple(folder / name for name in files)


def as_text(study: Study) -> str:
    """Return verdict, warnings and the main tables as Markdown.

    Args:
        study: the study.
    """
    lines = ["# Does looking over time help?", ""]
    if study.warnings:
        lines += ["Before you read on:", "", *(f"- {markdown_text(warning)}" for warning in study.warnings), ""]
    for paragraph in verdict(study):
        lines += [markdown_text(paragraph), ""]
    lines += [as_markdown(table) for table in all_tables(study)]
    return "\n".join(lines)
