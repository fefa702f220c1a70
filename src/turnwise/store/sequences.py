"""Adds sequences to a record: each once, and never changed but for its label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, insert, select, update

from turnwise._support.batches import batched
from turnwise._support.notebook import Shown
from turnwise.conversation import Label, Sequence, Turn
from turnwise.conversation.json_values import json_object
from turnwise.datasets.labels_and_roles import UNKNOWN_LABEL
from turnwise.errors import OtherLabelError, UsageError
from turnwise.store import schema
from turnwise.store.damage import intact
from turnwise.store.database import PAGE, Database, renew_edition


@dataclass(frozen=True, slots=True)
class Added(Shown):
    """Whether a stored sequence was new, and whether its label changed.

    Args:
        new: whether the store did not have it.
        label_before: the label that it had until now; None where that was not changed.
    """

    new: bool
    label_before: Label | None = None


def add_sequences(database: Database, sequences: Iterable[Sequence], *, relabel: bool = False) -> list[Added]:
    """Store sequences in one transaction, and say of each what came of it; see `Store.add_sequences`."""
    return database.write(partial(_add, database, list(sequences), relabel)).result()


def _add(database: Database, given: list[Sequence], relabel: bool, connection: Connection) -> list[Added]:
    table = schema.sequences
    stored: dict[str, str] = {}
    for some in batched({sequence.sequence_id for sequence in given}, PAGE):
        query = select(table.c.sequence_id, table.c.content_sha256).where(table.c.sequence_id.in_(some))
        stored.update((row[0], row[1]) for row in connection.execute(query))
    new: dict[str, Sequence] = {}
    rows: list[dict[str, Any]] = []
    outcomes: list[Added] = []
    for sequence in given:
        digest = sequence.content_hash()
        there = stored.get(sequence.sequence_id)
        if there is None:
            stored[sequence.sequence_id] = digest
            new[sequence.sequence_id] = sequence
            rows.append(_row(sequence, digest, database))
            outcomes.append(Added(new=True))
        elif there == digest:
            outcomes.append(Added(new=False))
        elif sequence.sequence_id in new:  # it came with two contents in one call
            raise _conflict(sequence, new[sequence.sequence_id])
        else:
            outcomes.append(_meet(database.where, connection, sequence, relabel))
    if any(one.label_before is not None for one in outcomes):
        renew_edition(connection)
    if rows:
        statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
        keys = connection.scalars(statement, rows).all()
        turns = [
            _turn_row(key, turn)
            for key, sequence in zip(keys, new.values(), strict=True)
            for turn in sequence.conversation
        ]
        connection.execute(insert(schema.turns), turns)
    return outcomes


def _meet(where: str, connection: Connection, given: Sequence, relabel: bool) -> Added:
    """What comes of a sequence whose id is stored with other content; raises unless only its label changes."""
    table = schema.sequences.c
    names = (table.id, table.label, table.source, table.metadata, table.content_sha256)
    row = connection.execute(select(*names).where(table.sequence_id == given.sequence_id)).mappings().one()
    with intact(where, f"sequence {given.sequence_id!r}"):
        label, metadata = Label(row["label"]), json_object(row["metadata"], "metadata")
    # The digest is of the turns too: with all else as it is stored, it tells whether they are the same.
    stored = replace(given, label=label, source=row["source"], metadata=metadata)
    if stored.content_hash() != row["content_sha256"]:
        raise _conflict(given, None)
    if not relabel:
        raise _conflict(given, stored)
    said = {UNKNOWN_LABEL: given.metadata[UNKNOWN_LABEL]} if UNKNOWN_LABEL in given.metadata else {}
    others = {name: value for name, value in metadata.items() if name != UNKNOWN_LABEL}
    changed = replace(stored, label=given.label, metadata={**others, **said})
    values = {
        "label": str(changed.label),
        "metadata": dict(changed.metadata),
        "content_sha256": changed.content_hash(),
    }
    if values["content_sha256"] != row["content_sha256"]:
        connection.execute(update(schema.sequences).where(table.id == row["id"]).values(values))
    return Added(new=False, label_before=None if label is given.label else label)


def _row(sequence: Sequence, digest: str, database: Database) -> dict[str, Any]:
    return {
        "sequence_id": sequence.sequence_id,
        "label": str(sequence.label),
        "source": sequence.source,
        "turns": sequence.conversation.get_turn_count(),
        "content_sha256": digest,
        "conversation": sequence.conversation.to_dict(turns=False),
        "metadata": json_object(sequence.metadata, "metadata"),  # else it could not come back as it was
        "imported_at": database.clock(),
    }


def _conflict(given: Sequence, stored: Sequence | None) -> UsageError:
    """The error for a sequence whose id is taken; `stored` is None where its turns are known to differ."""
    if stored is not None and stored.conversation is not given.conversation:
        same_turns = replace(given, label=stored.label, source=stored.source, metadata=stored.metadata)
        stored = stored if same_turns.content_hash() == stored.content_hash() else None
    if stored is not None and stored.label is not given.label:
        return OtherLabelError(given.sequence_id, stored.label, given.label)
    if stored is None:
        differs = "its turns differ"
    elif stored.source != given.source:
        differs = f"it comes from {stored.source!r}, not {given.source!r}"
    else:
        differs = "its metadata differ"
    return UsageError(
        f"duplicate id {given.sequence_id!r}: the store holds a sequence of that id with other content, "
        f"{differs}; give it another id, or use another store"
    )


def _turn_row(sequence: int, turn: Turn) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "turn": turn.number,
        "prompt": turn.prompt,
        "response": turn.response,
        "prompt_chars": len(turn.prompt),
        "response_chars": len(turn.response or ""),
        "timestamp": turn.timestamp,
        "response_timestamp": turn.response_timestamp,
        "metadata": turn.metadata,
    }
