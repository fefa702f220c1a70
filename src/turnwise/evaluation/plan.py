"""What is missing: which scores a run still lacks, sequence by sequence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field, replace

from turnwise.batches import batched
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.observers import Context, ContextMode, Request
from turnwise.principles import Principle
from turnwise.scoring import EvaluationKey
from turnwise.store import Store


@dataclass(frozen=True, slots=True)
class Task:
    """One sequence with the scores that are wanted of it; travels to a worker process.

    Args:
        sequence_id: id of the sequence.
        turns: all turns, so that the observer's state is right at the wanted ones; their texts alone, since what
            a data set says about a turn may give the answer away.
        wanted: what is wanted of each turn, by turn number; turns of which nothing is wanted are absent.
        present: how many wanted scores the run has already.
    """

    sequence_id: str
    turns: tuple[Turn, ...]
    wanted: Mapping[int, tuple[Request, ...]] = field(default_factory=dict)
    present: int = 0

    @property
    def missing(self) -> int:
        """How many scores are to be made."""
        return sum(map(len, self.wanted.values()))


def make_task(
    run: str,
    sequence: Sequence,
    recorded: Collection[EvaluationKey],
    *,
    principles: Ordered[Principle],
    context: Context,
    sides: Ordered[Side] = (Side.PROMPT,),
    only: Collection[EvaluationKey] | None = None,
) -> Task:
    """Return what a run lacks of a sequence.

    A side that did not speak is not wanted. In the context ``transcript`` the whole conversation is one text,
    scored once, at its last turn.

    Args:
        run: name of the run.
        sequence: the sequence.
        recorded: keys of the evaluations that the run has; failures are not among them, so they are tried again.
        principles: what to judge against.
        context: what the observer may see.
        sides: halves of a turn to judge.
        only: of all that is missing, only these.
    """
    turns = tuple(Turn(turn.number, turn.prompt, turn.response) for turn in sequence.conversation)
    first = len(turns) if context.mode is ContextMode.TRANSCRIPT else 1
    wanted: dict[int, tuple[Request, ...]] = {}
    present = 0
    for turn in turns[first - 1 :]:
        asked = [
            Request(principle, side) for principle in principles for side in sides if turn.text(side) is not None
        ]
        about = run, sequence.sequence_id, turn.number
        keys = [EvaluationKey(*about, request.side, request.principle.name) for request in asked]
        missing = [pair for pair in zip(asked, keys, strict=True) if pair[1] not in recorded]
        present += len(asked) - len(missing)
        chosen = tuple(request for request, key in missing if only is None or key in only)
        if chosen:
            wanted[turn.number] = chosen
    return Task(sequence.sequence_id, turns, wanted, present)


def split(task: Task) -> Iterator[Task]:
    """Yield the work of a sequence in parts of one score each; they share the turns.

    For observers whose scores depend on the texts of the turns alone, so that no part has to wait for another.
    """
    for turn, requests in task.wanted.items():
        for request in requests:
            yield replace(task, wanted={turn: (request,)}, present=0)


_PAGE = 256
"""Sequences that are planned at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to have.

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
        recorded = store.recorded(run, [sequence.sequence_id for sequence in page]) if exists else set()
        for sequence in page:
            yield make_task(
                run,
                sequence,
                recorded,
                principles=plan.principles,
                context=plan.context,
                sides=plan.sides,
                only=plan.only,
            )


def count_missing(store: Store, run: str, plan: Plan) -> int:
    """Return how many scores a run lacks; arguments and errors as `tasks_of`."""
    return sum(task.missing for task in tasks_of(store, run, plan))
