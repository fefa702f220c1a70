"""Sequences are added to a record, or those of a data set file: each once, and never changed but for its label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from turnwise._support.batches import batched
from turnwise._support.notebook import Shown
from turnwise.conversation import Label, Sequence, Turn
from turnwise.conversation.json_values import json_object
from turnwise.datasets.labels_and_roles import UNKNOWN_LABEL
from turnwise.datasets.protocol import BadRecord
from turnwise.errors import DatasetError, OtherLabelError, UsageError
from turnwise.store import schema
from turnwise.store.damaged_rows import intact
from turnwise.store.database import PAGE, Database, renew_edition

if TYPE_CHECKING:
    from turnwise.store.store import Store


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
    digest = changed.content_hash()
    if digest != row["content_sha256"]:
        values = {"label": str(changed.label), "metadata": dict(changed.metadata), "content_sha256": digest}
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


_BATCH = 256
"""Records that share a transaction."""

MOST_BAD = 100_000
"""Bad records that may follow each other; some kilobytes can be packed so that they stand for billions."""


class OtherLabel(NamedTuple):
    """A sequence whose label in the file is not the one that the store had.

    Args:
        stored: the label in the store, until this import.
        given: the label in the file.
    """

    sequence_id: str
    stored: Label
    given: Label


@dataclass(frozen=True, slots=True)
class Imported(Shown):
    """What an import did.

    Args:
        imported: sequences that are new in the store.
        skipped: sequences that were there already, including those with another label in the file.
        errors: what could not be read or stored, in the order of the file.
        relabelled: sequences that were there and got the label of the file.
        other_labels: sequences that were there and kept their label, though the file has another one.
    """

    imported: int
    skipped: int
    errors: tuple[BadRecord, ...]
    relabelled: tuple[OtherLabel, ...] = ()
    other_labels: tuple[OtherLabel, ...] = ()


def import_sequences(
    store: Store,
    records: Iterable[Sequence | BadRecord],
    *,
    where: str,
    strict: bool = False,
    relabel: bool = False,
) -> Imported:
    """Store the sequences among records, a few hundred at a time.

    Args:
        records: what a loader yields; taken lazily.
        where: name of the file, for messages.
        strict: stop at the first bad record; what came before it is kept.
        relabel: give sequences that are stored already with the same turns the label of these; see
            `Store.add_sequences`. Those with other turns are bad records.

    Raises:
        DatasetError: a bad record, where `strict` is set; very many of them in a row; or the file can't be read at
            all.
        StoreError: the store can't be written.
    """
    done = _ImportTally()
    errors: list[BadRecord] = []
    in_a_row = 0
    for batch in batched(records, _BATCH):
        bad = [record for record in batch if isinstance(record, BadRecord)]
        upto = batch.index(bad[0]) if strict and bad else len(batch)
        good = [record for record in batch[:upto] if isinstance(record, Sequence)]
        conflicts = _add_some(store, good, done, done.count + len(errors), strict, relabel)
        errors += sorted([*bad, *conflicts], key=lambda error: error.line)
        in_a_row = len(bad) + (in_a_row if len(bad) == len(batch) else 0)
        if in_a_row > MOST_BAD:
            raise DatasetError(
                f"{where}: more than {MOST_BAD:,} records in a row can't be read, the last of them since: "
                f"{bad[-1].reason}; what came before them is kept"
            )
        if strict and errors:
            raise DatasetError(f"{where}, line {errors[0].line}: {errors[0].reason}; --strict stops here")
    labels = tuple(done.relabelled), tuple(done.other_labels)
    return Imported(done.new, done.count - done.new, tuple(errors), *labels)


@dataclass(slots=True)
class _ImportTally:
    """What came of the sequences so far; see `Imported`."""

    count: int = 0
    new: int = 0
    relabelled: list[OtherLabel] = field(default_factory=list)
    other_labels: list[OtherLabel] = field(default_factory=list)

    def add(self, sequence: Sequence, outcome: Added) -> None:
        self.count += 1
        self.new += outcome.new
        if outcome.label_before is not None:
            self.relabelled.append(OtherLabel(sequence.sequence_id, outcome.label_before, sequence.label))


def _add_some(
    store: Store, sequences: list[Sequence], done: _ImportTally, before: int, strict: bool, relabel: bool
) -> list[BadRecord]:
    """Store sequences together or, where that fails, one by one; return those that can't be stored."""
    # `before` is how many records came before them: it stands in for the line of a sequence that has none.
    if not sequences:
        return []
    try:
        for sequence, outcome in zip(sequences, store.add_sequences(sequences, relabel=relabel), strict=True):
            done.add(sequence, outcome)
    except OtherLabelError as error:
        if len(sequences) == 1:
            done.count += 1
            done.other_labels.append(OtherLabel(error.sequence_id, Label(error.stored), Label(error.given)))
            return []
    except UsageError as error:
        if len(sequences) == 1:
            return [BadRecord(sequences[0].line or before + 1, str(error))]
    else:
        return []
    conflicts: list[BadRecord] = []
    for position, sequence in enumerate(sequences):
        conflicts += _add_some(store, [sequence], done, before + position, strict, relabel)
        if strict and conflicts:
            break
    return conflicts
