"""What the store tests share: short ways to make a store, sequences and what is scored of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from postgresql_server import PostgresqlServer, ask_directly, held_up

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.scoring import Evaluation, EvaluationKey, Failure, Provenance, Reply, Score
from turnwise.store import Run, Store

SOME_SCORE = Score(0.5, 0.25, 0.125)
NOW = datetime(2025, 6, 7, 8, 9, 10, 123456, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store of a test is, or is to be, if it is a file."""
    return tmp_path / "work.db"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def location(request: pytest.FixtureRequest, path: Path) -> str:
    """Return where the store of a test is, or is to be: a file, and then a schema of a real PostgreSQL."""
    if request.param == "sqlite":
        return str(path)
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_schema()


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    """Return an empty store whose clock stands still."""
    with Store(location, create=True, clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def make_sequence() -> Callable[..., Sequence]:
    """Return a function from an id and turns to a sequence."""

    def make(
        sequence_id: str,
        *turns: tuple[str, str | None],
        label: Label = Label.ATTACK,
        source: str = "made up",
        **metadata: Any,
    ) -> Sequence:
        given = turns or ((f"first of {sequence_id}", "reply"), (f"second of {sequence_id}", None))
        chat = Conversation.from_turns(given, conversation_id=sequence_id)
        return Sequence(sequence_id, label, source, chat, metadata)

    return make


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """Return a function from what differs to a run."""

    def make(name: str = "first", **changes: Any) -> Run:
        fields: dict[str, Any] = {
            "observer": "probe:fast",
            "observer_version": "3",
            "context": "history",
            "parameters": {"depth": 2, "tags": ["a", None]},
            "operating_points": {"any_turn": 0.25},
            "code_version": "0.1.0+gabc",
            "created_at": NOW,
        }
        return Run(name, **{**fields, **changes})

    return make


@pytest.fixture
def make_key() -> Callable[..., EvaluationKey]:
    """Return a function to the key of an evaluation."""

    def make(
        sequence_id: str, turn: int = 1, principle: str = "p", side: Side = Side.PROMPT, run: str = "first"
    ) -> EvaluationKey:
        return EvaluationKey(run, sequence_id, turn, side, principle)

    return make


@pytest.fixture
def make_evaluation(
    make_run: Callable[..., Run], make_key: Callable[..., EvaluationKey]
) -> Callable[..., Evaluation]:
    """Return a function from a sequence, turn and so on to an evaluation of the default run."""

    def make(
        sequence_id: str,
        turn: int = 1,
        principle: str = "p",
        *,
        side: Side = Side.PROMPT,
        run: str = "first",
        score: Score = SOME_SCORE,
        version: str = "1",
        code_version: str = "0.1.0+gabc",
        **details: Any,
    ) -> Evaluation:
        key = make_key(sequence_id, turn, principle, side, run)
        return Evaluation(key, score, provenance_of(make_run(run), version, code_version), NOW, **details)

    return make


@pytest.fixture
def make_failure(make_run: Callable[..., Run], make_key: Callable[..., EvaluationKey]) -> Callable[..., Failure]:
    """Return a function from a sequence, turn and so on to a failure of the default run."""

    def make(sequence_id: str, turn: int = 1, principle: str = "p", **details: Any) -> Failure:
        fields: dict[str, Any] = {"reason": "malformed", "message": "no JSON in it", **details}
        return Failure(
            key=make_key(sequence_id, turn, principle),
            provenance=provenance_of(make_run(), "1", "0.1.0+gabc"),
            created_at=NOW,
            **fields,
        )

    return make


@pytest.fixture
def raw(location: str, path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """Return a function that asks the database itself, over a connection of its own."""

    def ask(statement: str, *values: object) -> list[tuple[Any, ...]]:
        if "://" in location:
            return ask_directly(location, statement.replace("?", "%s"), *values)
        with closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    return ask


@pytest.fixture
def writing(location: str) -> Callable[[], AbstractContextManager[object]]:
    """Return a function that writes as another process does: while its block runs, all other writers wait."""

    @contextmanager
    def write() -> Iterator[None]:
        if "://" in location:
            with held_up(location):
                yield
            return
        with closing(sqlite3.connect(location, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    return write


def provenance_of(run: Run, version: str, code_version: str) -> Provenance:
    return Provenance(
        observer=run.observer,
        observer_version=run.observer_version,
        principle_version=version,
        context=run.context,
        parameters=run.parameters,
        code_version=code_version,
    )


@pytest.fixture
def make_reply() -> Callable[..., Reply]:
    """Return a function from a key and what differs to a reply."""

    def make(request_key: str = "k1", repeat: int = 1, **changes: Any) -> Reply:
        fields: dict[str, Any] = {
            "text": '{"T": 0.5}',
            "model": "judge-1",
            "finish_reason": "stop",
            "refusal": None,
            "prompt_tokens": 120,
            "completion_tokens": 30,
            "cost_usd": 0.001,
            "latency_s": 0.75,
            "nonce": "0123456789abcdef",
            "received_at": NOW,
        }
        return Reply(request_key, repeat, **{**fields, **changes})

    return make
