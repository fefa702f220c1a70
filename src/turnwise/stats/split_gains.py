"""What a procedure gains over many splits, thresholds and splits included, and what one study would find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.errors import UsageError
from turnwise.stats.bootstrap import FEW_GROUPS, TAILS, Difference, Floats, resamples
from turnwise.stats.examples import Example, split_by_group
from turnwise.stats.thresholds import allowed_above, check_rate, needed_benign, weighted_thresholds

Places = NDArray[np.intp]

TRAIN, CALIBRATE, TEST = 0, 1, 2
"""Labels of the parts of a split."""

_HEAD = 64
"""Highest benign scores that are looked at first when a threshold is set; more where they do not suffice."""

CALIBRATED, TESTED, ATTACKS = 0, 1, 2
"""Sides of a split: benign conversations that calibrate, benign ones tested, from here the attacks by source."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The arguments of `split_gains`, checked."""

    # `scores` has shape (splits or 1, arms, conversations); `place` is the group of each conversation, in the
    # order of their names. `names` and `masks` are those of the sources, the first of them all attacks.

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
        """A split with weights of the groups, shape (groups, resamples); redealt, weights say what is where."""
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


SHARES = (0.3, 0.3, 0.4)
"""Shares of the groups that train, calibrate and test."""

SPLITS = 50
REPLICATES = 1000


@dataclass(frozen=True, slots=True)
class OneStudy:
    """What one study with one split would find, over studies that are redrawn.

    This is the spread of single results. It is not an interval of the expected gain, and does not shrink with the
    number of splits. 2.5 % of the redrawn studies find a gain below `low`, 2.5 % one above `high`; in the shares
    `helps`, `equal` and `hurts` the followed arm catches more, as many, or fewer than the reference. `draws`
    counts the studies that could be judged.
    """

    median: float
    low: float
    high: float
    helps: float
    equal: float
    hurts: float
    draws: int

    def __str__(self) -> str:
        return (
            f"one study would find {self.median:+.3f}, in 95 % of cases {self.low:+.3f} to {self.high:+.3f}: the "
            f"followed arm helps in {100 * self.helps:.0f} %, is equal in {100 * self.equal:.0f} %, hurts in "
            f"{100 * self.hurts:.0f} %"
        )


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain in recall of the followed arm over the reference, in two senses that must not be mixed up.

    `expected` is the gain of the whole procedure: the mean over splits, with an interval that covers the sampling
    of conversations and the choice of thresholds. `one_study` is what a single study would find. `attacks` are
    counted over all parts.
    """

    attacks: int
    expected: Difference
    one_study: OneStudy

    def __str__(self) -> str:
        return f"{self.expected}; {self.one_study}"


@dataclass(frozen=True, slots=True)
class SplitGains:
    """The gain of the followed arm over the reference on many splits; recall and rates are those of the test part.

    Args:
        arms: their names.
        reference: place of the arm to beat.
        followed_places: place of the arm that each split follows, shape (splits,).
        gain: of that arm in recall, shape (splits,).
        thresholds: by split and arm, shape (splits, arms).
        recall: likewise.
        fpr: likewise.
        overall: the gain on all attacks.
        by_source: the gain on the attacks of each source.
        conversations: how many were judged.
        left_out: how many others there are, which not all of these arms evaluated.
        replicates: the expected gain on each resample, for plots.
        single: the gain that each redrawn study finds; NaN where one can't be judged.
    """

    arms: tuple[str, ...]
    reference: int
    followed_places: Places
    gain: Floats
    thresholds: Floats
    recall: Floats
    fpr: Floats
    overall: Gain
    by_source: Mapping[str, Gain]
    conversations: int
    left_out: int = 0
    replicates: Floats = field(repr=False, kw_only=True)
    single: Floats = field(repr=False, kw_only=True)

    @property
    def splits(self) -> int:
        """How many splits there are."""
        return len(self.gain)

    @property
    def followed(self) -> Mapping[str, int]:
        """In how many splits each arm is followed, the most frequent first."""
        counts = Counter(self.followed_places.tolist())
        return {self.arms[place]: counts[place] for place in sorted(counts, key=lambda at: (-counts[at], at))}


def draw_parts(
    groups: Sequence[str],
    attack: Sequence[bool],
    splits: int = SPLITS,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 0,
) -> Places:
    """Who trains (0), calibrates (1) and tests (2); shape (splits, groups), groups in the order of their names.

    The first split is the one that a study with this seed has, the next that of seed + 1, and so on. Groups stay
    whole, and those with attacks and those without are dealt out apart.

    >>> draw_parts(["a", "b", "c", "d", "e", "f"], [True] * 3 + [False] * 3, 2, (1 / 3, 1 / 3, 1 / 3)).tolist()
    [[0, 2, 1, 1, 2, 0], [0, 1, 2, 0, 2, 1]]
    """
    if splits < 1 or len(groups) != len(attack):
        raise UsageError("splits need one group and one label for each conversation, and at least one split")
    labels = dict.fromkeys(groups, False)
    for group, label in zip(groups, attack, strict=True):
        labels[group] |= bool(label)
    units = [Example(group, group, labels[group], ()) for group in sorted(labels)]
    place = {unit.group: number for number, unit in enumerate(units)}
    found = np.empty((splits, len(units)), dtype=np.intp)
    named = {str(part): share for part, share in zip((TRAIN, CALIBRATE, TEST), shares, strict=True)}
    for split in range(splits):
        for part, members in split_by_group(units, named, seed + split).items():
            found[split, [place[unit.group] for unit in members]] = int(part)
    return found


def split_gains(
    scores: ArrayLike | Sequence[ArrayLike],
    groups: Sequence[str],
    attack: Sequence[bool],
    parts: ArrayLike,
    followed: Sequence[int],
    *,
    arms: Sequence[str] = (),
    reference: int = 0,
    rate: float = 0.01,
    confidence: float | None = None,
    sources: Mapping[str, Sequence[bool]] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> SplitGains:
    """Judge a study on many splits, and say how sure its gain is.

    `scores` are the highest of each conversation by each arm, minus infinity without evidence, never plus infinity
    or NaN; shape (arms, conversations), or (splits, arms, conversations) where arms were fitted in each split.
    `parts` are as `draw_parts` gives them. `sources` say by name which attacks are of it; the benign conversations
    are all there for each. The same conversations in another order give the same draws.

    In each split the threshold of an arm is the one that `threshold_for` sets, at this `rate` and `confidence`, on
    the benign conversations of the calibrate part; recall and false-positive rate are those of the test part.

    **Expected gain.** The mean over splits, with an interval by the cluster bootstrap: groups are drawn with
    replacement, those with attacks and those without apart, and the same weights go through the calibrate and the
    test part of every split, so that thresholds move with them. Which arm a split follows, and what was fitted in
    it, stays. Sources: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 8 and 13;
    C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52 (2003), on why the
    spread over splits alone says too little: splits share their conversations.

    **One study.** Each redrawn study takes a split at random, and draws its calibrate and its test groups anew
    from all groups that do not train there. Resampling inside the parts of the split would count the choice of the
    split twice, once by the split and once by the resample.
    """
    data = Splits.of(scores, groups, attack, parts, followed, reference, rate, confidence, sources or {})
    drawn = resamples(groups, attack, np.random.default_rng(seed), replicates)
    weights, plain = np.ascontiguousarray(drawn.counts.T), np.ones((drawn.groups, 1))
    thresholds, recall, fpr = (np.empty((data.splits, data.arms)) for _ in range(3))
    gains = np.empty((data.splits, len(data.masks)))
    totals, usable = np.zeros((2, len(data.masks), replicates))
    for split in range(data.splits):
        once = data.sample(split, plain, plain)
        for arm in range(data.arms):
            threshold = once.thresholds(arm)
            thresholds[split, arm], fpr[split, arm] = threshold[0], once.share(arm, threshold, TESTED)[0]
            recall[split, arm] = once.recalls(arm, threshold)[0, 0]
        if not (np.isfinite(thresholds[split]).all() and np.isfinite(recall[split]).all()):
            raise UsageError(data.shortage(split))
        gains[split] = once.gains()[:, 0]
        values = data.sample(split, weights, weights).gains()
        totals += np.nan_to_num(values)
        usable += np.isfinite(values)
    means = np.divide(totals, usable, out=np.full_like(totals, np.nan), where=usable > 0)
    single = _single_studies(data, drawn.stratum, replicates, np.random.default_rng([seed, 1]))
    found_gains = [
        Gain(
            int(mask.sum()),
            _expected(f"expected gain, {name}", gains[:, row], means[row], len(np.unique(data.place[mask]))),
            _one_study(single[row]),
        )
        for row, (name, mask) in enumerate(zip(data.names, data.masks, strict=True))
    ]
    return SplitGains(
        tuple(arms) or tuple(map(str, range(data.arms))),
        reference,
        data.followed,
        gains[:, 0],
        thresholds,
        recall,
        fpr,
        found_gains[0],
        dict(zip(data.names[1:], found_gains[1:], strict=True)),
        len(data.attack),
        replicates=means[0],
        single=single[0],
    )


def _single_studies(data: Splits, stratum: Places, draws: int, rng: np.random.Generator) -> Floats:
    """The gains of redrawn studies; shape (sources, draws)."""
    split_of = np.arange(draws) % data.splits
    found = np.full((len(data.masks), draws), np.nan)
    for split in range(min(data.splits, draws)):
        studies = np.flatnonzero(split_of == split)
        dealt = data.parts[split]
        weights = {part: np.zeros((len(stratum), len(studies))) for part in (CALIBRATE, TEST)}
        for label in np.unique(stratum):
            pool = np.flatnonzero((stratum == label) & (dealt != TRAIN))
            for part, counts in weights.items():
                size = int(((stratum == label) & (dealt == part)).sum())
                if size:
                    counts[pool] = rng.multinomial(size, np.full(len(pool), 1 / len(pool)), size=len(studies)).T
        found[:, studies] = data.sample(split, weights[CALIBRATE], weights[TEST], redealt=True).gains()
    return found


def _expected(what: str, gains: Floats, values: Floats, groups: int) -> Difference:
    """The mean over splits with its percentile interval."""
    # In the two worlds of `benchmarks/study_statistics.py` the percentile interval covered more than the normal,
    # the bias-corrected and the basic one: 94.2 % and 95.8 % of 500 studies each.
    usable, finite = gains[np.isfinite(gains)], values[np.isfinite(values)]
    if not len(usable) or not len(finite):
        return Difference(
            what, np.nan, np.nan, np.nan, False, "percentile", groups, note="it can't be computed here"
        )
    notes = []
    if len(usable) < len(gains):
        notes.append(f"{len(gains) - len(usable)} of {len(gains)} splits have no such attack to test on")
    if len(finite) < len(values):
        notes.append(f"{len(values) - len(finite)} of {len(values)} resamples could not be used")
    if groups < FEW_GROUPS:
        notes.append(f"fewer than {FEW_GROUPS} groups of attacks: the interval is likely too narrow")
    low, high = np.quantile(finite, TAILS)
    return Difference(
        what, float(usable.mean()), float(low), float(high), False, "percentile", groups, note="; ".join(notes)
    )


def _one_study(gains: Floats) -> OneStudy:
    found = gains[np.isfinite(gains)]
    if not len(found):
        return OneStudy(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    low, high = np.quantile(found, TAILS)
    helps, equal, hurts = (float(np.mean(sign)) for sign in (found > 0, found == 0, found < 0))
    return OneStudy(float(np.median(found)), float(low), float(high), helps, equal, hurts, len(found))
