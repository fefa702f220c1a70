"""What a run lacks of a store: the work of every sequence, page by page."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Sequence as Ordered
from dataclasses import dataclass

from turnwise.batches import batched
from turnwise.conversation import Label, Side
from turnwise.evaluation.plan import Work, plan
from turnwise.observers import Context
from turnwise.principles import Principle
from turnwise.scoring import EvaluationKey
from turnwise.store import Store

_PAGE = 256
"""Sequences that are planned at once."""


@dataclass(frozen=True, slots=True)
class Aim:
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


def works_of(store: Store, run: str, aim: Aim) -> Iterator[Work]:
    """Yield the work of every sequence in the order of import, also where nothing is missing.

    Args:
        store: the record.
        run: name of the run; where there is none of that name, everything is missing.
        aim: what the run is to have.

    Raises:
        UnknownNameError: one of the sequences is not in the store.
    """
    exists = any(known.name == run for known in store.runs())
    for page in batched(store.sequences(ids=aim.ids, label=aim.label), _PAGE):
        recorded = store.recorded(run, [sequence.sequence_id for sequence in page]) if exists else set()
        for sequence in page:
            yield plan(
                run,
                sequence,
                recorded,
                principles=aim.principles,
                context=aim.context,
                sides=aim.sides,
                only=aim.only,
            )


def count_missing(store: Store, run: str, aim: Aim) -> int:
    """Return how many scores a run lacks; arguments and errors as `works_of`."""
    return sum(work.missing for work in works_of(store, run, aim))
