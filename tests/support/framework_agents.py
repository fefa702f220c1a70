"""What the tests of agent frameworks share: the guards, a long reply, and a tool that looks customers up."""

from __future__ import annotations

from typing import Any

GUARD: dict[str, Any] = {
    "guardrails": [
        {"pii": {"action": "redact", "on": "all"}},
        {"keywords": {"keywords": ["swordfish"], "action": "block", "on": "all"}},
    ]
}
DRIFT: dict[str, Any] = {
    "guardrails": [
        {
            "drift": {
                "observer": "scripted:0.1,0.2,0.9,0.1",
                "detector": "any_turn",
                "block_at": 0.8,
                "session": None,
            }
        }
    ]
}
LONG = "A long reply goes on and on about nothing in particular, and it does so with great patience. " * 8
RAN: list[str] = []
"""Names that were looked up in a test."""


def record_of(name: str) -> str:
    RAN.append(name)
    return {"jane": "jane@example.com", "mole": "the word is swordfish"}.get(name, f"no record of {name}")
