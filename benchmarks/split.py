"""Values and orders in parts over several messages. Run with ``python benchmarks/split.py CASES.jsonl ...``.

Each line of a file is a conversation: ``kind``, ``found``, ``completes`` (the message, from 1, that completes what
is to be found) and ``messages`` with ``role`` (user, assistant or tool) and ``content``. All go through the preset
`basic`, without the embedded observer unless ``--observer`` is given. A case counts as found where a message up to
the one that completes it is blocked, redacted or warned of; in the others nothing is to be found. ``--cost`` times
a check at several lengths of a conversation instead, with and without joining.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import PipelineResult
from turnwise.rates import Rate

JOINING = ("secrets", "pii", "prompt_injection")
"""Guardrails that look over turns."""

LENGTHS = (10, 100, 1_000, 2_000)
ORDINARY = (
    "Could you make the second paragraph a little shorter, please?",
    "Thanks, that reads better. What about the title?",
    "We meet at the station at 9:40, so 20 minutes should do.",
    "And add a line on what to bring.",
)
"""What a user says at each length, in turn; a third has digits."""

REPLY = "Of course, here it is."
ROUNDS = 400


def main() -> None:
    """Measure what is found, or what a check costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="cases, JSON Lines")
    parser.add_argument("--observer", action="store_true", help="with the embedded observer")
    parser.add_argument("--off", action="store_true", help="without joining, for comparison")
    parser.add_argument("--missed", action="store_true", help="name the cases that went wrong, by line")
    parser.add_argument("--cost", action="store_true", help="measure times instead")
    given = parser.parse_args()
    if given.cost:
        cost()
        return
    if not given.files:
        parser.error("name a file of cases, or --cost")
    guard = pipeline(observer=given.observer, joining=not given.off)
    for file in given.files:
        print(f"{file.name}, observer {'local' if given.observer else 'none'}")
        report(guard, [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()], given.missed)


def pipeline(*, observer: bool, joining: bool) -> GuardrailPipeline:
    """The preset `basic` as it is measured."""
    settings: dict[str, dict[str, Any]] = {name: {} if joining else {"over_turns": 0} for name in JOINING}
    if not observer:
        settings.setdefault("prompt_injection", {})["observer"] = None
        settings["drift"] = {"enabled": False}
    return GuardrailPipeline.from_preset(
        "basic", overrides={name: each for name, each in settings.items() if each}
    )


def results(
    guard: GuardrailPipeline, messages: Iterable[Mapping[str, str]], user: str = "user"
) -> list[PipelineResult]:
    """The result of each message of a conversation; what `user` does adds up over those with that name."""
    chat = Conversation.human_ai(user, "model")
    checks: dict[str, Callable[..., PipelineResult]] = {
        "user": guard.check_input,
        "assistant": guard.check_output,
        "tool": guard.check_tool_result,
    }
    said = [checks[one["role"]](one["content"], conversation=chat) for one in messages]
    failures = [failure for one in said for failure in one.failures]
    if failures:
        raise SystemExit(f"a guardrail failed: {failures[0]}")
    return said


def report(guard: GuardrailPipeline, cases: list[dict[str, Any]], missed: bool) -> None:
    """Print what is found by kind, and what is said of conversations without anything to find."""
    found: dict[str, list[bool]] = defaultdict(list)
    blocked: list[bool] = []
    warned: list[bool] = []
    for line, case in enumerate(cases, 1):
        said = results(guard, case["messages"], f"user {line}")
        if case["found"]:
            hit = any(one.blocked or one.warnings for one in said[: case["completes"]])
            found[case["kind"]].append(hit)
        else:
            blocked.append(any(one.blocked for one in said))
            warned.append(any(one.warnings for one in said))
        if missed and not (hit if case["found"] else not (blocked[-1] or warned[-1])):
            why = [reason for one in said for reason in (*one.reasons, *one.warnings)]
            print(f"  line {line} ({case['kind']}): {'; '.join(why) or 'nothing found'}")
    for kind, hits in sorted(found.items()):
        print(f"  {kind:20} found {Rate(sum(hits), len(hits))}")
    every = [hit for hits in found.values() for hit in hits]
    if every:
        print(f"  {'all':20} found {Rate(sum(every), len(every))}")
    if blocked:
        print(
            f"  {'benign':20} blocked {Rate(sum(blocked), len(blocked))}; warned {Rate(sum(warned), len(warned))}"
        )


def cost() -> None:
    """Print processor time of a check at several lengths, with joining on and off, taken in turns."""
    guards = {name: pipeline(observer=False, joining=name == "on") for name in ("on", "off")}
    print("median processor time of check_input, in microseconds: joining on, off")
    for length in LENGTHS:
        chats = {name: Conversation.human_ai("user", "model") for name in guards}
        for chat in chats.values():
            for number in range(length):
                chat.add_prompt(ORDINARY[number % len(ORDINARY)])
                chat.add_response(REPLY)
        times: dict[str, list[float]] = {name: [] for name in guards}
        for number in range(ROUNDS):
            for name, guard in guards.items():
                start = time.process_time_ns()
                guard.check_input(ORDINARY[number % len(ORDINARY)], conversation=chats[name])
                times[name].append((time.process_time_ns() - start) / 1_000)
                chats[name].add_response(REPLY)
        on, off = (statistics.median(times[name]) for name in ("on", "off"))
        print(f"  {length:5} turns: {on:7.0f} {off:7.0f}")


if __name__ == "__main__":
    main()
