"""turnwise itself, as it ships: two presets, one of them without its observer as well, and `turnwise.check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.peers.measuring import Answer, measure

from turnwise import Conversation, GuardrailPipeline, check
from turnwise.guard.config import Config, Entry
from turnwise.observers import build_observer


class Preset:
    """The guard with a preset, in a conversation that it keeps."""

    def __init__(self, name: str, observer: bool = True) -> None:
        config = Config.preset(name)
        if not observer:
            entries = (each for each in config.entries if each.kind != "drift")
            config = replace(config, entries=tuple(without_observer(each) for each in entries))
        self.pipeline = GuardrailPipeline(config)

    def begin(self) -> None:
        """Begin a conversation."""
        self.chat = Conversation.human_ai("user", "model")

    def check(self, prompt: str) -> Answer:
        """Return what the guard says of the next prompt."""
        result = self.pipeline.check_input(prompt, conversation=self.chat)
        if result.failures:
            raise RuntimeError("a guardrail failed")
        said = [line.partition(":")[0] for line in result.reasons]
        return Answer(result.blocked, bool(result.warnings), tuple(said))

    def answered(self, reply: str) -> None:
        """Add the reply, unchecked as at every other guard."""
        self.chat.add_response(reply)


def without_observer(entry: Entry) -> Entry:
    """Return a guardrail of a preset as it is without an observer: prompt_injection by its phrases."""
    if entry.kind != "prompt_injection":
        return entry
    return replace(entry, settings={**entry.settings, "observer": None})


class Local:
    """`turnwise.check` over a whole conversation, with its detectors by default."""

    def __init__(self) -> None:
        self.observer = build_observer("local")

    def read(self, messages: Sequence[Mapping[str, str]]) -> tuple[int | None, tuple[str, ...]]:
        """Return the first turn at which a detector fires, and which detectors fire."""
        report = check(list(messages), observer=self.observer)
        if report.failures:
            raise RuntimeError("a turn was not scored")
        fired = [verdict for verdict in report.verdicts if verdict.fired]
        first = min((verdict.turn for verdict in fired if verdict.turn is not None), default=None)
        return first, tuple(verdict.detector for verdict in fired)


PARTS = {
    "customer_service": partial(Preset, "customer_service"),
    "basic": partial(Preset, "basic"),
    "rules": partial(Preset, "customer_service", observer=False),
    "check": Local,
}

if __name__ == "__main__":
    measure(PARTS)
