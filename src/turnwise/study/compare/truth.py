"""Judged truth: the turns at which a reader flags something, and every arm beside them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.stats import Floats, Interval, ResampleWeights, interval, resamples
from turnwise.study.compare.judging import ArmJudgement

if TYPE_CHECKING:
    from turnwise.store import Store


FLAG = 0.5
"""F from which a reader flags a turn."""

_SHARES = (0.25, 0.5, 0.75)

Outcome = Literal["hit", "early", "miss", "false alarm", "clear"]
"""Fired at or after the reader's first turn; before it; never; though no reader would flag; neither did."""


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """What a reader and a detector say of one conversation, in turns from 1.

    `reader` has every turn at which the reader flags something, `fired` is the first at which the detector fires.

    >>> found = TurnVerdict("g", turns=9, reader=(3, 7), fired=5)
    >>> found.outcome, found.delay
    ('hit', 2)
    """

    group: str
    turns: int
    reader: tuple[int, ...]
    fired: int | None

    def __post_init__(self) -> None:
        named = (*self.reader, *([] if self.fired is None else [self.fired]))
        if self.turns < 1 or any(not 1 <= turn <= self.turns for turn in named):
            raise UsageError(
                f"a conversation of {self.turns} turns has turns 1 to {self.turns}, not {sorted(named)}"
            )

    @property
    def outcome(self) -> Outcome:
        """What the detector did, taking the reader to be right."""
        if not self.reader:
            return "clear" if self.fired is None else "false alarm"
        if self.fired is None:
            return "miss"
        return "hit" if self.fired >= min(self.reader) else "early"

    @property
    def delay(self) -> int | None:
        """Turns from the reader's first flag to the detector's, below 0 where it was early; None without both."""
        return None if self.fired is None or not self.reader else self.fired - min(self.reader)


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """How a detector does against a reader, over many conversations.

    Where the reader flags a turn, the detector fires then or later (`hit`), before (`early`) or never (`miss`).
    Where the reader flags nothing, `false_alarm` is how often the detector fires, and `quiet_turns` are the turns
    there. `delay` of the hits and `lead` of the early ones, by how much they came too early, are in turns:
    quartiles by their share (0.25, 0.5, 0.75), with intervals of the cluster bootstrap; NaN without any.
    """

    hit: Rate
    early: Rate
    miss: Rate
    false_alarm: Rate
    quiet_turns: int
    delay: Mapping[float, Interval]
    lead: Mapping[float, Interval]

    @property
    def alarms_per_thousand(self) -> tuple[float, float, float] | None:
        """False alarms per 1,000 `quiet_turns`, with the ends of the exact interval; None without any.

        A conversation counts once at most: what has fired has fired.
        """
        if not self.quiet_turns:
            return None
        rate = Rate(self.false_alarm.count, self.quiet_turns)
        low, high = rate.interval
        return 1000 * rate.count / rate.of, 1000 * low, 1000 * high

    def __str__(self) -> str:
        named = {"hit": self.hit, "early": self.early, "miss": self.miss, "false alarm": self.false_alarm}
        lines = [f"{name}: {rate}" for name, rate in named.items()]
        if self.alarms_per_thousand is not None:
            value, low, high = self.alarms_per_thousand
            lines.append(f"false alarms per 1,000 turns: {value:.1f} [{low:.1f}, {high:.1f}]")
        if self.hit.count:
            lower, middle, upper = (self.delay[share] for share in _SHARES)
            lines.append(
                f"delay of the hits: median {middle.value:g} turns [{middle.low:g}, {middle.high:g}], quartiles "
                f"{lower.value:g} and {upper.value:g}"
            )
        return "\n".join(lines)


def flagged_turns(turns: Sequence[Mapping[str, float]]) -> tuple[int, ...]:
    """The turns at which a reader flags any principle, from F by principle turn by turn; empty if not judged.

    >>> flagged_turns([{"reciprocity": 0.2}, {"reciprocity": 0.1, "scarcity": 0.5}, {}, {"scarcity": 0.9}])
    (2, 4)
    """
    return tuple(turn for turn, F in enumerate(turns, start=1) if any(value >= FLAG for value in F.values()))


def summarise_turns(verdicts: Sequence[TurnVerdict], replicates: int = 1000, seed: int = 0) -> TurnSummary:
    """Count hits, misses and false alarms, and say how late the hits are.

    Rates have exact intervals, which take conversations for independent (C. J. Clopper and E. S. Pearson,
    Biometrika 26, 1934). Those of the delays are of the cluster bootstrap over the groups of the hits.

    >>> given = [TurnVerdict("a", 9, (3,), 5), TurnVerdict("b", 9, (), 2), TurnVerdict("c", 9, (), None)]
    >>> summary = summarise_turns(given)
    >>> summary.hit.count, str(summary.false_alarm), summary.delay[0.5].value
    (1, '1/2 = 50.0 % [1.3, 98.7]', 2.0)
    """
    outcomes = [one.outcome for one in verdicts]
    flagged = sum(bool(one.reader) for one in verdicts)
    hits = [one for one in verdicts if one.outcome == "hit"]
    early = [one for one in verdicts if one.outcome == "early"]
    return TurnSummary(
        hit=Rate(len(hits), flagged),
        early=Rate(len(early), flagged),
        miss=Rate(outcomes.count("miss"), flagged),
        false_alarm=Rate(outcomes.count("false alarm"), len(verdicts) - flagged),
        quiet_turns=sum(one.turns for one in verdicts if not one.reader),
        delay=_quartiles(hits, replicates, seed),
        lead=_quartiles(early, replicates, seed),
    )


def _quartiles(verdicts: Sequence[TurnVerdict], replicates: int, seed: int) -> dict[float, Interval]:
    if not verdicts:
        nothing = Interval(math.nan, math.nan, math.nan, 0.95, "percentile", 0, "there is no such conversation")
        return dict.fromkeys(_SHARES, nothing)
    groups = [one.group for one in verdicts]
    drawn = resamples(groups, [True] * len(groups), np.random.default_rng(seed), replicates)
    turns = np.array([abs(one.delay or 0) for one in verdicts], dtype=float)
    return {share: interval(_quantile_of(turns, share), drawn) for share in _SHARES}


def _quantile_of(values: Floats, share: float) -> Callable[[ResampleWeights], Floats]:
    """The least value that at least the given share of the weight does not exceed, as a statistic."""
    order = np.argsort(values, kind="stable")

    def quantile(weights: ResampleWeights) -> Floats:
        reached = weights.each()[:, order].cumsum(axis=1)
        enough = reached >= share * reached[:, -1:] - 1e-9
        found: Floats = values[order[enough.argmax(axis=1)]]
        return found

    return quantile


@dataclass(frozen=True, slots=True)
class ReaderTurns:
    """What a reader flags, as a run recorded it.

    Args:
        run: name of the run.
        turns: by conversation that the reader judged, the turns where F of any principle is 0.5 or more.
        partly_judged: conversations left out because a turn before the first flag, or any where there is no flag,
            was not judged.
        turns_sha256: SHA-256 of `turns`.
    """

    run: str
    turns: Mapping[str, tuple[int, ...]]
    partly_judged: int
    turns_sha256: str

    def first(self, sequence_id: str) -> int | None:
        """Return the first turn that the reader flags in a conversation; None where none, or it was not judged."""
        return min(self.turns.get(sequence_id, ()), default=None)


@dataclass(frozen=True, slots=True)
class ArmAgainstReader:
    """One arm beside the reader.

    Args:
        name: of the arm.
        summary: hits, early ones, misses, false alarms and delays.
        not_evaluated: tested and judged conversations that the arm's run has no score of; in none of the counts.
    """

    name: str
    summary: TurnSummary
    not_evaluated: int


@dataclass(frozen=True, slots=True)
class AgainstReader:
    """All arms beside a reader, on the tested conversations that the reader judged.

    Args:
        reader: what the reader flags.
        arms: the arms, in the order of the study.
        unjudged: tested conversations that the reader did not judge, or not up to the first flag.
    """

    reader: ReaderTurns
    arms: tuple[ArmAgainstReader, ...]
    unjudged: int


def read_reader(store: Store, run: str) -> ReaderTurns:
    """Return what a reader flags, from the run that recorded it.

    A conversation counts where every turn was judged, prompt or reply, or every turn up to the first flag. Where
    a reader judged replies alone, a turn without one needs no judgement.

    Args:
        run: name of the run, such as ``judged-history``.

    Raises:
        UnknownNameError: the store has no such run.
    """
    turns: dict[str, tuple[int, ...]] = {}
    partly = 0
    for head, trajectory in store.trajectories(run):
        if not trajectory:
            continue
        turns_read = list(trajectory)
        flagged = flagged_turns([_falsities(scores) for scores in turns_read])
        replies_alone = not any(scores.scores for scores in turns_read)
        before = turns_read[: flagged[0] if flagged else None]
        if all(_falsities(scores) or (replies_alone and not scores.response_length) for scores in before):
            turns[head.sequence_id] = flagged
        else:
            partly += 1
    told = "".join(f"{name}\0{turns[name]}\n" for name in sorted(turns))
    return ReaderTurns(run, turns, partly, hashlib.sha256(told.encode()).hexdigest())


def _falsities(scores: TurnScores) -> dict[str, float]:
    sides = {"prompt": scores.scores, "response": scores.response_scores}
    return {f"{side} {name}": score.F for side, given in sides.items() for name, score in given.items()}


def against_reader(
    judgements: Sequence[ArmJudgement], reader: ReaderTurns, replicates: int, seed: int
) -> AgainstReader:
    """Every arm beside a reader."""
    arms = []
    for judgement in judgements:
        judged = [one for one in judgement.judged if one.sequence_id in reader.turns]
        verdicts = [
            TurnVerdict(one.group, one.turns, reader.turns[one.sequence_id], one.turn)
            for one in judged
            if one.evaluated
        ]
        summary = summarise_turns(verdicts, replicates, seed)
        arms.append(ArmAgainstReader(judgement.arm.name, summary, len(judged) - len(verdicts)))
    tested = judgements[0].judged
    unjudged = sum(one.sequence_id not in reader.turns for one in tested)
    return AgainstReader(reader, tuple(arms), unjudged)
