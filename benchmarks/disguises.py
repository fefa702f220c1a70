"""What is found of disguised values and orders, and of orders in many languages, with the preset basic.

    python benchmarks/disguises.py [FILE ...] [--show] [--without-observer]

A line of a file is ``{"kind": "card" | "key" | "order", "trick", "found", "text"}`` or ``{"language", "found",
"text"}``; ``found`` is false for texts in good faith, which need neither kind nor trick. Without a file it reads
what was tuned on, ``benchmarks/guard_cases/disguises/tuned.jsonl``. A card counts as found where ``pii`` finds a
card, a key where ``secrets`` finds anything, an order where ``prompt_injection`` blocks or warns. Of texts in good
faith it prints how many are blocked, and of how many ``prompt_injection`` tells. Intervals are exact, 95 %.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnwise import GuardrailPipeline
from turnwise.guard.config import Config
from turnwise.rates import Rate

TUNED = Path(__file__).parent / "guard_cases" / "disguises" / "tuned.jsonl"
OBSERVER_OFF: Mapping[str, Mapping[str, Any]] = {"prompt_injection": {"observer": None}}

Row = Mapping[str, Any]


def preset(*, observer: bool) -> GuardrailPipeline:
    """Return the preset basic without what looks at whole conversations, perhaps without its observer."""
    config = Config.preset("basic")
    entries = [
        entry if observer else replace(entry, settings={**entry.settings, **OBSERVER_OFF.get(str(entry.kind), {})})
        for entry in config.entries
        if entry.kind != "drift"
    ]
    return GuardrailPipeline(replace(config, entries=tuple(entries), short_circuit=False))


def answers(pipeline: GuardrailPipeline, row: Row) -> tuple[bool, bool, bool]:
    """Return whether what a row hides is found, whether the text is blocked, and whether injections are told."""
    result = pipeline.check_input(row["text"])
    details = result.details
    told = details["prompt_injection"].found
    found = {
        "card": "card" in (details["pii"].data or {}).get("kinds", {}),
        "key": details["secrets"].found,
    }.get(row.get("kind", ""), told)
    return found, bool(result.blocked), told


def measure(rows: Sequence[Row], *, observer: bool, show: bool) -> None:
    """Print what is found by kind, trick and language, and what becomes of texts in good faith."""
    pipeline = preset(observer=observer)
    print(f"\npreset basic {'with' if observer else 'without'} observer")
    found: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    good: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for row in rows:
        seen, blocked, told = answers(pipeline, row)
        if row["found"]:
            for group in ("kind", "trick", "language"):
                if group in row:
                    found[group][row[group]].append(seen)
        else:
            good[row.get("language", "all others")].append((blocked, told))
        if show and (not seen if row["found"] else blocked or told):
            what = "missed" if row["found"] else "blocked" if blocked else "warned"
            name = row.get("language") or f"{row.get('kind')}, {row.get('trick')}"
            print(f"  {what}: {name}: {row['text'][:160]!r}")
    for group, cases in found.items():
        print(f"found by {group}")
        for name, seen_of in sorted(cases.items()):
            if group != "trick" or not all(seen_of):
                print(f"  {name:34} {_rate(seen_of)}")
        print(f"  {'all':34} {_rate([seen for each in cases.values() for seen in each])}")
    for name, both in sorted(good.items()):
        blocks, warns = ([each[place] for each in both] for place in (0, 1))
        print(f"in good faith, {name:19} blocked {_rate(blocks)}; told as injections {_rate(warns)}")


def _rate(held: Iterable[bool]) -> Rate:
    counted = [*held]
    return Rate(sum(counted), len(counted))


def main() -> None:
    """Measure with and without the observer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[TUNED], metavar="FILE")
    parser.add_argument("--show", action="store_true", help="print each wrong answer")
    parser.add_argument("--without-observer", action="store_true", help="leave out the slower half")
    asked = parser.parse_args()
    lines = [line for path in asked.files for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    rows = [json.loads(line) for line in lines]
    for observer in (False,) if asked.without_observer else (False, True):
        measure(rows, observer=observer, show=asked.show)


if __name__ == "__main__":
    main()
