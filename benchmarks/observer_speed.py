"""How fast the local observer is, in one thread: a turn at a time, and in batches."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnwise.conversation import Side, Turn
from turnwise.observers.context import Context
from turnwise.observers.local import LocalObserver
from turnwise.observers.local.network import Network
from turnwise.observers.local.weights import PRINCIPLES, TOKENIZER_FILE, WEIGHTS_FILE, load_weights
from turnwise.observers.protocol import Observation, Request, Scene
from turnwise.principles import Principle

WANTED = tuple(Request(Principle(name, "1", "", "", "", "", ""), Side.PROMPT) for name in PRINCIPLES)
TOKENS = 40
CONVERSATIONS, TURNS = 500, 10


def speed(observer: LocalObserver, texts: Sequence[str], folder: Path) -> dict[str, float]:
    """Return milliseconds a turn, turns a second in batches, and seconds to load.

    Args:
        observer: the observer.
        texts: turns to make turns of `TOKENS` tokens of.
        folder: its weights folder.
    """
    turns = _of_length(Network(load_weights(folder)), texts)
    context = Context.parse("history")
    state = observer.start(Scene("benchmark"), context)

    def timed(number: int) -> float:
        turn = Turn(number, turns[number % len(turns)])
        start = time.perf_counter()
        observer.observe(state, turn, WANTED)
        return 1_000 * (time.perf_counter() - start)

    for number in range(1, 51):
        timed(number)
    early = sorted(timed(number) for number in range(51, 1_001))
    late = sorted(timed(number) for number in range(1_001, 2_001))
    chats = [[turns[(7 * row + turn) % len(turns)] for turn in range(TURNS)] for row in range(CONVERSATIONS)]
    observer.score_many(chats[:20], context)
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        batch = observer.score_many(chats, context)
        rates.append(CONVERSATIONS * TURNS / (time.perf_counter() - start))
    start = time.perf_counter()
    LocalObserver(str(folder))
    load = time.perf_counter() - start
    return {
        "median_ms": early[len(early) // 2],
        "p99_ms": early[int(0.99 * len(early))],
        "late_median_ms": late[len(late) // 2],
        "turns_per_second": sorted(rates)[len(rates) // 2],
        "largest_difference": _difference(observer, chats[:40], batch[:40], context),
        "load_s": load,
        "megabytes": sum((folder / name).stat().st_size for name in (WEIGHTS_FILE, TOKENIZER_FILE)) / 1e6,
        "tokens_per_turn": TOKENS,
        "threads": float(os.environ.get("OPENBLAS_NUM_THREADS", "0")),
    }


def _of_length(network: Network, texts: Sequence[str]) -> list[str]:
    """Return turns of about `TOKENS` tokens: the start of texts that are long enough, cut at a word."""
    found = []
    for text in texts:
        words = (text + " " + text).split()
        while words and network.count_tokens(" ".join(words)) > TOKENS:
            words.pop()
        if network.count_tokens(" ".join(words)) >= TOKENS - 2:
            found.append(" ".join(words))
    return found


def _difference(
    observer: LocalObserver, chats: Sequence[Sequence[str]], batch: Sequence[np.ndarray], context: Context
) -> float:
    worst = 0.0
    for texts, values in zip(chats, batch, strict=True):
        state = observer.start(Scene("benchmark"), context)
        for number, text in enumerate(texts, start=1):
            answers = observer.observe(state, Turn(number, text), WANTED)
            scores = [answer.score for answer in answers if isinstance(answer, Observation)]
            single = np.array([(score.T, score.I, score.F) for score in scores]).T
            worst = max(worst, float(np.abs(single - values[number - 1]).max()))
    return worst
