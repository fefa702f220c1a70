"""Choose what is read next: conversations of training sources in which the embedded observer is weakest.

    python corpus/judging/weakest.py --data PATH_TO_DATA --out FOLDER [--turns 3000]

Scores ordinary conversations of `train/` with `local` and writes FOLDER/weakest.jsonl, the conversations to deal
to readers, none that was read before: a third by the highest alarm, the rest in equal parts by long messages, by
turns from the fifth on, and by language. What was scored is kept in FOLDER: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.datasets import read_judgements
from turnwise.observers import Context, Request, build_observer, observe_conversations
from turnwise.principles import load_principle, principle_names

JUDGED = Path(__file__).parents[1] / "judged"
SOURCES = {
    "wildchat_real_users": 262, "arena_real_users": 200, "dices_990": 150, "multidogo_customers": 100,
    "casino_negotiations": 40, "crosswoz_zh": 40,
}  # fmt: skip
"""How many conversations of each source are scored, drawn with a fixed seed."""

SINGLE = {"multijail": 150, "wildchat_ru": 100, "search_arena": 150}
"""How many single prompts of each source are read beside them, in other languages most of them."""

LONG, LATE, MOST_TURNS = 1_500, 5, 30
"""Characters of a long message, the turn from which turns are late, and user turns of a conversation at most."""

Chat = dict[str, Any]


def main() -> None:
    """Score, choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3_000)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    read = {one.sequence_id for one in read_judgements(JUDGED / "history.jsonl")}
    chats = [one for one in drawn(arguments.data / "train") if one["id"] not in read]
    alarms = scored(chats, arguments.out / "alarms.jsonl")
    chosen: dict[str, Chat] = {}
    ranks: list[tuple[float, Callable[[Chat], float]]] = [
        (1 / 3, lambda one: alarms[one["id"]]),
        (2 / 9, lambda one: max(len(text) for text in prompts(one)) >= LONG),
        (2 / 9, lambda one: max(0, len(prompts(one)) - LATE + 1)),
        (2 / 9, foreign),
    ]
    for share, rank in ranks:
        taken = 0
        for one in sorted(chats, key=rank, reverse=True):
            if taken >= share * arguments.turns or not rank(one):
                break
            if one["id"] not in chosen:
                chosen[one["id"]] = one
                taken += len(prompts(one))
    for one in singles(arguments.data / "single" / "train"):
        if one["id"] not in read:
            chosen[one["id"]] = one
    with (arguments.out / "weakest.jsonl").open("w", encoding="utf-8") as out:
        for one in chosen.values():
            out.write(json.dumps(one, ensure_ascii=False) + "\n")
    turns = sum(len(prompts(one)) for one in chosen.values())
    print(f"{len(chosen)} conversations, {turns} user turns: {arguments.out / 'weakest.jsonl'}")


def drawn(folder: Path) -> Iterator[Chat]:
    """Yield some conversations of each source, in a random order that is always the same."""
    for source, count in SOURCES.items():
        with (folder / f"{source}.jsonl").open(encoding="utf-8") as lines:
            chats = [one for one in map(json.loads, lines) if 0 < len(prompts(one)) <= MOST_TURNS]
        random.Random(source).shuffle(chats)
        yield from chats[:count]


def singles(folder: Path) -> Iterator[Chat]:
    """Yield some single prompts of each source as conversations of one turn."""
    for source, count in SINGLE.items():
        with (folder / f"{source}.jsonl").open(encoding="utf-8") as lines:
            found = list(map(json.loads, lines))
        for one in random.Random(source).sample(found, min(count, len(found))):
            yield {**one, "turns": [{"role": "user", "content": one["text"]}]}


def prompts(chat: Chat) -> list[str]:
    """Return what the user says in a conversation."""
    return [turn["content"] for turn in chat["turns"] if turn["role"] == "user"]


def foreign(chat: Chat) -> float:
    """Return the share of letters outside ASCII in what the user says, where it is another script or language."""
    text = "".join(prompts(chat))
    share = sum(not sign.isascii() and sign.isalpha() for sign in text) / max(1, len(text))
    return share if share >= 0.01 else 0.0


def scored(chats: list[Chat], kept: Path) -> dict[str, float]:
    """Return the highest F of each conversation by `local`, prompts alone, and keep it."""
    alarms: dict[str, float] = {}
    if kept.exists():
        alarms = dict(map(json.loads, kept.read_text(encoding="utf-8").splitlines()))
    observer, context = build_observer("local"), Context.parse("history")
    wanted = [Request(load_principle(name), Side.PROMPT) for name in principle_names()]
    left = [one for one in chats if one["id"] not in alarms]
    with kept.open("a", encoding="utf-8") as out:
        for start in range(0, len(left), 20):
            some = left[start : start + 20]
            turns = [[Turn(n, text) for n, text in enumerate(prompts(one), start=1)] for one in some]
            observed = observe_conversations(observer, turns, context, wanted)
            for place, one in enumerate(some):
                peaks = observed.scores[observed.conversation == place, 2]
                alarms[one["id"]] = alarm = float(peaks.max(initial=0.0))
                out.write(json.dumps([one["id"], alarm]) + "\n")
            out.flush()
    return alarms


if __name__ == "__main__":
    main()
