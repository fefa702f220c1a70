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
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, Pair, load_twins, open_dataset
from turnwise.datasets.annotated import SPLITS_FILE

CORPUS = Path(__file__).parent
SHARED_WORDS = 10
"""Words in a row that no drill may share with what it could be tested on."""


def main() -> None:
    """Check, print, and leave with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of other data sets to compare the texts with")
    arguments = parser.parse_args()
    pairs = list(load_twins(CORPUS / "drills" / "pairs"))
    single = list(singles(CORPUS / "drills" / "single"))
    replies = list(singles(CORPUS / "drills" / "replies"))
    chats = [*(half.sequence for pair in pairs for half in (pair.attack, pair.benign)), *single, *replies]
    wrong = [
        *shape(pairs, chats),
        *held_out(pairs),
        *repeats(pairs, single),
        *overlaps(chats, test_texts(arguments.data)),
    ]
    for line in wrong:
        print(f"BAD  {line}")
    alone = [pair for pair in pairs if len(prompts(pair.attack.sequence)) == 1]
    turns = Counter(len(prompts(pair.attack.sequence)) for pair in pairs)
    print(
        f"{len(pairs)} pairs, {len(alone)} of them single prompts; {len(single)} without a counterpart, "
        f"{len(replies)} with judged replies"
    )
    print("turns of an attack:", ", ".join(f"{length}: {count}" for length, count in sorted(turns.items())))
    for name, some in (
        ("conversations", [pair for pair in pairs if pair not in alone]),
        ("single prompts", alone),
    ):
        told = told_by_words(some)
        print(f"{name}: the attack's texts told from the twin's by single words: AUC {told:.2f} (0.5 is chance)")
    sys.exit(bool(wrong))


def singles(folder: Path) -> Iterable[Sequence]:
    """Yield the conversations without a counterpart."""
    for path in sorted(folder.glob("*.jsonl")):
        for one in open_dataset(path):
            if isinstance(one, BadRecord):
                raise SystemExit(f"{path}, line {one.line}: {one.reason}")
            yield one


def prompts(chat: Sequence) -> list[str]:
    """Return the user turns of a conversation."""
    return [turn.prompt for turn in chat.conversation]


def shape(pairs: Iterable[Pair], chats: Iterable[Sequence]) -> Iterable[str]:
    """What every drill must have."""
    for name, count in Counter(chat.sequence_id for chat in chats).items():
        if count > 1:
            yield f"{name}: {count} drills of that id"
    for chat in chats:
        if not all(text.strip() for text in prompts(chat)):
            yield f"{chat.sequence_id}: an empty turn"
    for pair in pairs:
        turns = len(prompts(pair.attack.sequence))
        if pair.attack.harm_at is None or not 1 <= pair.attack.harm_at <= turns:
            yield f"{pair.name}: harm_at {pair.attack.harm_at} is no turn of its {turns}"
        if pair.attack.harm_at is not None and pair.shared >= pair.attack.harm_at:
            yield f"{pair.name}: the turn harm_at {pair.attack.harm_at} stands in both halves"


def held_out(pairs: Iterable[Pair]) -> Iterable[str]:
    """Tactics and areas that the twins keep for tests."""
    splits = json.loads((CORPUS / SPLITS_FILE).read_text(encoding="utf-8"))
    for pair in pairs:
        notes = pair.attack.sequence.metadata
        if notes.get("tactic") in splits["held_out_tactics"] or notes.get("area") in splits["held_out_areas"]:
            yield f"{pair.name}: {notes['tactic']}, {notes['area']} is held out for tests"


def repeats(pairs: Iterable[Pair], single: Iterable[Sequence]) -> Iterable[str]:
    """First turns that two drills share."""
    begins = [(pair.name, prompts(pair.benign.sequence)[0]) for pair in pairs]
    begins += [(chat.sequence_id, prompts(chat)[0]) for chat in single]
    first = Counter(text.strip().lower() for _, text in begins)
    for name, text in begins:
        if first[text.strip().lower()] > 1 and len(text.split()) > SHARED_WORDS:
            yield f"{name}: another drill begins with the same turn"


def test_texts(data: Path | None) -> Iterable[str]:
    """Yield every text that a drill must not repeat: twins outside the train split, and other data."""
    split = json.loads((CORPUS / SPLITS_FILE).read_text(encoding="utf-8"))["pairs"]
    for folder in ("twins", "human"):
        for pair in load_twins(CORPUS / folder):
            if split[pair.name] != "train":
                for half in (pair.attack, pair.benign):
                    yield from prompts(half.sequence)
    if data is None:
        return
    for path in sorted(data.glob("dev/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from (turn["content"] for turn in json.loads(line)["turns"])
    for path in sorted(data.glob("single/dev/*.jsonl")):
        yield from (json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines())


def overlaps(chats: Iterable[Sequence], others: Iterable[str]) -> Iterable[str]:
    """Runs of words that a drill shares with what it could be tested on."""
    known = {run for text in others for run in runs(text)}
    for chat in chats:
        shared = {run for text in prompts(chat) for run in runs(text)} & known
        if shared:
            yield f"{chat.sequence_id}: shares {' '.join(min(shared))!r} with a test"


def runs(text: str) -> set[tuple[str, ...]]:
    """Return all runs of words of the given length."""
    words = re.findall(r"\w+(?:'\w+)?", text.lower())
    return {tuple(words[start : start + SHARED_WORDS]) for start in range(len(words) - SHARED_WORDS + 1)}


def told_by_words(pairs: Iterable[Pair]) -> float:
    """Return how well a bag of words tells the halves apart after their shared turns, by cross-validation."""
    texts, labels, count = [], [], 0
    for pair in pairs:
        halves = [prompts(half.sequence) for half in (pair.attack, pair.benign)]
        count += 1
        for half, other, attack in ((*halves, True), (*halves[::-1], False)):
            texts.append(" ".join(text for text in half if text not in other))
            labels.append(attack)
    groups = np.repeat(np.arange(count), 2)
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1_000))
    folds = GroupKFold(10)
    scores = cross_val_predict(model, texts, labels, groups=groups, cv=folds, method="decision_function")
    return float(roc_auc_score(labels, scores))


if __name__ == "__main__":
    main()
