"""Where a store is, and what is said of a file that is none, is damaged, or is held by somebody else."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import (
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreVersionError,
    TurnwiseError,
    UsageError,
)
from turnwise.scoring import Evaluation
from turnwise.store import Run, Store
from turnwise.store.sqlite import translated

MakeSequence = Callable[..., Sequence]
Raw = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def location(path: Path) -> str:
    """Return where the store of a test is: these tests are about files."""
    return str(path)


def test_a_missing_store_is_made_only_where_that_is_wanted(path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no store at .*work\.db: make one with turnwise import"):
        Store(path)
    assert not path.exists()
    with Store(path, create=True) as store:
        assert store.counts() == {
            "sequences": 0,
            "turns": 0,
            "runs": 0,
            "evaluations": 0,
            "failures": 0,
            "unread": 0,
        }
    with Store(path) as store:
        assert store.location == str(path)


def test_create_opens_a_store_that_is_there(path: Path, make_sequence: MakeSequence) -> None:
    with Store(path, create=True) as store:
        store.add_sequences([make_sequence("a")])
    with Store(path, create=True) as store:
        assert [head.sequence_id for head in store.heads()] == ["a"]


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder; name a file"):
        Store(tmp_path, create=True)


def test_the_folder_of_a_store_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*nowhere"):
        Store(tmp_path / "nowhere" / "work.db", create=True)
    assert not (tmp_path / "nowhere").exists()


def test_a_url_names_the_same_file_as_its_path(path: Path, make_sequence: MakeSequence) -> None:
    with Store(f"sqlite:///{path}", create=True) as store:
        store.add_sequences([make_sequence("a")])
    with Store(path) as store:
        assert store.counts()["sequences"] == 1


def test_a_relative_location_is_relative_in_both_forms(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    Store("work.db", create=True).close()
    with Store("sqlite:///work.db") as store:
        assert store.location == "work.db"


@pytest.mark.parametrize("name", ["what?.db", "50%20off.db", "a b#c.db", "größe.db", "mode=ro.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    with Store(tmp_path / name, create=True) as store:
        assert store.counts()["sequences"] == 0
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("location", ["mysql://me:secret@server/work", "duckdb:///work.db", "sqlite://"])
def test_another_database_is_wrong_use_and_no_password_is_shown(location: str) -> None:
    with pytest.raises(UsageError, match="can't be opened as a store: give a file") as caught:
        Store(location, create=True)
    assert "secret" not in str(caught.value)


def test_a_store_in_postgresql_says_which_extra_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if it were not installed
    with pytest.raises(UsageError, match=r"needs psycopg: python -m pip install 'turnwise\[postgresql\]'"):
        Store("postgresql://me:secret@server/work")


@pytest.mark.parametrize("location", ["://", "mysql://server:port/work"])
def test_a_broken_url_is_wrong_use(location: str) -> None:
    with pytest.raises(UsageError, match=r"is not a store: give a file, sqlite:///file or postgresql://"):
        Store(location, create=True)


@pytest.mark.parametrize("location", [":memory:", "sqlite:///:memory:"])
def test_a_store_in_memory_would_be_lost(location: str) -> None:
    with pytest.raises(UsageError, match=r"memory.*' (is not|can't be opened as) a store"):
        Store(location, create=True)


@pytest.mark.parametrize(
    "content",
    [
        b"Dear diary,\n" * 50,
        random.Random(3).randbytes(10_000),
        b"\x00" * 5_000,
        b"SQLite format 3\x00 not really",
    ],
    ids=["text", "random", "zeros", "nearly"],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError, match=r"work\.db is not a turnwise store; name another file"):
        Store(path, create=True)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("users (name TEXT)", "somebody"),
        ("schema_migrations (version TEXT)", "20240101120000"),
        ("schema_migrations (version INTEGER)", 1),
    ],
)
def test_somebody_elses_database_is_refused_and_left_alone(path: Path, table: str, value: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {table}")
        connection.execute(f"INSERT INTO {table.split(maxsplit=1)[0]} VALUES (?)", (value,))
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError, match="is a database but not a turnwise store"):
        Store(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    # What is left of a creation that was killed at its very beginning.
    path.touch()
    with Store(path) as store:
        assert store.counts()["sequences"] == 0


def _filled(path: Path, make_sequence: MakeSequence) -> int:
    with Store(path, create=True) as store:
        store.add_sequences(make_sequence(f"s{number}", ("word " * 200, None)) for number in range(200))
    return path.stat().st_size


def test_a_truncated_store_is_damaged(path: Path, make_sequence: MakeSequence) -> None:
    size = _filled(path, make_sequence)
    os.truncate(path, size // 2)
    with pytest.raises(StoreCorruptError, match=r"work\.db is damaged .*; restore a copy"), Store(path) as store:
        list(store.sequences())


def test_a_store_with_overwritten_pages_is_damaged(path: Path, make_sequence: MakeSequence) -> None:
    size = _filled(path, make_sequence)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    with pytest.raises(StoreCorruptError, match="is damaged"), Store(path) as store:
        list(store.sequences())


def test_writing_to_a_damaged_store_says_so(path: Path, make_sequence: MakeSequence) -> None:
    _filled(path, make_sequence)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sequences'").fetchone()
    with Store(path) as store:
        with path.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xa5" * 4096)
        with pytest.raises(StoreCorruptError, match="is damaged"):
            store.add_sequences([make_sequence("new")])


def test_a_store_of_a_later_version_is_refused(path: Path, raw: Raw) -> None:
    Store(path, create=True).close()
    raw("INSERT INTO schema_migrations VALUES (99, 'from the future', '2030-01-01T00:00:00+00:00')")
    with pytest.raises(StoreVersionError, match=r"has schema version 99, this turnwise knows \d+: upgrade with"):
        Store(path)
    # Nothing holds the file any more: its companions are gone.
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_who_only_reads_does_not_wait_for_who_writes(path: Path, make_sequence: MakeSequence) -> None:
    with Store(path, create=True) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.add_sequences([make_sequence("a")])
        other.execute("BEGIN IMMEDIATE")
        assert store.sequence("a").sequence_id == "a"
        with Store(path, busy_seconds=0.01) as again:
            assert again.sequence("a").sequence_id == "a"


@pytest.mark.parametrize("begun", [False, True], ids=["to be made", "to be migrated"])
def test_a_store_that_can_not_be_made_ready_is_locked(path: Path, raw: Raw, begun: bool) -> None:
    if begun:
        Store(path, create=True).close()
        raw("DELETE FROM schema_migrations")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError, match="is locked by another process; wait for it to finish"):
            Store(path, create=True, busy_seconds=0.01)
        other.execute("ROLLBACK")
    with Store(path, create=True) as store:
        assert store.counts()["sequences"] == 0


def test_a_write_that_does_not_get_its_turn_says_so_and_stores_nothing(
    path: Path,
    make_sequence: MakeSequence,
    make_run: Callable[..., Run],
    make_evaluation: Callable[..., Evaluation],
) -> None:
    with (
        Store(path, create=True, busy_seconds=0.01) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        store.add_sequences([make_sequence("a")])
        store.start_run(make_run())
        other.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: store.append([make_evaluation("a")]),
            lambda: store.append_soon([make_evaluation("a")]).result(),
            lambda: store.add_sequences([make_sequence("b")]),
            lambda: store.start_run(make_run("second")),
        ):
            with pytest.raises(StoreLockedError, match="is locked by another process"):
                write()
        other.execute("ROLLBACK")
        assert store.counts() == {
            "sequences": 1,
            "turns": 2,
            "runs": 1,
            "evaluations": 0,
            "failures": 0,
            "unread": 0,
        }
        store.append([make_evaluation("a")])
        assert store.counts()["evaluations"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write read-only files")
def test_a_read_only_store_can_be_read_and_no_more(path: Path, make_sequence: MakeSequence) -> None:
    with Store(path, create=True) as store:
        store.add_sequences([make_sequence("a")])
    path.chmod(0o444)
    with Store(path) as store:
        assert store.sequence("a").sequence_id == "a"
        with pytest.raises(StoreError, match="can't be written: the file or its folder is read-only"):
            store.add_sequences([make_sequence("b")])


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write in read-only folders")
def test_a_store_in_a_read_only_folder_can_be_read_and_no_more(path: Path, make_sequence: MakeSequence) -> None:
    with Store(path, create=True) as store:
        store.add_sequences([make_sequence("a")])
    path.parent.chmod(0o555)
    with Store(path) as store:
        assert store.sequence("a").sequence_id == "a"
        with pytest.raises(StoreError, match="can't be written: the file or its folder is read-only"):
            store.add_sequences([make_sequence("b")])
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    path.parent.chmod(0o755)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TurnwiseError, match="store"):
        Store(tmp_path / name, create=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write in read-only folders")
def test_a_store_can_not_be_made_in_a_read_only_folder(path: Path) -> None:
    path.parent.chmod(0o555)
    with pytest.raises(StoreError, match=r"work\.db: unable to open database file"):
        Store(path, create=True)
    path.parent.chmod(0o755)


def test_what_sqlite_says_becomes_an_error_that_says_what_to_do(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA query_only = 1")
        with pytest.raises(StoreError, match="the file or its folder is read-only"), translated(str(path)):
            connection.execute("CREATE TABLE a (b)")
        with pytest.raises(StoreError, match=r"work\.db: no such table: nowhere"), translated(str(path)):
            connection.execute("SELECT * FROM nowhere")
        with pytest.raises(sqlite3.ProgrammingError), translated(str(path)):
            connection.execute("SELECT ?", (1, 2))


def test_closing_twice_is_harmless_and_a_closed_store_says_so(
    path: Path, make_sequence: MakeSequence, make_run: Callable[..., Run]
) -> None:
    with Store(path, create=True) as store:
        store.add_sequences([make_sequence("a")])
    store.close()
    for use in (
        lambda: store.add_sequences([make_sequence("b")]),
        lambda: store.start_run(make_run()),
        lambda: store.append([]),
        lambda: store.sequence("a"),
        lambda: list(store.heads()),
        store.runs,
        store.counts,
    ):
        with pytest.raises(StoreError, match="the store is closed"):
            use()


def test_many_may_make_the_same_store_at_once(path: Path) -> None:
    callers = 8
    together = threading.Barrier(callers)
    counts: list[dict[str, int]] = []
    errors: list[TurnwiseError] = []

    def make() -> None:
        together.wait()
        try:
            with Store(path, create=True) as store:
                counts.append(store.counts())
        except TurnwiseError as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert counts == [counts[0]] * callers


def test_a_clock_has_a_zone(path: Path) -> None:
    with pytest.raises(Exception, match="has no time zone"):
        Store(path, create=True, clock=lambda: datetime(2025, 1, 1))  # noqa: DTZ001 - that is what is wrong
