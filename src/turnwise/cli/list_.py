"""``turnwise list``: what there is to choose from, and all that is known of one of them."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from turnwise.cli import options
from turnwise.cli.output import print_json, print_table, say, say_text
from turnwise.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from turnwise.patterns import NamedPattern
    from turnwise.patterns.expression import Named
    from turnwise.scoring import TurnScores

_WIDTH = 80
"""Columns of running text."""

_HEIGHT = 5
"""Lines of a curve."""

_BLOCKS = " ▁▂▃▄▅▆▇█"

Rows = list[dict[str, Any]]


class Described(NamedTuple):
    """All that is known of one thing: for ``--json``, and as text."""

    value: Any
    text: str


class ListKind(NamedTuple):
    """A kind of thing to choose from: what there is of it, in rows of the same keys."""

    rows: Callable[[], Rows]
    tables: tuple[tuple[str, ...], ...] = ()  # the columns that are printed, a table each; none for all in one
    describe: Callable[[str], Described] | None = None  # of one by its name; None for its row


def _kinds(patterns: str | None) -> Mapping[str, ListKind]:
    """What there is to choose from, by the word for it; `patterns` is a file of a user's own."""
    return {
        "datasets": ListKind(_datasets),
        "detectors": ListKind(_detectors),
        "guardrails": ListKind(_guardrails),
        "observers": ListKind(
            _observers, (("name", "contexts", "needs", "summary"), ("name", "settings")), _model_card
        ),
        "patterns": ListKind(
            lambda: list(map(_pattern_row, options.read_library(patterns))),
            (("name", "parameters", "summary"),),
            partial(_explain, file=patterns),
        ),
        "presets": ListKind(_presets, describe=_preset),
        "principles": ListKind(_principles),
        "session-presets": ListKind(_session_presets, (("name", "summary", "sets"),)),
    }


def list_(
    kind: Annotated[
        str,
        typer.Argument(
            help="datasets, detectors, guardrails, observers, patterns, presets, principles or session-presets.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(help="One of them; of an observer local:path/to/model too.", show_default=False)
    ] = None,
    patterns: options.PatternsFile = None,
    out: Annotated[str | None, typer.Option(help="File to write NAME to, such as a preset to change.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: options.Json = False,
) -> None:
    """List detectors, observers, presets and the like with their settings; with NAME, show one in full.

    Data sets: the formats that can be imported, their licence, what the label means, where the data come from.
    Observers: context modes, what they need, what can be set; of one NAME the model card: data, licences, figures
    with intervals, known limits. Patterns: of one what it says, where it comes from, and a conversation that it
    matches. Presets: the configurations of the guard that ship; of one its YAML, which --out copies to be changed
    and given as --config. Session presets: those of the session memory with what they set.
    """
    known = _kinds(patterns)
    if kind not in known:
        raise UnknownNameError("kind", kind, known)
    chosen = known[kind]
    if name is None:
        if out is not None or force:
            raise UsageError(f"--out and --force write one of them to a file: give its name after {kind}")
        _print_all(chosen, chosen.rows(), json)
        return
    told = chosen.describe(name) if chosen.describe else _row_of(kind, name, chosen.rows())
    if out is not None:
        from turnwise.cli.files import writing

        with writing(out, taken=None if force else "give another name, or --force to write over it") as file:
            file.write(told.text.removesuffix("\n") + "\n")
        if json:
            print_json({"kind": kind, "name": name, "file": out})
        else:
            say(f"{out} written" + (f"; change it, and name it with --config {out}" if kind == "presets" else ""))
    elif json:
        print_json(told.value)
    else:
        say_text(told.text)


def _print_all(kind: ListKind, rows: Rows, json: bool) -> None:
    if json:
        print_json(rows)
        return
    for columns in kind.tables or (tuple(rows[0]) if rows else ("name",),):  # --json has the rest
        print_table(columns, ([_words(row[column]) for column in columns] for row in rows))


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _row_of(kind: str, name: str, rows: Rows) -> Described:
    row = next((row for row in rows if row["name"] == name), None)
    if row is None:
        raise UnknownNameError(kind.replace("-", " ").removesuffix("s"), name, (row["name"] for row in rows))
    return Described(row, "\n".join(line for key, value in row.items() for line in _field(key, _words(value))))


def _field(name: str, text: str) -> Iterator[str]:
    """Yield the lines of a text with its name before the first of them."""
    for place, line in enumerate(
        textwrap.wrap(text, _WIDTH - 14, break_long_words=False, break_on_hyphens=False) or [""]
    ):
        yield f"  {'' if place else name:<12}{line}".rstrip()


def _plain(value: Any) -> Any:
    """A setting as JSON has it: paths as text, and as ``inf`` infinity, a threshold that nothing reaches."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, str | int) else str(value)


def _datasets() -> Rows:
    from turnwise.datasets import list_datasets

    return [
        {
            "name": info.name,
            "title": info.title,
            "shape": info.shape,
            "licence": info.licence,
            "label": info.label_meaning,
            "source": info.source,
        }
        for info in list_datasets()
    ]


def _detectors() -> Rows:
    from turnwise.detectors import describe_detectors

    return [
        {"name": info.name, "parameters": _plain(info.parameters), "summary": info.summary}
        for info in describe_detectors()
    ]


def _guardrails() -> Rows:
    from turnwise.guard import describe_guardrails

    return [
        {"name": info.name, "settings": _plain(info.settings), "summary": info.summary}
        for info in describe_guardrails()
    ]


def _principles() -> Rows:
    from turnwise.principles import list_principles

    return [{"name": one.name, "version": one.version, "summary": one.summary} for one in list_principles()]


def _observers() -> Rows:
    from turnwise.observers import list_observers, observer_settings

    return [
        {
            "name": info.name,
            "version": info.version,
            "contexts": list(map(str, info.contexts)),
            "needs": info.needs,
            "settings": _plain({one.name: one.default for one in observer_settings(info.name).values()}),
            "summary": info.summary,
            "principles": "any" if info.principles is None else list(info.principles),
            "costs": info.costs,
        }
        for info in list_observers()
    ]


def _model_card(name: str) -> Described:
    """The model card of an observer that has one; else its row."""
    from turnwise.observers import OBSERVERS

    kind, _, path = name.partition(":")
    part: Any = OBSERVERS.get(kind) if kind in OBSERVERS.names() else None
    if not hasattr(part, "card_data"):
        return _row_of("observers", name, _observers())
    card = {name: part.card_data(path or None)}
    return Described(card, part.render_card(card))


def _presets() -> Rows:
    from turnwise.guard.config import preset_names, preset_summary

    return [{"name": name, "summary": preset_summary(name)} for name in preset_names()]


def _preset(name: str) -> Described:
    from turnwise.guard.config import preset_text
    from turnwise.guard.written_values import read_yaml

    text = preset_text(name)
    return Described(read_yaml(text, f"preset {name}")[0], text)


def _session_presets() -> Rows:
    from turnwise.sessions import presets

    settings = {info.name: dataclasses.asdict(info.settings) for info in presets()}
    first = next(iter(settings.values()))
    return [
        {
            "name": info.name,
            "summary": info.summary,
            "sets": _differences(settings[info.name], None if place == 0 else first),
            "settings": _plain(settings[info.name]),
        }
        for place, info in enumerate(presets())
    ]


def _differences(chosen: Mapping[str, Any], others: Mapping[str, Any] | None, prefix: str = "") -> str:
    """Settings in a line; beside others only what differs from them."""
    parts = []
    for key, value in chosen.items():
        if isinstance(value, dict):
            parts.append(_differences(value, others and others[key], f"{key}."))
        elif others is None or others[key] != value:
            shown = f"{value / timedelta(days=1):g}d" if isinstance(value, timedelta) else value
            parts.append(f"{prefix}{key}={shown}")
    return ", ".join(part for part in parts if part)


def _pattern_row(pattern: NamedPattern) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "version": pattern.version,
        "expression": pattern.expression,
        "parameters": dict(pattern.parameters),
        "summary": pattern.description.partition(". ")[0].rstrip("."),
        "description": pattern.description,
        "reference": pattern.reference,
    }


def _explain(name: str, file: str | None) -> Described:
    """What a pattern says, where it comes from, and a conversation that it matches."""
    from turnwise.patterns import Evaluator, named

    library = options.read_library(file)
    pattern = library.get(name)
    expression = named(name, patterns=library)
    turns = pattern.example_turns()
    example = [
        {**scores.to_dict(), "holds": value.holds, "margin": value.margin}
        for scores, value in zip(turns, Evaluator(expression).run(turns), strict=True)
    ]
    lines = [
        f"{pattern.name}  (version {pattern.version})",
        *textwrap.wrap(pattern.description, _WIDTH, initial_indent="  ", subsequent_indent="  "),
        "",
        f"  {pattern.usage}",
        *_field("expression", pattern.expression),
        *_field("stands for", str(expression.body)),
        *(_field("reference", pattern.reference) if pattern.reference else ()),
        *(_example_lines(expression, turns) if turns else ()),
    ]
    value = {**_pattern_row(pattern), "stands_for": str(expression.body), "example": example}
    return Described(value, "\n".join(lines))


def _example_lines(expression: Named, turns: Sequence[TurnScores]) -> Iterator[str]:
    """Yield a curve of every series that the pattern reads, and the turns at which it holds."""
    from turnwise.patterns import Evaluator
    from turnwise.patterns.series import Series

    yield from ("", "  A conversation that it matches", "")
    for node in dict.fromkeys(part for part in expression.walk() if isinstance(part, Series)):
        values = [value.value for value in Evaluator(node).run(turns)]
        low = -1.0 if node.component == "balance" else 0.0
        for row, line in enumerate(_curve(values, low)):
            edge = {0: "1", _HEIGHT - 1: f"{low:g}"}.get(row, "")
            yield f"  {str(node) if row == 0 else '':<22}{edge:>3} ┤ {line}".rstrip()
    holds = ["▲" if value.holds else " " for value in Evaluator(expression).run(turns)]
    yield f"  {'turn':<26}  {''.join(f'{scores.turn:<4}' for scores in turns)}".rstrip()
    yield f"  {'holds':<26}  {''.join(f'{mark:<4}' for mark in holds)}".rstrip()


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
