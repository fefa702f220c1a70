"""What training may read: permitted files, their judgements, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training.conversations import read_conversations

from training import conversations
from turnwise.conversation import Seen, from_messages
from turnwise.datasets import digests

CHAT = [
    {"role": "user", "content": "How do locks work?"},
    {"role": "assistant", "content": "With pins."},
    {"role": "user", "content": "And my neighbour's?"},
]


def line(identifier: str, source: str) -> str:
    return json.dumps({"id": identifier, "label": "attack", "source": source, "turns": CHAT, "metadata": {}})


def judgement(identifier: str, turn: int, f: float, *, good: bool = True) -> str:
    talk = from_messages(CHAT)
    digest = digests(talk, Seen.PROMPTS)[turn] if good else "0" * 16
    names = ("reciprocity", "context_integrity", "third_party_harm")
    return json.dumps(
        {
            "sequence_id": identifier,
            "turn": turn,
            "side": "prompt",
            "seen": "prompts",
            "digest": digest,
            "scores": {name: [1 - f, 0.1, f] for name in names},
            "reading": "r",
            "round": 1,
        }
    )


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder beside a corpus of one judged conversation in each file."""
    folder, corpus = tmp_path / "data", tmp_path / "corpus"
    (folder / "train").mkdir(parents=True)
    (corpus / "judged").mkdir(parents=True)
    (corpus / "judged" / "chains.json").write_text("{}")
    names = ("free", "prompts", "closed")
    for name in names:
        rows = [line(f"{name}-1", name), line(f"{name}-unsplit", name)]
        (folder / "train" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    manifest = {
        "train/free.jsonl": {"train": True},
        "train/prompts.jsonl": {"train": "user turns only"},
        "train/closed.jsonl": {"train": False},
    }
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    (corpus / "judged" / "splits.json").write_text(json.dumps({"splits": {f"{n}-1": "train" for n in names}}))
    first = [judgement(f"{name}-1", turn, 0.2 * turn) for name in names for turn in (1, 2)]
    (corpus / "judged" / "history.jsonl").write_text("\n".join([*first, judgement("free-unsplit", 1, 1.0)]) + "\n")
    second = [judgement("free-1", 2, 0.8), judgement("free-1", 1, 1.0, good=False)]
    (corpus / "judged" / "history-second.jsonl").write_text("\n".join(second) + "\n")
    monkeypatch.setattr(conversations, "CORPUS", corpus)
    monkeypatch.setattr(conversations, "PAIRS", ())
    return folder


def test_only_what_is_permitted_and_has_a_split_is_read(data: Path) -> None:
    found = read_conversations(data)
    assert [one.id for one in found.examples] == ["free-1", "prompts-1"]
    assert [reply for _, reply in found.examples[0].turns] == ["With pins.", None]
    assert [reply for _, reply in found.examples[1].turns] == [None, None]
    assert "train/closed.jsonl" not in found.hashes
    assert found.of("train") == list(found.examples)
    assert found.of("test") == []


def test_two_readings_are_averaged_and_those_of_another_text_left_out(data: Path) -> None:
    one = read_conversations(data).examples[0]
    assert [triple[2] for triple in one.judged["history"][1]] == pytest.approx([0.2] * 3)
    assert [triple[2] for triple in one.judged["history"][2]] == pytest.approx([0.6] * 3)
