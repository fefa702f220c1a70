"""The few patterns that are worth a test, out of all that a search found."""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.study.discovery.conditions import Members, Pool
from turnwise.study.discovery.search import Goal


def choose(pool: Pool, found: Sequence[Members], goal: Goal, *, margin: int, most: int) -> list[Members]:
    """Return the patterns worth testing, best first.

    Each reaches the goal on the whole half, needs all its conditions for that, and matches attacks that those
    before it together miss. Of those that add about as many, the simplest is taken: the one with the fewest
    conditions, then with the fewest false positives.

    Args:
        pool: the conditions.
        found: conjunctions that were good enough on the searched part.
        goal: what a pattern has to do on the whole half; each further one has to add as many attacks as that.
        margin: attacks that a simpler pattern may add less and still be preferred.
        most: patterns, at most.
    """
    import numpy as np

    benign_end = pool.layout.benign
    good: dict[Members, tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]] = {}
    for members in found:
        simple = _simplified(pool, members, goal.most_benign)
        if simple in good or (len(simple) == 1 and not pool.conditions[simple[0]].alone):
            continue
        hits = pool.matched(simple)
        benign, attacks = int(hits[:benign_end].sum()), hits[benign_end:]
        if benign <= goal.most_benign and attacks.sum() >= goal.least_attacks:
            good[simple] = benign, attacks
    if not good:
        return []
    names = list(good)
    false_positives = [benign for benign, _ in good.values()]
    matched = np.array([attacks for _, attacks in good.values()])
    missed = np.ones(goal.attacks, dtype=np.bool_)
    chosen: list[Members] = []
    while len(chosen) < most:
        gains = matched[:, missed].sum(axis=1)
        enough = max(int(gains.max()) - margin, goal.least_attacks)
        near = np.flatnonzero(gains >= enough)
        if not near.size:
            break
        best = min(near, key=lambda place: (len(names[place]), false_positives[place], -int(gains[place])))
        chosen.append(names[best])
        missed &= ~matched[best]
    return chosen


def _simplified(pool: Pool, members: Members, most_benign: int) -> Members:
    """Return a conjunction without the conditions that the false-positive rate does not need, longest first."""
    for place in sorted(members, key=lambda member: -pool.conditions[member].expression.size):
        rest = tuple(member for member in members if member != place)
        if rest and pool.matched(rest)[: pool.layout.benign].sum() <= most_benign:
            members = rest
    return members
