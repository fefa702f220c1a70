"""A pattern asked of a run: values over the turns of a match, and copies of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import yaml

from turnwise.errors import PatternError, UsageError
from turnwise.explorer.data.record import ViewedStore
from turnwise.patterns import FUNCTIONS, Evaluator, PatternValue, parse
from turnwise.patterns.expression import Comparison, Expression, Number
from turnwise.patterns.library import read_patterns
from turnwise.patterns.series import COMPONENTS, OtherRun
from turnwise.scoring import TurnScores

MOST_CURVES = 3
"""Comparisons of a pattern whose values are drawn."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One side of a comparison over the turns of a conversation; None where it is undefined."""

    name: str
    values: tuple[tuple[int, float | None], ...]
    level: float | None  # the number on the other side; None where that is no constant


def curves(record: ViewedStore, run: str, pattern: str, sequence_id: str) -> tuple[list[Curve], list[int]]:
    """What a pattern compares over the turns of a conversation, and the turns at which the pattern holds."""
    read = parse(pattern, patterns=record.library())
    turns = tuple(record.store.trajectory(run, sequence_id))
    runs = {node.run for node in read.walk() if isinstance(node, OtherRun)}
    others = {name: tuple(record.store.trajectory(name, sequence_id)) for name in runs}
    found: dict[str, Curve] = {}
    for node in read.walk():
        if isinstance(node, Comparison):
            for side, against in ((node.left, node.right), (node.right, node.left)):
                if not isinstance(side, Number):
                    level = against.value if isinstance(against, Number) else None
                    name = str(side)
                    values = tuple((turn, one.value) for turn, one in _evaluated(side, turns, others))
                    found.setdefault(name, Curve(name, values, level))
    holds = [turn for turn, one in _evaluated(read, turns, others) if one.holds]
    return list(found.values())[:MOST_CURVES], holds


def words(record: ViewedStore) -> list[tuple[str, str]]:
    """The words that a pattern may hold here, each with what it is: for completion while typing."""
    with record.tables() as tables:
        scored = tables.execute(
            "SELECT DISTINCT name, response FROM copied.evaluations JOIN copied.principles USING (principle) "
            "ORDER BY ALL"
        ).fetchall()
    found = [(component, "the worst over the principles") for component in COMPONENTS]
    for principle, response in scored:
        name = principle if principle.replace("_", "").isalnum() else json.dumps(principle)
        prefix = "response." if response else ""
        found += [(f"{prefix}{name}.{component}", "principle") for component in COMPONENTS]
    found += [(f"{name}(", "function") for name in FUNCTIONS]
    found += [(pattern.name, "named pattern") for pattern in record.library()]
    found += [(f'run("{run.name}").F', "another run") for run in record.store.runs()]
    found += [(word, "word") for word in ("and", "or", "not", "turn", "chars", "trust")]
    return list(dict(found).items())


def as_command(record: ViewedStore, run: str, pattern: str, when: str = "ever") -> str:
    """The command that asks the same."""
    parse(pattern, patterns=record.library())
    parts = ["turnwise", "query", pattern, "--store", record.where, "--run", run]
    parts += ["--when", when] if when != "ever" else []
    parts += ["--patterns", str(record.patterns)] if record.patterns is not None else []
    return shlex.join(parts)


def as_rule(record: ViewedStore, pattern: str) -> str:
    """The guardrail, as YAML, that blocks where the pattern holds; a guard has no other runs to compare with."""
    read = parse(pattern, patterns=record.library())
    if any(isinstance(node, OtherRun) for node in read.walk()):
        raise PatternError("a guard has one run, so a pattern with run(...) can't be its rule; leave run(...) out")
    rule = {"guardrails": [{"drift": {"detector": f"pattern:{pattern}", "action": "block"}}]}
    return str(yaml.safe_dump(rule, sort_keys=False, width=1_000))


def as_named(name: str, pattern: str, description: str) -> str:
    """A pattern as YAML under a name of its own, checked."""
    definition = {
        "version": 1,
        "description": description or f"Found in the explorer on {datetime.now(UTC):%Y-%m-%d}.",
        "reference": "turnwise explore",
        "expression": pattern,
    }
    text = str(yaml.safe_dump({name: definition}, sort_keys=False, allow_unicode=True, width=110))
    read_patterns(text, "the new pattern")
    return text


def save_named(record: ViewedStore, name: str, pattern: str, description: str) -> None:
    """Add a pattern to the user's file of named patterns; a name that there is already is refused."""
    if record.patterns is None:
        raise UsageError("start it with --patterns FILE to save patterns there; or copy the YAML")
    if name in record.library():
        raise PatternError(f"there is a pattern called {name!r}; choose another name")
    parse(pattern, patterns=record.library())
    text = as_named(name, pattern, description)
    try:
        with record.patterns.open("a", encoding="utf-8") as file:
            file.write(("\n" if file.tell() else "") + text)
    except OSError as error:
        raise UsageError(f"{record.patterns} can't be written: {error.strerror}") from error


def _evaluated(
    expression: Expression, turns: tuple[TurnScores, ...], others: dict[str, tuple[TurnScores, ...]]
) -> Iterator[tuple[int, PatternValue]]:
    """Yield the number of each turn, and what an expression is there."""
    evaluator = Evaluator(expression)
    state = evaluator.start()
    for at, scores in enumerate(turns):
        yield scores.turn, evaluator.update(state, scores, {name: those[at] for name, those in others.items()})
