"""Why, measured: do the words without which F falls overlap those that readers named, and more than random ones?

python benchmarks/why.py --data DATA [--turns 200] [--to-read FILE]
python benchmarks/why.py --data DATA --read FILE

Turns with a reading of F 0.6 or more and a deciding phrase: half of what people wrote (MHJ, at most four of a
conversation), half of our own operations (test split, one of a conversation). Turns of under 12 words are left
out, since a stretch of them would be most of the text. A named span has at most 60 % of the words.

``--to-read`` writes each turn twice, without the named span and without a random one of the same length, shuffled,
for a blind reader; ``--read`` takes the same lines with the reader's ``F`` and tells how often F is lower without
the named span.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnwise.conversation import Turn
from turnwise.observers import build_observer
from turnwise.observers.ablation import explain, without
from turnwise.principles import builtin_principles
from turnwise.rates import Rate

ROOT = Path(__file__).parents[1]
LEAST_F, LEAST_WORDS, DRAWS = 0.6, 12, 50


def main() -> None:
    """Explain the turns and print what the spans overlap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--to-read", type=Path)
    parser.add_argument("--read", type=Path)
    asked = parser.parse_args()
    if asked.read is not None:
        _compare(asked.read)
        return
    to_read: list[dict[str, Any]] = []
    observer, principles = build_observer("local"), {one.name: one for one in builtin_principles()}
    sets = {"people (MHJ)": _people(asked.data), "operations": _operations()}
    for name, (texts, most) in sets.items():
        cases = _cases(texts, most, asked.turns // 2, asked.seed)
        named = hits = with_turn = 0
        chance = 0.0
        for at, (reading, principle) in enumerate(cases):
            print(f"{name}: {at + 1} of {len(cases)}  ", end="\r", file=sys.stderr, flush=True)
            said = texts[reading["sequence_id"]]
            turns = [Turn(number, text) for number, text in enumerate(said, 1)]
            why = explain(observer, turns, reading["turn"], principles[principle])
            with_turn += bool(why.turns)
            if why.words is None:
                continue
            text, phrase = said[reading["turn"] - 1], reading["span"]
            start, end = why.words.start or 0, why.words.end or 0
            named += 1
            hits += _overlap(start, end, phrase)
            draw = random.Random(f"{asked.seed} {reading['sequence_id']} {reading['turn']}")
            places = [draw.randint(0, len(text) - (end - start)) for _ in range(DRAWS)]
            for kind, (first, last) in {
                "named": (start, end),
                "random": _words(text, places[0], end - start),
            }.items():
                left = {"before": said[: reading["turn"] - 1], "text": without(text, first, last)}
                key = {"key": f"{reading['sequence_id']} {reading['turn']} {kind}", "set": name}
                to_read.append({**left, "principle": principle, **key})
            chance += sum(_overlap(one, one + end - start, phrase) for one in places) / DRAWS
        print(f"{name}: {len(cases)} turns, words named in {Rate(named, len(cases))}, turns in {with_turn}")
        if named:
            by_chance = 100 * chance / named
            print(f"  the span overlaps the deciding phrase: {Rate(hits, named)}; a random one {by_chance:.0f} %")
    if asked.to_read is not None:
        random.Random(asked.seed).shuffle(to_read)
        with asked.to_read.open("w", encoding="utf-8") as file:
            for number, one in enumerate(to_read):
                file.write(json.dumps({"item": number, **one}, ensure_ascii=False) + "\n")


def _words(text: str, start: int, length: int) -> tuple[int, int]:
    """A stretch about as long as asked for that begins and ends with words."""
    first = text.rfind(" ", 0, start) + 1
    last = text.find(" ", min(len(text), first + length))
    return first, len(text) if last < 0 else last


def _compare(file: Path) -> None:
    """Print how often a reader's F is lower without the named span than without the random one."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        name, _, kind = one["key"].rpartition(" ")
        found.setdefault(one["set"], {}).setdefault(name, {})[kind] = one["F"]
    for name, cases in found.items():
        pairs = [(one["named"], one["random"]) for one in cases.values() if len(one) == len(("named", "random"))]
        lower, equal = sum(a < b for a, b in pairs), sum(a == b for a, b in pairs)
        means = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        print(
            f"{name}: F is lower without the named span in {Rate(lower, len(pairs))}, equal in {equal};", end=" "
        )
        print("mean F without it {:.3f}, without a random one {:.3f}".format(*means))


def _people(data: Path) -> tuple[dict[str, list[str]], int]:
    lines = (data / "dev" / "mhj.jsonl").read_text(encoding="utf-8").splitlines()
    return dict(map(_said, map(json.loads, lines))), 4


def _operations() -> tuple[dict[str, list[str]], int]:
    splits = json.loads((ROOT / "corpus/operations/splits.json").read_text(encoding="utf-8"))["pairs"]
    found = {}
    for file in sorted((ROOT / "corpus/operations/pairs").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            name, said = _said(json.loads(line))
            if splits[name.rsplit("-", 1)[0]] == "test":
                found[name] = said
    return found, 1


def _said(chat: Mapping[str, Any]) -> tuple[str, list[str]]:
    return chat["id"], [turn["content"] for turn in chat["turns"] if turn["role"] == "user"]


def _cases(texts: Mapping[str, list[str]], most: int, wanted: int, seed: int) -> list[tuple[dict[str, Any], str]]:
    found = [one for one in _readings() if one["sequence_id"] in texts and one.get("span")]
    random.Random(seed).shuffle(found)
    cases, taken = [], Counter[str]()
    for one in found:
        principle, (_, _, F) = max(one["scores"].items(), key=lambda scores: scores[1][2])
        name = one["sequence_id"]
        if F >= LEAST_F and taken[name] < most and len(texts[name][one["turn"] - 1].split()) >= LEAST_WORDS:
            taken[name] += 1
            cases.append((one, principle))
    return cases[:wanted]


def _readings() -> Iterator[dict[str, Any]]:
    with (ROOT / "corpus/judged/history.jsonl").open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _overlap(start: int, end: int, phrase: tuple[int, int]) -> bool:
    return min(end, phrase[1]) > max(start, phrase[0])


if __name__ == "__main__":
    main()
