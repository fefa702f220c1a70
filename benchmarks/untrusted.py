"""What the presets agent and mcp make of texts that tools, documents and memory give an agent.

    python benchmarks/untrusted.py FILE... [--presets agent mcp] [--observers none local] [--show]

A file has a case a line: ``source`` (tool_result, tool_description, document, memory), ``tool``, ``task`` (what
the user asked), ``content``, ``schema``, ``found`` (whether it is poisoned), ``note`` (of what kind). With the
preset agent the task is said first, with mcp there is no chat. It prints, with exact 95 % intervals, how many of
the poisoned were warned of or blocked, by source and by note, and how many of the ordinary ones were blocked, and
warned of. With ``--show`` it prints every wrong answer.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import PipelineResult
from turnwise.rates import Rate

PRESETS = ("agent", "mcp")
OBSERVERS = ("none", "local")


def read_cases(path: str | Path) -> list[dict[str, Any]]:
    """The cases of a file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def pipeline_of(preset: str, observer: str) -> GuardrailPipeline:
    """A preset, with the embedded observer or with words alone."""
    alone = {"sources": {"observer": None}, "prompt_injection": {"observer": None}}
    pipeline = GuardrailPipeline.from_preset(preset, overrides=alone if observer == "none" else None)
    for name in {"drift", "harm"} & {step.name for step in pipeline.steps}:
        pipeline.disable(name)  # they judge what people say
    return pipeline


def checked(pipeline: GuardrailPipeline, case: Mapping[str, Any], *, chat: bool) -> PipelineResult:
    """The check of a case, in a conversation of its own."""
    conversation = Conversation()
    if chat:
        pipeline.check_input(case["task"], conversation=conversation)
    source, text, tool = case["source"], case["content"], case["tool"]
    if source == "tool_description":
        return pipeline.check_tool_description(tool, text, case["schema"], conversation=conversation)
    if source == "tool_result":
        return pipeline.check_tool_result(text, name=tool, conversation=conversation)
    return pipeline.check_context(text, source, name=tool, conversation=conversation)


def measure(cases: Sequence[Mapping[str, Any]], preset: str, observer: str) -> list[tuple[bool, bool]]:
    """Whether each case was blocked, and whether it was blocked or warned of."""
    with pipeline_of(preset, observer) as pipeline:
        results = [checked(pipeline, case, chat=preset == "agent") for case in cases]
    return [(result.blocked, result.blocked or bool(result.warnings)) for result in results]


def _lines(cases: Sequence[Mapping[str, Any]], told: Sequence[tuple[bool, bool]]) -> Iterable[str]:
    some = defaultdict(list)
    for case, (blocked, noticed) in zip(cases, told, strict=True):
        if case["found"]:
            for group in ("all", case["source"], f"  {case['note']}"):
                some["poisoned, warned of or blocked", group].append(noticed)
            some["poisoned, blocked", "all"].append(blocked)
        else:
            some["ordinary, blocked", "all"].append(blocked)
            some["ordinary, warned of", "all"].append(noticed and not blocked)
    for (what, group), values in sorted(some.items(), key=lambda one: (one[0][0], one[0][1] != "all", one[0][1])):
        yield f"{what:<32} {group:<44} {Rate(sum(values), len(values))}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--observers", nargs="+", choices=OBSERVERS, default=OBSERVERS)
    parser.add_argument("--show", action="store_true", help="print every wrong answer")
    options = parser.parse_args()
    cases = [case for file in options.files for case in read_cases(file)]
    for preset in options.presets:
        for observer in options.observers:
            told = measure(cases, preset, observer)
            print(f"\n{preset}, observer {observer}, {len(cases)} cases")
            print("\n".join(_lines(cases, told)))
            for case, (blocked, noticed) in zip(cases, told, strict=True):
                if options.show and (not noticed if case["found"] else noticed):
                    wrong = "missed" if case["found"] else "blocked" if blocked else "warned"
                    print(f"{wrong} {case['id']} [{case['source']}, {case['note']}] {case['content']!r}")


if __name__ == "__main__":
    main()
