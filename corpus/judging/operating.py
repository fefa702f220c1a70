"""Write operating_points.json: thresholds at 1 % of ordinary training chats, read in the same way.

    python corpus/judging/operating.py

The chats are those of real users that were read in both ways; no text is needed. What `turnwise` uses where a
detector is named without parameters on recorded scores. They lie beside the corpus's judgements and those of
the examples that ship, which are none of these chats.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from turnwise.datasets import example_judgements, read_judgements
from turnwise.detectors import build_detector, run_detector
from turnwise.scoring import TurnScores
from turnwise.study import threshold_for

JUDGED = Path(__file__).parents[1] / "judged"
SOURCE = "arena_real_users"
DETECTORS = ("any_turn", "cusum", "f_ema", "peak_accumulation", "slope", "trust_ema")
RATE = 0.01
TRAINED_ON = ("train", "dev", "test")


def main() -> None:
    """Set the thresholds and write them."""
    splits = json.loads((JUDGED / "splits.json").read_text(encoding="utf-8"))["splits"]
    chats = {mode: read(mode, splits) for mode in ("turn", "history")}
    both = sorted(chats["turn"].keys() & chats["history"].keys())
    points = {
        mode: {name: round(threshold(name, [known[chat] for chat in both]), 6) for name in DETECTORS}
        for mode, known in chats.items()
    }
    about = f"flags at most {RATE:.0%} of further chats like {len(both)} of {SOURCE} (train), read in the same way"
    content = json.dumps({"about": about, "points": points}, indent=1) + "\n"
    for folder in (JUDGED, example_judgements("history").parent):
        (folder / "operating_points.json").write_text(content, encoding="utf-8")
    print(f"{about}\n{json.dumps(points, indent=1)}")


def read(mode: str, splits: dict[str, str]) -> dict[str, list[TurnScores]]:
    """Return the scores of every ordinary chat of a file of judgements, in turn order."""
    chats: dict[str, list[TurnScores]] = defaultdict(list)
    for one in read_judgements(JUDGED / f"{mode}.jsonl"):
        if one.sequence_id.startswith(SOURCE) and splits.get(one.sequence_id) in TRAINED_ON:
            chats[one.sequence_id].append(TurnScores(one.turn, one.scores))
    return {name: sorted(turns, key=lambda turn: turn.turn) for name, turns in chats.items()}


def threshold(name: str, chats: list[list[TurnScores]]) -> float:
    """Return the threshold of a detector, its other parameters at their defaults."""
    return threshold_for([run_detector(build_detector(name), turns).score for turns in chats], RATE)


if __name__ == "__main__":
    main()
