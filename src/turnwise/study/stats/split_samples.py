"""A split of a study under weights: the threshold that an arm then has, its recall and its false-positive rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.errors import UsageError
from turnwise.study.stats.thresholds import check_rate, needed_benign

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

TRAIN, CALIBRATE, TEST = 0, 1, 2
"""Labels of the parts of a split."""

_HEAD = 64
"""Highest benign scores that are looked at first when a threshold is set; more where they do not suffice."""


@dataclass(frozen=True, slots=True)
class SplitScores:
    """The checked input of `turnwise.study.stats.redraw.redraws`, whose arguments these are.

    `scores` has shape (splits or 1, arms, conversations); `place` is the group of each conversation, in the order
    of their names. `names` and `masks` are the subsets of the attacks, the first of them all attacks.
    """

    scores: Floats
    place: Places
    attack: NDArray[np.bool_]
    parts: Places
    followed: Places
    reference: int
    rate: float
    confidence: float | None
    names: tuple[str, ...]
    masks: tuple[NDArray[np.bool_], ...]

    @classmethod
    def of(
        cls,
        scores: ArrayLike | Sequence[ArrayLike],
        groups: Sequence[str],
        attack: Sequence[bool],
        parts: ArrayLike,
        followed: Sequence[int],
        reference: int,
        rate: float,
        subsets: Mapping[str, Sequence[bool]],
        confidence: float | None = None,
    ) -> SplitScores:
        """The arguments of `redraws`, checked."""
        check_rate("rate", rate)
        if confidence is not None:
            check_rate("confidence", confidence)
        values = np.asarray(scores, dtype=float)
        values = values[None] if values.ndim == 2 else values
        labels = np.asarray(attack, dtype=bool)
        names, place = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        dealt = np.asarray(parts)
        if values.ndim != 3 or values.shape[2] != len(labels) or len(place) != len(labels):
            raise UsageError("scores need one value for each arm and conversation, with its group and label")
        if dealt.ndim != 2 or dealt.shape[1] != len(names) or not np.isin(dealt, (TRAIN, CALIBRATE, TEST)).all():
            raise UsageError(f"parts need 0, 1 or 2 for each split and each of the {len(names)} groups")
        if values.shape[0] not in (1, len(dealt)) or len(followed) != len(dealt):
            raise UsageError(
                f"{len(dealt)} splits need one followed arm each, and scores for one or for all of them"
            )
        if not all(0 <= arm < values.shape[1] for arm in (reference, *followed)):
            raise UsageError(
                f"there are arms 0 to {values.shape[1] - 1}: no other can be followed or the reference"
            )
        if not (values < np.inf).all():
            raise UsageError(
                "a score is plus infinity or no number: leave out what was not evaluated by every arm"
            )
        chosen = {name: np.asarray(mask, dtype=bool) for name, mask in subsets.items()}
        if any(len(mask) != len(labels) for mask in chosen.values()):
            raise UsageError("a subset says for each conversation whether it counts")
        masks = (labels, *(mask & labels for mask in chosen.values()))
        return cls(
            values,
            place.astype(np.intp),
            labels,
            dealt.astype(np.intp),
            np.asarray(followed, dtype=np.intp),
            reference,
            rate,
            confidence,
            ("all attacks", *chosen),
            masks,
        )

    @property
    def splits(self) -> int:
        """How many splits there are."""
        return len(self.parts)

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return int(self.scores.shape[1])

    def sample(self, split: int, calibrate: Floats, test: Floats, redealt: bool = False) -> SplitSample:
        """A split with weights of the groups, each of shape (groups, resamples).

        Redealt, both parts hold all groups that do not train, and the weights say which count.
        """
        part = self.parts[split][self.place]
        benign = ((part != TRAIN) if redealt else (part == CALIBRATE)) & ~self.attack
        tested = (part != TRAIN) if redealt else (part == TEST)
        counted = [tested & ~self.attack, *(tested & mask for mask in self.masks)]
        sides = [(np.flatnonzero(benign), calibrate), *((np.flatnonzero(mask), test) for mask in counted)]
        totals = [
            np.bincount(self.place[of], minlength=len(weights)).astype(float) @ weights for of, weights in sides
        ]
        return SplitSample(self, split, sides, totals)

    def shortage(self, split: int) -> str:
        """What a split has too little of, in words."""
        part = self.parts[split][self.place]
        benign = int(((part == CALIBRATE) & ~self.attack).sum())
        attacks = int(((part == TEST) & self.attack).sum())
        needed = int(np.ceil(1 / self.rate - 1e-9)) - 1
        if self.confidence is not None:
            needed = needed_benign(self.rate, self.confidence)
        return (
            f"split {split} has {benign} benign conversations to calibrate on and {attacks} attacks to test on: a "
            f"threshold at {self.rate:g} needs {needed}, a recall at least one"
        )


@dataclass(frozen=True, slots=True)
class SplitSample:
    """One split on resamples: benign conversations that calibrate, benign ones tested, attacks tested by subset.

    Each of these `sides` comes with the weights of the groups, and in `totals` with its weight in each resample.
    """

    data: SplitScores
    split: int
    sides: list[tuple[Places, Floats]]
    totals: list[Floats]

    def limits(self, arm: int) -> Floats:
        """The thresholds of an arm; NaN where benign ones are too few; shape (resamples,)."""
        (members, weights), total = self.sides[0], self.totals[0]
        allowed = allowed_above(total, self.data.rate, self.data.confidence)
        scores = self._scores(arm)[members]
        order, head = np.argsort(-scores, kind="stable"), _HEAD
        if not len(members):
            return np.full(len(total), np.nan)
        while True:
            kept = order[:head]
            each = weights[self.data.place[members[kept]]]
            if head >= len(order) or (each.sum(axis=0) > allowed).all():
                return weighted_limits(scores[kept], each, total, self.data.rate, self.data.confidence)
            head *= 2

    def false_positive_rate(self, arm: int, limits: Floats) -> Floats:
        """The share of benign test conversations at or above the limits; shape (resamples,)."""
        return self._share(arm, limits, 1)

    def recalls(self, arm: int, limits: Floats) -> Floats:
        """The share of the attacks of each subset that is caught; shape (subsets, resamples), NaN without any."""
        return np.array([self._share(arm, limits, side) for side in range(2, len(self.sides))])

    def gains(self) -> Floats:
        """The gain of the followed arm on each subset; shape (subsets, resamples)."""
        of = [
            self.recalls(arm, self.limits(arm))
            for arm in (int(self.data.followed[self.split]), self.data.reference)
        ]
        gains: Floats = of[0] - of[1]
        return gains

    def _scores(self, arm: int) -> Floats:
        scores: Floats = self.data.scores[self.split if len(self.data.scores) > 1 else 0, arm]
        return scores

    def _share(self, arm: int, limits: Floats, side: int) -> Floats:
        (members, weights), total = self.sides[side], self.totals[side]
        scores = self._scores(arm)[members]
        usable = np.isfinite(limits) & (total > 0)
        found = np.full(len(total), np.nan)
        if not usable.any():
            return found
        high = np.flatnonzero(scores >= limits[usable].min())
        order = high[np.argsort(-scores[high], kind="stable")]
        caught = np.zeros((len(order) + 1, len(total)))
        weights[self.data.place[members[order]]].cumsum(axis=0, out=caught[1:])
        reached = np.searchsorted(-scores[order], -limits, side="right")
        counted = caught[np.where(usable, reached, 0), np.arange(len(total))]
        np.divide(counted, total, out=found, where=usable)
        return found


def weighted_limits(
    scores: Floats, weights: Floats, total: Floats, rate: float, confidence: float | None = None
) -> Floats:
    """The threshold that `threshold_for` would set, had each benign conversation counted `weights` times.

    With a confidence it is that of `threshold_with_confidence`; NaN where the benign conversations are too few.
    `scores` fall, and are minus infinity without evidence; the lowest may be left out as long as the rest
    suffices. `weights` are whole numbers, of shape (scores, resamples); `total` is the weight of all, those left
    out included.

    >>> weighted_limits(np.array([0.4, 0.3, 0.2, 0.1]), np.ones((4, 1)), np.array([4.0]), 0.4)
    array([0.35])
    """
    allowed = allowed_above(total, rate, confidence)
    columns = np.arange(weights.shape[1])
    below = (weights.cumsum(axis=0) > allowed).argmax(axis=0)
    # Of equal scores all are flagged or none: what lies above is above the first of them.
    first = np.searchsorted(-scores, -scores[below], side="left")
    places = np.arange(len(scores))[:, None]
    present = np.maximum.accumulate(np.where(weights > 0, places, -1), axis=0)
    above = np.where(first > 0, present[np.maximum(first - 1, 0), columns], -1)
    highest, lowest_above = scores[below], scores[above]
    without = np.isneginf(highest)  # no evidence, which no threshold flags
    start = np.where(without, np.where(above >= 0, lowest_above, 0.0), highest)
    halfway = np.where(without, start - np.abs(start) * 1e-6, (lowest_above + highest) / 2)
    limits = np.where(above >= 0, halfway, start + np.maximum(np.abs(start), 1.0) * 1e-6)
    return np.where(allowed >= 0, limits, np.nan)


def allowed_above(total: Floats, rate: float, confidence: float | None = None) -> Floats:
    """How many of so many benign conversations may be flagged; below 0 where there are too few.

    >>> allowed_above(np.array([98.0, 99.0, 299.0]), 0.01), allowed_above(np.array([298.0, 299.0]), 0.01, 0.95)
    (array([-1.,  0.,  2.]), array([-1.,  0.]))
    """
    if confidence is None:
        return np.floor(rate * (total + 1) + 1e-9) - 1
    from scipy.stats import binom

    sizes, place = np.unique(total, return_inverse=True)
    count = binom.ppf(1 - confidence, sizes, rate)
    count = np.where(binom.cdf(count, sizes, rate) <= 1 - confidence, count, count - 1)
    # A threshold above all scores flags none, and one below all of them is none.
    found: Floats = np.minimum(count, np.maximum(sizes - 1, -1))[place]
    return found
