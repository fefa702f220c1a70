"""The figures that the whole path must hold: throughput, start-up, what an import loads.

    python benchmarks/spine.py --data PATH_TO_DATA

Commands run as processes, as a user runs them; each figure is the median of several runs.

Shows: SC-004.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]
TURNS = 2996
"""Turns of Attack_600: 600 conversations of 5 but for a few shorter ones."""

HEAVY = ("numpy", "scipy", "torch", "duckdb", "sqlalchemy", "rich", "tokenizers")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with raw/SafeMTData_Attack_600.json")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    attacks = arguments.data / "raw" / "SafeMTData_Attack_600.json"
    for jobs in (1, 2):
        seconds = [attack_600(attacks, jobs) for _ in range(arguments.runs)]
        what = f"Attack_600, 600 conversations, {TURNS} turns, 3 principles, import + evaluate -j {jobs}"
        print(f"{what}: {spread(seconds)}")
    bare = [timed([sys.executable, "-c", "pass"]) for _ in range(15)]
    helped = [timed([*TURNWISE, "--help"]) for _ in range(15)]
    print(f"bare Python: {spread(bare)}")
    print(f"turnwise --help: {spread(helped)}, {statistics.median(helped) - statistics.median(bare):+.3f} s")
    print(f"heavy modules that `import turnwise` loads: {loaded_by('import turnwise') or 'none'}")
    print(f"heavy modules that `turnwise --help` loads: {loaded_by('import turnwise.cli.app') or 'none'}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"turnwise demo: {timed([*TURNWISE, 'demo', '--store', f'{folder}/demo.db']):.2f} s")


def attack_600(file: Path, jobs: int) -> float:
    """Return the seconds of importing and evaluating Attack_600 from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/work.db"
        began = time.perf_counter()
        run([*TURNWISE, "import", str(file), "--store", store])
        done = run([*TURNWISE, "evaluate", "--store", store, "--run", "first", "-j", str(jobs), "--json"])
        seconds = time.perf_counter() - began
        summary = json.loads(done)
        if (summary["sequences"], summary["evaluations"], summary["failures"]) != (600, TURNS * 3, 0):
            raise SystemExit(f"not every turn was evaluated: {summary}")
        return seconds


def loaded_by(statement: str) -> str:
    """Return which heavy modules a statement loads into a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    return run([sys.executable, "-c", code]).strip()


def run(command: list[str]) -> str:
    """Run a command to its end and return what it printed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def timed(command: list[str]) -> float:
    """Return the seconds that a command takes as a process."""
    began = time.perf_counter()
    run(command)
    return time.perf_counter() - began


def spread(seconds: list[float]) -> str:
    """Return median and range."""
    return (
        f"median {statistics.median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f}, n={len(seconds)})"
    )


if __name__ == "__main__":
    main()
