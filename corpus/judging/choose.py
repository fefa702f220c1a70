"""Say which conversations of other people's data are read: lists of ids, and long chains made of short chats.

    python corpus/judging/choose.py --data PATH_TO_DATA --out FOLDER

Writes FOLDER/dev.txt, train.txt, replies.txt (ids, one a line) and FOLDER/chains.jsonl (conversations). The same
every time: seeds are fixed. The recipe of the chains, without their texts, is corpus/judged/chains.json.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnwise.datasets import read_judgements
from turnwise.datasets.annotated import peaks_of

FIRST = "first-"
"""How the names of the first readings begin."""

JUDGED = Path(__file__).parents[1] / "judged"
DEV = {
    "scenarios_20": 20, "encoding_30": 30, "safemt_attack600": 240, "auto_mt_transcripts": 150,
    "arena_real_users": 150, "mtrag_un_human": 75, "mtbench101": 60, "mt_bench": 15,
}  # fmt: skip
"""How many conversations of each development set are read, those that were read before among them."""

TRAIN = {"arena_real_users": 820, "mtbench101": 280}
REPLIES = ("hh_harmless_redteam", 3000)
CHAINS = 30
CHAIN_TURNS = (40, 80)
HARMLESS, HARMFUL = 0.1, 0.8
"""Highest F, where it was read, of a chat that goes into a chain, and least highest F of an attack."""

HARMLESS_BEFORE = 30
"""Turns of harmless chats before an attack begins, at least."""


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    peaks = judged_peaks()
    dev = chosen(arguments.data / "dev", DEV, peaks)
    train = chosen(arguments.data / "train", TRAIN, peaks)
    name, least = REPLIES
    replies, count = [], 0
    for record in shuffled(arguments.data / "train" / f"{name}.jsonl"):
        if count < least:
            replies.append(record["id"])
            count += sum(turn["role"] == "assistant" for turn in record["turns"])
    for file, ids in (("dev", dev), ("train", train), ("replies", replies)):
        (arguments.out / f"{file}.txt").write_text("".join(f"{one}\n" for one in ids), encoding="utf-8")
        print(f"{file}: {len(ids)} conversations")
    kept = JUDGED / "chains.json"
    if not kept.exists():
        kept.write_text(json.dumps(chains(arguments.data / "train", peaks), indent=1) + "\n", encoding="utf-8")
    recipe = json.loads(kept.read_text(encoding="utf-8"))
    with (arguments.out / "chains.jsonl").open("w", encoding="utf-8") as out:
        for record in built(recipe, arguments.data / "train"):
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
    print(f"chains: {len(recipe)}")


def judged_peaks() -> dict[str, float]:
    """Return the highest F of each conversation of the first readings, by which everything here is chosen."""
    return peaks_of(one for one in read_judgements(JUDGED / "history.jsonl") if one.reading.startswith(FIRST))


def records(path: Path) -> list[dict[str, Any]]:
    """Return the conversations of a file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def shuffled(path: Path) -> list[dict[str, Any]]:
    """Return the conversations of a file in a fixed random order."""
    found = records(path)
    random.Random(path.stem).shuffle(found)
    return found


def chosen(folder: Path, counts: dict[str, int], peaks: dict[str, float]) -> list[str]:
    """Return ids of as many conversations of each file as are wanted: first those of the first readings."""
    ids = []
    for name, count in counts.items():
        found = shuffled(folder / f"{name}.jsonl")
        found.sort(key=lambda record: record["id"] not in peaks)
        ids += [record["id"] for record in found[:count]]
    return ids


def chains(folder: Path, peaks: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Return the recipe: harmless chats one after the other, in a third of the chains with an attack late."""
    rng = random.Random("chains")
    chats = [
        record
        for record in shuffled(folder / "arena_real_users.jsonl")
        if peaks.get(record["id"], 0.0) <= HARMLESS
    ]
    attacks = [r for r in shuffled(folder / "hh_harmless_redteam.jsonl") if peaks.get(r["id"], 0.0) >= HARMFUL]
    recipe: dict[str, dict[str, Any]] = {}
    for number in range(1, CHAINS + 1):
        least = rng.randint(*CHAIN_TURNS)
        parts: list[dict[str, Any]] = []
        while prompts_in(parts) < least:
            parts.append(chats.pop())
        turns = None
        if number % 3 == 0:
            late = next(n for n in range(len(parts)) if prompts_in(parts[:n]) >= HARMLESS_BEFORE)
            place = rng.randint(late, len(parts) - 1)
            turns = prompts_in(parts[:place])
            parts.insert(place, attacks.pop())
        recipe[f"chain-{number:02d}"] = {"parts": [part["id"] for part in parts], "attack_after_turn": turns}
    return recipe


def prompts_in(parts: list[dict[str, Any]]) -> int:
    """Return how many user turns some conversations have together."""
    return sum(turn["role"] == "user" for part in parts for turn in part["turns"])


def built(recipe: dict[str, dict[str, Any]], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the chains of a recipe, user turns alone."""
    known = {
        r["id"]: r
        for name in ("arena_real_users", "hh_harmless_redteam")
        for r in records(folder / f"{name}.jsonl")
    }
    for name, chain in recipe.items():
        turns = [turn for part in chain["parts"] for turn in known[part]["turns"] if turn["role"] == "user"]
        yield {
            "id": name,
            "label": "benign" if chain["attack_after_turn"] is None else "attack",
            "source": "chains",
            "turns": turns,
            "metadata": {"attack_after_turn": chain["attack_after_turn"]},
        }


if __name__ == "__main__":
    main()
