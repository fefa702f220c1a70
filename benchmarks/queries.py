"""What queries must hold: how far SQL and live evaluation agree, and how long questions take.

    python benchmarks/queries.py                   # all of it, some minutes
    python benchmarks/queries.py --trajectories 500 --evaluations 100000

Times are wall-clock times, best of several for warm questions, with the processor time beside them: on a machine
that does other work at the same time, only the latter says what a question costs.

Shows: SC-005.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from random_patterns import PRINCIPLES, random_call, random_condition, random_turns
from trajectory_table import TABLE, make_table

from turnwise.conversation import Side
from turnwise.patterns import FUNCTIONS, Evaluator, ValueKind, match
from turnwise.patterns.sql import Columns, matches_sql, values_sql
from turnwise.store import Store

LINES = (
    "rise(reciprocity.F, 1, 5) > 0.5",
    "streak(reciprocity.I > 0.60) >= 3",
    "any(reciprocity.T > 0.80 and context_integrity.F > 0.70)",
    "slope(reciprocity.F) > 0.1",
    "cusum(reciprocity.F, drift=0.05) > 0.2 or peak(third_party_harm.F) >= 0.7",
    "ema(strength, alpha=0.3, start=0.5) < 0.60",
)
NAMES = (
    "gradual_drift",
    "sustained_indeterminacy",
    "cross_dimensional_divergence",
    "sudden_crash",
    "recovery",
    "persistent_falsity",
    "escalation_then_probe",
    "slow_boil",
)
TURNS = 5
WHEN = "2025-06-07T08:09:10.123456+00:00"
TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=10_000, help="random trajectories to agree on")
    parser.add_argument("--evaluations", type=int, default=1_000_000, help="size of the large store")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.db", Path(folder) / "large.db"
        make_store(small, 500)
        cold(small)
        warm(small, 0.030, None)
        sequences = arguments.evaluations // (TURNS * len(PRINCIPLES))
        make_store(large, sequences)
        warm(large, 0.150, 5.0)
        growing(large, sequences)
    agreement(arguments.trajectories, arguments.seed)


# Agreement ---------------------------------------------------------------------------------------------------


def agreement(wanted: int, seed: int) -> None:
    """Compare SQL and live evaluation at every turn of random trajectories, for every function in turn."""
    import duckdb

    columns = Columns(tuple((principle, side) for principle in PRINCIPLES for side in Side))
    chance = random.Random(seed)
    worst, turns_compared, wrong, block = 0.0, 0, 0, 25
    asked = dict.fromkeys(FUNCTIONS, 0)
    with duckdb.connect(":memory:") as database:
        for at in range(math.ceil(wanted / block)):
            lengths = [chance.choice((0, 1, 2, 3, 5, 8, 13, 40, chance.randint(0, 300))) for _ in range(block)]
            conversations = [random_turns(chance, length) for length in lengths]
            make_table(database, columns, conversations)
            function = list(FUNCTIONS)[at % len(FUNCTIONS)]
            asked[function] += block
            patterns = random_call(chance, function, 4), random_condition(chance, chance.randint(2, 6))
            for pattern in patterns:
                rows = database.execute(values_sql(pattern, columns, TABLE)).fetchall()
                found = {row[0]: row[2] for row in rows}
                matches = {}
                if pattern.kind is ValueKind.CONDITION:
                    rows = database.execute(matches_sql(pattern, columns, TABLE)).fetchall()
                    matches = {row[0]: row[1:] for row in rows}
                for key, turns in enumerate(conversations):
                    said = Evaluator(pattern).run(turns)
                    number = pattern.kind is ValueKind.NUMBER
                    live = [
                        one.value if number else float(one.holds)
                        for one, turn in zip(said, turns, strict=True)
                        if turn.scores or turn.response_scores
                    ]
                    far = [apart(one, other) for one, other in zip(found.get(key, []), live, strict=True)]
                    worst = max([worst, *far])
                    turns_compared += len(far)
                    wrong += any(distance > 1e-9 for distance in far)
                    wrong += bool(matches) and matches.get(key, (None, False)) != tuple(match(pattern, turns))
    least = min(asked.values())
    count = sum(asked.values())
    print(f"\nSQL and live evaluation of {count} random sparse trajectories of 0 to 300 turns, each function the")
    print(f"outermost for at least {least} of them, and a random condition for each; {turns_compared} values:")
    report("trajectories with a difference above 1e-9, or another match", f"{wrong}", "0", wrong == 0)
    report("largest relative difference", f"{worst:.1e}", "1e-9", worst <= 1e-9)


def apart(one: float | None, other: float | None) -> float:
    """Return how far two values are apart, relative to their size where that is above 1."""
    if one is None or other is None:
        return 0.0 if one is other else math.inf
    return abs(one - other) / max(1.0, abs(other))


# Times -------------------------------------------------------------------------------------------------------


def cold(store: Path) -> None:
    """Time each question as a process of its own."""
    print(f"\n500 sequences x {TURNS} turns x {len(PRINCIPLES)} principles, cold: a new process, import included")
    for pattern in (*LINES, *NAMES):
        began, before = time.perf_counter(), os.times()
        command = [*TURNWISE, "query", pattern, "--store", str(store), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, after = time.perf_counter() - began, os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        assert json.loads(done.stdout)["of"] == 500
        report(pattern, shown(seconds, spent), "2 s", seconds <= 2)


def warm(path: Path, limit: float, first: float | None) -> None:
    """Time each question in a process that has asked before."""
    with Store(path) as store:
        seconds, processor = timed(lambda: store.query(LINES[0]))
        of = store.query(LINES[0]).rate.of
        print(f"\n{of} sequences x {TURNS} turns x {len(PRINCIPLES)} principles, warm, matches counted")
        if first is not None:
            report("first use, copy included", shown(seconds, processor), f"{first:.0f} s", seconds <= first)
        for pattern in (*LINES, *NAMES):
            seconds, processor = min(timed(lambda asked=pattern: store.query(asked)) for _ in range(7))
            report(pattern, shown(seconds, processor), f"{1000 * limit:.0f} ms", seconds <= limit)


def growing(path: Path, sequences: int) -> None:
    """Time a question after 5,000 evaluations were added."""
    with Store(path) as store:
        store.query(LINES[3])
        add(path, sequences, sequences + math.ceil(5000 / TURNS / len(PRINCIPLES)))
        seconds, processor = timed(lambda: store.query(LINES[3]))
        report("5,000 evaluations of new sequences", shown(seconds, processor), "0.5 s", seconds <= 0.5)
        with closing(sqlite3.connect(path)) as record, record:
            record.execute("INSERT INTO provenances VALUES (9, 1, 'candour', '1', '1')")
            record.execute(
                "INSERT INTO evaluations (run, sequence, principle, turn, side, provenance, created_at, T, I, F) "
                "SELECT 1, id, 'candour', 1, 'prompt', 9, ?, 0.5, 0.5, 0.5 FROM sequences LIMIT 1",
                [WHEN],
            )
        seconds, processor = timed(lambda: store.query(LINES[3]))
        print(f"  for information: a principle that is new to the run: {shown(seconds, processor)}")


def timed(ask: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    ask()
    return time.perf_counter() - wall, time.process_time() - processor


def shown(seconds: float, processor: float) -> str:
    """Return both times as text."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms (processor {1000 * processor:.0f} ms)"
    return f"{seconds:.2f} s (processor {processor:.2f} s)"


def report(what: str, measured: str, required: str, good: bool) -> None:
    """Print a line of the table."""
    print(f"  {what:75} {measured:32} required {required:8} {'ok' if good else 'MISSED'}")


# A store -----------------------------------------------------------------------------------------------------


def make_store(path: Path, sequences: int) -> None:
    """Make a store with one run in which every turn was evaluated."""
    Store(path, create=True).close()
    with closing(sqlite3.connect(path)) as record, record:
        record.execute(
            "INSERT INTO runs (id, name, observer, observer_version, context, parameters, operating_points, "
            "code_version, created_at) VALUES (1, 'first', 'replay', '1', 'history', '{}', '{}', '1', ?)",
            [WHEN],
        )
        record.executemany("INSERT INTO provenances VALUES (?, 1, ?, '1', '1')", enumerate(PRINCIPLES, start=1))
    add(path, 0, sequences)


def add(path: Path, after: int, upto: int) -> None:
    """Add sequences with their evaluations, numbered from one after the other."""
    chance = random.Random(after)
    keys, turns = range(after + 1, upto + 1), range(1, TURNS + 1)
    text = "What is said at this turn, in a few words or more. " * 6
    with closing(sqlite3.connect(path)) as record, record:
        record.executemany(
            "INSERT INTO sequences VALUES (?, ?, ?, 'made', ?, '', '{}', '{}', ?)",
            ((key, f"sequence_{key:07}", ("attack", "benign")[key % 2], TURNS, WHEN) for key in keys),
        )
        record.executemany(
            "INSERT INTO turns VALUES (?, ?, ?, NULL, ?, 0, NULL, NULL, '{}')",
            ((key, turn, text, len(text)) for key in keys for turn in turns),
        )
        record.executemany(
            "INSERT INTO evaluations (run, sequence, principle, turn, side, provenance, created_at, T, I, F) "
            "VALUES (1, ?, ?, ?, 'prompt', ?, ?, ?, ?, ?)",
            (
                (key, principle, turn, at, WHEN, chance.random(), chance.random(), chance.random())
                for key in keys
                for turn in turns
                for at, principle in enumerate(PRINCIPLES, start=1)
            ),
        )


if __name__ == "__main__":
    main()
