"""A worker with a pipeline over a state store, for tests: takes orders as lines of JSON, answers each with a line.

Run as ``python state_worker.py CONFIG DATABASE``, a file or a URL of Redis; the parent may kill it at any moment.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import CLEAN, Check, Finding, Guardrail, guardrail, open_state_store


@guardrail("halts")
@dataclass(frozen=True)
class Halts(Guardrail):
    """Says that a check is under way where a text holds ``halt``, and never ends."""

    default_timeout: ClassVar[float | None] = None

    def check(self, check: Check) -> Finding:
        """Wait for ever."""
        if "halt" in check.text:
            answer({"halted": check.turn.number})
            sys.stdin.read()
        return CLEAN


def answer(values: dict[str, Any]) -> None:
    """Answer the parent."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def told(result: Any) -> dict[str, Any]:
    """Return of a result what has to be the same everywhere."""
    values = result.to_dict()
    drift = values["details"].get("drift") or {}
    return {
        "turn": values["turn_number"],
        "blocked": values["blocked"],
        "warnings": values["warnings"],
        "reasons": values["reasons"],
        "failures": values["failures"],
        "stance": values["stance"],
        "scores": (drift.get("data") or {}).get("scores"),
    }


def obey(pipeline: GuardrailPipeline, order: dict[str, Any]) -> dict[str, Any]:
    """Check what the parent says, in a conversation that is loaded for it alone."""
    name = order["conversation"]
    chat = pipeline.find_conversation(name) if pipeline.state_store is not None else KNOWN.get(name)
    if chat is None:
        chat = Conversation.human_ai(order["initiator"], "model", conversation_id=name)
        KNOWN[name] = chat
    if "prompt" in order:
        return told(pipeline.check_input(order["prompt"], conversation=chat))
    return told(pipeline.check_output(order["response"], conversation=chat))


KNOWN: dict[str, Conversation] = {}


def main() -> None:
    """Obey until there is no more to read."""
    config, database = json.loads(sys.argv[1]), sys.argv[2]
    store = open_state_store(database, wait_seconds=30.0) if database else None
    pipeline = GuardrailPipeline(config, state_store=store)
    for line in sys.stdin:
        answer(obey(pipeline, json.loads(line)))


if __name__ == "__main__":
    main()
