"""A pattern asked of a run: counts while it is typed, values over the turns of a match, and copies of it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime

import yaml

from turnwise.conversation import Label
from turnwise.errors import PatternError, UsageError
from turnwise.explorer.data.record import Record
from turnwise.patterns import FUNCTIONS, Evaluator, parse, to_text
from turnwise.patterns.expression import Expression
from turnwise.patterns.named import read_patterns
from turnwise.patterns.tree import COMPONENTS, Comparison, Number, OtherRun
from turnwise.rates import Rate
from turnwise.scoring import TurnScores

MOST_CURVES = 3
"""Comparisons of a pattern whose values are drawn."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many sequences match a pattern.

    Args:
        pattern: the pattern, as the language writes it.
        rate: how many of how many evaluated sequences.
        by_label: the same by ground truth.
        by_source: the same by data set.
        not_scored: sequences that have no score of something that the pattern reads.
        seconds: how long the answer took.
    """

    pattern: str
    rate: Rate
    by_label: dict[Label, Rate]
    by_source: dict[str, Rate]
    not_scored: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """What a pattern compares, over the turns of a conversation.

    Args:
        name: one side of the comparison, as the language writes it.
        values: (turn, value) in the order of turns; None where it is undefined.
        level: the number that it is compared with; None where that is no constant.
    """

    name: str
    values: tuple[tuple[int, float | None], ...]
    level: float | None


def count(record: Record, run: str, pattern: str, when: str = "ever") -> Counted:
    """Return how many sequences of a run match a pattern.

    Raises:
        PatternError: it can't be read, or is no condition; the message points at the place.
        UsageError: the run has no evaluation.
        UnknownNameError: no such run.
    """
    found = record.store.query(pattern, run, when=when, patterns=record.library())
    return Counted(
        to_text(found.pattern), found.rate, found.by_label, found.by_source, found.not_scored, found.seconds
    )


def curves(record: Record, run: str, pattern: str, sequence_id: str) -> tuple[list[Curve], list[int]]:
    """Return what a pattern compares over the turns of a conversation, and the turns at which the pattern holds.

    Raises:
        PatternError: the pattern can't be read.
        UnknownNameError: no such run or sequence.
    """
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
                    name = to_text(side)
                    found.setdefault(name, Curve(name, tuple(_values(side, turns, others)), level))
    evaluator = Evaluator(read)
    state = evaluator.start()
    holds = [
        scores.turn
        for at, scores in enumerate(turns)
        if evaluator.update(state, scores, {name: those[at] for name, those in others.items()}).holds
    ]
    return list(found.values())[:MOST_CURVES], holds


def words(record: Record) -> list[tuple[str, str]]:
    """Return the words that a pattern may hold here, each with what it is: for completion while typing."""
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
    found += [(f'run("{run.name}").F', "another run") for run in record.runs()]
    found += [(word, "word") for word in ("and", "or", "not", "turn", "chars", "trust")]
    return list(dict(found).items())


def as_command(record: Record, run: str, pattern: str, when: str = "ever") -> str:
    """Return the command that asks the same.

    Raises:
        PatternError: the pattern can't be read.
    """
    parse(pattern, patterns=record.library())
    parts = ["turnwise", "query", pattern, "--store", record.where, "--run", run]
    parts += ["--when", when] if when != "ever" else []
    parts += ["--patterns", str(record.patterns)] if record.patterns is not None else []
    return shlex.join(parts)


def as_rule(record: Record, pattern: str) -> str:
    """Return the guardrail, as a line of a guard's YAML, that blocks where the pattern holds.

    Raises:
        PatternError: the pattern can't be read, or compares runs, which a guard does not have.
    """
    read = parse(pattern, patterns=record.library())
    if any(isinstance(node, OtherRun) for node in read.walk()):
        raise PatternError("a guard has one run: a pattern with run(...) can't be a rule")
    rule = {"guardrails": [{"drift": {"detector": f"pattern:{pattern}", "action": "block"}}]}
    return str(yaml.safe_dump(rule, sort_keys=False, width=1_000))


def as_named(name: str, pattern: str, description: str) -> str:
    """Return a pattern as YAML under a name of its own.

    Raises:
        PatternError: the name or the pattern can't be.
    """
    definition = {
        "version": 1,
        "description": description or f"Found in the explorer on {datetime.now(UTC):%Y-%m-%d}.",
        "reference": "turnwise explore",
        "expression": pattern,
    }
    text = str(yaml.safe_dump({name: definition}, sort_keys=False, allow_unicode=True, width=110))
    read_patterns(text, "the new pattern")
    return text


def save_named(record: Record, name: str, pattern: str, description: str) -> None:
    """Add a pattern to the user's file of named patterns.

    Raises:
        PatternError: the name or the pattern can't be, or there is a pattern of that name.
        UsageError: the explorer was started without --patterns, or the file can't be written.
    """
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


def _values(
    expression: Expression, turns: tuple[TurnScores, ...], others: dict[str, tuple[TurnScores, ...]]
) -> list[tuple[int, float | None]]:
    evaluator = Evaluator(expression)
    state = evaluator.start()
    return [
        (scores.turn, evaluator.update(state, scores, {name: those[at] for name, those in others.items()}).value)
        for at, scores in enumerate(turns)
    ]
