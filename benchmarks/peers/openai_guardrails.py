"""OpenAI Guardrails: what runs without a key (secret keys, URLs), and the checks that ask a model."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.measuring import Answer, measure, needs_key
from guardrails import default_spec_registry
from guardrails.runtime import instantiate_guardrails, load_config_bundle, run_guardrails
from openai import AsyncOpenAI


@dataclass
class Context:
    """What the checks ask: a client, and the conversation so far for those that read it."""

    guardrail_llm: AsyncOpenAI
    conversation: list[dict[str, str]]

    def get_conversation_history(self) -> list[dict[str, str]]:
        """Return the conversation so far."""
        return self.conversation


class Bundle:
    """A configured bundle of checks, run as the package's clients run it."""

    def __init__(self, checks: list[tuple[str, dict[str, Any]]], key: str | None = None) -> None:
        if key is not None:
            needs_key(key)
        logging.disable(logging.WARNING)
        configured = [{"name": name, "config": config} for name, config in checks]
        bundle = load_config_bundle({"version": 1, "guardrails": configured})
        self.checks = instantiate_guardrails(bundle, registry=default_spec_registry)
        self.client = AsyncOpenAI(api_key=None if key else "none is used")
        self.loop = asyncio.new_event_loop()

    def begin(self) -> None:
        """Begin a conversation."""
        self.chat: list[dict[str, str]] = []

    def check(self, prompt: str) -> Answer:
        """Return which checks trip on the next prompt."""
        self.chat.append({"role": "user", "content": prompt})
        asked = run_guardrails(
            Context(self.client, self.chat),
            prompt,
            "text/plain",
            self.checks,
            suppress_tripwire=True,
            raise_guardrail_errors=True,
        )
        found = [result for result in self.loop.run_until_complete(asked) if result.tripwire_triggered]
        return Answer(bool(found), by=tuple(str(result.info.get("guardrail_name", "")) for result in found))

    def answered(self, reply: str) -> None:
        """Add the reply to the history that the checks may read."""
        self.chat.append({"role": "assistant", "content": reply})


MODEL = {"model": "gpt-4.1-mini", "confidence_threshold": 0.7}
PARTS = {
    "secret-keys": lambda: Bundle([("Secret Keys", {})]),
    "url-filter": lambda: Bundle([("URL Filter", {})]),
    "jailbreak": lambda: Bundle([("Jailbreak", MODEL)], key="OPENAI_API_KEY"),
}

if __name__ == "__main__":
    measure(PARTS)
