"""What a run of stored sequences is to have, which of these scores it lacks, and the work of making them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from turnwise._support.batches import batched
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.conversation.json_values import json_object
from turnwise.observers import (
    Context,
    ContextMode,
    HasStages,
    ObservedTurn,
    Observer,
    ObserverInfo,
    ObserverSession,
    Request,
    build_observer,
)
from turnwise.observers.protocol import asked_together
from turnwise.principles import Principle
from turnwise.scoring import EvaluationKey
from turnwise.store import Store

_PAGE = 256
"""Sequences that are planned at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The scores that a run should have.

    Args:
        principles: what to judge against.
        context: what the observer may see.
        sides: halves of a turn to judge.
        ids: only these sequences.
        label: only sequences with this ground truth.
        only: of all that is missing, only these scores.
    """

    principles: Ordered[Principle]
    context: Context
    sides: Ordered[Side] = (Side.PROMPT,)
    ids: Collection[str] | None = None
    label: Label | None = None
    only: Collection[EvaluationKey] | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One sequence with the scores that are wanted of it; travels to a worker process.

    It has all turns, so that the observer's state is right at the wanted ones, but their texts alone, since what a
    data set says about a turn may give the answer away. `wanted` goes by turn number, without turns of which
    nothing is wanted. `present` counts wanted scores that the run has, or can't have since the text was not read.
    """

    sequence_id: str
    turns: tuple[Turn, ...]
    wanted: Mapping[int, tuple[Request, ...]] = field(default_factory=dict)
    present: int = 0

    @property
    def missing(self) -> int:
        """How many scores are to be made."""
        return sum(map(len, self.wanted.values()))

    def split(self, *, together: bool) -> Iterator[Task]:
        """One for each score, with `together` for each side of a turn, where scores don't depend on each other."""
        for turn, wanted in self.wanted.items():
            for requests in asked_together(wanted, together=together):
                yield replace(self, wanted={turn: tuple(requests)}, present=0)


def make_task(run: str, sequence: Sequence, recorded: Collection[EvaluationKey], plan: Plan) -> Task:
    """What a run lacks of a sequence; failures are not among the `recorded`, so they are tried again.

    A side that did not speak is not wanted. In the context ``transcript`` the whole conversation is one text,
    scored once, at its last turn.
    """
    turns = tuple(Turn(turn.number, turn.prompt, turn.response) for turn in sequence.conversation)
    first = len(turns) if plan.context.mode is ContextMode.TRANSCRIPT else 1
    wanted: dict[int, tuple[Request, ...]] = {}
    present = 0
    for turn in turns[first - 1 :]:
        asked = [
            Request(principle, side)
            for principle in plan.principles
            for side in plan.sides
            if turn.text(side) is not None
        ]
        about = run, sequence.sequence_id, turn.number
        keys = [EvaluationKey(*about, request.side, request.principle.name) for request in asked]
        missing = [pair for pair in zip(asked, keys, strict=True) if pair[1] not in recorded]
        present += len(asked) - len(missing)
        chosen = tuple(request for request, key in missing if plan.only is None or key in plan.only)
        if chosen:
            wanted[turn.number] = chosen
    return Task(sequence.sequence_id, turns, wanted, present)


def tasks_of(store: Store, run: str, plan: Plan) -> Iterator[Task]:
    """Yield the work of every sequence in the order of import, also where nothing is missing.

    Args:
        store: the record.
        run: name of the run; where there is none of that name, everything is missing.
        plan: what the run is to have.

    Raises:
        UnknownNameError: one of the sequences is not in the store.
    """
    exists = any(known.name == run for known in store.runs())
    for page in batched(store.sequences(ids=plan.ids, label=plan.label), _PAGE):
        names = [sequence.sequence_id for sequence in page]
        recorded = store.recorded(run, names) if exists else set()
        if exists:  # what the observer does not read it will not read the next time
            recorded |= {one.key for one in store.unread(run, ids=names)}
        for sequence in page:
            yield make_task(run, sequence, recorded, plan)


def count_missing(store: Store, run: str, plan: Plan) -> int:
    """Return how many scores a run lacks; arguments and errors as for `tasks_of`."""
    return sum(task.missing for task in tasks_of(store, run, plan))


def describe_run(
    name: str, spec: str, info: ObserverInfo, parameters: Mapping[str, object], context: Context
) -> dict[str, Any]:
    """What a store and the manifest of findings say of a run: its observer with its settings, and the context."""
    return {
        "name": name,
        "observer": spec,
        "observer_version": info.version,
        "context": str(context),
        "parameters": json_object(parameters, f"parameters of the observer {info.name!r}"),
        "operating_points": dict(info.operating_points.get(str(context), {})),
    }


def describe_stages(name: str, observer: Observer | None, context: Context) -> dict[str, dict[str, Any]]:
    """The same of the observers on whose scores one decides, by their stage; empty where it has none."""
    if not isinstance(observer, HasStages):
        return {}
    return {
        stage: describe_run(
            f"{name}.{stage}", getattr(one, "spec", one.info.name), one.info, one.parameters, context
        )
        for stage, one in observer.stages.items()
    }


class ScoredTask(NamedTuple):
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

    def open(self) -> Callable[[Ordered[Task]], list[ScoredTask]]:
        """What scores some tasks; threads may share it where the observer allows that."""
        observer = self.observer
        if isinstance(observer, str):
            observer = build_observer(observer, **self.settings)
        return lambda tasks: [score_task(observer, self.context, task) for task in tasks]


def score_task(observer: Observer, context: Context, task: Task) -> ScoredTask:
    """Score what is wanted of a sequence; errors as for `ObserverSession`."""
    if not task.wanted:
        return ScoredTask(task.sequence_id, (), 0)
    session = ObserverSession(observer, context, task.sequence_id)
    return ScoredTask(task.sequence_id, session.observe_all(task.turns, task.wanted), task.missing)
