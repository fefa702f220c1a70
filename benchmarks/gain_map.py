"""Whether the map of gains is right: its intervals against long-run values, and real sets at their places on it.

    python benchmarks/gain_map.py coverage [--conversations 300] [--long 4000] [--jobs 2]
    python benchmarks/gain_map.py sets --data DATA [--cache FOLDER]

``coverage`` simulates each kind of the map once more with many conversations, and counts the intervals that hold
the gain found there, beside the counts within which 95 % of chances would keep it. ``sets`` places the shipped
test pairs, and the sets in DATA/dev that were read blind, on the map by readings and by the scores of `local`. It
prints what the map expects there, and what is measured: recall at 5 % false positives by the highest F and by the
accumulator that the map names, with the 95 % interval of the difference. Harmless conversations of a set are its
own benign halves; people's jailbreaks and generated attacks are held against ordinary English chats.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from people_bounds import CORPUS, POOL, test_pairs
from people_chats import Cache, Chat, load
from second_look import english, read, read_flat

from turnwise.conversation import Label
from turnwise.observers import build_observer
from turnwise.scoring import Score, TurnScores
from turnwise.study import gain_map, kind_of
from turnwise.study.gain_simulation import HIGHEST, SimulatedGain, decided, interval_of_gain, recall_at, simulated

SETS = ("twins", "human", "operations/pairs")
ATTACKS = ("mhj", "safemt_attack600")


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "sets"))
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--long", type=int, default=4_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "turnwise-people")
    asked = parser.parse_args()
    if asked.what == "coverage":
        coverage(asked.conversations, asked.long, asked.jobs, asked.seed)
    elif asked.data is None:
        parser.error("sets needs --data")
    else:
        sets(asked.data, asked.cache)


def coverage(conversations: int, long: int, jobs: int, seed: int) -> None:
    """Count the intervals that hold the long-run gain."""
    found = gain_map(conversations=conversations, seed=seed, jobs=jobs)
    with ProcessPoolExecutor(jobs) as pool:
        values = pool.map(long_run, found.gains, [long] * len(found.gains), chunksize=4)
        held = [one.low <= value <= one.high for one, value in zip(found.gains, values, strict=True)]
    draws = np.random.default_rng(1).binomial(len(held), 0.95, 100_000)
    low, high = np.percentile(draws, [2.5, 97.5])
    shown = [sum(one.shown == what for one in found.gains) for what in ("gain", "loss")]
    print(f"{sum(held)} of {len(held)} intervals hold the long-run gain; 95 % of chances: {low:.0f} to {high:.0f}")
    print(f"a gain is shown for {shown[0]} kinds, a loss for {shown[1]}")


def long_run(gain: SimulatedGain, count: int) -> float:
    """Return the gain on many conversations of a kind."""
    kind, pair = gain.kind, (HIGHEST, gain.best)
    rng = np.random.default_rng([9, round(1000 * kind.noise), kind.turns, round(100 * kind.share)])
    attacks = decided(pair, simulated(kind.noise, kind.turns, kind.bad, count, rng))
    harmless = decided(pair, simulated(kind.noise, kind.turns, None, 2 * count, rng))
    highest, best = (recall_at(attacks[name], harmless[name]) for name in pair)
    return best - highest


def sets(data: Path, folder: Path) -> None:
    """Print the place of each set, what the map expects there, and what is measured."""
    cache = Cache(folder, build_observer("local"))
    readings = read(CORPUS / "judged" / "history.jsonl") | read_flat(data / "judged" / "dev-mhj-history.jsonl")
    pool = [chat for name in POOL for chat in english(load(data, name, None))]
    cache.fill(pool)
    ordinary = [chat for chat in pool if chat.given.sequence_id in readings]
    print(
        "| set | attacks | place: noise, shape, turns, bad turns | accumulator | map expects | measured [95 %] |"
    )
    print("|---|---|---|---|---|---|")
    for name in (*SETS, *ATTACKS):
        chats = test_pairs(name) if name in SETS else load(data, name, None)
        cache.fill(chats)
        attacks = [one for one in chats if one.given.label is Label.ATTACK and one.given.sequence_id in readings]
        own = [one for one in chats if one.given.label is Label.BENIGN and one.given.sequence_id in readings]
        kind = kind_of([pair(one, readings) for one in (*attacks, *(own or ordinary))])
        (expected,) = gain_map(kinds=[kind], conversations=1_000).gains
        decisions = (HIGHEST, expected.best)
        caught, flagged = (decided(decisions, map(trajectory, some)) for some in (attacks, own or pool))
        gained = np.diff([recall_at(caught[one], flagged[one]) for one in decisions])[0]
        both = [(caught[one], flagged[one]) for one in decisions]
        low, high = interval_of_gain(both, np.random.default_rng(1))
        place = f"{kind.noise:.1f}, {kind.shape}, {kind.turns}, {kind.share:.0%}"
        said = f"{100 * gained:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}]"
        print(f"| {name} | {len(attacks)} | {place} | {expected.best} | {100 * expected.gain:+.0f} | {said} |")


def pair(chat: Chat, readings: dict[str, dict[int, float]]) -> tuple[list[float], list[float]]:
    """Return the highest F of the turns that were read, by the reader and by `local`."""
    told = readings[chat.given.sequence_id]
    numbers = [
        turn.number for turn in chat.turns if turn.number in told and f"prompt {turn.number}" in chat.f["history"]
    ]
    return [told[number] for number in numbers], [chat.f["history"][f"prompt {number}"] for number in numbers]


def trajectory(chat: Chat) -> list[TurnScores]:
    """Return the highest F of each prompt as a trajectory."""
    scores = [chat.f["history"].get(f"prompt {turn.number}") for turn in chat.turns]
    return [TurnScores(at, {"F": Score(1 - F, 0.0, F)}) for at, F in enumerate(scores, start=1) if F is not None]


if __name__ == "__main__":
    main()
