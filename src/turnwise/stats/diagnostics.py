"""Checks on a result: does order matter, is it length, does it carry over to other sources, do labels bear it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.detectors import ByPrinciple, Detector, run_detector
from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.stats.bootstrap import REPLICATES, Floats, Interval, ResampleWeights, interval, resamples
from turnwise.stats.examples import Example
from turnwise.stats.judged import Confusion, Judged, confusion, evaluated, judge_all
from turnwise.stats.metrics import auc_of
from turnwise.stats.thresholds import threshold_for


@dataclass(frozen=True, slots=True)
class OrderShuffle:
    """What becomes of the verdicts when the turns of a conversation change places.

    `attacks` and `benign` are shares of the verdicts that change, None without such conversations. `left_out`
    counts those with fewer than two evaluated turns; each of the others has so many `permutations`.
    """

    attacks: Interval | None
    benign: Interval | None
    conversations: int
    left_out: int
    permutations: int


@dataclass(frozen=True, slots=True)
class LengthMatched:
    """The result where attacks and benign conversations have the same lengths.

    `auc_all` is the area on all evaluated conversations, to compare; `left_out` counts those without a partner of
    the same length.
    """

    counts: Confusion
    auc: float | None
    auc_all: float | None
    left_out: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A threshold set on one source, or "all but" one, and used on another; or the reason why not."""

    set_on: str
    used_on: str
    threshold: float | None
    recall: Rate | None
    fpr: Rate | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LabelNoise:
    """The result if a share of the labels were wrong: 2.5th percentile, median, 97.5th percentile of draws."""

    share: float
    recall: tuple[float, float, float]
    fpr: tuple[float, float, float]
    auc: tuple[float, float, float]


def order_shuffle(
    detector: Detector,
    examples: Sequence[Example],
    rng: np.random.Generator,
    repeats: int = 20,
    replicates: int = REPLICATES,
) -> OrderShuffle:
    """The share of verdicts that change when a conversation's scores are permuted.

    A detector that only looks for the worst turn changes none; one that changes few does not use order, whatever
    it gains. The scores stay what they were: with an observer that saw earlier turns they still carry the first
    order, so permute and score the turns themselves as well where that can be done.

    >>> import numpy as np
    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score, TurnScores
    >>> turns = tuple(TurnScores(n, {"reciprocity": Score(0.5, 0.2, F)}) for n, F in ((1, 0.1), (2, 0.9)))
    >>> examples = [Example("a", "goal", True, turns)]
    >>> order_shuffle(build_detector("any_turn:threshold=0.5"), examples, np.random.default_rng(0)).attacks.value
    0.0
    >>> found = order_shuffle(build_detector("last_turn:threshold=0.5"), examples, np.random.default_rng(0))
    >>> 0.1 < found.attacks.value < 0.9
    True
    """
    if repeats < 1:
        raise UsageError(f"a shuffle needs at least 1 permutation, not {repeats}")
    able = [one for one in examples if sum(bool(t.scores or t.response_scores) for t in one.turns) > 1]
    changed = []
    for example in able:
        given = _fires(detector, example.turns)
        changed.append(sum(_fires(detector, _permuted(example, rng)) is not given for _ in range(repeats)))

    def share(label: bool) -> Interval | None:
        rows = [(one.group, count) for one, count in zip(able, changed, strict=True) if one.attack is label]
        if not rows:
            return None
        drawn = resamples([group for group, _ in rows], [label] * len(rows), rng, replicates)
        return interval(_mean_of([count / repeats for _, count in rows]), drawn, conditions_on_threshold=True)

    return OrderShuffle(share(True), share(False), len(able), len(examples) - len(able), repeats)


def length_matched(judged: Sequence[Judged], rng: np.random.Generator) -> LengthMatched:
    """The result on as many attacks as benign conversations of each number of turns.

    Where the subset does much worse than the whole, the detector tells long conversations from short ones. Exact
    matching, as in S. M. Iacus, G. King and G. Porro, "Causal inference without balance checking", Political
    Analysis 20 (2012), with one stratum a length.
    """
    known = evaluated(judged)
    kept: list[Judged] = []
    for turns in sorted({one.turns for one in known}):
        sides = [
            sorted(
                (one for one in known if one.turns == turns and one.attack is label),
                key=lambda one: one.sequence_id,
            )
            for label in (True, False)
        ]
        least = min(len(side) for side in sides)
        for side in sides:
            kept += [side[place] for place in sorted(rng.permutation(len(side))[:least])]
    reason = "" if kept else "no attack and benign conversation have the same number of turns"
    return LengthMatched(confusion(kept), _area(kept), _area(known), len(known) - len(kept), reason)


def threshold_transfer(judged: Sequence[Judged], rate: float) -> tuple[Transfer, ...]:
    """What a threshold set on the benign conversations of one source does on every other.

    >>> judged = [
    ...     Judged(f"{source}{n}", f"{source}{n}", False, 3, n / 100 + shift, strata={"source": source})
    ...     for source, shift in (("a", 0.0), ("b", 0.1)) for n in range(99)
    ... ]
    >>> [(one.set_on, one.used_on, str(one.fpr)) for one in threshold_transfer(judged, 0.05)]
    [('a', 'b', '14/99 = 14.1 % [8.0, 22.6]'), ('b', 'a', '0/99 = 0.0 % [0.0, 3.7]')]
    """
    by_source: dict[str, list[Judged]] = {}
    for one in sorted(evaluated(judged), key=lambda one: one.strata.get("source", "")):
        if "source" in one.strata:
            by_source.setdefault(one.strata["source"], []).append(one)
    found = []
    for set_on, own in by_source.items():
        try:
            limit = threshold_for([one.score for one in own if not one.attack and one.score is not None], rate)
        except UsageError as error:
            found += [
                Transfer(set_on, other, None, None, None, str(error)) for other in by_source if other != set_on
            ]
            continue
        for used_on, others in by_source.items():
            if used_on != set_on:
                recall, fpr = (_above(others, label, limit) for label in (True, False))
                found.append(Transfer(set_on, used_on, limit, recall, fpr))
    return tuple(found)


def leave_one_source_out(
    examples: Sequence[Example], sources: Mapping[str, str], make: Callable[[Sequence[Example]], Detector]
) -> tuple[Transfer, ...]:
    """What a detector made without a source does on that source; conversations without a source are left out.

    What `make` refuses with a `UsageError` becomes the reason why there is no number.
    """
    found = []
    for source in sorted(set(sources.values())):
        held_out = [one for one in examples if sources.get(one.sequence_id) == source]
        rest = [one for one in examples if sources.get(one.sequence_id, source) != source]
        # A goal that occurs in several sources would be trained on and tested.
        shared = {one.group for one in held_out}
        name = f"all but {source}"
        try:
            detector = make([one for one in rest if one.group not in shared])
        except UsageError as error:
            found.append(Transfer(name, source, None, None, None, str(error)))
            continue
        counts = confusion(judge_all(detector, held_out))
        found.append(Transfer(name, source, detector.threshold, counts.recall, counts.fpr))
    return tuple(found)


def label_noise(
    judged: Sequence[Judged],
    rng: np.random.Generator,
    shares: Sequence[float] = (0.01, 0.05, 0.1),
    repeats: int = 200,
) -> tuple[LabelNoise, ...]:
    """How the result moves if a share of the labels were wrong.

    Labels are turned round at random, each with the same probability: errors that go with length, topic or the
    detector's own rule can do more harm than this shows.
    """
    known = evaluated(judged)
    if repeats < 1 or not all(0 <= share <= 1 for share in shares):
        raise UsageError("label noise needs shares in [0, 1] and at least 1 draw of each")
    if len({one.attack for one in known}) != 2:
        raise UsageError("label noise needs evaluated conversations of both labels")
    attack = np.array([one.attack for one in known])
    fired = np.array([one.fired for one in known], dtype=float)
    # The area from ranks, ties sharing theirs, so that all draws are one product.
    _, place, counts = np.unique([one.score for one in known], return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[place]
    found = []
    for share in shares:
        turned = attack ^ (rng.random((repeats, len(known))) < share)
        attacks = turned.sum(axis=1)
        benign = len(known) - attacks
        flagged = turned @ fired
        with np.errstate(invalid="ignore", divide="ignore"):  # a draw without a label has no rate
            rows = np.column_stack(
                [
                    flagged / attacks,
                    (fired.sum() - flagged) / benign,
                    (turned @ ranks - attacks * (attacks + 1) / 2) / (attacks * benign),
                ]
            )
        recall, fpr, auc = (
            (float(low), float(middle), float(high))
            for low, middle, high in np.nanquantile(rows, [0.025, 0.5, 0.975], axis=0).T
        )
        found.append(LabelNoise(share, recall, fpr, auc))
    return tuple(found)


def _fires(detector: Detector, turns: Sequence[TurnScores]) -> bool:
    """Whether a detector fires; its reasons are not worked out where it can give its highest score alone."""
    if isinstance(detector, ByPrinciple) and not getattr(detector, "judges_last", False):
        return detector.highest(turns) >= detector.threshold
    return run_detector(detector, turns).fired


def _permuted(example: Example, rng: np.random.Generator) -> list[TurnScores]:
    """The turns in another order, under the old numbers."""
    moved = (example.turns[place] for place in rng.permutation(len(example.turns)).tolist())
    return [
        TurnScores(turn.turn, one.scores, one.length, one.response_scores, one.response_length)
        for turn, one in zip(example.turns, moved, strict=True)
    ]


def _mean_of(values: Sequence[float]) -> Callable[[ResampleWeights], Floats]:
    columns = np.column_stack([np.asarray(values, dtype=float), np.ones(len(values))])

    def mean(weights: ResampleWeights) -> Floats:
        sums: Floats = weights.sums(columns)
        share: Floats = sums[:, 0] / sums[:, 1]
        return share

    return mean


def _area(judged: Sequence[Judged]) -> float | None:
    if len({one.attack for one in judged}) != 2:
        return None
    everyone = ResampleWeights(np.ones((1, len(judged))), np.arange(len(judged)))
    return float(auc_of(judged)(everyone)[0])


def _above(judged: Sequence[Judged], label: bool, limit: float) -> Rate:
    scores = [one.score for one in judged if one.attack is label and one.score is not None]
    return Rate(sum(score >= limit for score in scores), len(scores))
