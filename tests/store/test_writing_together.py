"""Many callers write at once: each is told the truth about its own work, and nobody loses any."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from turnwise.conversation import Sequence
from turnwise.errors import StoreError, UnknownNameError, UsageError
from turnwise.scoring import Evaluation
from turnwise.store import Run, Store

Writing = Callable[[], AbstractContextManager[object]]
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
    writing: Writing,
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


@contextmanager
def busy(store: Store, writing: Writing, evaluation: Evaluation) -> Iterator[Future[None]]:
    """Keep the thread of a store at a first write; jobs that come inside the block form one group behind it."""
    begins = threading.Event()

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "IMMEDIATE" in statement or "advisory" in statement:
            begins.set()

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with writing():
            first = store.append_soon([evaluation])
            assert begins.wait(60)
            yield first
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_a_full_disk_is_told_to_every_job_that_it_cost(
    location: str, path: Path, begun: Store, writing: Writing, make_evaluation: Callable[..., Evaluation]
) -> None:
    # SQLite rolls back the whole transaction when it runs out of room: nothing of the group is stored.
    begun.close()
    room = path.stat().st_size // 4096 + 20

    def limit(connection: sqlite3.Connection, record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {room}")

    event.listen(Engine, "connect", limit)
    try:
        with Store(path) as store:
            with busy(store, writing, make_evaluation("s0", 1)) as first:
                group = [
                    store.append_soon([make_evaluation(f"s{number}", 1, reasoning="x" * size)])
                    for number, size in enumerate((1, 1_000_000, 1), start=1)
                ]
            assert first.result() is None
            for job in group:
                with pytest.raises(StoreError, match=r"work\.db: database or disk is full"):
                    job.result()
            assert store.counts()["evaluations"] == 1
            store.append([make_evaluation("s4", 1)])
            assert store.counts()["evaluations"] == 2
    finally:
        event.remove(Engine, "connect", limit)


def test_a_job_that_is_cancelled_is_not_done_and_holds_nobody_up(
    begun: Store, writing: Writing, make_evaluation: Callable[..., Evaluation]
) -> None:
    with busy(begun, writing, make_evaluation("s0", 1)):
        unwanted = begun.append_soon([make_evaluation("s1", 1)])
        wanted = begun.append_soon([make_evaluation("s2", 1)])
        assert unwanted.cancel()
    assert wanted.result() is None
    with pytest.raises(CancelledError):
        unwanted.result()
    stored = [trajectory.sequence_id for _, trajectory in begun.trajectories("first") if len(trajectory)]
    assert stored == ["s0", "s2"]


def test_a_group_has_an_end(begun: Store, writing: Writing, make_evaluation: Callable[..., Evaluation]) -> None:
    with writing():
        jobs = [
            begun.append_soon([make_evaluation(f"s{number}", turn)])
            for number in range(6)
            for turn in range(1, 101)
        ]
    assert [job.result() for job in jobs] == [None] * 600
    assert begun.counts()["evaluations"] == 600
