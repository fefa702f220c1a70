"""What commands print: results to standard output, notes and progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from turnwise.evaluate import Progress

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH_OF_A_FILE = 140
"""Columns of a table that goes to a file or pipe."""


def print_json(value: Any) -> None:
    """Print a value as JSON to standard output; numbers that are not finite are refused."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def note(text: str) -> None:
    """Print a remark to standard error."""
    typer.echo(text, err=True)


def sparkline(values: Iterable[float | None]) -> str:
    """Return a small graph of values in [0, 1], a character each; a gap is a dot.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    return "".join(
        "·" if value is None else _BARS[min(int(value * len(_BARS)), len(_BARS) - 1)] for value in values
    )


def dollars(amount: float | None) -> str:
    """Return an amount of US dollars as text, exact enough for a single cheap call.

    >>> dollars(12.345), dollars(0.00021), dollars(None)
    ('$12.35', '$0.0002', 'price unknown')
    """
    if amount is None:
        return "price unknown"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def new_table(*columns: str, numeric: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table.

    Args:
        columns: headings, left to right.
        numeric: headings of columns that are set flush right.
        title: what stands above it.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    return table


def print_table(table: Table) -> None:
    """Print a table to standard output; data in it is never taken for markup."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    Console(width=wide, markup=False, highlight=False, emoji=False).print(table)


@contextmanager
def progress(title: str, total: int) -> Iterator[Progress]:
    """Show progress on standard error: a bar in a terminal, else a line at every tenth.

    Args:
        title: what is going on.
        total: how many steps there are.
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda steps: bar.advance(task, steps)
        return
    done = said = 0

    def tell(steps: int) -> None:
        nonlocal done, said
        done += steps
        tenth = 10 * done // total if total else 10
        if tenth > said:
            said = tenth
            note(f"{title}: {done}/{total}")

    yield tell
