"""Many callers write at once: each is told the truth about its own work, and nobody loses any."""

from __future__ import annotations

import functools
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from turnwise.conversation import Sequence
from turnwise.errors import StoreError, UnknownNameError, UsageError
from turnwise.scoring import Evaluation
from turnwise.store import Run, Store
from turnwise.store.database import Writer
from turnwise.store.sqlite import SqliteFile

THREADS, APPENDS = 16, 50

WRITER = """
import sys
from datetime import UTC, datetime
from turnwise.conversation import Side
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Store

location, sequence_id, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Store(location) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(1, count + 1):
        key = EvaluationKey("first", sequence_id, turn, Side.PROMPT, "p")
        provenance = Provenance("probe:fast", "3", "1", "history", {}, "0.1.0")
        store.append([Evaluation(key, Score(0.1, 0.2, 0.3), provenance, datetime.now(UTC))])
"""


@pytest.fixture
def begun(store: Store, make_sequence: Callable[..., Sequence], make_run: Callable[..., Run]) -> Store:
    """Return a store with a long sequence for every thread, and a run."""
    turns = [(f"turn {number}", None) for number in range(100)]
    store.add_sequences(make_sequence(f"s{number}", *turns) for number in range(THREADS))
    store.start_run(make_run())
    return store


def test_every_thread_finds_its_work_stored_when_it_is_told_so(
    begun: Store, make_evaluation: Callable[..., Evaluation]
) -> None:
    def write(number: int) -> bool:
        name = f"s{number}"
        for turn in range(1, APPENDS + 1):
            begun.append([make_evaluation(name, turn)])
        return len(begun.recorded("first", [name])) == APPENDS

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(write, range(THREADS))) == [True] * THREADS
    assert begun.counts()["evaluations"] == THREADS * APPENDS
    trajectories = [trajectory for _, trajectory in begun.trajectories("first")]
    assert [[turn for turn, _ in t.series("p")] for t in trajectories] == [list(range(1, APPENDS + 1))] * THREADS


def test_one_bad_job_of_a_group_costs_the_others_nothing(
    begun: Store,
    writing: Callable[[], AbstractContextManager[object]],
    make_evaluation: Callable[..., Evaluation],
) -> None:
    with writing():
        # While somebody else writes, all of these wait, and so share the transaction that follows.
        first = begun.append_soon([make_evaluation("s0", 1)])
        twice = begun.append_soon([make_evaluation("s1", 1), make_evaluation("s0", 1)])
        unknown = begun.append_soon([make_evaluation("s2", 1), make_evaluation("nobody")])
        last = begun.append_soon([make_evaluation("s3", 1)])
    assert first.result() is None
    assert last.result() is None
    with pytest.raises(UsageError, match="in the store already"):
        twice.result()
    with pytest.raises(UnknownNameError, match="unknown sequence 'nobody'"):
        unknown.result()
    stored = [trajectory.sequence_id for _, trajectory in begun.trajectories("first") if len(trajectory)]
    assert stored == ["s0", "s3"]


def test_two_stores_on_one_file_write_at_once(
    begun: Store, location: str, make_evaluation: Callable[..., Evaluation]
) -> None:
    with Store(location) as second, ThreadPoolExecutor(2) as pool:

        def write(store: Store, name: str) -> None:
            for turn in range(1, APPENDS + 1):
                store.append([make_evaluation(name, turn)])

        for job in [pool.submit(write, begun, "s0"), pool.submit(write, second, "s1")]:
            job.result()
        assert second.counts()["evaluations"] == begun.counts()["evaluations"] == 2 * APPENDS


def test_closing_does_not_wait_for_others_that_have_the_run(
    begun: Store, location: str, make_evaluation: Callable[..., Evaluation]
) -> None:
    second = Store(location)
    with ThreadPoolExecutor(1) as pool:
        begun.append([make_evaluation("s0", 1)])
        second.append([make_evaluation("s1", 1)])
        pool.submit(second.close).result(timeout=5)  # the other one keeps the run
    begun.append([make_evaluation("s0", 2)])
    begun.close()
    if "://" not in location:
        assert not list(Path(location).parent.glob("*.lock"))


def test_two_processes_write_at_once(begun: Store, location: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, location, name, str(APPENDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("s0", "s1")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, "")
    assert begun.counts()["evaluations"] == 2 * APPENDS


def test_closing_writes_what_is_pending(
    begun: Store, location: str, make_evaluation: Callable[..., Evaluation]
) -> None:
    pending = [begun.append_soon([make_evaluation("s0", turn)]) for turn in range(1, 41)]
    begun.close()
    assert all(future.done() for future in pending)
    with Store(location) as again:
        assert again.counts()["evaluations"] == 40


class Table:
    """A small table behind a writer of its own, whose thread can be held up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = SqliteFile(path, 10)
        self.writer = Writer(self.file)
        self.do("CREATE TABLE t (x)").result()

    def do(self, statement: str, *values: object) -> Future[int]:
        def job(connection: Connection) -> int:
            return connection.exec_driver_sql(statement, values).rowcount

        return self.writer.submit(job)

    def hold(self) -> Callable[[], None]:
        """Keep the thread busy until what is returned is called; jobs that come meanwhile form one group."""
        busy, go_on = threading.Event(), threading.Event()

        def wait(connection: Connection) -> None:
            busy.set()
            go_on.wait()

        self.writer.submit(wait)
        busy.wait()
        return go_on.set

    def lengths(self) -> list[int]:
        with closing(sqlite3.connect(self.path)) as connection:
            return [row[0] for row in connection.execute("SELECT length(x) FROM t ORDER BY rowid")]

    def close(self) -> None:
        self.writer.close()
        self.file.close()


@pytest.fixture
def table(path: Path) -> Any:
    with closing(Table(path)) as opened:
        yield opened


def test_a_full_disk_is_told_to_every_job_that_it_cost(table: Table) -> None:
    # SQLite rolls back the whole transaction when it runs out of room: nothing of the group is stored.
    table.do("INSERT INTO t VALUES (?)", "kept").result()
    table.do("PRAGMA max_page_count = 30").result()
    go_on = table.hold()
    before = table.do("INSERT INTO t VALUES (?)", "small")
    big = table.do("INSERT INTO t VALUES (zeroblob(1000000))")
    after = table.do("INSERT INTO t VALUES (?)", "small too")
    go_on()
    for job in (before, big, after):
        with pytest.raises(StoreError, match=r"work\.db: database or disk is full"):
            job.result()
    assert table.lengths() == [4]
    assert table.do("INSERT INTO t VALUES (?)", "again").result() == 1
    assert table.lengths() == [4, 5]


def test_a_job_that_is_cancelled_is_not_done_and_holds_nobody_up(table: Table) -> None:
    go_on = table.hold()
    unwanted = table.do("INSERT INTO t VALUES (?)", "unwanted")
    wanted = table.do("INSERT INTO t VALUES (?)", "wanted")
    assert unwanted.cancel()
    go_on()
    assert wanted.result() == 1
    with pytest.raises(CancelledError):
        unwanted.result()
    assert table.lengths() == [6]


def _give(number: int, connection: Connection) -> int:
    return number


def test_a_group_has_an_end(path: Path) -> None:
    file = SqliteFile(path, 10)
    with closing(Writer(file)) as writer:
        jobs = [writer.submit(functools.partial(_give, number)) for number in range(1_000)]
        assert [job.result() for job in jobs] == list(range(1_000))
    file.close()
