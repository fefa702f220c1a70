"""Questions over findings of a million conversations: 5 million turns, 3 principles, 15 million scores.

The findings are made from a seed, by DuckDB, in the layout of a scan (`turnwise.findings`), in a temporary folder,
and removed afterwards. Every question is asked in a process of its own, so that nothing is in memory yet but what
the system keeps of files; the first one lays down the index, which is timed by itself.

    python benchmarks/findings.py [--conversations 1000000] [--keep FOLDER]

Required: at most 3 s a question.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turnwise._support.locations import Location
from turnwise.findings import COLUMNS, MANIFEST, PLACES, Counts, Input, Manifest, PartEntry, PartFile, part_file

PART = 2_000
PRINCIPLES = ("context_integrity", "reciprocity", "third_party_harm")

PATTERNS = (
    "gradual_drift",
    "peak(F) > 0.5",
    "slope(reciprocity.F) > 0.1",
    "cusum(F, drift=0.05) > 0.2 or streak(I > 0.6) >= 3",
    "ema(strength, alpha=0.3, start=0.5) < 0.60",
    "rise(reciprocity.F, 1, 5) > 0.5",
    "any(reciprocity.T > 0.80 and context_integrity.F > 0.70)",
    "slow_boil",
)
STATEMENTS = (
    "SELECT label, principle, avg(F), max(F) FROM evaluations GROUP BY ALL",
    "FROM evaluations WHERE F > 0.9 ORDER BY F DESC LIMIT 100",
    "SELECT source, count(*), count(*) FILTER (fired) FROM findings GROUP BY source",
)

_ASK = """
import resource, sys, time
began = time.perf_counter()
from turnwise.store import Store
from turnwise.store.query import ask
kind, text, where, place = sys.argv[1:]
with Store(place) as store:
    if kind == "prepare":
        store.prepare()
        found = store.counts()["evaluations"]
    elif kind == "sql":
        found = len(list(ask(store.mirror, text).rows))
    else:
        found = len(store.query(text, where=where or None))
    seconds = time.perf_counter() - began
    print(found, seconds, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def make(folder: Path, conversations: int, seed: int) -> None:
    """Write findings of so many conversations, from a seed."""
    import duckdb

    for name in ("sequences", "turns"):
        (folder / name).mkdir(parents=True)
    database = duckdb.connect()
    database.execute("SET enable_progress_bar = false")
    database.execute(f"CREATE MACRO u(a, b) AS hash(a * 1000003 + b + {seed}) / 18446744073709551616.0")
    names = ", ".join(f"({place}, '{name}')" for place, name in enumerate(PRINCIPLES))
    entries = []
    for number in range(-(-conversations // PART)):
        count = min(PART, conversations - number * PART)
        # Turns are log-normal with mean 5; F climbs in one conversation of ten.
        database.execute(
            f"CREATE OR REPLACE TABLE part AS SELECT {number * PLACES} + i AS key, "
            f"'chat-' || ({number * PART} + i) AS sequence, least(200, greatest(1, round(exp(1.45 + 0.55 * "
            "sqrt(-2 * ln(u(key, 1) + 1e-12)) * cos(2 * pi() * u(key, 2))))))::INTEGER AS turns, "
            f"u(key, 3) < 0.1 AS drifts FROM range({count}) r(i)"
        )
        database.execute(
            "CREATE OR REPLACE TABLE scores AS SELECT key, sequence, turn::INTEGER AS turn, 'prompt' AS side, "
            "principle, 1 - u(key * 256 + turn, place) * 0.5 AS T, u(key * 256 + turn, place + 10) * 0.7 AS I, "
            "least(1, u(key * 256 + turn, place + 20) * 0.4 + CASE WHEN drifts THEN 0.1 * turn ELSE 0 END) AS F, "
            "u(key, turn + 50) AS detector_score, drifts AS fired, CASE WHEN drifts THEN 1 END AS flag_turn, "
            "(u(key, turn + 90) * 400)::INTEGER AS chars "
            "FROM (SELECT *, unnest(range(1, turns + 1)) AS turn FROM part), "
            f"(VALUES {names}) v(place, principle)"
        )
        database.execute(
            "CREATE OR REPLACE TABLE sequences AS SELECT key, sequence, 'unlabelled' AS label, "
            "'logs-' || (key % 7) AS source, 'logs.jsonl' AS file, key + 1 AS row, "
            "turns, TRUE AS scored, drifts AS fired, "
            "CASE WHEN drifts THEN 1 END AS flag_turn, u(key, 4) AS peak, "
            "md5(sequence) AS digest, '{\"model\": \"m' || (key % 5) || '\"}' AS metadata FROM part"
        )
        database.execute(
            "CREATE OR REPLACE TABLE turns AS SELECT DISTINCT ON (key, turn) key, sequence, turn, "
            "repeat('word ', chars // 5 + 1) AS prompt, 'yes' AS response FROM scores"
        )
        files = {}
        for table, order in (
            ("scores", "key, turn, side, principle"),
            ("sequences", "key"),
            ("turns", "key, turn"),
        ):
            path = part_file(table, number)
            columns = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in COLUMNS[table].items())
            database.execute(
                f"COPY (SELECT {columns} FROM {table} ORDER BY {order}) TO '{folder / path}' "
                "(FORMAT parquet, COMPRESSION zstd)"
            )
            files[path] = PartFile(
                len(content := (folder / path).read_bytes()), hashlib.sha256(content).hexdigest()
            )
        [[turns, scores, fired]] = database.execute(
            "SELECT sum(turns), (SELECT count(*) FROM scores), count(*) FILTER (drifts) FROM part"
        ).fetchall()
        counts = Counts(
            rows=count, conversations=count, turns=int(turns), scored=count, scores=scores, fired=fired
        )
        entries.append(PartEntry(number, 0, 1 + number * PART, counts, files))
    manifest = Manifest(
        versions={"turnwise": "benchmark"},
        run={
            "name": "scan", "observer": "scripted", "observer_version": "1", "context": "history",
            "parameters": {}, "operating_points": {},
        },
        principles=tuple({"name": name, "revision": "1"} for name in PRINCIPLES),
        detector={"spec": "cusum", "threshold": 0.5, "threshold_source": "given", "mapping": {}},
        reading={}, selection={}, part_rows=PART, inputs=(Input("logs.jsonl", 0, ""),),
    ).with_parts({one.number: one for one in entries}, complete=True)  # fmt: skip
    (Location(str(folder)) / MANIFEST).write(manifest.to_json())


def ask(kind: str, text: str, folder: Path, where: str = "") -> tuple[int, float, float, float]:
    """Ask in a process of its own, and return what was found, seconds, seconds of processors, and MiB."""
    command = [sys.executable, "-c", _ASK, kind, text, where, str(folder)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout.split()
    return int(told[0]), float(told[1]), float(told[2]), float(told[3])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="make the findings here, or take those that are here; they stay")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnwise-findings-") as temporary:
        folder = given.keep or Path(temporary, "findings")
        if not (folder / MANIFEST).exists():
            began = time.perf_counter()
            make(folder, given.conversations, given.seed)
            print(f"made in {time.perf_counter() - began:.0f} s", flush=True)
        print(f"{'':60} found  seconds  of processors  MiB   required: 3 s", flush=True)
        os.environ["XDG_CACHE_HOME"] = str(Path(temporary, "cache"))
        asked = [("prepare", "", ""), *(("pattern", text, "") for text in PATTERNS)]
        asked += [("pattern", "peak(F) > 0.5", where) for where in ('turns >= 5 and source = "logs-3"',)]
        asked += [("sql", text, "") for text in STATEMENTS]
        for kind, text, where in asked:
            found, seconds, processors, memory = ask(kind, text, folder, where)
            title = "the index, once" if kind == "prepare" else f"{text} {where}"
            late = " LATE" if seconds > 3 and kind != "prepare" else ""
            print(f"{title[:58]:58} {found:>8} {seconds:8.2f} {processors:8.2f} {memory:8.0f}{late}", flush=True)
        size, index = (
            sum(path.stat().st_size for path in place.rglob(names))
            for place, names in ((folder, "*.parquet"), (Path(temporary), "index.duckdb"))
        )
        print(json.dumps({"findings_mb": round(size / 1e6), "index_mb": round(index / 1e6)}))
        print(f"load of the machine: {os.getloadavg()[0]:.1f}; peak here "
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
