"""Tables: what columns show of rows, how numbers are shown there and in results.json, and the forms of a table."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from turnwise._support.table_files import cell
from turnwise.rates import Rate
from turnwise.stats import Difference, Interval, p_cell

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


NONE = "–"
"""Where there is no number."""


def rate_cell(rate: Rate) -> str:
    """A share in per cent with its interval.

    >>> rate_cell(Rate(3, 10)), rate_cell(Rate(0, 0))
    ('30.0 [6.7, 65.2]', '–')
    """
    if not rate.of:
        return NONE
    low, high = rate.interval
    return f"{100 * rate.count / rate.of:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def small_cell(rate: Rate, least: int) -> str:
    """A share with its interval, or the counts alone where they are too few for a percentage.

    >>> small_cell(Rate(3, 7), 10), small_cell(Rate(3, 10), 10)
    ('too few (3 of 7)', '30.0 [6.7, 65.2]')
    """
    if not rate.of:
        return NONE
    return rate_cell(rate) if rate.of >= least else f"too few ({rate.count} of {rate.of})"


def interval_cell(
    found: Interval | Difference | None, scale: float = 1.0, digits: int = 2, sign: bool = False
) -> str:
    """A number with its interval."""
    if found is None or math.isnan(found.value):
        return NONE
    mark = "+" if sign else ""
    low, high = (f"{scale * end:{mark}.{digits}f}" for end in (found.low, found.high))
    return f"{scale * found.value:{mark}.{digits}f} [{low}, {high}]"


def points(value: float) -> str:
    """A difference of rates in percentage points.

    >>> points(0.0312), points(float("nan"))
    ('+3.1', '–')
    """
    return NONE if math.isnan(value) else f"{100 * value:+.1f}"


def share(value: float) -> str:
    """A share in per cent, without decimals.

    >>> share(0.876)
    '88'
    """
    return NONE if math.isnan(value) else f"{100 * value:.0f}"


def difference_cell(found: Difference, scale: float, digits: int) -> str:
    """A difference of two arms with its interval, and its p where it has one."""
    text = interval_cell(found, scale, digits, sign=True)
    return text if found.p is None or text == NONE else f"{text}, p {p_cell(found.p)}"


def range_cell(low: float, high: float) -> str:
    """A number, or where there are several the lowest and the highest.

    >>> range_cell(0.5, 0.5), range_cell(0.25, 0.5)
    ('0.5', '0.25 to 0.5')
    """
    least, most = f"{low:.4g}", f"{high:.4g}"
    return least if least == most else f"{least} to {most}"


def alone_cell(found: Any) -> str:
    """What the first alone flagged, and the second alone."""
    return f"{found.a_alone} : {found.b_alone}"


def points_cell(found: Interval | Difference | None) -> str:
    """A difference of rates in percentage points, with its interval."""
    return interval_cell(found, 100, 1, sign=True)


def as_json(value: Any) -> Any:  # noqa: PLR0911  # one form for each kind of value
    """A value as JSON has it: a dataclass by its fields, the ends of an interval in ``ci``, null for no number.

    >>> from turnwise.stats.judged import Confusion
    >>> as_json({0.05: (Confusion(1, 2, 3, 4), float("nan"))})
    {'0.05': [{'caught': 1, 'missed': 2, 'false_alarms': 3, 'cleared': 4}, None]}
    """
    if isinstance(value, Rate):
        return rate_as_json(value)
    if isinstance(value, Interval | Difference):
        return _interval_as_json(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {f"{key:g}" if isinstance(key, float) else key: as_json(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    return value


def _interval_as_json(found: Interval | Difference) -> dict[str, Any]:
    ends = [as_json(found.low), as_json(found.high)]
    head = {
        "value": as_json(found.value),
        "ci": None if None in ends else ends,
        "conditions_on_threshold": found.conditions_on_threshold,
    }
    if isinstance(found, Difference):
        return {**head, "p": found.p, "method": found.method, "groups": found.groups, "note": found.note}
    return {**head, "method": found.method, "note": found.note}


def rate_as_json(rate: Rate, conditions_on_threshold: bool = True) -> dict[str, Any]:
    """A rate as `as_json` gives it; one that rests on no threshold says so."""
    return {
        "value": share_of(rate),
        "count": rate.count,
        "of": rate.of,
        "ci": ends_of(rate),
        "conditions_on_threshold": conditions_on_threshold,
    }


def share_of(rate: Rate) -> float | None:
    """A rate as a number; None of nothing."""
    return rate.count / rate.of if rate.of else None


def ends_of(rate: Rate) -> list[float] | None:
    """The interval of a rate; None of nothing."""
    return list(rate.interval) if rate.of else None


@dataclass(frozen=True, slots=True)
class Column:
    """A field of results.json, a column of a table, or both.

    Args:
        key: name of the field; empty where tables alone have the column.
        heading: of the column; empty where results.json alone has the field.
        cell: how a table shows the value, where there is one.
        at: attributes that lead to it from a row, such as ``counts.recall``; "." is the row, "" what `key` says.
        json: how results.json shows the value.
    """

    key: str
    heading: str = ""
    cell: Callable[[Any], str] = str
    at: str = ""
    json: Callable[[Any], Any] = as_json

    def of(self, row: Any) -> Any:
        """The value that a row has here; None where something on the way to it is None."""
        if self.at == ".":
            return row
        for name in (self.at or self.key).split("."):
            if row is None:
                return None
            row = getattr(row, name)
        return row


AT_ONE_THRESHOLD = Column("conditions_on_threshold", at=".", json=lambda _: True)
"""Says that every p-value and interval of a row takes its thresholds as given."""


def pick(columns: Iterable[Column], *keys: str) -> tuple[Column, ...]:
    """The columns with these keys, in this order."""
    by_key = {column.key: column for column in columns}
    return tuple(by_key[key] for key in keys)


def within(part: str, columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of a part of a row, for a table."""
    return tuple(
        Column("", one.heading, one.cell, f"{part}.{one.at or one.key}") for one in columns if one.heading
    )


def json_row(columns: Iterable[Column], row: Any) -> dict[str, Any]:
    """A row as results.json has it."""
    return {column.key: column.json(column.of(row)) for column in columns if column.key}


def json_part(columns: Sequence[Column]) -> Callable[[Any], dict[str, Any] | None]:
    """How results.json shows a part of a row by these columns; null where the row has none."""
    return lambda part: None if part is None else json_row(columns, part)


def make_table(
    name: str, title: str, columns: Iterable[Column], rows: Iterable[Any], left: int = 1, note: str = ""
) -> Table:
    """A table of these rows; columns without a heading are left out."""
    shown = [column for column in columns if column.heading]

    def cell(column: Column, row: Any) -> str:
        value = column.of(row)
        return NONE if value is None else column.cell(value)

    cells = tuple(tuple(cell(column, row) for column in shown) for row in rows)
    return Table(name, title, tuple(column.heading for column in shown), cells, left, note)
