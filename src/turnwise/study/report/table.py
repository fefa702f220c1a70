"""A table, and its forms: Markdown, CSV, LaTeX with booktabs."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise._support.table_files import cell

_SIGNS = ("-", "+")
_NUMBERS = frozenset("0123456789., %()–−")
"""Characters of a number, with or without its interval."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "…": r"\ldots{}",
    **{mark: f"\\{mark}" for mark in "&%$#_"},
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        name: of its files.
        title: heading.
        columns: headings of the columns.
        rows: cells as text.
        left: how many columns from the left hold text; the others hold numbers.
        note: what a reader must know to read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    note: str = ""


def as_markdown(table: Table) -> str:
    """Return a table as Markdown, with its title and note.

    >>> print(as_markdown(Table("t", "A title", ("name", "recall"), (("a|b", "30 %"),))))
    **A title**
    <BLANKLINE>
    | name | recall |
    |---|---:|
    | a\\|b | 30 % |
    <BLANKLINE>
    """
    lines = [f"**{markdown_text(table.title)}**", "", _markdown_row(table.columns)]
    lines.append(
        "|" + "|".join("---" if place < table.left else "---:" for place in range(len(table.columns))) + "|"
    )
    lines += [_markdown_row(row) for row in table.rows]
    if table.note:
        lines += ["", markdown_text(table.note)]
    return "\n".join([*lines, ""])


def as_csv(table: Table) -> str:
    """Return a table as CSV.

    >>> as_csv(Table("t", "A title", ("name", "recall"), (("a,b", "30 %"),)))
    'name,recall\\n"a,b",30 %\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_no_formula(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def as_latex(table: Table) -> str:
    r"""Return a table as LaTeX; it needs the package booktabs.

    >>> print(as_latex(Table("t", "A title", ("name", "recall"), (("any_turn", "30 %"),))))
    \begin{table}
    \centering
    \caption{A title.}
    \label{tab:t}
    \begin{tabular}{lr}
    \toprule
    name & recall \\
    \midrule
    any\_turn & 30 \% \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    places = "".join("l" if place < table.left else "r" for place in range(len(table.columns)))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(table.title)}.}}",
        rf"\label{{tab:{table.name}}}",
    ]
    lines += [rf"\begin{{tabular}}{{{places}}}", r"\toprule", _latex_row(table.columns), r"\midrule"]
    lines += [_latex_row(row) for row in table.rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.note:
        lines.append(rf"\par\footnotesize {_latex(table.note)}")
    return "\n".join([*lines, r"\end{table}", ""])


def as_html(table: Table) -> str:
    """Return the table as HTML, its texts escaped; without a caption where it has no title."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=text' if place < table.left else ''}>{html_text(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    caption = f"<caption>{html_text(table.title)}</caption>" if table.title else ""
    note = f'<p class="note">{html_text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="wide"><table>{caption}'
        f"<thead><tr>{row(table.columns, 'th')}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def html_text(text: str) -> str:
    """Return a text in one line, escaped for HTML."""
    return html.escape(" ".join(text.split()))


def markdown_text(text: str) -> str:
    """A text in one line, with what Markdown would take for a tag spelled out.

    >>> markdown_text("a <b>  c")
    'a &lt;b> c'
    """
    return _one_line(text).replace("<", "&lt;")


def _no_formula(text: str) -> str:
    """Keep a spreadsheet from taking a text for a formula; numbers with a sign are left alone."""
    return text if text.startswith(_SIGNS) and _NUMBERS.issuperset(text[1:]) else str(cell(text))


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())
