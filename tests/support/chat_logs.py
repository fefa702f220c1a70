"""Logs to scan, made from a seed, and what a scan wrote."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

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


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by its path in it."""
    return {
        str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()
    }
