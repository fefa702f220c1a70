"""Cells of a CSV file that no spreadsheet takes for a formula: texts in them may come from anybody."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell may begin with that a spreadsheet takes for a formula. Source: OWASP, "CSV Injection"."""


def cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet takes for a formula.

    >>> cell("=HYPERLINK(A1)"), cell(-1.5), cell(None)
    ("'=HYPERLINK(A1)", -1.5, '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return value
    text = str(value).replace("\0", "\\0")
    return f"'{text}" if text.lstrip(" \u00a0").startswith(_FORMULA) or text.startswith(_FORMULA) else text
