"""Stores of every shape, made through the public API, and what their files hold row by row."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Provenance, Reply, Score
from turnwise.store import Run, Store

TEXTS = st.one_of(
    st.text(max_size=8), st.sampled_from(("", "\0", "=1+1", "a\r\nb", "␀0", "\u2028", '"', "é😀", "NULL", "nan"))
)
"""Texts that a file format may stumble over. Half surrogates are none that a store can hold."""

_ANY_CHARACTER = st.text(st.characters(exclude_categories=()), max_size=4)
_NUMBERS = st.one_of(st.integers(), st.just(10**40), st.floats(allow_nan=False, allow_infinity=False))
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _ANY_CHARACTER),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_ANY_CHARACTER, inner, max_size=2)),
    max_leaves=4,
)
METADATA = st.dictionaries(_ANY_CHARACTER, JSON_VALUES, max_size=2)

_FIRST = datetime(2025, 6, 7, 8, 9, 10, 123456, tzinfo=UTC)
TIMES = st.builds(lambda part: _FIRST + timedelta(microseconds=part), st.integers(-(10**15), 10**15))
_SHARES = st.floats(0, 1)
_AMOUNTS = st.one_of(st.none(), st.floats(0, 1e9))
_COUNTS = st.one_of(st.none(), st.integers(0, 2**40))


@dataclass(frozen=True)
class Content:
    """What goes into a store, in this order; the run `deleted` is deleted again, so that keys have gaps."""

    sequences: list[Sequence]
    runs: list[Run]
    scored: list[Evaluation | Failure]
    replies: list[Reply] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    deleted: str | None = None
    people: list[tuple[str, Label, str, str]] = field(default_factory=list)


@st.composite
def _sequences(draw: Any, name: str) -> Sequence:
    given = draw(st.lists(st.tuples(TEXTS, st.one_of(st.none(), TEXTS), METADATA), min_size=1, max_size=3))
    turns = [
        Turn(number, prompt, response, timestamp=draw(st.one_of(st.none(), TIMES)), metadata=metadata)
        for number, (prompt, response, metadata) in enumerate(given, start=1)
    ]
    chat = Conversation.from_turns(turns, conversation_id=name)
    return Sequence(name, draw(st.sampled_from(Label)), draw(TEXTS), chat, draw(METADATA))


@st.composite
def _replies(draw: Any, name: str) -> Reply:
    return Reply(
        name, draw(st.integers(1, 3)), draw(TEXTS), draw(TEXTS), draw(st.one_of(st.none(), TEXTS)), None,
        draw(_COUNTS), draw(_COUNTS), draw(_AMOUNTS), draw(st.floats(0, 1e6)), draw(TEXTS), draw(TIMES),
    )  # fmt: skip


@st.composite
def _calls(draw: Any, name: str) -> tuple[Call, ...]:
    made = []
    for repeat in range(1, draw(st.integers(0, 2)) + 1):
        reply = draw(st.one_of(st.none(), _replies(f"{name}-{repeat}")))
        score = draw(_scores()) if reply else None
        made.append(Call(repeat, reply, score, draw(TEXTS), None if score else "timeout", None, attempts=repeat))
    return tuple(made)


def _scores() -> st.SearchStrategy[Score]:
    return st.builds(Score, _SHARES, _SHARES, _SHARES)


@st.composite
def contents(draw: Any) -> Content:
    """Return the content of a store with at most three sequences and two runs."""
    names = draw(st.lists(TEXTS.filter(bool), unique=True, max_size=3))
    sequences = [draw(_sequences(name)) for name in names]
    runs = [
        Run(name, draw(TEXTS), "1", "history", draw(METADATA), {"any_turn": draw(_SHARES)}, "0.1", draw(TIMES))
        for name in draw(st.lists(TEXTS.filter(str.strip), unique=True, max_size=2))
    ]
    scored: list[Evaluation | Failure] = []
    for run in runs:
        for sequence in sequences:
            for turn in range(1, sequence.conversation.get_turn_count() + 1):
                key = EvaluationKey(run.name, sequence.sequence_id, turn, draw(st.sampled_from(Side)), "p")
                came = Provenance(run.observer, "1", "2", run.context, run.parameters, draw(st.sampled_from("ab")))
                common: dict[str, Any] = {
                    "raw_reply": draw(st.one_of(st.none(), TEXTS)),
                    "latency_s": draw(_AMOUNTS),
                    "cost_usd": draw(_AMOUNTS),
                    "calls": draw(_calls(f"{run.name}-{sequence.sequence_id}-{turn}")),
                }
                if draw(st.booleans()):
                    scored.append(Failure(key, "error", draw(TEXTS), came, draw(TIMES), **common))
                scored.append(Evaluation(key, draw(_scores()), came, draw(TIMES), draw(TEXTS), **common))
    replies = [draw(_replies(f"journal-{number}")) for number in range(draw(st.integers(0, 2)))]
    events = [
        {"time": time.isoformat(), "kind": "check", "conversation_id": draw(TEXTS), "blocked": draw(st.booleans())}
        for time in draw(st.lists(TIMES, max_size=2))
    ]
    people = [
        (name, draw(st.sampled_from(Label)), draw(st.sampled_from(("ann", "ben", "李"))), draw(TEXTS))
        for name in names
        for _ in range(draw(st.integers(0, 2)))
    ]
    deleted = draw(st.sampled_from([None, *(run.name for run in runs)]))
    return Content(sequences, runs, scored, replies, [*events, *events[:1]], deleted, people)


def fill(path: Path, content: Content) -> None:
    """Make a store of a content."""
    with Store(path, create=True) as store:
        store.add_sequences(content.sequences)
        for run in content.runs:
            store.start_run(run)
        for reply in content.replies:
            store.journal.record(reply)
        store.append(content.scored)
        store.audit.append(content.events)
        for name, label, author, note in content.people:
            store.people.correct_label(name, label, author, note)
            store.people.mark_turn(name, 1, author, note)
            store.people.judge(name, 1, {"p": Score(0.5, 0.25, 0.125)}, author, versions={"p": "1"}, note=note)
        if content.deleted is not None:
            store.delete_run(content.deleted)


def rows_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table as the file holds it, but for when its own schema came to be."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for name in sorted(names)
            if name != "schema_migrations"
        }
