"""The loader of twins: pairs with annotation, and clear errors where a corpus is not one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnwise.datasets import Pair, load_twins
from turnwise.errors import DatasetError
from turnwise.scoring import Score

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")


def half(pair: str, label: str, last: str, F: float) -> dict[str, Any]:
    prompts = ["Hello", "How do locks work?", last]
    turns = []
    for prompt in prompts:
        turns += [{"role": "user", "content": prompt}, {"role": "assistant", "content": f"About {prompt}"}]
    scores = [{"T": 0.9, "I": 0.1, "F": 0.0}] * 2 + [{"T": 1 - F, "I": 0.1, "F": F}]
    attack = label == "attack"
    notes = {
        "pair": pair,
        "shared_turns": 2,
        "turned_at": 3 if attack else None,
        "harm_at": 3 if attack else None,
        "replies": ["complied"] * 3,
        "scores": dict.fromkeys(PRINCIPLES, scores),
    }
    return {"id": f"{pair}-{label}", "label": label, "source": "made", "turns": turns, "metadata": notes}


def write(folder: Path, *lines: dict[str, Any], splits: dict[str, str] | None = None) -> Path:
    twins = folder / "twins"
    twins.mkdir()
    (twins / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if splits is not None:
        (folder / "splits.json").write_text(json.dumps({"pairs": splits}))
    return twins


def two_pairs(folder: Path) -> Path:
    lines = [half(pair, label, f"{label}!", 0.8) for pair in ("p1", "p2") for label in ("attack", "benign")]
    return write(folder, *lines, splits={"p1": "train", "p2": "test"})


def test_pairs_come_with_split_scores_and_turning_points(tmp_path: Path) -> None:
    first, second = load_twins(two_pairs(tmp_path))
    assert isinstance(first, Pair)
    assert (first.name, first.split, second.split, first.shared) == ("p1", "train", "test", 2)
    assert (first.attack.turned_at, first.attack.harm_at, first.benign.harm_at) == (3, 3, None)
    assert first.attack.scores["reciprocity"][:2] == (Score(0.9, 0.1, 0.0),) * 2
    assert first.attack.sequence.conversation.turn(3).prompt == "attack!"


def test_one_split_can_be_asked_for(tmp_path: Path) -> None:
    assert [pair.name for pair in load_twins(two_pairs(tmp_path), split="test")] == ["p2"]


def test_a_corpus_without_splits_has_none(tmp_path: Path) -> None:
    twins = write(tmp_path, half("p", "attack", "x", 0.9), half("p", "benign", "y", 0.0))
    assert [pair.split for pair in load_twins(twins)] == [None]


def _changed(path: tuple[str, ...], value: object) -> list[dict[str, Any]]:
    attack, benign = half("p", "attack", "x", 0.9), half("p", "benign", "y", 0.0)
    target: Any = json.loads(json.dumps(attack))
    changed = target
    for key in path[:-1]:
        target = target[int(key)] if isinstance(target, list) else target[key]
    target[path[-1]] = value
    return [changed, benign]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([half("p", "attack", "x", 0.9)], "needs an attack and a benign half"),
        (_changed(("turns", "0", "content"), "Other"), "must be the same in turn 1"),
        (_changed(("metadata", "replies"), ["complied"]), "line 1: annotation"),
        (_changed(("metadata", "scores"), {"reciprocity": [{"T": 2, "I": 0, "F": 0}] * 3}), "line 1: annotation"),
        (_changed(("metadata", "scores"), {"reciprocity": []}), "line 1: annotation"),
        (_changed(("metadata",), {}), "line 1: annotation"),
        (_changed(("turns",), []), "line 1: the conversation is empty"),
    ],
)
def test_what_is_no_pair_is_refused(tmp_path: Path, lines: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        list(load_twins(write(tmp_path, *lines)))


def test_a_pair_without_split_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    twins = write(tmp_path, half("p", "attack", "x", 0.9), half("p", "benign", "y", 0.0), splits={"q": "train"})
    with pytest.raises(DatasetError, match="needs a split in"):
        list(load_twins(twins))
    with pytest.raises(DatasetError, match="has no twins"):
        list(load_twins(tmp_path / "nowhere"))
