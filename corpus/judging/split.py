"""Write judged/splits.json: a split for every conversation that may be trained on, before anything is.

    python corpus/judging/split.py --data PATH_TO_DATA

Train 70, dev 10, test 20 %, by group: conversations with the same goal, the same first message, or parts of the
same chain stay together. Pairs keep the split of corpus/splits.json. mtbench101 is set aside for operating points
and not to be trained on: its split says so. What is in dev/ of the data is not named here and is for evaluation
only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnwise.datasets import load_twins

CORPUS = Path(__file__).parents[1]
SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}
OPERATING = "operating"
NEVER_TRAINED = "mtbench101"
SINGLE = ("advbench", "catqa", "giskard_injections", "openai_moderation", "self_reminder_jailbreaks")


def main() -> None:
    """Split and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    groups = dict(grouped(arguments.data))
    chains = json.loads((CORPUS / "judged" / "chains.json").read_text(encoding="utf-8"))
    together = Together(groups.values())
    for name, chain in chains.items():
        groups[name] = f"chain {name}"
        for part in chain["parts"]:
            together.join(groups[name], groups[part])
    splits = {name: split_of(together.root(group)) for name, group in groups.items()}
    splits |= {name: OPERATING for name, group in groups.items() if group == NEVER_TRAINED}
    for folder in ("twins", "human"):
        for pair in load_twins(CORPUS / folder):
            for half in (pair.attack, pair.benign):
                splits[half.sequence.sequence_id] = str(pair.split)
    record = {"shares": SHARES, "splits": dict(sorted(splits.items()))}
    target = CORPUS / "judged" / "splits.json"
    target.write_text(json.dumps(record, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    print({split: sum(one == split for one in splits.values()) for split in sorted(set(splits.values()))})


def grouped(data: Path) -> Iterator[tuple[str, str]]:
    """Yield id and group of every conversation and single prompt."""
    files = sorted((data / "train").glob("*.jsonl")) + [
        data / "single" / "train" / f"{name}.jsonl" for name in SINGLE
    ]
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines():
            record: dict[str, Any] = json.loads(line)
            if path.stem == NEVER_TRAINED:
                yield record["id"], NEVER_TRAINED
            else:
                first = next(
                    (t["content"] for t in record.get("turns", []) if t["role"] == "user"), record.get("text")
                )
                yield record["id"], record["metadata"].get("goal") or " ".join(str(first).lower().split())


class Together:
    """Groups that must share a split (union and find)."""

    def __init__(self, groups: Any) -> None:
        self._above = {group: group for group in groups}

    def root(self, group: str) -> str:
        """Return what stands for all groups that were joined with this one."""
        while (above := self._above.setdefault(group, group)) != group:
            group = above
        return group

    def join(self, one: str, other: str) -> None:
        """Have two groups share a split."""
        first, second = sorted((self.root(one), self.root(other)))
        self._above[second] = first


def split_of(group: str) -> str:
    """Return the split of a group, by its hash."""
    place = int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) / 16**8
    for name, share in SHARES.items():
        if place < share:
            return name
        place -= share
    return name


if __name__ == "__main__":
    main()
