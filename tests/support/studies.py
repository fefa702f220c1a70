"""Runs of scores of a known kind, as a study reads them from a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from turnwise.scoring import Score, TurnScores
from turnwise.store import Run
from turnwise.study import Example, LabelledConversation, RunData, StudyData, strata_of

Turns = tuple[TurnScores, ...]


def turns_of(
    F: Iterable[float], principle: str = "p", *, T: float | None = 0.5, length: int | None = 9, gone: bool = False
) -> Turns:
    """Return turns with these F, of length 9 and with T of a half; T is the rest to 1 where it is None.

    With `gone` the turns are there, and their scores are not.
    """
    return tuple(
        TurnScores(turn, {} if gone else {principle: Score(1 - f if T is None else T, 0.2, f)}, length=length)
        for turn, f in enumerate(F, start=1)
    )


@dataclass(frozen=True)
class Chat:
    """A labelled conversation, with its turns by run."""

    name: str
    group: str
    attack: bool
    turns: Mapping[str, Turns]
    source: str = "made"
    metadata: Mapping[str, object] = field(default_factory=dict)


def run_of(name: str, context: str, observer: str = "made", **points: float) -> Run:
    return Run(name, observer, "1", context, {}, points, "0", datetime(2026, 1, 1, tzinfo=UTC))


def study_data(chats: Iterable[Chat], runs: Iterable[Run]) -> StudyData:
    """Return what a study reads of these conversations."""
    given = list(chats)
    known = []
    for one in given:
        length = len(next(iter(one.turns.values())))
        strata = strata_of(one.source, one.metadata, length)
        known.append(LabelledConversation(one.name, one.group, one.attack, length, strata))
    data = (
        RunData(run, tuple(Example(one.name, one.group, one.attack, one.turns[run.name]) for one in given))
        for run in runs
    )
    return StudyData(tuple(known), tuple(data), 0, 0, "0" * 64)


def with_runs(data: StudyData, *runs: RunData) -> StudyData:
    return replace(data, runs=runs)


def with_turns(run: RunData, turns: Mapping[str, Turns] | Sequence[Turns]) -> RunData:
    """Return a run with other turns of some conversations, by id, or of all, in their order."""
    if isinstance(turns, Mapping):
        turns = [turns.get(one.sequence_id, one.turns) for one in run.examples]
    return replace(run, examples=tuple(replace(one, turns=t) for one, t in zip(run.examples, turns, strict=True)))
