"""Teaches *abuse* from 300 turns of ConvAbuse and measures it on turns that experts judged: `turnwise teach`.

    python benchmarks/teach.py --data DATA

DATA has ``single/train/convabuse.jsonl`` and ``single/dev/convabuse.jsonl``: what people said to two chatbots,
with what was said before. The reader's weights never saw them. Each seed draws 300 turns of the train part. The
area is that of turns which most experts call abusive above those which most call benign, the others undecided,
with DeLong's interval, beside the heads of the built-in principles on the same turns.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from turnwise.conversation import Conversation, Label, Side
from turnwise.conversation import Sequence as Chat
from turnwise.observers.local.observer import LocalObserver
from turnwise.principles import builtin_principles, load_principle
from turnwise.runs import evaluate
from turnwise.stats import auc_with_interval
from turnwise.store import Store
from turnwise.study.teaching import draft_principle, read_annotations, teach

LEARNED = 300
SEEDS = range(5)
STORED = 1_000
TRUTH = {"benign": 0.0, "unclear": 0.5, "abusive": 1.0}


class Row(NamedTuple):
    """A turn with the texts before it, the conversation that it is of, and what the experts say."""

    text: str
    before: Sequence[str]
    conversation: str
    truth: float


def rows_of(path: Path) -> list[Row]:
    """The turns of a file."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        conversation = "-".join(row["id"].split("-")[:3])
        found.append(Row(row["text"], row["metadata"]["before"], conversation, TRUTH[row["label"]]))
    return found


def write_annotations(path: Path, rows: Sequence[Row]) -> None:
    """Write turns as a user would annotate them: yes, no, or both half."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            said = {"text": row.text, "before": row.before, "conversation": row.conversation}
            judged = {"T": 0.5, "I": 1, "F": 0.5} if row.truth == 0.5 else {"breaks": bool(row.truth)}
            file.write(json.dumps({**said, **judged}) + "\n")


def chat_of(number: int, row: Row) -> Chat:
    """A turn as the last of a conversation; where a bot spoke first, its prompt is empty."""
    said = [*([""] * (len(row.before) % 2)), *row.before]
    pairs = [(said[place], said[place + 1]) for place in range(0, len(said), 2)]
    talk = Conversation.from_turns([*pairs, (row.text, None)], conversation_id=f"dev-{number}")
    return Chat(f"dev-{number}", Label.UNLABELLED, "convabuse", talk)


def main() -> None:
    """Teach, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with single/train and single/dev")
    given = parser.parse_args()
    train, dev = (rows_of(given.data / "single" / part / "convabuse.jsonl") for part in ("train", "dev"))
    print(f"{len(train)} turns to learn from, {len(dev)} to test on", file=sys.stderr)
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place), train, dev)


def measure(place: Path, train: Sequence[Row], dev: Sequence[Row]) -> None:
    """Print the areas, by seed and of the built-in principles, and the seconds."""
    for seed in SEEDS:
        folder = place / f"abuse_{seed}"
        draft_principle(folder)
        write_annotations(place / "annotations.jsonl", random.Random(seed).sample(train, LEARNED))
        began, used = time.perf_counter(), time.process_time()
        taught = teach(folder, read_annotations(place / "annotations.jsonl", Side.PROMPT), LocalObserver())
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        worth = taught.worth.auroc
        print(
            f"seed {seed}: taught in {seconds:.0f} s ({cpu:.0f} of a processor); by cross-validation "
            f"{worth.value:.3f} [{worth.low:.3f}, {worth.high:.3f}], I and error {taught.worth.unsure:.2f}. "
            f"{taught.worth.outlook}",
            flush=True,
        )
    own = [load_principle(place / f"abuse_{seed}") for seed in SEEDS]
    with Store(place / "work.db", create=True) as store:
        store.add_sequences(chat_of(number, row) for number, row in enumerate(dev))
        for principles in (builtin_principles(), own):
            began, used = time.perf_counter(), time.process_time()
            summary = evaluate(store, "run", "local", principles=principles)
            seconds, cpu = time.perf_counter() - began, time.process_time() - used
            turns = summary.evaluations / len(principles)
            print(
                f"{turns:.0f} stored turns scored for {len(principles)} principles: for {STORED:,} "
                f"{STORED * seconds / turns:.0f} s ({STORED * cpu / turns:.0f} of a processor)",
                flush=True,
            )
        best = max((report(store, one.name, dev) for one in builtin_principles()), key=lambda pair: pair[1])
        areas = [report(store, one.name, dev)[1] for one in own]
    print(
        f"mean of {len(areas)} seeds {np.mean(areas):.3f}, lowest {min(areas):.3f}; best built-in head {best[0]} "
        f"{best[1]:.3f}: {np.mean(areas) - best[1]:+.3f}"
    )


def report(store: Store, principle: str, dev: Sequence[Row]) -> tuple[str, float]:
    """Print the area of a principle's F on the last turns, and return it."""
    found: dict[int, float] = {}
    for head, trajectory in store.trajectories("run"):
        series = dict(trajectory.series(principle))
        if trajectory.turns in series:
            found[int(head.sequence_id.removeprefix("dev-"))] = series[trajectory.turns].F
    of = {truth: [f for n, f in found.items() if dev[n].truth == truth] for truth in (0.0, 0.5, 1.0)}
    area = auc_with_interval(of[1.0], of[0.0])
    strict = auc_with_interval(of[1.0], of[0.0] + of[0.5])
    print(
        f"{principle}: {area.value:.3f} [{area.low:.3f}, {area.high:.3f}] of {area.attacks} and {area.benign} "
        f"turns; undecided ones counted as benign {strict.value:.3f}; {len(dev) - len(found)} without a score",
        flush=True,
    )
    return principle, area.value


if __name__ == "__main__":
    main()
