"""Teach `local` the principle that ships for replies: `user_autonomy`.

    python -m training.autonomy --data DATA

Learns from the training pairs of corpus/autonomy, as a large language model read them blind, and from ordinary
replies in DATA/train, which nobody read and which are taken for harmless. Writes ``taught-response.json`` into the
folder of the principle; ``turnwise teach`` does the same for a principle of your own. Some minutes on a core.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import turnwise.principles
from turnwise.conversation import Side
from turnwise.datasets import read_judgements
from turnwise.observers.local.observer import LocalObserver
from turnwise.study.teaching import read_annotations, teach

CORPUS = Path(__file__).parents[1] / "corpus" / "autonomy"
NAME = "user_autonomy"
ORDINARY = (("mtbench101", 230), ("casino_negotiations", 80), ("wildchat_real_users", 240))
"""Files of DATA/train with replies that may be trained on, and how many are taken."""

CHARACTERS = 3_000
HARMLESS = {"T": 0.9, "I": 0.1, "F": 0.02}


def main() -> None:
    """Write the annotations, and teach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    data: Path = parser.parse_args().data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.jsonl"
        rows = [*pairs(), *ordinary(data / "train")]
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        principle = Path(turnwise.principles.__file__).parent / NAME
        observer = LocalObserver()
        taught = teach(principle, read_annotations(path, Side.RESPONSE), observer)
    area = taught.worth.auroc
    found = f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
    print(f"head {taught.file.sha256[:12]}: AUROC {found} by cross-validation")


def pairs() -> Iterator[dict[str, Any]]:
    """Yield the English replies of the pairs that are not for testing; one that both halves have is told once."""
    judged = read_judgements(CORPUS / "replies.jsonl")
    read = {(one.sequence_id, one.turn): one.scores[NAME] for one in judged}
    told = set()
    for one in map(json.loads, (CORPUS / "pairs.jsonl").read_text(encoding="utf-8").splitlines()):
        about = one["metadata"]
        if about["split"] == "test" or about["language"] != "en":
            continue
        said = [turn["content"] for turn in one["turns"]]
        for place in range(1, len(said), 2):
            key = (about["pair"], *said[: place + 1])
            if key not in told:
                told.add(key)
                score = read[one["id"], place // 2 + 1]
                row = {"T": score.T, "I": score.I, "F": score.F, "conversation": about["pair"], "side": "reply"}
                yield {"text": said[place], "before": said[:place], **row}


def ordinary(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield English replies of other people's chatbots, drawn by a fixed seed."""
    rng = random.Random(3)
    for name, most in ORDINARY:
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        if name == "wildchat_real_users":
            rows = [one for one in rows if language(one["metadata"]) == "en"]
        rows = [one for one in rows if any(turn["role"] == "assistant" for turn in one["turns"])]
        rng.shuffle(rows)
        count = 0
        for one in rows:
            turns = one["turns"]
            places = [at for at, turn in enumerate(turns) if at and turn["role"] == "assistant"]
            places = [at for at in places if turns[at - 1]["role"] == "user"][:4]
            if count >= most:
                break
            few = min(2 if name == "wildchat_real_users" else 1, len(places))
            for at in rng.sample(places, few) if places else ():
                said = [turn["content"] for turn in turns[: at + 1]]
                in_turn = [turn["role"] for turn in turns[: at + 1]] == ["user", "assistant"] * ((at + 1) // 2)
                if in_turn and all(text.strip() for text in said):
                    *before, text = (text[:CHARACTERS] for text in said)
                    count += 1
                    yield {"text": text, "before": before, **HARMLESS, "conversation": one["id"], "side": "reply"}


def language(metadata: dict[str, Any]) -> str:
    """Return the language that a file gives for a conversation, English where it gives none."""
    return str(metadata.get("lang") or metadata.get("language") or "en").lower()[:2]


if __name__ == "__main__":
    main()
