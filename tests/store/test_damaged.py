"""A store in which a value was changed by something else: what is said of it, and what can still be read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import StoreCorruptError
from turnwise.scoring import Evaluation, Failure
from turnwise.store import Run, Store

Raw = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def location(path: Path) -> str:
    """Return where the store of a test is: a file, in which anybody may change anything."""
    return str(path)


@pytest.fixture
def filled(
    store: Store,
    make_sequence: Callable[..., Sequence],
    make_run: Callable[..., Run],
    make_evaluation: Callable[..., Evaluation],
    make_failure: Callable[..., Failure],
) -> Store:
    """Return a store of two sequences and two runs, of which the first scored both sequences."""
    store.add_sequences([make_sequence("a"), make_sequence("b")])
    store.start_run(make_run())
    store.start_run(make_run("second"))
    store.append([make_evaluation("a"), make_evaluation("b"), make_failure("a", 2), make_failure("b", 2)])
    return store


def _read_sequences(store: Store, name: str) -> object:
    sequence = store.sequence(name)
    return sequence.label, sequence.metadata, sequence.conversation.to_dict()


def _read_heads(store: Store, name: str) -> object:
    return list(store.heads(ids=[name]))


def _read_trajectory(store: Store, name: str) -> object:
    return store.trajectory("first", name).evaluations


def _read_failures(store: Store, name: str) -> object:
    return store.failures("first", ids=[name])


@pytest.mark.parametrize(
    ("read", "change", "said"),
    [
        (
            _read_sequences,
            "UPDATE sequences SET imported_at = '025-01-02' WHERE sequence_id = 'a'",
            "sequences.imported_at where sequence_id is 'a' and id is 1: '025-01-02' is not a time; other rows",
        ),
        (
            _read_sequences,
            "UPDATE sequences SET imported_at = '2025-01-02' WHERE sequence_id = 'a'",
            "sequences.imported_at where sequence_id is 'a' and id is 1: '2025-01-02' is not a time with a zone;",
        ),
        (
            _read_sequences,
            "UPDATE sequences SET metadata = '{\"goal: 1}' WHERE sequence_id = 'a'",
            "sequences.metadata where sequence_id is 'a' and id is 1: '{\"goal: 1}' is not JSON;",
        ),
        (
            _read_sequences,
            "UPDATE turns SET prompt = CAST(x'61c562' AS TEXT) WHERE sequence = 1 AND turn = 2",
            r"turns.prompt where sequence is 'a' and turn is 2: b'a\xc5b' is not UTF-8;",
        ),
        (
            _read_sequences,
            "UPDATE sequences SET conversation = '[]' WHERE sequence_id = 'a'",
            "sequence 'a' can't be read (a conversation must be an object with keys, not list)",
        ),
        (
            _read_sequences,
            "DELETE FROM turns WHERE sequence = 1",
            "sequence 'a' can't be read (only 0 of its 2 turns are there); everything else can:",
        ),
        (
            _read_heads,
            "UPDATE sequences SET label = 'bttack' WHERE sequence_id = 'a'",
            "sequences.label where sequence_id is 'a' and id is 1: 'bttack' is not one of attack, benign,",
        ),
        (
            _read_trajectory,
            "UPDATE sequences SET turns = 1000000000 WHERE sequence_id = 'a'",
            "the trajectory of sequence 'a' in run 'first' can't be read (only 2 of its 1000000000 turns",
        ),
        (
            _read_trajectory,
            "UPDATE evaluations SET created_at = 7 WHERE sequence = 1",
            "evaluations.created_at where run is 'first' and sequence is 'a' and turn is 1 and side is 'prompt' "
            "and id is 1: '7' is not a time;",
        ),
        (
            _read_trajectory,
            "UPDATE evaluations SET T = 1.5 WHERE sequence = 1",
            "evaluations.T where run is 'first' and sequence is 'a' and turn is 1 and side is 'prompt' and id is "
            "1: 1.5 is not a number in [0, 1];",
        ),
        (
            _read_failures,
            "UPDATE failures SET side = 'prom' WHERE sequence = 1",
            "failures.side where sequence_id is 'a' and run is 'first' and turn is 2 and side is 'prom' and id is "
            "1: 'prom' is not one of prompt, response;",
        ),
    ],
)
def test_a_value_that_can_not_be_is_named_and_other_rows_are_read(
    filled: Store, path: Path, read: Callable[[Store, str], object], change: str, said: str
) -> None:
    intact = read(filled, "b")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(change)
    with pytest.raises(StoreCorruptError) as raised:
        read(filled, "a")
    message = str(raised.value)
    assert message.startswith(f"{path} is damaged: {said}")
    assert message.endswith(": restore a copy, or import and evaluate into another store")
    assert "\n" not in message
    assert read(filled, "b") == intact


def test_a_damaged_run_hides_no_other(filled: Store, raw: Raw) -> None:
    raw("UPDATE runs SET parameters = '{' WHERE name = 'second'")
    with pytest.raises(
        StoreCorruptError, match=r"runs\.parameters where name is 'second' and id is 2: '{' is not"
    ):
        filled.runs()
    with pytest.raises(StoreCorruptError, match=r"runs\.parameters where name is 'second'"):
        filled.run("second")
    assert filled.run("first").name == "first"
    assert len(filled.trajectory("first", "a")) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE sequences SET turns = 'x'", "'x' is not a whole number from 1"),
        ("UPDATE sequences SET label = 'bttack'", "'bttack' is not one of attack, benign, unlabelled"),
    ],
)
def test_a_question_over_damaged_rows_names_the_first(filled: Store, raw: Raw, change: str, said: str) -> None:
    raw(change)
    with pytest.raises(
        StoreCorruptError, match=rf"work\.db is damaged: sequences\.\w+ where .* is 'a'.*: {said};"
    ):
        list(filled.query("peak(F) > 0", "first"))


def test_a_damaged_reply_is_not_taken_for_one(filled: Store, make_reply: Callable[..., Any], raw: Raw) -> None:
    filled.journal.record(make_reply())
    raw("UPDATE replies SET received_at = 'x'")
    with pytest.raises(StoreCorruptError, match=r"work\.db is damaged \('x' is not a time\); restore a copy"):
        filled.journal.find("k1", 1)


def test_a_name_in_the_schema_that_is_no_text_is_damage(path: Path, raw: Raw) -> None:
    Store(path, create=True).close()
    content = path.read_bytes()
    path.write_bytes(
        content.replace(b"replies_by_request", b"replies_by_reques\xc5").replace(
            b"INDEX replies", b"INDEY replies"
        )
    )
    with pytest.raises(StoreCorruptError, match=r"work\.db is damaged .*; restore a copy"):
        Store(path)


def test_groups_are_read_without_any_text(
    store: Store, make_sequence: Callable[..., Sequence], raw: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store.add_sequences([make_sequence("a", goal="open the lock")])
    raw("UPDATE turns SET metadata = 'no JSON'")
    raw("UPDATE sequences SET conversation = 'no JSON'")
    with pytest.raises(StoreCorruptError, match=r"sequences\.conversation where sequence_id is 'a'"):
        store.sequence("a")
    assert store.groups() == {"a": "open the lock"}
