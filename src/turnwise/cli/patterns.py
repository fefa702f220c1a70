"""``turnwise patterns``: the named patterns that there are, and what one of them says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise.cli import options
from turnwise.cli.output import say

if TYPE_CHECKING:
    from turnwise.patterns import Library, NamedPattern
    from turnwise.patterns.tree import Named
    from turnwise.scoring import TurnScores

PatternsFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--patterns", envvar="TURNWISE_PATTERNS", show_envvar=True, help="YAML file of your own named patterns."
    ),
]

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

_WIDTH = 80
"""Columns of running text."""

_HEIGHT = 5
"""Lines of a curve."""

_BLOCKS = " ▁▂▃▄▅▆▇█"


def read_library(path: str | None) -> Library:
    """The named patterns that ship, those of installed packages, and those of a user's file."""
    from turnwise.patterns import default_library, load_patterns

    return default_library() if path is None else load_patterns(path)


@app.callback(invoke_without_command=True)
def patterns(context: typer.Context, patterns: PatternsFile = None, json: options.Json = False) -> None:
    """List the named patterns with their parameters."""
    if context.invoked_subcommand is not None:
        context.obj = patterns
        return
    from turnwise.cli.output import Table, print_json, print_table

    library = read_library(patterns)
    if json:
        print_json([_as_json(pattern) for pattern in library])
        return
    table = Table("name", "parameters", "what it catches")
    for pattern in library:
        parameters = ", ".join(f"{name}={default}" for name, default in pattern.parameters.items())
        table.add_row(pattern.name, parameters, pattern.description.partition(". ")[0].rstrip("."))
    print_table(table)


@app.command()
def explain(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the pattern.", show_default=False)],
    patterns: PatternsFile = None,
    json: options.Json = False,
) -> None:
    """Show what a named pattern says, where it comes from, and a conversation that it matches."""
    from turnwise.cli.output import print_json
    from turnwise.patterns import named

    library = read_library(patterns or context.obj)
    pattern = library.get(name)
    expression = named(name, patterns=library)
    if json:
        from turnwise.patterns import Evaluator

        turns = pattern.example_turns()
        values = Evaluator(expression).run(turns)
        shown = [
            {**scores.to_dict(), "holds": value.holds, "margin": value.margin}
            for scores, value in zip(turns, values, strict=True)
        ]
        print_json({**_as_json(pattern), "stands_for": str(expression.body), "example": shown})
        return
    say(f"{pattern.name}  (version {pattern.version})")
    _paragraph(pattern.description)
    say("", f"  {pattern.usage}")
    _field("expression", pattern.expression)
    _field("stands for", str(expression.body))
    if pattern.reference:
        _field("reference", pattern.reference)
    _print_example(expression, pattern.example_turns())


def _as_json(pattern: NamedPattern) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "version": pattern.version,
        "expression": pattern.expression,
        "parameters": dict(pattern.parameters),
        "description": pattern.description,
        "reference": pattern.reference,
    }


def _paragraph(text: str) -> None:
    import textwrap

    say(*textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  "))


def _field(name: str, text: str) -> None:
    import textwrap

    lines = textwrap.wrap(text, _WIDTH - 14, break_long_words=False, break_on_hyphens=False)
    for index, line in enumerate(lines):
        say(f"  {'' if index else name:<12}{line}")


def _print_example(expression: Named, turns: Sequence[TurnScores]) -> None:
    """Print a curve of every series that the pattern reads, and the turns at which it holds."""
    from turnwise.patterns import Evaluator
    from turnwise.patterns.tree import Series

    if not turns:
        return
    say("", "  A conversation that it matches", "")
    for node in dict.fromkeys(part for part in expression.walk() if isinstance(part, Series)):
        values = [value.value for value in Evaluator(node).run(turns)]
        low = -1.0 if node.component == "balance" else 0.0
        for row, line in enumerate(_curve(values, low)):
            edge = {0: "1", _HEIGHT - 1: f"{low:g}"}.get(row, "")
            say(f"  {str(node) if row == 0 else '':<22}{edge:>3} ┤ {line}".rstrip())
    holds = ["▲" if value.holds else " " for value in Evaluator(expression).run(turns)]
    say(f"  {'turn':<26}  {''.join(f'{scores.turn:<4}' for scores in turns)}".rstrip())
    say(f"  {'holds':<26}  {''.join(f'{mark:<4}' for mark in holds)}".rstrip())


def _curve(values: Sequence[float | None], low: float) -> list[str]:
    """The lines of a bar chart, from the top; a gap is a dot."""
    lines = []
    for row in reversed(range(_HEIGHT)):
        cells = []
        for value in values:
            if value is None:
                cells.append("·   " if row == 0 else "    ")
                continue
            eighths = max(1, round((value - low) / (1.0 - low) * _HEIGHT * 8)) - row * 8
            cells.append(_BLOCKS[max(0, min(8, eighths))] * 2 + "  ")
        lines.append("".join(cells).rstrip())
    return lines
