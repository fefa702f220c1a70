"""Older stores get what they lack, once, and nothing of it where it fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise.scoring import Call, Evaluation, Reply, Score
from turnwise.store import Store

LATER = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
Raw = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def location(path: Path) -> str:
    """Return where the store of a test is: a file, which may be of an older version."""
    return str(path)


def old_store(path: Path) -> None:
    """Make a store as the first version did."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8"))


def test_a_store_knows_which_migrations_it_has_had(store: Store, raw: Raw) -> None:
    versions = [row[0] for row in raw("SELECT version FROM schema_migrations")]
    assert versions == list(range(1, len(versions) + 1)) != []
    assert raw("SELECT DISTINCT applied_at FROM schema_migrations") == [("2025-06-07T08:09:10.123456+00:00",)]


def test_an_older_store_gets_what_it_lacks_once(path: Path, raw: Raw) -> None:
    old_store(path)
    Store(path, clock=lambda: LATER).close()
    [newest] = raw("SELECT max(version) FROM schema_migrations")[0]
    told = raw("SELECT version, applied_at FROM schema_migrations WHERE version > 1")
    assert told == [(version, "2031-02-03T04:05:06.000000+00:00") for version in range(2, newest + 1)]
    Store(path).close()
    assert raw("SELECT version, applied_at FROM schema_migrations WHERE version > 1") == told


def test_opening_applies_what_is_missing(path: Path, raw: Raw, make_sequence: Callable[..., Any]) -> None:
    with closing(Store(path, create=True)) as store:
        store.add_sequences([make_sequence("a")])
    had = raw("SELECT version FROM schema_migrations")
    raw("DELETE FROM schema_migrations")
    raw("DROP TABLE failures")
    with closing(Store(path)) as store:
        assert store.counts()["sequences"] == 1
        assert store.counts()["failures"] == 0
    assert raw("SELECT version FROM schema_migrations") == had


def test_a_store_of_version_1_keeps_calls_once_it_is_opened(
    path: Path, make_reply: Callable[..., Reply], make_evaluation: Callable[..., Evaluation]
) -> None:
    old_store(path)
    with Store(path) as store:
        (before,) = store.trajectory("first", "old", replies=True).evaluations
        assert (before.score, before.raw_reply, before.calls) == (Score(0.5, 0.25, 0.125), "T=0.5", ())
        assert [failure.raw_reply for failure in store.failures("first", replies=True)] == ["no"]
        assert store.journal.stats() == ()
        store.journal.record(make_reply())
        call = Call(1, make_reply(), Score(0.1, 0.2, 0.3))
        store.append([make_evaluation("old", 2, calls=(call,))])
        assert store.trajectory("first", "old", replies=True).evaluations[1].calls == (call,)


def test_a_store_of_version_3_keeps_its_replies_and_learns_how_later_ones_were_asked_for(
    path: Path, store: Store, raw: Raw, make_reply: Callable[..., Reply]
) -> None:
    store.journal.record(make_reply("old"))
    store.close()
    raw("ALTER TABLE replies DROP COLUMN structured")
    raw("DELETE FROM schema_migrations WHERE version > 3")
    with Store(path) as opened:
        assert opened.journal.find("old", 1) == make_reply("old", structured=None)
        opened.journal.record(make_reply("new", structured="json_object"))
        assert opened.journal.find("new", 1).structured == "json_object"


def test_a_store_of_version_5_keeps_log_probabilities_of_later_replies(
    path: Path, store: Store, raw: Raw, make_reply: Callable[..., Reply]
) -> None:
    store.journal.record(make_reply("old"))
    store.close()
    raw("ALTER TABLE replies DROP COLUMN logprobs")
    raw("DELETE FROM schema_migrations WHERE version > 5")
    with Store(path) as opened:
        assert opened.journal.find("old", 1) == make_reply("old")
        opened.journal.record(make_reply("new", logprobs='[["safe", {"safe": -0.1}]]'))
        assert opened.journal.find("new", 1).logprobs == '[["safe", {"safe": -0.1}]]'


def shape(file: Path) -> dict[str, object]:
    with closing(sqlite3.connect(file)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {
            table: sorted(row[1:] for row in connection.execute(f"PRAGMA table_info({table})")) for table in tables
        }
        indexes = sorted(
            row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index'") if row[0]
        )
        return {"columns": columns, "indexes": indexes}


def test_a_migrated_store_has_the_schema_of_a_fresh_one(path: Path, tmp_path: Path) -> None:
    old_store(path)
    fresh = tmp_path / "fresh.db"
    Store(path).close()
    Store(fresh, create=True).close()
    assert shape(path) == shape(fresh)


def test_a_migration_that_fails_leaves_nothing_behind(path: Path) -> None:
    old_store(path)
    before, asked = shape(path), []

    def clock() -> datetime:
        asked.append(LATER)
        if len(asked) == 4:  # each migration notes its time
            raise RuntimeError("half-way")
        return LATER

    with pytest.raises(RuntimeError, match="half-way"):
        Store(path, clock=clock)
    assert shape(path) == before
    Store(path).close()
    assert shape(path) != before
