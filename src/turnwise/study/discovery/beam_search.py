"""Beam search over conjunctions of conditions, and the few of them that are worth a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from turnwise.study.discovery.conditions import Members, Pool

if TYPE_CHECKING:
    from turnwise.study.discovery.conditions import IntArray


MOST_CONDITIONS = 3
"""Conditions that a pattern joins, at most."""

WIDTH = 120
"""Conjunctions that are carried on at each step."""

WEIGHTS = (1.0, 3.0, 10.0)
"""What a false positive counts against a hit, in rates; each weight gives a third of the beam."""

OF_A_FAMILY = 2
"""Conjunctions that differ in their limits alone, of which the beam carries no more."""

_OF_A_PARENT = 12
"""Best conjunctions by each weight that a parent gives to the next step, and to the final choice."""

Tell = Callable[[str], object]
"""Takes a line on how far the search is."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a pattern has to do: match `least_attacks` of the attacks, and at most `most_benign` benign ones."""

    attacks: int
    benign: int
    most_benign: int
    least_attacks: int

    def reached(self, attacks: IntArray, benign: IntArray) -> NDArray[np.bool_]:
        """Which counts are good enough for a pattern."""
        good: NDArray[np.bool_] = (benign <= self.most_benign) & (attacks >= self.least_attacks)
        return good

    def scores(self, attacks: IntArray, benign: IntArray, weight: float) -> NDArray[np.float64]:
        """The share of attacks less the weighted share of benign conversations."""
        scores: NDArray[np.float64] = attacks / self.attacks - weight * benign / self.benign
        return scores


class Search:
    """The search on the searched part; `looked_at` counts conjunctions, single conditions among them."""

    def __init__(self, pool: Pool, goal: Goal) -> None:
        self._pool = pool
        self._goal = goal
        self._found: set[Members] = set()
        self.looked_at = 0

    def run(self, tell: Tell) -> list[Members]:
        """The conjunctions that reach the goal: of every parent the best few."""
        attacks, benign = self._pool.counts()
        self.looked_at = len(attacks)
        self._found.update((int(place),) for place in np.flatnonzero(self._goal.reached(attacks, benign)))
        usable = np.flatnonzero(attacks >= self._goal.least_attacks)
        beam = self._beam([((int(place),), int(attacks[place]), int(benign[place])) for place in usable])
        tell(f"{len(attacks)} conditions, {len(self._found)} good enough alone")
        for size in range(2, MOST_CONDITIONS + 1):
            before = len(self._found)
            beam = self._beam([grown for parent in beam for grown in self._grow(parent, usable)])
            more = len(self._found) - before
            tell(f"{self.looked_at} conjunctions, {more} of {size} conditions good enough")
        return sorted(self._found)

    def _grow(self, parent: Members, usable: NDArray[np.intp]) -> Iterator[tuple[Members, int, int]]:
        """Yield the best conjunctions of a parent with one condition more, with their counts."""
        conditions = self._pool.conditions
        taken = {conditions[place].quantity for place in parent}
        free = np.array([place for place in usable if conditions[place].quantity not in taken], dtype=np.intp)
        if not free.size:
            return
        attacks, benign = self._pool.counts(free, parent)
        self.looked_at += len(free)
        good = np.flatnonzero(self._goal.reached(attacks, benign))
        self._found.update(_with(parent, free[k]) for k in good[_highest(attacks[good])])
        further = np.flatnonzero((attacks >= self._goal.least_attacks) & (benign > self._goal.most_benign))
        scores = [self._goal.scores(attacks[further], benign[further], weight) for weight in WEIGHTS]
        for k in sorted({int(further[best]) for score in scores for best in _highest(score)}):
            yield _with(parent, free[k]), int(attacks[k]), int(benign[k])

    def _beam(self, grown: Sequence[tuple[Members, int, int]]) -> list[Members]:
        """The conjunctions to carry on: not good enough yet, and not all variants of the same."""
        unique = {members: (a, b) for members, a, b in grown if b > self._goal.most_benign}
        if not unique:
            return []
        names = list(unique)
        attacks, benign = (np.array(column) for column in zip(*unique.values(), strict=True))
        orders = [np.argsort(-self._goal.scores(attacks, benign, weight), kind="stable") for weight in WEIGHTS]
        chosen: dict[Members, None] = {}
        families: Counter[tuple[str, ...]] = Counter()
        for place in (place for ranks in zip(*orders, strict=True) for place in ranks):
            members = names[place]
            family = tuple(sorted(self._pool.conditions[member].family for member in members))
            if members in chosen or families[family] == OF_A_FAMILY:
                continue
            families[family] += 1
            chosen[members] = None
            if len(chosen) == WIDTH:
                break
        return list(chosen)


def _highest(values: NDArray[np.float64] | IntArray) -> NDArray[np.intp]:
    return np.argsort(-values, kind="stable")[:_OF_A_PARENT]


def _with(parent: Members, place: int) -> Members:
    return tuple(sorted((*parent, int(place))))


def choose_patterns(
    pool: Pool, found: Sequence[Members], goal: Goal, missed: NDArray[np.bool_], *, margin: int, most: int
) -> list[Members]:
    """The patterns worth testing, best first."""
    # Each reaches the goal on the whole half, needs all its conditions for that, and adds attacks that the best
    # rule on single turns and those before it miss. Of those that add about as many, within the margin, the
    # simplest is taken.
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
    missed = missed.copy()
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
    """A conjunction without the conditions that the false-positive rate does not need, longest first."""
    for place in sorted(members, key=lambda member: -pool.conditions[member].expression.size):
        rest = tuple(member for member in members if member != place)
        if rest and pool.matched(rest)[: pool.layout.benign].sum() <= most_benign:
            members = rest
    return members
