"""Judged truth: the turns at which a reader flags something, and every arm beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.scoring import TurnScores
from turnwise.study.compare.judging import Judgement
from turnwise.study.stats.turn_truth import TurnSummary, TurnVerdict, flagged_turns, summarise_turns

if TYPE_CHECKING:
    from turnwise.store import Store


@dataclass(frozen=True, slots=True)
class ReaderTurns:
    """What a reader flags, as a run recorded it.

    Args:
        run: name of the run.
        turns: by conversation that the reader judged, the turns where F of any principle is 0.5 or more.
        partly: conversations left out because a turn before the first flag, or any where there is no flag, was not
            judged.
        digest: SHA-256 of `turns`.
    """

    run: str
    turns: Mapping[str, tuple[int, ...]]
    partly: int
    digest: str

    def first(self, sequence_id: str) -> int | None:
        """Return the first turn that the reader flags in a conversation; None where none, or it was not judged."""
        return min(self.turns.get(sequence_id, ()), default=None)


@dataclass(frozen=True, slots=True)
class ArmAgainstReader:
    """One arm beside the reader.

    Args:
        arm: its name.
        summary: hits, early ones, misses, false alarms and delays.
        missing: tested and judged conversations that the arm's run has no score of; in none of the counts.
    """

    arm: str
    summary: TurnSummary
    missing: int


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
    judgements: Sequence[Judgement], reader: ReaderTurns, replicates: int, seed: int
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
