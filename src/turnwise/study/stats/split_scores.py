"""A split of a study under weights: the threshold that an arm then has, and the share at or above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.errors import UsageError
from turnwise.study.stats.thresholds import allowed_above, check_rate, needed_benign, weighted_thresholds

if TYPE_CHECKING:
    from turnwise.study.stats.bootstrap import Floats

Places: TypeAlias = NDArray[np.intp]

TRAIN, CALIBRATE, TEST = 0, 1, 2
"""Labels of the parts of a split."""

_HEAD = 64
"""Highest benign scores that are looked at first when a threshold is set; more where they do not suffice."""

CALIBRATED, TESTED, ATTACKS = 0, 1, 2
"""Sides of a split: benign conversations that calibrate, benign ones tested, from here the attacks by source."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The arguments of `turnwise.study.stats.split_gains.split_gains`, checked.

    `scores` has shape (splits or 1, arms, conversations); `place` is the group of each conversation, in the order
    of their names. `names` and `masks` are those of the sources, the first of them all attacks.
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
        confidence: float | None,
        sources: Mapping[str, Sequence[bool]],
    ) -> Splits:
        """Check the arguments of `split_gains`, and put them into arrays."""
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
            raise UsageError(f"followed and reference must be arms from 0 to {values.shape[1] - 1}")
        if not (values < np.inf).all():
            raise UsageError(
                "a score is plus infinity or no number: leave out what was not evaluated by every arm"
            )
        chosen = {name: np.asarray(mask, dtype=bool) for name, mask in sources.items()}
        if any(len(mask) != len(labels) for mask in chosen.values()):
            raise UsageError("sources must say of each conversation whether it comes from each of them")
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
        needed = needed_benign(self.rate, self.confidence)
        return (
            f"split {split} has {benign} benign conversations to calibrate on and {attacks} attacks to test on: a "
            f"threshold at {self.rate:g} needs {needed}, a recall at least one"
        )


@dataclass(frozen=True, slots=True)
class SplitSample:
    """One split on resamples; each of its `sides` has weights of the groups, and in `totals` its weight."""

    data: Splits
    split: int
    sides: list[tuple[Places, Floats]]
    totals: list[Floats]

    def thresholds(self, arm: int) -> Floats:
        """The thresholds of an arm; NaN where benign ones are too few; shape (resamples,)."""
        (members, weights), total = self.sides[CALIBRATED], self.totals[CALIBRATED]
        allowed = allowed_above(total, self.data.rate, self.data.confidence)
        scores = self._scores(arm)[members]
        order, head = np.argsort(-scores, kind="stable"), _HEAD
        if not len(members):
            return np.full(len(total), np.nan)
        while True:
            kept = order[:head]
            each = weights[self.data.place[members[kept]]]
            if head >= len(order) or (each.sum(axis=0) > allowed).all():
                return weighted_thresholds(scores[kept], each, total, self.data.rate, self.data.confidence)
            head *= 2

    def recalls(self, arm: int, thresholds: Floats) -> Floats:
        """The share of the attacks of each source that is caught; shape (sources, resamples), NaN without any."""
        return np.array([self.share(arm, thresholds, side) for side in range(ATTACKS, len(self.sides))])

    def gains(self) -> Floats:
        """The gain of the followed arm on each source; shape (sources, resamples)."""
        followed, reference = (
            self.recalls(arm, self.thresholds(arm))
            for arm in (int(self.data.followed[self.split]), self.data.reference)
        )
        gains: Floats = followed - reference
        return gains

    def share(self, arm: int, thresholds: Floats, side: int) -> Floats:
        """The share of a side at or above the thresholds; shape (resamples,)."""
        (members, weights), total = self.sides[side], self.totals[side]
        scores = self._scores(arm)[members]
        usable = np.isfinite(thresholds) & (total > 0)
        found = np.full(len(total), np.nan)
        if not usable.any():
            return found
        high = np.flatnonzero(scores >= thresholds[usable].min())
        order = high[np.argsort(-scores[high], kind="stable")]
        caught = np.zeros((len(order) + 1, len(total)))
        weights[self.data.place[members[order]]].cumsum(axis=0, out=caught[1:])
        reached = np.searchsorted(-scores[order], -thresholds, side="right")
        counted = caught[np.where(usable, reached, 0), np.arange(len(total))]
        np.divide(counted, total, out=found, where=usable)
        return found

    def _scores(self, arm: int) -> Floats:
        scores: Floats = self.data.scores[self.split if len(self.data.scores) > 1 else 0, arm]
        return scores
