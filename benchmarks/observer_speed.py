"""How fast the embedded observer is on one core, and what memory it takes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from observer_rows import Row, at_least, at_most

from turnwise.conversation import Side, Turn
from turnwise.observers import Context, Request
from turnwise.observers.local.observer import LocalObserver
from turnwise.observers.local.weights import load_weights, shipped
from turnwise.principles import builtin_principles

SHORT, LONG = 40, 400
"""Tokens of a turn."""

EARLY, LATE = 10, 1_000
"""Turn from which the cost is compared with the cost from a later one; as many turns are timed from each."""

TIMED = 100
CHATS, TURNS = 20, 10

_MEMORY = """
import json, resource, sys
import turnwise, numpy
from turnwise.conversation import Side, Turn
from turnwise.observers import Context, Request
from turnwise.principles import builtin_principles
def now():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
bare = now()
from turnwise.observers.local.observer import LocalObserver
observer = LocalObserver(sys.argv[1] or None)
wanted = [Request(one, Side.PROMPT) for one in builtin_principles()]
text = "Could you tell me how old bridges were built, and who paid for the stone that they are made of? " * 2
def talk(name, turns):
    state = observer.start(name, Context.parse("history"))
    for number in range(1, turns + 1):
        observer.observe(state, Turn(number, text), wanted)
    return len(state.to_bytes())
parked = talk("one", 60)
one = now() - bare
for number in range(12):
    talk(f"more {number}", 24)
print(json.dumps({"one": one, "many": now() - bare, "parked": parked}))
"""


def speed(weights: str | None, texts: Sequence[str]) -> list[Row]:
    """Return the rows of speed and memory.

    Args:
        weights: folder of weights; None for those that ship.
        texts: texts of any length, to make turns of.
    """
    folder = Path(weights) if weights else shipped("local")
    observer = LocalObserver(weights)
    tokenizer = load_weights(folder).tokenizer

    def of_length(tokens: int) -> list[str]:
        ids = tokenizer.encode(" ".join(texts), add_special_tokens=False).ids
        cuts = range(0, min(len(ids) - tokens, 300 * tokens), tokens)
        return [tokenizer.decode(ids[start : start + tokens]) for start in cuts]

    wanted = [Request(principle, Side.PROMPT) for principle in builtin_principles()]
    state = observer.start("speed", Context.parse("history"))
    number = 0

    def timed(turns: Sequence[str], count: int) -> tuple[list[float], list[float]]:
        """Return milliseconds of turns that the window did not move at, and of those that it did."""
        nonlocal number
        plain, moved = [], []
        for place in range(count):
            number += 1
            before = after()
            start = time.perf_counter()
            observer.observe(state, Turn(number, turns[place % len(turns)]), wanted)
            took = 1_000 * (time.perf_counter() - start)
            (moved if after() < before else plain).append(took)
        return plain, moved

    def after() -> int:
        """Return how many bytes are remembered; fewer than before once the window has moved."""
        return len(state.to_bytes())

    short, long = of_length(SHORT), of_length(LONG)
    timed(short, EARLY)
    early, moved = timed(short, TIMED)
    for _ in range(EARLY + TIMED, LATE):
        number += 1
        observer.observe(state, Turn(number, short[number % len(short)]), ())
    timed(short, 1)
    late, moved_late = timed(short, TIMED)
    whole, _ = timed(long, 20)
    state = observer.start("cold", Context.parse("history"))
    cold = []
    for attempt in range(5):
        fresh = LocalObserver(weights, cache_bytes=0)
        parked = fresh.start(f"cold {attempt}", Context.parse("history"))
        # 18 turns and the one that is timed fill the window as far as it goes.
        for turn in range(1, 19):
            fresh.observe(parked, Turn(turn, short[turn + 20 * attempt]), ())
        start = time.perf_counter()
        fresh.observe(parked, Turn(19, short[0]), wanted)
        cold.append(1_000 * (time.perf_counter() - start))
    start = time.perf_counter()
    for chat in range(CHATS):
        talk = observer.start(f"batch {chat}", Context.parse("history"))
        for turn in range(1, TURNS + 1):
            observer.observe(talk, Turn(turn, short[(7 * chat + turn) % len(short)]), wanted)
    per_second = CHATS * TURNS / (time.perf_counter() - start)
    code = [sys.executable, "-c", _MEMORY, weights or ""]
    memory = json.loads(subprocess.run(code, capture_output=True, text=True, check=True).stdout)
    percentile = sorted(early)[int(0.99 * len(early))]
    rebuilt = sorted([*moved, *moved_late, *cold])
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return [
        Row("weights, MB", size, None, at_most(80), None),
        Row("40 tokens: median ms", statistics.median(early), None, at_most(50), "10"),
        Row("40 tokens: 99th percentile ms", percentile, None, at_most(130), "30"),
        Row("400 tokens: median ms", statistics.median(whole), None, at_most(450), "80"),
        Row("window moved or cache gone: highest ms", rebuilt[-1], None, at_most(1_200), None),
        Row("4,000 tokens at once: highest ms", longest(observer, long), None, None, None),
        Row("turns a second, one core", per_second, None, at_least(20), "200"),
        Row(
            "after turn 1,000 by turn 10",
            statistics.median(late) / statistics.median(early),
            None,
            at_most(1.2),
            "1.05",
        ),
        Row("memory above bare turnwise, one conversation, MB", memory["one"], None, at_most(300), "150"),
        Row("  with caches of 13 conversations, MB", memory["many"], None, None, None),
        Row("parked state, bytes", memory["parked"], None, at_most(2_048), "1,024"),
    ]


def longest(observer: LocalObserver, texts: Sequence[str]) -> float:
    """Return milliseconds of the slowest of three texts of 4,000 tokens, each the first of its conversation."""
    wanted = [Request(principle, Side.PROMPT) for principle in builtin_principles()]
    count, found = 4_000 // LONG, []
    for place in range(3):
        state = observer.start(f"longest {place}", Context.parse("history"))
        start = time.perf_counter()
        observer.observe(state, Turn(1, " ".join(texts[count * place : count * (place + 1)])), wanted)
        found.append(1_000 * (time.perf_counter() - start))
    return max(found)
