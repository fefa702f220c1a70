"""Results as plain values, as tables of pandas, and as a notebook shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnwise._support.visible import visible_lines
from turnwise.errors import UsageError

if TYPE_CHECKING:
    import pandas

ROWS = 50
"""Rows of a table that a notebook shows."""

CHARACTERS = 200
"""Characters of a text in a cell that a notebook shows."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int | None = None) -> str:
    """The first `ROWS` rows as HTML; all text is escaped, and what could hide or forge something made visible.

    >>> html_table("a < b", ["turn"], [[1]])
    '<p>a &lt; b</p><table><thead><tr><th>turn</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{_escaped(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_escaped(_text(cell))}</td>' for cell in row)}</tr>" for row in islice(rows, ROWS)
    )
    more = f"<p>{ROWS} of {total} rows</p>" if total is not None and total > ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p>{_escaped(title)}</p>{table}{more}"


def data_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> pandas.DataFrame:
    """Rows as a table of pandas, which has to be installed."""
    try:
        import pandas
    except ImportError:
        raise UsageError("to_frame() needs pandas: python -m pip install pandas") from None
    return pandas.DataFrame(list(rows), columns=list(columns))


class Shown:
    """For dataclasses: their fields as plain values, and as a table of two columns in a notebook."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, as JSON has them."""
        return {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, ("", "value"), self.to_dict().items())


def plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO 8601; mappings, named tuples and dataclasses as dicts."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _text(cell: object) -> str:
    text = "" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= CHARACTERS else text[:CHARACTERS] + "…"


def _escaped(text: str) -> str:
    from html import escape

    return escape(visible_lines(text))
