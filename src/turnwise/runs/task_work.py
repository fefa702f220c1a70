"""The work of an evaluation: scoring what is wanted of stored sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from turnwise.observers import Context, ObservedTurn, Observer, ObserverSession, build_observer
from turnwise.runs.plan import Task


class Scored(NamedTuple):
    """A sequence with all that came of its task, turn by turn; `wanted` is how many scores were asked for."""

    sequence_id: str
    turns: tuple[ObservedTurn, ...]
    wanted: int


@dataclass(frozen=True, slots=True)
class TaskWork:
    """What scores tasks: an observer, or in other processes one that is built there by its specification."""

    observer: str | Observer
    context: Context
    settings: Mapping[str, object] = field(default_factory=dict)

    def open(self) -> TaskWorker:
        """A worker of this process."""
        observer = self.observer
        if isinstance(observer, str):
            observer = build_observer(observer, **self.settings)
        return TaskWorker(observer, self.context)


@dataclass(frozen=True, slots=True)
class TaskWorker:
    """Scores tasks; several threads may share it where the observer allows that."""

    observer: Observer
    context: Context

    def do(self, tasks: Sequence[Task], /) -> list[Scored]:
        """Score some tasks; errors as for `ObserverSession`."""
        return [score_task(self.observer, self.context, task) for task in tasks]


def score_task(observer: Observer, context: Context, task: Task) -> Scored:
    """Score what is wanted of a sequence; errors as for `ObserverSession`."""
    if not task.wanted:
        return Scored(task.sequence_id, (), 0)
    session = ObserverSession(observer, context, task.sequence_id)
    return Scored(task.sequence_id, session.observe_all(task.turns, task.wanted), task.missing)
