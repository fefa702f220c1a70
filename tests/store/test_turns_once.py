"""A turn is built once on its way into a store, and once on its way out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Turn
from turnwise.datasets import open_dataset
from turnwise.store import Store, import_sequences

TURNS = 40


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Return how often a turn of each number was built."""
    counts: Counter[int] = Counter()
    build = Turn.__post_init__

    def counted(turn: Turn) -> None:
        counts[turn.number] += 1
        build(turn)

    monkeypatch.setattr(Turn, "__post_init__", counted)
    return counts


def _messages() -> list[dict[str, Any]]:
    roles = [("user", f"prompt {number}") for number in range(TURNS)]
    return [{"role": role, "content": text} for role, text in roles]


def _entries() -> list[dict[str, Any]]:
    return [{"from": "human", "value": f"prompt {number}"} for number in range(TURNS)]


@pytest.mark.parametrize(
    "line",
    [lambda: {"id": "a", "messages": _messages()}, lambda: {"id": "a", "conversations": _entries()}],
    ids=["messages", "sharegpt"],
)
def test_a_turn_is_built_once_each_way(
    tmp_path: Path, built: Counter[int], line: Callable[[], dict[str, Any]]
) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps(line()) + "\n")
    once = dict.fromkeys(range(1, TURNS + 1), 1)
    with Store(tmp_path / "work.db", create=True) as store:
        assert import_sequences(store, open_dataset(file), where=str(file)).imported == 1
        assert built == once
        built.clear()
        (sequence,) = store.sequences()
        assert built == once
        built.clear()
        assert len(store.turns(sequence.sequence_id, range(1, TURNS + 1))) == TURNS
        assert built == once
