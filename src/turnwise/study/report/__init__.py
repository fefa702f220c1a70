"""The report of a study: numbers, tables, figures and the page that holds them."""

from turnwise.study.report.figures import all_figures
from turnwise.study.report.page import as_text, check_folder, write_report
from turnwise.study.report.results import (
    VERDICT_COLUMNS,
    all_tables,
    record,
    summary,
    verdict_rows,
    verdicts_as_parquet,
)
from turnwise.study.report.table import Table, as_csv, as_html, as_latex, as_markdown, html_text
from turnwise.study.report.verdict_text import answer, verdict

__all__ = [
    "VERDICT_COLUMNS",
    "Table",
    "all_figures",
    "all_tables",
    "answer",
    "as_csv",
    "as_html",
    "as_latex",
    "as_markdown",
    "as_text",
    "check_folder",
    "html_text",
    "record",
    "summary",
    "verdict",
    "verdict_rows",
    "verdicts_as_parquet",
    "write_report",
]
