"""Stinger (stinger-guardrails-alpha): presets `basic` and `customer_service`, and the presets that ask a model."""

from __future__ import annotations

import logging
from functools import partial

from benchmarks.peers.measuring import Answer, measure, needs_key
from stinger import Conversation, GuardrailPipeline


class Preset:
    """A preset, called as Stinger's README does, with the conversation that it may look at."""

    def __init__(self, name: str, key: str | None = None) -> None:
        if key is not None:
            needs_key(key)
        logging.disable(logging.WARNING)
        self.pipeline = GuardrailPipeline.from_preset(name)

    def begin(self) -> None:
        """Begin a conversation."""
        self.chat = Conversation.human_ai("user", "model")

    def check(self, prompt: str) -> Answer:
        """Return what the pipeline says of the next prompt."""
        result = self.pipeline.check_input(prompt, conversation=self.chat)
        if any("error" in said for said in result["details"].values()):
            raise RuntimeError("a guardrail failed")
        said = [line.partition(":")[0] for line in result["reasons"]]
        return Answer(bool(result["blocked"]), bool(result["warnings"]), tuple(said))

    def answered(self, reply: str) -> None:
        """Add the reply, unchecked as at every other guard."""
        self.chat.add_response(reply)


PARTS = {
    "customer_service": partial(Preset, "customer_service"),
    "basic": partial(Preset, "basic"),
    "financial": partial(Preset, "financial", key="OPENAI_API_KEY"),  # the preset with prompt_injection
}

if __name__ == "__main__":
    measure(PARTS)
