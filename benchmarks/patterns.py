"""What a pattern costs live: time a turn early and late, size of the state, time to read a text.

Run with ``python benchmarks/patterns.py``. Prints what was measured beside what is required: a pattern of five
functions costs at most 10 us a turn, at turn 10,000 as at turn 10, its state is at most 1 KB of JSON, and no text
takes the parser longer than 0.1 s. The time of a turn is the best of many repeats, the parser's that of the worst
of many texts, itself the better of two.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import string
import time

from turnwise.errors import PatternError
from turnwise.patterns import Evaluator, default_library, parse, parse_expression
from turnwise.scoring import Score, TurnScores

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
FIVE_FUNCTIONS = {
    "five functions": (
        "slope(reciprocity.F) > 0.1 and streak(reciprocity.I > 0.6) >= 3 or cusum(reciprocity.F, drift=0.05) > 0.2"
        " or mean(context_integrity.F) > 0.4 and volatility(third_party_harm.F) > 0.2"
    ),
    "five slopes": " or ".join(
        f"slope({series}) > 0.1"
        for series in ("F", "I", "reciprocity.F", "context_integrity.F", "third_party_harm.F")
    ),
    "five windows of 5": " or ".join(
        f"slope({series}, window=5) > 0.1"
        for series in (
            "reciprocity.F",
            "reciprocity.I",
            "reciprocity.T",
            "context_integrity.F",
            "third_party_harm.F",
        )
    ),
    "five over conditions": (
        "any(F > 0.9) or all(T < 0.2) or share(I > 0.5) > 0.5 or count(F > 0.5) > 5 or turns_since(F > 0.8) > 3"
    ),
}
REQUIRED_US, REQUIRED_BYTES, REQUIRED_S = 10.0, 1024, 0.1
BLOCK, REPEATS = 100, 300


def turn_scores(turn: int) -> TurnScores:
    """Return scores of three principles that vary from turn to turn."""
    scores = {
        name: Score(0.5, turn % 7 / 7, (turn * (index + 3)) % 11 / 20) for index, name in enumerate(PRINCIPLES)
    }
    return TurnScores(turn, scores, length=300)


def live(text: str, turn: int) -> tuple[float, int]:
    """Return microseconds of a turn and bytes of the state after it."""
    evaluator = Evaluator(parse(text))
    before = evaluator.start()
    for earlier in range(1, turn):
        evaluator.update(before, turn_scores(earlier))
    scores, best = turn_scores(turn), float("inf")
    states = [before]
    for _ in range(REPEATS):
        states = [copy.deepcopy(before) for _ in range(BLOCK)]
        began = time.perf_counter()
        for state in states:
            evaluator.update(state, scores)
        best = min(best, time.perf_counter() - began)
    return best / BLOCK * 1e6, len(json.dumps(states[0], separators=(",", ":")))


def hard_texts(chance: random.Random, number: int) -> list[str]:
    """Return texts that are meant to be slow: random, long, deep, repeated, and valid ones with changes."""
    words = [
        *(
            "and",
            "or",
            "not",
            "(",
            ")",
            ",",
            ".",
            "=",
            "==",
            "<",
            ">=",
            "+",
            "-",
            "*",
            "/",
            "0.5",
            "3",
            "F",
            "T",
            "I",
        ),
        *("trust", "turn", "response", "k_of", "slope", "streak", "any", "at", "x", *default_library().names()),
    ]
    texts = [
        *(
            word * 2_000
            for word in ("(", "not ", "-", "peak(", "F.", '"', "1", "F", "F + ", "F > 1 and ", "k_of(1, ")
        ),
        *(
            "F" * 10_000,
            "1" * 10_000,
            '"' + "\\\\" * 4_990 + '"',
            " " * 10_000,
            "peek" * 2_400 + "(F)",
            "é" * 10_000,
        ),
        *(" or ".join(["escalation_then_probe"] * 400), " and ".join(["F > 1"] * 330), "(" * 59 + "F" + ")" * 59),
        *("k_of(1, " + ", ".join(["gradual_drift"] * 600) + ")", "gradual_drift(x=" * 50 + "F" + ")" * 50),
        " or ".join(f"slow_boil(total={k})" for k in range(450)),
    ]
    for _ in range(number):
        size = chance.choice([20, 200, 1_500])
        texts.append(" ".join(chance.choices(words, k=size)))
        texts.append("".join(chance.choices(string.printable, k=size)))
        text = list(
            chance.choice(list(FIVE_FUNCTIONS.values())) + " or " + chance.choice(default_library().names())
        )
        for _ in range(chance.randint(1, 5)):
            text[chance.randrange(len(text))] = chance.choice(words)
        texts.append("".join(text))
    return texts


def slowest_parse(number: int, seed: int) -> tuple[float, str, int]:
    """Return the longest time that a text took, its beginning, and how many texts there were."""
    texts = hard_texts(random.Random(seed), number)
    slowest, which = 0.0, ""
    for text in texts:
        took = min(_parsing(text), _parsing(text))
        if took > slowest:
            slowest, which = took, text[:40]
    return slowest, which, len(texts)


def _parsing(text: str) -> float:
    began = time.perf_counter()
    try:
        parse_expression(text)
    except PatternError as error:
        str(error)
    return time.perf_counter() - began


def verdict(value: float, required: float) -> str:
    """Return a measured value beside what is required."""
    return f"{value:10.3f}   at most {required:g}   {'ok' if value <= required else 'MISSED'}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", type=int, default=3_000, help="random texts of each kind for the parser")
    parser.add_argument("--seed", type=int, default=6)
    options = parser.parse_args()
    for name, text in FIVE_FUNCTIONS.items():
        for turn in (10, 10_000):
            microseconds, size = live(text, turn)
            print(f"{name:22} turn {turn:6,}  us a turn {verdict(microseconds, REQUIRED_US)}")
            print(f"{'':22} {'':11}  bytes     {verdict(size, REQUIRED_BYTES)}")
    slowest, which, number = slowest_parse(options.texts, options.seed)
    print(f"slowest of {number:,} texts to parse, s       {verdict(slowest, REQUIRED_S)}   {which!r}")


if __name__ == "__main__":
    main()
