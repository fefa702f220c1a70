"""LlamaFirewall: what runs without weights (regular expressions, hidden ASCII), and PromptGuard 2.

AlignmentCheck is left out: it asks a model whether what an agent does still serves the user, a check of
replies and tool calls.
"""

from __future__ import annotations

import logging
import os

from benchmarks.peers.measuring import Answer, Guard, MissingError, measure
from llamafirewall import AssistantMessage, LlamaFirewall, Role, ScanDecision, ScannerType, UserMessage


class Firewall:
    """Scanners of user messages, with the trace that `scan_replay_build_trace` keeps."""

    def __init__(self, *scanners: ScannerType) -> None:
        logging.disable(logging.WARNING)
        self.firewall = LlamaFirewall(scanners={Role.USER: [*scanners]})

    def begin(self) -> None:
        """Begin a conversation."""
        self.trace: list[UserMessage | AssistantMessage] = []

    def check(self, prompt: str) -> Answer:
        """Return what the scanners decide on the next prompt."""
        result, self.trace = self.firewall.scan_replay_build_trace(UserMessage(content=prompt), self.trace)
        blocked = result.decision == ScanDecision.BLOCK
        return Answer(blocked, by=("scanner",) if blocked else ())

    def answered(self, reply: str) -> None:
        """Add the reply to the trace, unscanned as at every other guard."""
        self.trace.append(AssistantMessage(content=reply))


def prompt_guard() -> Guard:
    """Return the scanner that the package uses by default, where its weights are on this machine."""
    home = os.path.expanduser(os.environ.get("HF_HOME", "~/.cache/huggingface"))  # noqa: PTH111  # as the package
    if not os.path.exists(os.path.join(home, "meta-llama--Llama-Prompt-Guard-2-86M")):  # noqa: PTH110, PTH118
        # Without them the package asks for a password on the terminal.
        raise MissingError("needs the weights meta-llama/Llama-Prompt-Guard-2-86M, which are gated")
    return Firewall(ScannerType.PROMPT_GUARD)


PARTS = {
    "without-weights": lambda: Firewall(ScannerType.REGEX, ScannerType.HIDDEN_ASCII),
    "prompt-guard": prompt_guard,
}

if __name__ == "__main__":
    measure(PARTS)
