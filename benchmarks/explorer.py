"""The explorer on a large store: how long a first view, a filter, a page and a search take, and memory.

python benchmarks/explorer.py make STORE            # 100,000 sequences, 1.5 million scores, made from a seed
python benchmarks/explorer.py data STORE            # the data layer alone, in this process
python benchmarks/explorer.py browser STORE         # a real server and Chromium: first views, memory
python benchmarks/explorer.py clicks STORE --minutes 10   # random clicking from a seed: errors, growth
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

SEQUENCES, TURNS = 100_000, 5
PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
SOURCES = ("chats_a", "chats_b", "chats_c", "red_team")
CATEGORIES = ("advice", "coding", "medicine", "money", "travel", "weapons")
TACTICS = ("flattery", "role_play", "slow_boil", "urgency", "")
LIMITS = {"filter": 0.3, "page": 0.3, "search": 0.3, "sort": 0.3, "first warm": 3.0, "first cold": 10.0}
MOST_MEMORY = 700 * 10**6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "data", "browser", "clicks"))
    parser.add_argument("store", type=Path)
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.what == "make":
        make(given.store, given.sequences, given.seed)
    elif given.what == "data":
        data(given.store)
    elif given.what == "browser":
        browser(given.store)
    else:
        clicks(given.store, given.minutes, given.seed)


def make(file: Path, sequences: int, seed: int) -> None:
    """Write a store of generated conversations with three scores a turn; written by rows, which takes a minute."""
    from turnwise.store import Run, Store

    began = time.perf_counter()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with Store(file, create=True) as store:
        store.start_run(Run("generated", "scripted:0.1", "1", "history", {}, {}, "benchmark", now))
    when = now.isoformat(timespec="microseconds")
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA synchronous = OFF")
        for n, principle in enumerate(PRINCIPLES, start=1):
            db.execute("INSERT INTO provenances VALUES (?, 1, ?, '1', 'benchmark')", (n, principle))
        generator = random.Random(seed)
        said = texts(generator)
        for first in range(1, sequences + 1, 5_000):
            heads, turns, scores = [], [], []
            for key in range(first, min(first + 5_000, sequences + 1)):
                attack = generator.random() < 0.3
                facts = {
                    "category": generator.choice(CATEGORIES),
                    "tactic": generator.choice(TACTICS[: 4 + (not attack)]),
                }
                name = f"chat-{key:06}"
                digest = sha256(name.encode()).hexdigest()
                label = "attack" if attack else "benign"
                conversation = json.dumps({"conversation_id": name, "participants": {}, "metadata": {}})
                heads.append(
                    (
                        key,
                        name,
                        label,
                        generator.choice(SOURCES),
                        TURNS,
                        digest,
                        conversation,
                        json.dumps(facts),
                        when,
                    )
                )
                level = generator.random() * 0.3
                for turn in range(1, TURNS + 1):
                    prompt, response = generator.choice(said), generator.choice(said)
                    turns.append((key, turn, prompt, response, len(prompt), len(response), None, None, "{}"))
                    level = min(1.0, max(0.0, level + generator.gauss(0.12 if attack else 0.0, 0.08)))
                    for n, principle in enumerate(PRINCIPLES, start=1):
                        F = min(1.0, max(0.0, level + generator.gauss(0, 0.05)))
                        row = (1, key, principle, turn, "prompt", n, None, 0.01, None, when)
                        scores.append((*row, 1 - F, generator.random() / 2, F, None))
            db.executemany("INSERT INTO sequences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", heads)
            db.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", turns)
            columns = "run, sequence, principle, turn, side, provenance, reply, latency_s, cost_usd, created_at"
            marks = ", ".join("?" * 14)
            db.executemany(f"INSERT INTO evaluations ({columns}, T, I, F, reasoning) VALUES ({marks})", scores)
            db.commit()
    print(
        f"{file}: {sequences} sequences, {file.stat().st_size / 1e6:.0f} MB, {time.perf_counter() - began:.0f} s"
    )


def texts(generator: random.Random) -> list[str]:
    """Return texts of some sixty words each, frequent and rare ones as in a language (Zipf)."""
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(20_000)]
    summed = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [
        " ".join(generator.choices(words, cum_weights=summed, k=generator.randint(20, 100))) for _ in range(5_000)
    ]


def data(file: Path) -> None:
    """Time the data layer: the mirror made, then filters, pages, sorts and searches."""
    from turnwise.explorer.data import overview
    from turnwise.explorer.data.flags import Flagging
    from turnwise.explorer.data.record import Record
    from turnwise.explorer.data.sequences import Filter, Sequences
    from turnwise.explorer.data.words import WordIndex
    from turnwise.store import Store

    with Store(file) as store:
        record = Record(store)
        words = WordIndex(record)
        sequences = Sequences(record, Flagging(record), words)
        report("mirror made", [once(lambda: overview.counts(record))], LIMITS["first cold"])
        report("overview", times(lambda: (overview.counts(record), overview.means(record, "generated"))), 1.0)
        report("words indexed", [once(words.wait)], 600.0)
        print(
            f"index of words: {sum(f.stat().st_size for f in file.parent.glob(file.name + '-words*')) / 1e6:.0f} MB"
        )
        run = Filter(run="generated")
        for what, filters in cases(run).items():
            for name, wanted in filters.items():
                report(f"{what}: {name}", times(lambda wanted=wanted: sequences.find(wanted)), LIMITS[what])
        words.close()
    print(f"memory: {memory() / 1e6:.0f} MB at most; required {MOST_MEMORY / 1e6:.0f}")


def cases(run: object) -> dict[str, dict[str, object]]:
    from dataclasses import replace

    return {
        "filter": {
            "label": replace(run, label="attack"),
            "source and category": replace(run, source="red_team", category="money"),
            "flagged": replace(run, flagged="yes"),
            "slope as a rule": replace(run, rule="slope(F) > 0.1", flagged="yes"),
            "F of a principle": replace(run, principle="reciprocity", least=0.8),
        },
        "page": {"second": replace(run, page=2), "last": replace(run, page=2_000)},
        "sort": {"highest F": replace(run, sort="F", descending=True), "id": replace(run, sort="id", page=100)},
        "search": {"frequent word": replace(run, words="ba"), "two words": replace(run, words="ba di -fo")},
    }


def times(ask: Callable[[], object], repeats: int = 5) -> list[float]:
    return [once(ask) for _ in range(repeats)]


def once(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def report(what: str, seconds: list[float], limit: float) -> None:
    """Print the first and the median time; the first is held against the limit, since that is what a user waits for."""
    good = "ok" if seconds[0] <= limit else "TOO SLOW"
    print(
        f"{what:38} first {seconds[0]:7.3f} s   median {statistics.median(seconds):7.3f} s   limit {limit:g} s  {good}"
    )


def memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
