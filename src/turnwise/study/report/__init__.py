"""The report of a study: numbers, tables, figures and the page that holds them."""

from turnwise.study.report.page import check_folder, write_report
from turnwise.study.report.results import all_tables, record, summary
from turnwise.study.report.table import Table, as_csv, as_latex, as_markdown
from turnwise.study.report.verdict_text import verdict

__all__ = [
    "Table",
    "all_tables",
    "as_csv",
    "as_latex",
    "as_markdown",
    "check_folder",
    "record",
    "summary",
    "verdict",
    "write_report",
]
