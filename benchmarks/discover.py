"""How long the search for patterns takes, how much memory, and what it does on shuffled labels.

Run with ``python benchmarks/discover.py``: 2,500 made-up conversations of 6 turns and 3 principles with a planted
pattern. With ``--data STORE`` (and ``--run NAME``) it searches a run of a store. ``--shuffles N`` searches
N times more with the labels dealt out anew among the groups, where every finding is a false one.

Shows: SC-006.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import resource
import sys
import time

from turnwise.scoring import Score, TurnScores
from turnwise.study import Example, load_examples
from turnwise.study.discovery import Discovery, discover

CONVERSATIONS, ATTACKS, TURNS = 2_500, 800, 6
PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
MOST_SECONDS, MOST_BYTES = 60.0, 1_000_000_000


def made_up(seed: int = 11) -> list[Example]:
    """Return conversations of noise; in attacks doubt lasts two turns, then F jumps while T stays high."""
    generator = random.Random(seed)
    examples = []
    for number in range(CONVERSATIONS):
        attack = number < ATTACKS
        at = generator.randint(3, TURNS)
        # Every benign conversation lacks one of the three.
        parts = [attack or number % 3 != part for part in range(3)]
        turns = []
        for turn in range(1, TURNS + 1):
            scores = {name: _noise(generator) for name in PRINCIPLES}
            doubt = parts[0] and at - 2 <= turn < at
            scores["reciprocity"] = Score(
                T=generator.uniform(0.1, 0.3) if turn == at and not parts[2] else generator.uniform(0.7, 0.9),
                I=generator.uniform(0.6, 0.9) if doubt else generator.uniform(0.1, 0.4),
                F=generator.uniform(0.5, 0.8) if turn == at and parts[1] else generator.uniform(0.0, 0.25),
            )
            turns.append(TurnScores(turn, scores, generator.randint(20, 900)))
        name = f"{'attack' if attack else 'benign'} {number}"
        examples.append(Example(name, f"group {number // 3}" if attack else name, attack, tuple(turns)))
    return examples


def _noise(generator: random.Random) -> Score:
    return Score(generator.betavariate(5, 2), generator.betavariate(2, 5), generator.betavariate(1, 5))


def stored(path: str, run: str | None) -> list[Example]:
    """Return the labelled conversations of a run."""
    from turnwise.store import Store

    with Store(path) as store:
        return list(load_examples(store, run or store.runs()[0].name).examples)


def shuffled(examples: list[Example], seed: int) -> list[Example]:
    """Return the examples with the labels dealt out anew among the groups."""
    attacked = {example.group: example.attack for example in examples}
    labels = list(attacked.values())
    random.Random(seed).shuffle(labels)
    dealt = dict(zip(attacked, labels, strict=True))
    return [dataclasses.replace(example, attack=dealt[example.group]) for example in examples]


def show(found: Discovery) -> None:
    """Print what was tested."""
    for tested in found.patterns:
        verdict = "found" if tested.found else "not confirmed"
        print(f"  {verdict}: {tested.expression}")
        print(f"    attacks {tested.held_out.attacks}, benign {tested.held_out.benign}, p {tested.p_holm:.2g}")


def main() -> None:
    """Print the figures; exit with 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a store whose run is searched")
    parser.add_argument("--run", help="the run; the first by default")
    parser.add_argument("--shuffles", type=int, default=0)
    asked = parser.parse_args()
    examples = stored(asked.data, asked.run) if asked.data else made_up()
    began, busy = time.perf_counter(), time.process_time()
    found = discover(examples, tell=lambda line: print(line, file=sys.stderr))
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    show(found)
    print(
        f"{len(examples)} conversations: {seconds:.1f} s, {busy:.1f} s of one core; required {MOST_SECONDS:.0f} s"
    )
    print(f"peak memory {memory / 1e6:.0f} MB; required {MOST_BYTES / 1e6:.0f} MB")
    missed = busy > MOST_SECONDS or memory > MOST_BYTES or not found.found
    if asked.shuffles:
        wrong = sum(bool(discover(shuffled(examples, seed), seed=seed).found) for seed in range(asked.shuffles))
        print(f"shuffled labels: a finding in {wrong} of {asked.shuffles}; required at most 1 of 20")
        missed |= wrong > max(1, asked.shuffles // 20)
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
