"""The sequences of a store: added once, read with their texts or without."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, insert, select

from turnwise.batches import batched
from turnwise.conversation import Label, Sequence, Turn
from turnwise.errors import UnknownNameError, UsageError
from turnwise.store import schema
from turnwise.store.database import PAGE, intact
from turnwise.store.file import StoreFile
from turnwise.store.groups import group_of
from turnwise.store.keys import inserted
from turnwise.store.records import (
    SequenceHead,
    check_turns,
    content_hash,
    read_head,
    read_sequence,
    read_turn,
    sequence_row,
    turn_row,
)


class StoredSequences(StoreFile):
    """The part of a store that holds the conversations."""

    def add_sequences(self, sequences: Iterable[Sequence]) -> list[bool]:
        """Store sequences in one transaction, and say of each whether it was new.

        A sequence that is there already, word for word, is left alone.

        Raises:
            UsageError: an id is taken by a sequence with other content; nothing of this call is stored.
        """
        given = list(sequences)
        job = self._writer.submit(lambda connection: [self._add_sequence(connection, item) for item in given])
        return job.result()

    def _add_sequence(self, connection: Connection, sequence: Sequence) -> bool:
        digest = content_hash(sequence)
        table = schema.sequences
        stored = connection.scalar(
            select(table.c.content_sha256).where(table.c.sequence_id == sequence.sequence_id)
        )
        if stored is not None:
            if stored != digest:
                raise UsageError(
                    f"duplicate id {sequence.sequence_id!r}: the store holds a sequence of that id "
                    "with other content"
                )
            return False
        key = inserted(connection, table, sequence_row(sequence, digest, self._clock()))
        connection.execute(insert(schema.turns), [turn_row(key, turn) for turn in sequence.conversation])
        return True

    def sequence(self, sequence_id: str) -> Sequence:
        """Return one sequence.

        Raises:
            UnknownNameError: the store has no sequence of that id.
        """
        return next(self.sequences(ids=[sequence_id]))

    def sequences(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Sequence]:
        """Yield sequences with their texts, in the order in which they were imported.

        Args:
            ids: only these.
            label: only those with this ground truth.

        Raises:
            UnknownNameError: the store has no sequence of one of the ids.
        """
        table = schema.turns
        for page in self._pages(ids, label, *schema.sequences.c):
            wanted = [row["id"] for row in page]
            rows = self._read(
                select(table).where(table.c.sequence.in_(wanted)).order_by(table.c.sequence, table.c.turn)
            )
            turns = {key: list(group) for key, group in itertools.groupby(rows, lambda row: row["sequence"])}
            for row in page:
                with intact(self.path, f"sequence {row['sequence_id']!r}"):
                    mine = turns.get(row["id"], [])
                    check_turns(row["turns"], mine)
                    sequence = read_sequence(row, map(read_turn, mine))
                yield sequence

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        """Return some turns of a sequence; how long the rest is takes no time.

        Args:
            sequence_id: id of the sequence.
            turns: their numbers; what the sequence does not have is left out.

        Raises:
            UnknownNameError: the store has no sequence of that id.
        """
        [key] = self._keys_of_sequences([sequence_id])
        table = schema.turns
        query = select(table).where(table.c.sequence == key, table.c.turn.between(turns.start, turns.stop - 1))
        with intact(self.path, f"sequence {sequence_id!r}"):
            return tuple(map(read_turn, self._read(query.order_by(table.c.turn))))

    def heads(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[SequenceHead]:
        """Yield what is known of sequences without their texts; arguments and errors as `sequences`."""
        for page in self._head_rows(ids, label):
            yield from map(self._made_head, page)

    def _made_head(self, row: RowMapping) -> SequenceHead:
        with intact(self.path, f"sequence {row['sequence_id']!r}"):
            return read_head(row)

    def groups(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> dict[str, str]:
        """Return the group of sequences by id, in the order of import: what their metadata say they share.

        A sequence whose metadata say nothing of that is a group of its own, named by its id. No text is read.

        Args:
            ids: only these sequences.
            label: only those with this ground truth.

        Raises:
            UnknownNameError: the store has no sequence of one of the ids.
        """
        table = schema.sequences
        pages = self._pages(ids, label, table.c.id, table.c.sequence_id, table.c.metadata)
        rows = itertools.chain.from_iterable(pages)
        return {row["sequence_id"]: group_of(row["metadata"], row["sequence_id"]) for row in rows}

    def _head_rows(self, ids: Collection[str] | None, label: Label | None) -> Iterator[list[RowMapping]]:
        table = schema.sequences
        wanted = ("id", "sequence_id", "label", "source", "turns")
        return self._pages(ids, label, *(table.c[name] for name in wanted))

    def _pages(
        self, ids: Collection[str] | None, label: Label | None, *columns: Column[Any]
    ) -> Iterator[list[RowMapping]]:
        """Yield some columns of sequences, their key among them, a page at a time, in the order of import."""
        table = schema.sequences
        query = select(*columns).order_by(table.c.id)
        if label is not None:
            query = query.where(table.c.label == str(label))
        if ids is not None:
            for keys in batched(sorted(self._keys_of_sequences(ids)), PAGE):
                yield self._read(query.where(table.c.id.in_(keys)))
            return
        last = 0
        while page := self._read(query.where(table.c.id > last).limit(PAGE)):
            yield page
            last = page[-1]["id"]

    def _keys_of_sequences(self, ids: Collection[str]) -> list[int]:
        table = schema.sequences
        found: dict[str, int] = {}
        for some in batched(dict.fromkeys(ids), PAGE):
            rows = self._read(select(table.c.sequence_id, table.c.id).where(table.c.sequence_id.in_(some)))
            found.update((row["sequence_id"], row["id"]) for row in rows)
        for sequence_id in ids:
            if sequence_id not in found:
                known = self._read(select(table.c.sequence_id).order_by(table.c.id).limit(10_000))
                raise UnknownNameError("sequence", sequence_id, [row["sequence_id"] for row in known])
        return list(found.values())
