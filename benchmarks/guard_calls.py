"""How many function calls a check takes: a count of Python-level calls, by part of turnwise.

Calls of built-in functions are counted apart. What an observer does is left out.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import turnwise
from turnwise import Conversation, GuardrailPipeline

ROOT = str(Path(turnwise.__file__).parent)
GUARD = "guard"
OF_OTHERS = ("guardrails", "recognisers", "observing.py", "scorer_state.py")
"""Parts of the guard that are counted by themselves."""
OWN = ("observe", "start", "__deepcopy__")
"""What observers do themselves: their calls are not counted."""
TURNS = 6
"""Turns of the conversation before the check."""


@dataclass
class Calls:
    """What a check called.

    Args:
        python: calls of Python functions by part: a package of turnwise, or ``other`` for what is no part of it.
        files: files that they are in.
        built_in: calls of built-in functions.
    """

    python: Counter[str] = field(default_factory=Counter)
    files: set[str] = field(default_factory=set)
    built_in: int = 0

    @property
    def total(self) -> int:
        """Calls of Python functions together."""
        return self.python.total()


def calls_of_a_check(preset: str) -> Calls:
    """Return the calls of one `check_input` with a plain prompt, in a conversation of some turns."""
    pipeline, chat = GuardrailPipeline.from_preset(preset), Conversation.human_ai("ann", "some-model")
    for number in range(TURNS):
        pipeline.check_input(f"Where is my order number {number}, please?", conversation=chat)
        pipeline.check_output(f"It is on its way, day {number}.", conversation=chat)
    calls, inside = Calls(), 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal inside
        file = frame.f_code.co_filename
        if event == "call":
            if inside or (file.startswith(f"{ROOT}/observers") and frame.f_code.co_name in OWN):
                inside += 1
                return
            calls.python[_part(file)] += 1
            calls.files.add(file)
        elif event == "return" and inside:
            inside -= 1
        elif event == "c_call" and not inside:
            calls.built_in += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        pipeline.check_input("Could you tell me when my parcel will arrive?", conversation=chat)
    finally:
        sys.setprofile(before)
    calls.built_in -= 1  # the call that ends the counting
    return calls


def _part(file: str) -> str:
    if not file.startswith(ROOT):
        return "other"
    parts = file[len(ROOT) + 1 :].split("/")
    return f"{GUARD}/{parts[1]}" if parts[0] == GUARD and parts[1] in OF_OTHERS else parts[0]


def main() -> None:
    """Print the calls of a check by preset, and where they are."""
    for preset in ("basic", "customer_service", "agent"):
        calls = calls_of_a_check(preset)
        parts = ", ".join(f"{part} {count}" for part, count in calls.python.most_common())
        print(f"{preset}: {calls.total} calls in {len(calls.files)} files, {calls.built_in} of built-in functions")
        print(f"  {parts}")


if __name__ == "__main__":
    main()
