"""How fast a store is exported and imported again, and how much memory that takes at its peak.

    python benchmarks/export.py [--scores 1000000] [--formats parquet jsonl csv arangodb]

The store has sequences of 5 turns, each scored for 3 principles. Every step is a process of its own, whose peak is
that of Linux's accounts, the interpreter and its libraries among it.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from turnwise.store import Store

TIME = "2025-06-07T08:09:10.000000+00:00"
TURNS, PRINCIPLES = 5, ("reciprocity", "context_integrity", "third_party_harm")

_MEASURED = """
import resource, sys, time
from turnwise.store import Store
began = time.perf_counter()
with Store(sys.argv[2], create=True) as store:
    if sys.argv[1] == "export":
        store.export(sys.argv[3], format=sys.argv[4])
    else:
        store.import_from(sys.argv[3])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(time.perf_counter() - began, peak)
"""

_MADE = (
    "INSERT INTO runs VALUES (1, 'first', 'local', '1', 'history', '{}', '{}', '0.1', :time)",
    "INSERT INTO sequences WITH RECURSIVE counted(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM counted "
    "LIMIT :sequences) SELECT value, 'chat-' || value, 'benign', 'made', :turns, printf('%064x', value), "
    '\'{"conversation_id": "chat-\' || value || \'"}\', \'{"tactic": "none"}\', '
    ":time FROM counted",
    "INSERT INTO turns WITH RECURSIVE counted(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM counted "
    "LIMIT :turns) SELECT sequences.id, value, :text, :text, length(:text), length(:text), NULL, NULL, '{}' "
    "FROM sequences, counted ORDER BY 1, 2",
)


def main() -> None:
    """Measure and print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scores", type=int, default=1_000_000)
    parser.add_argument("--formats", nargs="+", default=["parquet", "jsonl", "csv", "arangodb"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = make(folder / "work.db", arguments.scores)
        size = (folder / "work.db").stat().st_size / 1e6
        print(f"{rows} rows, {arguments.scores} of them scores, {size:.0f} MB in SQLite")
        for format in arguments.formats:
            out = folder / format
            measure(f"export as {format}", rows, "export", folder / "work.db", out, format)
            size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
            print(f"    {size:.0f} MB")
            if format in ("parquet", "jsonl"):
                measure(f"import of {format}", rows, "import", folder / f"{format}.db", out)
        measure("import of the store", rows, "import", folder / "again.db", folder / "work.db")


def make(path: Path, scores: int) -> int:
    """Make a store with so many scores, and return how many rows it has."""
    Store(path, create=True).close()
    sequences = scores // (TURNS * len(PRINCIPLES))
    text = "What would you write to a neighbour who never answers? " * 4
    values = {"turns": TURNS, "sequences": sequences, "text": text, "time": TIME}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for statement in _MADE:
            connection.execute(statement, values)
        for key, principle in enumerate(PRINCIPLES, start=1):
            connection.execute("INSERT INTO provenances VALUES (?, 1, ?, '1', '0.1')", (key, principle))
        connection.execute(
            "INSERT INTO evaluations (run, sequence, principle, turn, side, provenance, latency_s, created_at, "
            "T, I, F) SELECT 1, turns.sequence, provenances.principle, turn, 'prompt', provenances.id, 0.01, "
            ":time, abs(random() % 1000) / 1000.0, 0.25, abs(random() % 1000) / 1000.0 "
            "FROM turns, provenances ORDER BY 2, 4, 6",
            values,
        )
        tables = ("sequences", "turns", "evaluations")
        return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)


def measure(what: str, rows: int, *arguments: object) -> None:
    """Run one step as a process and print its figures."""
    began = time.perf_counter()
    command = [sys.executable, "-c", _MEASURED, *map(str, arguments)]
    seconds, peak = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    figures = {"seconds": round(seconds, 1), "rows/s": round(rows / seconds), "peak MB": round(peak)}
    print(f"{what}: {json.dumps(figures)} (process {time.perf_counter() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
