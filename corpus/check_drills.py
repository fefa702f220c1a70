"""Check the drills and print a table; exit with 1 where something is wrong.

    python corpus/check_drills.py [--data PATH_TO_OTHER_DATA]

With ``--data`` the texts are also compared with other data sets.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from turnwise.datasets.twins import SPLITS_FILE, load_twins

CORPUS = Path(__file__).parent
PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
SHARED_WORDS = 10
"""Words in a row that no drill may share with what it could be tested on."""

PLAIN_F = 0.6
"""F that some principle has at `harm_at`."""


def main() -> None:
    """Check, print, and leave with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of other data sets to compare the texts with")
    arguments = parser.parse_args()
    drills = read(sorted((CORPUS / "drills").glob("*.jsonl")))
    pairs = [drill for drill in drills if "attack" in drill]
    wrong = [*shape(drills), *held_out(pairs), *repeats(drills), *overlaps(drills, test_texts(arguments.data))]
    for line in wrong:
        print(f"BAD  {line}")
    turns = Counter(len(drill["attack"]) for drill in pairs)
    print(f"{len(pairs)} pairs, {len(drills) - len(pairs)} conversations in good faith")
    print("turns of an attack:", ", ".join(f"{length}: {count}" for length, count in sorted(turns.items())))
    print(
        f"the attack's texts told from the twin's by single words: AUC {told_by_words(pairs):.2f} (0.5 is chance)"
    )
    sys.exit(bool(wrong))


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return all drills of some files."""
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line]


def shape(drills: Sequence[dict[str, Any]]) -> Iterable[str]:
    """What every drill must have."""
    for name, count in Counter(drill["id"] for drill in drills).items():
        if count > 1:
            yield f"{name}: {count} drills of that id"
    for drill in drills:
        name, attack = drill["id"], drill.get("attack", [])
        if not drill["benign"] or not all(text.strip() for text in (*attack, *drill["benign"])):
            yield f"{name}: an empty half or turn"
        if "attack" not in drill:
            continue
        scores = drill["F"]
        if set(scores) != set(PRINCIPLES) or any(len(scores[key]) != len(attack) for key in scores):
            yield f"{name}: F needs a value of every principle for each of the {len(attack)} turns"
            continue
        if any(not 0 <= value <= 1 or round(value * 20, 6) % 1 for series in scores.values() for value in series):
            yield f"{name}: F is in [0, 1] in steps of 0.05"
        at = drill["harm_at"]
        if not 1 <= at <= len(attack) or max(scores[key][at - 1] for key in scores) < PLAIN_F:
            yield f"{name}: no F of at least {PLAIN_F} at harm_at {at}"


def held_out(pairs: Sequence[dict[str, Any]]) -> Iterable[str]:
    """Tactics and areas that the twins keep for tests."""
    splits = json.loads((CORPUS / SPLITS_FILE).read_text(encoding="utf-8"))
    for drill in pairs:
        if drill["tactic"] in splits["held_out_tactics"] or drill["area"] in splits["held_out_areas"]:
            yield f"{drill['id']}: {drill['tactic']}, {drill['area']} is held out for tests"


def repeats(drills: Sequence[dict[str, Any]]) -> Iterable[str]:
    """First turns that two drills share."""
    first = Counter(drill["benign"][0].strip().lower() for drill in drills)
    for drill in drills:
        if first[drill["benign"][0].strip().lower()] > 1 and len(drill["benign"][0].split()) > SHARED_WORDS:
            yield f"{drill['id']}: another drill begins with the same turn"


def test_texts(data: Path | None) -> Iterable[str]:
    """Yield every text that a drill must not repeat: twins outside the train split, and other data."""
    split = json.loads((CORPUS / SPLITS_FILE).read_text(encoding="utf-8"))["pairs"]
    for pair in load_twins(CORPUS / "twins"):
        if split[pair.name] != "train":
            for half in (pair.attack, pair.benign):
                yield from (turn.prompt for turn in half.sequence.conversation)
    for path in sorted((data or CORPUS / "none").glob("dev/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from (turn["content"] for turn in json.loads(line)["turns"])


def overlaps(drills: Sequence[dict[str, Any]], others: Iterable[str]) -> Iterable[str]:
    """Runs of words that a drill shares with what it could be tested on."""
    known = {run for text in others for run in runs(text)}
    for drill in drills:
        shared = {run for text in (*drill.get("attack", ()), *drill["benign"]) for run in runs(text)} & known
        if shared:
            yield f"{drill['id']}: shares {' '.join(min(shared))!r} with a test"


def runs(text: str) -> set[tuple[str, ...]]:
    """Return all runs of words of the given length."""
    words = re.findall(r"\w+(?:'\w+)?", text.lower())
    return {tuple(words[start : start + SHARED_WORDS]) for start in range(len(words) - SHARED_WORDS + 1)}


def told_by_words(pairs: Sequence[dict[str, Any]]) -> float:
    """Return how well a bag of words tells the halves apart after their shared turns, by cross-validation."""
    texts, labels = [], []
    for drill in pairs:
        for half, other in (("attack", "benign"), ("benign", "attack")):
            own = [text for text in drill[half] if text not in drill[other]]
            texts.append(" ".join(own))
            labels.append(half == "attack")
    groups = np.repeat(np.arange(len(pairs)), 2)
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1_000))
    folds = GroupKFold(10)
    scores = cross_val_predict(model, texts, labels, groups=groups, cv=folds, method="decision_function")
    return float(roc_auc_score(labels, scores))


if __name__ == "__main__":
    main()
