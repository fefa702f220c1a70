"""How long the explorer takes to try another threshold of a study: ``python benchmarks/study_threshold.py``.

The rates with their exact intervals and the list of conversations that change sides, over generated scores.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from turnwise._support.table_files import write_parquet
from turnwise.explorer import FinishedStudy
from turnwise.study.report import VERDICT_COLUMNS

ARMS = ("any_turn", "cusum", "trust_ema", "slope")
LIMIT = 1.6


def write_study(folder: Path, conversations: int) -> None:
    """Write a study whose attacks score one standard deviation above its benign conversations."""
    chance = random.Random(0)
    rows = []
    for arm in ARMS:
        for number in range(conversations):
            attack = number % 2 == 1
            score = chance.gauss(float(attack), 1.0)
            fired = score >= LIMIT
            rows.append(
                {
                    "arm": arm, "sequence": f"s{number:06}", "source": f"source {number % 7}", "part": "test",
                    "label": "attack" if attack else "benign", "score": score, "threshold": LIMIT, "fired": fired,
                    "turn": 3 if fired else None, "reader_turn": None, "fold": 1,
                }
            )  # fmt: skip
    write_parquet(folder / "verdicts.parquet", VERDICT_COLUMNS, rows)
    (folder / "results.json").write_text(json.dumps({"warnings": []}))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--tries", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_study(Path(folder), given.conversations)
        began = time.perf_counter()
        arm = FinishedStudy(folder).arm("cusum")
        print(f"opened in {1000 * (time.perf_counter() - began):.0f} ms")
        chance = random.Random(1)
        took, changed = [], []
        for _ in range(given.tries):
            threshold = chance.uniform(-2.0, 3.0)
            began, busy = time.perf_counter(), time.process_time()
            found = arm.at(threshold)
            told = [str(rate) for rate in (found.recall, found.false_positives, *found.before)]
            took.append((time.perf_counter() - began, time.process_time() - busy))
            changed.append(len(found.changed))
            assert all(told)
    walls, cpus = ([1000 * one for one in some] for some in zip(*took, strict=True))
    said = f"{statistics.median(changed):,.0f} change sides (median)"
    print(f"{given.conversations:,} conversations, {given.tries} thresholds, {said}:")
    print(f"median {statistics.median(walls):.1f} ms, longest {max(walls):.1f} ms;")
    print(f"of the processor {statistics.median(cpus):.1f} and {max(cpus):.1f} ms")


if __name__ == "__main__":
    main()
