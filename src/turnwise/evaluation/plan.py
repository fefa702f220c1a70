"""What is missing: which scores a run still lacks, sequence by sequence, and what they would cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field, replace

from turnwise._support.batches import batched
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.observers import Context, ContextMode, CostEstimator, Request
from turnwise.principles import Principle
from turnwise.scoring import EvaluationKey
from turnwise.store import Store


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
    """What a run lacks of a sequence; failures are not among the `recorded`, so they are tried again.

    A side that did not speak is not wanted. In the context ``transcript`` the whole conversation is one text,
    scored once, at its last turn.
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
    """Split a task into one for each score, for observers whose scores depend on the texts of the turns alone."""
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
        names = [sequence.sequence_id for sequence in page]
        recorded = store.recorded(run, names) if exists else set()
        if exists:  # what the observer does not read it will not read the next time
            recorded |= {one.key for one in store.unread(run, ids=names)}
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
    """Return how many scores a run lacks; arguments and errors as for `tasks_of`."""
    return sum(task.missing for task in tasks_of(store, run, plan))


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a language model would be asked for the scores that a run lacks, and what that would cost.

    `calls` would be sent if none has to be sent again; `cached` are answered by replies that are kept already, or
    by others of these calls. Tokens are estimates, those of replies for the usual length. `cost_usd` is what they
    would cost, `most_usd` the same if every reply were as long as it may be; both None where the model's price is
    not known.
    """

    scores: int
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    most_usd: float | None


def forecast(store: Store, run: str, estimator: CostEstimator, plan: Plan) -> Forecast:
    """What the scores that a run lacks would cost; nothing is sent, and no key is needed. See `tasks_of`."""
    scores = calls = cached = prompt_tokens = completion_tokens = 0
    cost = most = 0.0
    counted: set[tuple[str, int]] = set()

    def is_free(asked: tuple[str, int]) -> bool:
        if not estimator.reuses_replies:
            return False
        if asked in counted:
            return True
        kept = store.journal.find(*asked)
        return kept is not None and estimator.is_readable(kept)

    for task in tasks_of(store, run, plan):
        for turn, request in ((turn, one) for turn, wanted in task.wanted.items() for one in wanted):
            about = request.principle, task.turns, turn, request.side, plan.context
            asked = estimator.requests(*about)
            new = [one for one in asked if not is_free(one)]
            counted.update(new)
            scores += 1
            calls += len(new)
            cached += len(asked) - len(new)
            if new:
                guess = estimator.estimate(*about, len(new))
                prompt_tokens += guess.prompt_tokens
                completion_tokens += guess.completion_tokens
                cost += guess.cost_usd or 0.0
                most += guess.most_usd or 0.0
    known = estimator.price_as_of is not None
    return Forecast(
        scores, calls, cached, prompt_tokens, completion_tokens, cost if known else None, most if known else None
    )
