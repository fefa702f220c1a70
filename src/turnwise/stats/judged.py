"""What a detector said of each conversation, the counts that follow, and bounds for what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from turnwise.detectors import Detector, run_detector
from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats.examples import Example
from turnwise.stats.significance import McNemar, mcnemar


@dataclass(frozen=True, slots=True)
class Judged:
    """One conversation of known label as a detector judged it at one threshold.

    `score` is the highest; minus infinity where there was no evidence, so that no threshold reaches it; None where
    no turn was evaluated: missing, and not the same as clean. `turns` is the number of the last turn, `turn` the
    first that fired, and `final` says whether it would fire at the last evaluated one. A run of turns that fire is
    one alarm. Groups are what the bootstrap resamples, `strata` what a table may divide by, such as the source.
    """

    sequence_id: str
    group: str
    attack: bool
    turns: int
    score: float | None
    fired: bool = False
    turn: int | None = None
    final: bool = False
    alarms: int = 0
    missing_turns: int = 0
    cost_usd: float | None = None
    latency_ms: float | None = None
    strata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise UsageError(f"conversation {self.sequence_id!r} has {self.turns} turns: at least 1 is needed")
        if self.turn is not None and not 1 <= self.turn <= self.turns:
            raise UsageError(
                f"conversation {self.sequence_id!r}: turn {self.turn} that fired is not one of its {self.turns}"
            )
        if self.fired != (self.turn is not None):
            raise UsageError(f"conversation {self.sequence_id!r}: give turn where fired is true, and only there")
        if self.score is None and self.fired:
            raise UsageError(f"conversation {self.sequence_id!r} fired without being evaluated: give its score")

    @property
    def evaluated(self) -> bool:
        """Whether any of its turns was evaluated."""
        return self.score is not None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of right and wrong verdicts, on attacks (caught, missed) and on benign conversations.

    >>> counts = Confusion(caught=8, missed=2, false_alarms=1, cleared=99)
    >>> print(counts.recall, counts.fpr, sep="; ")
    8/10 = 80.0 % [44.4, 97.5]; 1/100 = 1.0 % [0.0, 5.4]
    >>> round(counts.f1, 4)
    0.8421
    """

    caught: int
    missed: int
    false_alarms: int
    cleared: int

    @property
    def recall(self) -> Rate:
        """Share of the attacks that were flagged."""
        return Rate(self.caught, self.caught + self.missed)

    @property
    def fpr(self) -> Rate:
        """Share of the benign conversations that were flagged."""
        return Rate(self.false_alarms, self.false_alarms + self.cleared)

    @property
    def precision(self) -> Rate:
        """Share of the flagged conversations that were attacks; it holds for the mix of labels at hand only."""
        return Rate(self.caught, self.caught + self.false_alarms)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None without attacks and without flags."""
        total = 2 * self.caught + self.missed + self.false_alarms
        return 2 * self.caught / total if total else None

    @property
    def f1_interval(self) -> tuple[float, float] | None:
        """The exact interval of F1; None where there is no F1.

        F1 = 2 J / (1 + J) rises with J, the share of caught attacks among all attacks and all flags, so that the
        Clopper-Pearson interval of J gives it.

        >>> low, high = Confusion(caught=8, missed=2, false_alarms=1, cleared=99).f1_interval
        >>> round(low, 4), round(high, 4)
        (0.5614, 0.969)
        """
        either = self.caught + self.missed + self.false_alarms
        if not either:
            return None
        low, high = Rate(self.caught, either).interval
        return 2 * low / (1 + low), 2 * high / (1 + high)


def judge_all(
    detector: Detector, examples: Iterable[Example], strata: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[Judged, ...]:
    """Run a detector over labelled conversations, each with at least one turn; `strata` are by id of the sequence.

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score, TurnScores
    >>> turns = tuple(TurnScores(turn, {"reciprocity": Score(0.5, 0.2, turn / 10)}) for turn in (5, 6, 7))
    >>> [found] = judge_all(build_detector("any_turn:threshold=0.55"), [Example("a", "goal", True, turns)])
    >>> found.fired, found.turn, found.turns, found.alarms
    (True, 6, 7, 1)
    """
    given = strata or {}
    return tuple(_judge(detector, example, given.get(example.sequence_id, {})) for example in examples)


def _judge(detector: Detector, example: Example, strata: Mapping[str, str]) -> Judged:
    if not example.turns:
        raise UsageError(f"conversation {example.sequence_id!r} has no turn: it needs at least one")
    verdict = run_detector(detector, example.turns)
    evaluated = [bool(scores.scores or scores.response_scores) for scores in example.turns]
    head = {
        "sequence_id": example.sequence_id,
        "group": example.group,
        "attack": example.attack,
        "turns": example.turns[-1].turn,
        "missing_turns": len(evaluated) - sum(evaluated),
        "strata": strata,
    }
    if not any(evaluated):
        return Judged(**head, score=None)  # type: ignore[arg-type]
    if getattr(detector, "judges_last", False):
        final, alarms = verdict.fired, int(verdict.fired)
    else:
        active = [signal.active for signal, known in zip(verdict.signals, evaluated, strict=True) if known]
        final = active[-1]
        alarms = sum(now and not before for before, now in zip([False, *active], active, strict=False))
    return Judged(
        **head,  # type: ignore[arg-type]
        score=-math.inf if verdict.score is None else verdict.score,
        fired=verdict.fired,
        turn=verdict.turn,
        final=final,
        alarms=alarms,
    )


def evaluated(judged: Iterable[Judged], attack: bool | None = None) -> list[Judged]:
    """The conversations that were evaluated, of one label if asked, in their order."""
    return [one for one in judged if one.evaluated and attack in (None, one.attack)]


def confusion(judged: Iterable[Judged], final: bool = False) -> Confusion:
    """Count the verdicts on evaluated conversations; what was not evaluated is in `missing_bounds`.

    >>> confusion([Judged("a", "g", True, 3, 0.9, fired=True, turn=2), Judged("b", "h", False, 3, 0.1)])
    Confusion(caught=1, missed=0, false_alarms=0, cleared=1)
    """
    known = evaluated(judged)
    flags = [(one.attack, one.final if final else one.fired) for one in known]
    return Confusion(
        caught=flags.count((True, True)),
        missed=flags.count((True, False)),
        false_alarms=flags.count((False, True)),
        cleared=flags.count((False, False)),
    )


def evaluated_by_both(first: Sequence[Judged], second: Sequence[Judged]) -> list[tuple[Judged, Judged]]:
    """The conversations that both evaluated, in the order of the first; there may be none."""
    others = {one.sequence_id: one for one in second if one.evaluated}
    return [(one, others[one.sequence_id]) for one in first if one.evaluated and one.sequence_id in others]


def matched(first: Sequence[Judged], second: Sequence[Judged]) -> list[tuple[Judged, Judged]]:
    """The conversations that both detectors evaluated, in the order of the first."""
    for arm in (first, second):
        ids = {one.sequence_id for one in arm}
        if len(ids) != len(arm):
            raise UsageError("a conversation occurs twice in one arm: give each sequence once")
    pairs = evaluated_by_both(first, second)
    for one, other in pairs:
        if (one.attack, one.group) != (other.attack, other.group):
            raise UsageError(f"the two arms must have the same label and group for sequence {one.sequence_id!r}")
    if not pairs:
        raise UsageError("the two arms share no evaluated conversation: evaluate the same with both")
    return pairs


def paired_test(
    pairs: Sequence[tuple[Judged, Judged]], *, attack: bool | None = None, final: bool = False
) -> McNemar:
    """McNemar's test of the verdicts at any turn, or at the last, on the conversations of one label if asked."""
    chosen = [(one, other) for one, other in pairs if attack in (None, one.attack)]
    return mcnemar(
        [one.final if final else one.fired for one, _ in chosen],
        [other.final if final else other.fired for _, other in chosen],
        [one.group for one, _ in chosen],
    )


LIMIT = 0.05
"""Share of missing conversations beyond which a report opens with a warning."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A rate on what was evaluated, and over all, had none or had every one of the missing been flagged."""

    evaluated: Rate
    none_flagged: Rate
    all_flagged: Rate


@dataclass(frozen=True, slots=True)
class Missing:
    """How much is missing, and what it could change.

    `attacks` and `benign` are shares of conversations of which nothing was evaluated, `turns` is the share of
    turns. `warning` is what to say first of all; it is empty where at most 5 % are missing.
    """

    attacks: Rate
    benign: Rate
    turns: Rate
    recall: Bounds
    fpr: Bounds
    warning: str


@dataclass(frozen=True, slots=True)
class PairedBounds:
    """A paired test on what both evaluated, and what the missing verdicts could make of it.

    `against_second` counts every missing verdict of the first as a flag and none of the second, `for_second` the
    other way round.
    """

    complete: McNemar
    against_second: McNemar
    for_second: McNemar


def missing_bounds(judged: Iterable[Judged]) -> Missing:
    """What is missing, and the bounds that hold whatever the reason.

    Source: C. F. Manski, "Partial Identification of Probability Distributions", 2003, whose worst-case bounds
    these are: they assume nothing about why a conversation is missing. A conversation of which some turns are
    missing is judged by the others; the share of such turns is given beside.

    >>> judged = [Judged(f"a{n}", "g", True, 4, 0.9, fired=True, turn=2) for n in range(9)]
    >>> found = missing_bounds([*judged, Judged("a9", "g", True, 4, None, missing_turns=4)])
    >>> str(found.recall.none_flagged), str(found.recall.all_flagged)
    ('9/10 = 90.0 % [55.5, 99.7]', '10/10 = 100.0 % [69.2, 100.0]')
    >>> found.warning
    '1 of 10 conversations (10.0 %) were not evaluated: read the bounds, not the rates alone'
    """
    given = list(judged)
    attacks, benign = ([one for one in given if one.attack is label] for label in (True, False))
    absent = sum(not one.evaluated for one in given)
    warning = ""
    if given and absent / len(given) > LIMIT:
        warning = (
            f"{absent} of {len(given)} conversations ({100 * absent / len(given):.1f} %) were not evaluated: "
            "read the bounds, not the rates alone"
        )
    return Missing(
        attacks=_absent(attacks),
        benign=_absent(benign),
        turns=Rate(sum(one.missing_turns for one in given), sum(one.turns for one in given)),
        recall=_bounds(attacks),
        fpr=_bounds(benign),
        warning=warning,
    )


def paired_bounds(first: Sequence[Judged], second: Sequence[Judged]) -> PairedBounds:
    """McNemar's test on the attacks that both arms evaluated, and with missing verdicts counted either way.

    If the conclusion is the same in all three, missing evaluations can't have made it.
    """
    ones = {one.sequence_id: one for one in first if one.attack}
    others = {one.sequence_id: one for one in second if one.attack}
    if ones.keys() != others.keys():
        raise UsageError("bounds need the same conversations in both arms, missing ones included")
    pairs = [(ones[name], others[name]) for name in ones]

    def test(of_first: bool, of_second: bool) -> McNemar:
        return mcnemar(
            [one.fired if one.evaluated else of_first for one, _ in pairs],
            [other.fired if other.evaluated else of_second for _, other in pairs],
            [one.group for one, _ in pairs],
        )

    both = [(one, other) for one, other in pairs if one.evaluated and other.evaluated]
    return PairedBounds(paired_test(both), test(True, False), test(False, True))


def _absent(judged: Sequence[Judged]) -> Rate:
    return Rate(sum(not one.evaluated for one in judged), len(judged))


def _bounds(judged: Sequence[Judged]) -> Bounds:
    known = [one for one in judged if one.evaluated]
    flagged, absent = sum(one.fired for one in known), len(judged) - len(known)
    return Bounds(
        evaluated=Rate(flagged, len(known)),
        none_flagged=Rate(flagged, len(judged)),
        all_flagged=Rate(flagged + absent, len(judged)),
    )
