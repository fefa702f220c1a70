"""What commands print: results to standard output, notes and progress to standard error.

Texts of conversations, ids and errors of servers come from others. All that is printed goes through this module,
which makes visible what could hide, forge or recolour what is on a terminal.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from turnwise._support.visible import visible, visible_character, visible_lines
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.rates import Rate

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH_OF_TEXT = 80
"""Columns of running text."""

_WIDTH_OF_A_FILE = 140
"""Columns of a table that goes to a file or pipe, where the environment does not say COLUMNS."""


def say(*lines: str) -> None:
    """Print lines to standard output; a line end within one of them is shown as an escape."""
    for line in lines:
        typer.echo(visible(line), color=True)  # nothing is left for typer to strip


def say_paragraphs(*texts: str) -> None:
    """Print paragraphs to standard output in lines of 80 characters, each with an empty line below it."""
    for text in texts:
        say(*textwrap.wrap(text, _WIDTH_OF_TEXT, break_long_words=False, break_on_hyphens=False), "")


def say_text(text: str) -> None:
    """Print a text of several lines to standard output."""
    say(*text.removesuffix("\n").split("\n"))


_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def keep_quiet(quiet: bool = True) -> None:
    """Leave out remarks and progress from now on, or no longer; errors stay."""
    _QUIET.set(quiet)


def note(text: str) -> None:
    """Print a remark to standard error, unless turnwise is to keep quiet."""
    if not _QUIET.get():
        print_error(text)


def print_error(text: str) -> None:
    """Print to standard error; further lines are indented, so that none passes for another error or remark."""
    first, *others = visible_lines(text).split("\n")
    further = (line if line.startswith("  ") else f"  {line}" for line in others)
    typer.echo("\n".join([first, *further]), err=True, color=True)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in one line where `indent` is None; numbers that are not finite are refused."""
    text = _visible_json(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = _visible_json(json.dumps(value, indent=indent, allow_nan=False))
    typer.echo(text, color=True)


def rate_json(rate: Rate) -> dict[str, Any]:
    """A rate as ``--json`` has it."""
    return {"count": rate.count, "of": rate.of, "interval": list(rate.interval)}


def _visible_json(text: str) -> str:
    return "\n".join(line if line.isprintable() else "".join(map(_escape_json, line)) for line in text.split("\n"))


def _escape_json(character: str) -> str:
    if visible_character(character) == character:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def confirm(question: str, yes: bool) -> None:
    """Ask whether to go on, and end the command where the answer is no; UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} No terminal to ask on: add --yes")
    if not typer.confirm(visible(question), err=True):
        raise typer.Exit(1)


def sparkline(values: Iterable[float | None]) -> str:
    """A small graph of values in [0, 1], a character each; a gap is a dot.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    return "".join(
        "·" if value is None else _BARS[min(int(value * len(_BARS)), len(_BARS) - 1)] for value in values
    )


def dollars(amount: float | None) -> str:
    """An amount of US dollars as text, exact enough for a single cheap call.

    >>> dollars(12.345), dollars(0.00021), dollars(None)
    ('$12.35', '$0.0002', 'price unknown')
    """
    if amount is None:
        return "price unknown"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numeric: Sequence[str] = (),
    title: str | None = None,
) -> None:
    """Print rows, whose cells are values or lists of lines, under headings; those of `numeric` are flush right."""
    # Data are never taken for markup. A table is as wide as the terminal at most: cells wrap, but never inside a
    # number; columns that find no room beside the others follow below, each time beside the first column again.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_OF_A_FILE
    console = Console(width=wide, markup=False, highlight=False, emoji=False)
    room = max(console.width, _NARROWEST) - 2  # the box has a blank at both ends
    headings = [_cell(column.split("\n")) for column in columns]
    cells = [tuple(map(_cell, row)) for row in rows]
    measured = [_widths([heading, *(row[place] for row in cells)], room) for place, heading in enumerate(headings)]
    name = measured[0]  # what the rows are about is not divided unless it takes more than a third
    measured[0] = name._replace(least=max(name.least, min(name.words, room // 3)))
    title = None if title is None else visible(title)
    for block in _blocks([one.least for one in measured], room):
        drawn = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for place, width in zip(block, _shared([measured[place] for place in block], room), strict=True):
            justify: Literal["left", "right"] = "right" if columns[place] in numeric else "left"
            drawn.add_column(headings[place], justify=justify, overflow="fold", width=width)
        for row in cells:
            drawn.add_row(*(row[place] for place in block))
        with console.capture() as printed:
            console.print(drawn)
        typer.echo(printed.get().replace(_JOIN, " "), nl=False, color=True)
        title = None


_NARROWEST = 20
"""Columns that a table has at least, however narrow the terminal."""

_GAP = 3
"""Characters between two columns."""

_WORD = 14
"""Characters of a word from which it may be divided, where room is scarce."""

_JOIN = "\ue000"
"""Stands for a blank at which no line ends; `visible` lets no such character through."""

_FEW_NUMBERS = 16
"""Characters of a line of numbers up to which it is kept whole: three scores, or a date with its time."""

_OF_NUMBERS = frozenset(f"0123456789.,:;%+-−±[](){{}}e$/={_JOIN}")


class _Widths(NamedTuple):
    """How wide a column must be: to divide no number, to divide no word, and not to wrap."""

    least: int
    words: int
    whole: int


def _widths(cells: Sequence[str], most: int) -> _Widths:
    from rich.cells import cell_len

    least = words = 1
    for word in (word for cell in cells for word in cell.split()):
        length = cell_len(word)
        number = _OF_NUMBERS.issuperset(word) and any(character.isdigit() for character in word)
        least, words = max(least, length if number else min(length, _WORD)), max(words, length)
    whole = max(cell_len(line) for cell in cells for line in cell.split("\n"))
    least = min(least, most)
    return _Widths(least, max(words, least), max(words, whole, least))


def _blocks(least: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the places of the columns that stand side by side; the first column is in each block."""
    block = [0]
    for place in range(1, len(least)):
        if len(block) > 1 and sum(least[k] + _GAP for k in block) + least[place] > width:
            yield block
            block = [0]
        block.append(place)
    yield block


def _shared(measured: Sequence[_Widths], width: int) -> list[int]:
    """The width of each column of a block: words are kept whole first, from the left, then lines."""
    shares = [one.least for one in measured]
    room = width - sum(shares) - _GAP * (len(shares) - 1)
    for place, one in enumerate(measured):
        more = max(0, min(room, one.words - shares[place]))
        shares[place] += more
        room -= more
    for _ in range(room):
        place = max(range(len(shares)), key=lambda k: measured[k].whole / shares[k])
        if shares[place] >= measured[place].whole:
            break
        shares[place] += 1
    return shares


def _cell(cell: object) -> str:
    lines = cell if isinstance(cell, list) else ["" if cell is None else str(cell)]
    return "\n".join(_joined(visible(line)) for line in lines)


def _joined(line: str) -> str:
    """A line in which what belongs together has no blanks: a few numbers, a date, an interval."""
    if len(line) <= _FEW_NUMBERS and _OF_NUMBERS.issuperset(line.replace(" ", "")):
        return line.replace(" ", _JOIN)
    first, *others = line.split("[")
    for place, other in enumerate(others):
        interval, closed, rest = other.partition("]")
        if closed and _OF_NUMBERS.issuperset(interval.replace(" ", "")):
            others[place] = f"{interval.replace(' ', _JOIN)}]{rest}"
    return "[".join([first, *others])


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many of how many are done on standard error: a bar in a terminal, else a line at every tenth."""
    if _QUIET.get():
        yield lambda done, total: None
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        name = TextColumn("{task.description}", markup=False)
        columns = name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(visible(title), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    said = 0

    def tell(done: int, total: int) -> None:
        nonlocal said
        tenth = 10 * done // total if total else 10
        if tenth > said:
            said = tenth
            note(f"{title}: {done}/{total}")

    yield tell


_EVERY_S = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""


@contextmanager
def share_done(title: str) -> Iterator[Callable[[float, str], None]]:
    """Show the share that is done, in [0, 1], with some words: a bar in a terminal, else lines at times."""
    if _QUIET.get():
        yield lambda share, said: None
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = TextColumn(visible(title), markup=False), BarColumn(), TaskProgressColumn()
        told = TextColumn("{task.description}", markup=False)
        with Bar(*columns, told, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting", total=1.0)
            yield lambda share, said: bar.update(task, completed=share, description=said)
        return
    last = time.monotonic()

    def tell(share: float, said: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            note(f"{title}: {share:.0%}, {said}")

    yield tell
