"""Logs to scan: made from a seed, in any of the forms that logs come in."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = ["the", "tide", "comes", "back", "and", "someone", "asks", "again", "why", "a", "lock", "opens", "tonight"]
SCRIPT = "scripted:0.1,0.5,0.9,0.2,0.7,0.3"


def chats(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return records of conversations with one to six turns."""
    drawn = random.Random(seed)
    return [
        {"id": f"chat-{seed}-{number}", "model": drawn.choice(["a", "b"]), "messages": _messages(drawn)}
        for number in range(count)
    ]


def _messages(drawn: random.Random) -> list[dict[str, str]]:
    messages = []
    for _ in range(drawn.randint(1, 6)):
        for role in ("user", "assistant"):
            messages.append({"role": role, "content": " ".join(drawn.choices(WORDS, k=drawn.randint(1, 30)))})
    return messages


def lines(records: list[Any]) -> bytes:
    """Return records as JSONL."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@pytest.fixture
def logs(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of conversations as JSONL and return its path."""

    def write(name: str = "logs.jsonl", count: int = 60, seed: int = 1) -> Path:
        path = tmp_path / name
        path.write_bytes(lines(chats(count, seed)))
        return path

    return write
