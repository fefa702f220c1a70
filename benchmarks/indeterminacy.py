"""What T and I of `local` say beside F, on readings that nothing was trained on.

    python benchmarks/indeterminacy.py --data DATA

The test pairs of the corpus and people's jailbreaks (DATA/dev/mhj), by turns that a large language model read
blind.
Prints for each principle the rank correlation of I with the distance of F from the reader's, the share of wrong
decisions (F against the reader's, at .5) among the fifth of the turns with the highest I; both also of F (1 - F),
which needs no I. Then the rank correlation of T with 1 - F, and the AUROC of the reader's flags by F, by -T and by
both together. Intervals: 95 %, bootstrap by conversation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from people_bounds import CORPUS, test_pairs
from people_chats import load
from scipy.stats import rankdata

from turnwise.conversation import Side
from turnwise.datasets import read_judgements
from turnwise.observers import Context, Request, build_observer
from turnwise.observers.session import observe_conversations
from turnwise.principles import builtin_principles

FLAG, LEFT_OUT, REPLICATES = 0.5, 0.2, 1_000
Floats = NDArray[np.float64]


def main() -> None:
    """Score, join the readings and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    asked = parser.parse_args()
    read = {
        (one.sequence_id, one.turn): one.scores for one in read_judgements(CORPUS / "judged" / "history.jsonl")
    }
    chats = [chat for name in ("twins", "human") for chat in test_pairs(name)] + load(asked.data, "mhj", None)
    chats = [chat for chat in chats if any((chat.given.sequence_id, turn.number) in read for turn in chat.turns)]
    principles = builtin_principles()
    wanted = [Request(principle, Side.PROMPT) for principle in principles]
    rows: list[tuple[int, int, Floats, Floats]] = []
    observer = build_observer("local")
    names = [principle.name for principle in principles]
    for start in range(0, len(chats), 16):
        some = chats[start : start + 16]
        given = observe_conversations(observer, [one.turns for one in some], Context.parse("history"), wanted)
        for at, turn, request, scores in zip(
            given.conversation, given.turn, given.request, given.scores, strict=True
        ):
            known = read.get((some[at].given.sequence_id, int(turn)))
            if known is not None:
                score = known[names[request]]
                rows.append((start + int(at), int(request), np.array(scores), np.array([score.F])))
    group, place = (np.array(column) for column in list(zip(*rows, strict=True))[:2])
    own, truth = np.array([row[2] for row in rows]), np.array([row[3][0] for row in rows])
    heads = ("principle", "turns", "rank of I", "rank of F (1 - F)", "wrong in I's fifth", "in that of F (1 - F)")
    heads = (*heads, "T with 1 - F", "AUROC: F; -T; both")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for number, name in enumerate(names):
        of = place == number
        print(f"| {name} | {of.sum()} | {' | '.join(figures(own[of], truth[of], group[of]))} |")


def figures(own: Floats, reader: Floats, group: NDArray[np.int64]) -> list[str]:
    """Return the cells of a principle's row: `own` has T, I and F of each turn, `reader` the reader's F."""
    T, I, F = own.T  # noqa: E741 - the name of indeterminacy
    apart, wrong = np.abs(F - reader), (F >= FLAG) != (reader >= FLAG)
    cells = []
    for figure, against in ((rank, apart), (among, wrong)):
        for doubt in (I, F * (1 - F)):
            cells.append(interval(partial(_at, figure, doubt, against), group))
    areas = "; ".join(f"{area(one, reader >= FLAG):.3f}" for one in (F, -T, F - T))
    return [*cells, f"{rank(T, 1 - F):.3f}", areas]


def _at(figure: Callable[..., float], doubt: Floats, against: Floats, at: NDArray[np.int64]) -> float:
    return figure(doubt[at], against[at])


def rank(first: Floats, second: Floats) -> float:
    """Return Spearman's rank correlation."""
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def among(doubt: Floats, wrong: NDArray[np.bool_]) -> float:
    """Return the share of the wrong decisions among the turns with the most doubt."""
    most = np.argsort(-doubt, kind="stable")[: int(LEFT_OUT * len(doubt))]
    return float(wrong[most].sum() / max(1, wrong.sum()))


def area(score: Floats, flagged: NDArray[np.bool_]) -> float:
    """Return the AUROC."""
    ranks, count = rankdata(score), flagged.sum()
    return float((ranks[flagged].sum() - count * (count + 1) / 2) / (count * (~flagged).sum()))


def interval(figure: Callable[[NDArray[np.int64]], float], group: NDArray[np.int64]) -> str:
    """Return a figure of all turns with its interval, conversations drawn."""
    rng = np.random.default_rng(1)
    members = [np.flatnonzero(group == one) for one in np.unique(group)]
    drawn = [
        figure(np.concatenate([members[one] for one in rng.integers(0, len(members), len(members))]))
        for _ in range(REPLICATES)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{figure(np.arange(len(group))):.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
