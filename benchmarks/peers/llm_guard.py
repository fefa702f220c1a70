"""LLM Guard: what runs without weights (banned substrings, invisible text, secrets), and two with them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import structlog
from benchmarks.peers.measuring import Answer, Guard, MissingError, SingleMessages, measure
from llm_guard import scan_prompt
from llm_guard.input_scanners import BanSubstrings, InvisibleText, PromptInjection, Secrets, Toxicity
from llm_guard.input_scanners.ban_substrings import PROMPT_STOP_SUBSTRINGS
from llm_guard.input_scanners.base import Scanner


def scanning(scanners: list[Scanner]) -> Guard:
    """Return a guard that scans each prompt, as `scan_prompt` is documented: it has no memory of earlier ones."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))

    def look(prompt: str) -> Answer:
        _, valid, _ = scan_prompt(scanners, prompt)
        found = tuple(name for name, fine in valid.items() if not fine)
        return Answer(bool(found), by=found)

    return SingleMessages(look)


def with_weights(make: Callable[[], Scanner], weights: str) -> Guard:
    """Return a guard with one scanner, where its weights are on this machine."""
    try:
        return scanning([make()])
    except OSError as error:
        raise MissingError(f"needs the weights {weights}") from error


PARTS = {
    "without-weights": lambda: scanning([BanSubstrings(PROMPT_STOP_SUBSTRINGS), InvisibleText(), Secrets()]),
    "PromptInjection": lambda: with_weights(PromptInjection, "protectai/deberta-v3-base-prompt-injection-v2"),
    "Toxicity": lambda: with_weights(Toxicity, "unitary/unbiased-toxic-roberta"),
}

if __name__ == "__main__":
    measure(PARTS)
