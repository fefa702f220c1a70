"""How fast a store in PostgreSQL is: copying scores for questions, and writing them durably.

    python benchmarks/postgresql.py                     # starts a PostgreSQL of its own, with its usual settings
    python benchmarks/postgresql.py --evaluations 100000
    python benchmarks/postgresql.py --url postgresql://me@server/empty_database

Prints for one million scores how long the copy takes (`Store.query` and ``turnwise query`` make it), what a
question costs then, and what one costs after more was scored; and how many appends a second are durable, from
one caller, from 16, and from four stores at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from postgresql_server import running

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Run, Store

TURNS, PRINCIPLES = 5, 3
CALLERS, SECONDS = 16, 3.0
NOW = datetime(2025, 6, 7, tzinfo=UTC)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--url", help="an empty database; by default a server is started")
    arguments = parser.parse_args()
    with server(arguments.url) as url:
        with Store(url, create=True) as store:
            store.start_run(Run("first", "replay", "1", "history", {}, {}, "1", NOW))
        fill(url, arguments.evaluations // (TURNS * PRINCIPLES))
        copying(url)
        writing(url)


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """Give the URL of an empty database."""
    if url is not None:
        yield url
        return
    with running() as started:
        yield started.url()


def fill(url: str, sequences: int) -> None:
    """Make sequences and their scores inside the server, which is quicker than sending them."""
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # what is made here refers to what is here
        for statement in (
            "INSERT INTO provenances (run, principle, principle_version, code_version) "
            f"SELECT 1, 'p' || p, '1', '1' FROM generate_series(1, {PRINCIPLES}) p",
            "INSERT INTO sequences (sequence_id, label, source, turns, content_sha256, conversation, metadata, "
            f"imported_at) SELECT 's' || s, 'attack', 'made', {TURNS}, '', '{{}}', '{{}}', now() "
            f"FROM generate_series(1, {sequences}) s",
            "INSERT INTO turns (sequence, turn, prompt, prompt_chars, response_chars, metadata) "
            f"SELECT s, t, repeat('What is said. ', 20), 280, 0, '{{}}' FROM generate_series(1, {sequences}) s, "
            f"generate_series(1, {TURNS}) t",
            'INSERT INTO evaluations (run, sequence, principle, turn, side, provenance, created_at, "T", "I", '
            "\"F\") SELECT 1, s, 'p' || p, t, 'prompt', p, now(), random(), random(), random() "
            f"FROM generate_series(1, {sequences}) s, generate_series(1, {TURNS}) t, "
            f"generate_series(1, {PRINCIPLES}) p",
        ):
            connection.execute(statement.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def copying(url: str) -> None:
    """Measure questions, of which the first makes the copy."""
    with Store(url) as store:
        count = len(store.scores("first"))
        took, processor = timed(lambda: store.query("peak(F) > 0.999", "first"))
        rate = count / took
        say(f"the first question over {count:,} scores", f"{took:.2f} s, {rate:,.0f} scores/s")
        say("  processor time of this process in it", f"{processor:.2f} s")
        say("the next question", f"{timed(lambda: store.query('peak(F) > 0.9', 'first'))[0] * 1000:.0f} ms")
        store.add_sequences([chat("new")])
        store.append([scored("new", 1)])
        took = timed(lambda: store.query("peak(F) > 0.9", "first"))[0]
        say("a question after another score", f"{took * 1000:.0f} ms")


def writing(url: str) -> None:
    """Measure appends of one score each, all of them durable when they return."""
    for name, stores, callers in (
        ("1 caller", 1, 1),
        ("16 callers", 1, CALLERS),
        ("4 stores, 16 callers", 4, CALLERS),
    ):
        with ExitStack() as stack:
            opened = [stack.enter_context(Store(url)) for _ in range(stores)]
            opened[0].start_run(Run(name, "replay", "1", "history", {}, {}, "1", NOW))
            opened[0].add_sequences(chat(f"{name} {caller}", 5_000) for caller in range(callers))
            until = time.perf_counter() + SECONDS

            def write(caller: int, name: str = name, until: float = until, opened: list[Store] = opened) -> int:
                turn = 0
                while time.perf_counter() < until and turn < 5_000:
                    turn += 1
                    opened[caller % len(opened)].append([scored(f"{name} {caller}", turn, name)])
                return turn

            with ThreadPoolExecutor(callers) as pool:
                done = sum(pool.map(write, range(callers)))
            say(f"durable appends, {name}", f"{done / SECONDS:,.0f} a second")


def chat(name: str, turns: int = 1) -> Sequence:
    """Return a sequence of so many turns."""
    return Sequence(name, Label.ATTACK, "made", Conversation.from_turns([("said", None)] * turns))


def scored(name: str, turn: int, run: str = "first") -> Evaluation:
    """Return an evaluation of a turn."""
    key = EvaluationKey(run, name, turn, Side.PROMPT, "p1")
    return Evaluation(key, Score(0.5, 0.25, 0.95), Provenance("replay", "1", "1", "history", {}, "1"), NOW)


def timed(job: object) -> tuple[float, float]:
    """Return the seconds that a job takes, by the clock and of this process's processor time."""
    began, used = time.perf_counter(), time.process_time()
    job()  # type: ignore[operator]
    return time.perf_counter() - began, time.process_time() - used


def say(what: str, measured: str) -> None:
    """Print a line."""
    print(f"  {what:55} {measured}", flush=True)


if __name__ == "__main__":
    main()
