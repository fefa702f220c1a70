"""The sequences of a store: added once, read with their texts or without."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, insert, select, update

from turnwise._support.batches import batched
from turnwise._support.notebook import Shown
from turnwise.conversation import Conversation, Label, Sequence, Turn, group_of
from turnwise.conversation.json_values import json_object
from turnwise.conversation.sequence import content_hash
from turnwise.datasets.words import UNKNOWN_LABEL
from turnwise.errors import OtherLabelError, UnknownNameError, UsageError
from turnwise.store import schema
from turnwise.store.damage import intact
from turnwise.store.database import PAGE, Database, renew_edition

Row = Mapping[str, Any] | RowMapping


@dataclass(frozen=True, slots=True)
class SequenceHead(Shown):
    """A sequence without its texts.

    Args:
        label: ground truth.
        source: the data set that it comes from.
        turns: number of turns.
    """

    sequence_id: str
    label: Label
    source: str
    turns: int


@dataclass(frozen=True, slots=True)
class Added(Shown):
    """What came of a sequence that was given to a store.

    Args:
        new: whether the store did not have it.
        label_before: the label that it had until now; None where that was not changed.
    """

    new: bool
    label_before: Label | None = None


class Sequences:
    """The conversations of a store."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._intact: set[str] = set()

    def add(self, sequences: Iterable[Sequence], *, relabel: bool = False) -> list[Added]:
        """Store sequences in one transaction, and say of each what came of it; see `Store.add_sequences`."""
        given = list(sequences)
        return self._db.write(lambda connection: self._add(connection, given, relabel)).result()

    def _add(self, connection: Connection, given: list[Sequence], relabel: bool) -> list[Added]:
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
                rows.append(self._row(sequence, digest))
                outcomes.append(Added(new=True))
            elif there == digest:
                outcomes.append(Added(new=False))
            elif sequence.sequence_id in new:  # it came with two contents in one call
                raise _conflict(sequence, new[sequence.sequence_id])
            else:
                outcomes.append(self._meet(connection, sequence, relabel))
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

    def _meet(self, connection: Connection, given: Sequence, relabel: bool) -> Added:
        """What comes of a sequence whose id is stored with other content; raises unless only its label changes."""
        table = schema.sequences.c
        names = (table.id, table.label, table.source, table.metadata, table.content_sha256)
        row = connection.execute(select(*names).where(table.sequence_id == given.sequence_id)).mappings().one()
        with intact(self._db.where, f"sequence {given.sequence_id!r}"):
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

    def _row(self, sequence: Sequence, digest: str) -> dict[str, Any]:
        return {
            "sequence_id": sequence.sequence_id,
            "label": str(sequence.label),
            "source": sequence.source,
            "turns": sequence.conversation.get_turn_count(),
            "content_sha256": digest,
            "conversation": sequence.conversation.to_dict(turns=False),
            "metadata": json_object(sequence.metadata, "metadata"),  # else it could not come back as it was
            "imported_at": self._db.clock(),
        }

    def read(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Sequence]:
        """Yield sequences with their texts, in the order of import; see `Store.sequences`."""
        table = schema.turns
        for page in self._pages(ids, label, *schema.sequences.c):
            wanted = [row["id"] for row in page]
            rows = self._db.read(
                select(table).where(table.c.sequence.in_(wanted)).order_by(table.c.sequence, table.c.turn)
            )
            turns = {key: list(group) for key, group in itertools.groupby(rows, lambda row: row["sequence"])}
            for row in page:
                with intact(self._db.where, f"sequence {row['sequence_id']!r}"):
                    mine = turns.get(row["id"], [])
                    conversation = Conversation.from_dict(row["conversation"], turns=map(_read_turn, mine))
                    check_content(row, mine)
                    sequence = Sequence(
                        row["sequence_id"], Label(row["label"]), row["source"], conversation, row["metadata"]
                    )
                yield sequence

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        """Some turns of a sequence; see `Store.turns`."""
        [key] = self.keys([sequence_id])
        table = schema.turns
        query = select(table).where(table.c.sequence == key).order_by(table.c.turn)
        known = sequence_id in self._intact  # all of it has to be read once: its digest is of the whole
        rows = self._db.read(query.where(table.c.turn.between(turns.start, turns.stop - 1)) if known else query)
        with intact(self._db.where, f"sequence {sequence_id!r}"):
            if not known:
                [head] = self._db.read(select(schema.sequences).where(schema.sequences.c.id == key))
                check_content(head, rows)
                self._intact.add(sequence_id)
            return tuple(_read_turn(row) for row in rows if row["turn"] in turns)

    def heads(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[SequenceHead]:
        """Yield sequences without their texts; see `Store.heads`."""
        for page in self.head_rows(ids, label):
            yield from map(self.made_head, page)

    def made_head(self, row: RowMapping) -> SequenceHead:
        """The head of a sequence from its row."""
        with intact(self._db.where, f"sequence {row['sequence_id']!r}"):
            return SequenceHead(row["sequence_id"], Label(row["label"]), row["source"], row["turns"])

    def head_rows(self, ids: Collection[str] | None, label: Label | None) -> Iterator[list[RowMapping]]:
        """Yield the rows that heads are made of, a page at a time."""
        table = schema.sequences
        wanted = ("id", "sequence_id", "label", "source", "turns")
        return self._pages(ids, label, *(table.c[name] for name in wanted))

    def groups(self, ids: Collection[str] | None = None, label: Label | None = None) -> dict[str, str]:
        """The group of each sequence by id, in the order of import; see `Store.groups`."""
        table = schema.sequences
        pages = self._pages(ids, label, table.c.id, table.c.sequence_id, table.c.metadata)
        rows = itertools.chain.from_iterable(pages)
        return {row["sequence_id"]: group_of(row["metadata"], row["sequence_id"]) for row in rows}

    def ids_with(self, key: str, value: str | int, most: int) -> list[str]:
        """The ids of sequences with a value in their metadata; see `Store.ids_with`."""
        table = schema.sequences
        found = table.c.metadata[key]
        holds = found.as_string() == value if isinstance(value, str) else found.as_integer() == value
        query = select(table.c.sequence_id).where(holds).order_by(table.c.id).limit(most)
        return [row["sequence_id"] for row in self._db.read(query)]

    def _pages(
        self, ids: Collection[str] | None, label: Label | None, *columns: Column[Any]
    ) -> Iterator[list[RowMapping]]:
        """Yield some columns of sequences, the key among them, a page at a time, in the order of import."""
        table = schema.sequences
        query = select(*columns).order_by(table.c.id)
        if label is not None:
            query = query.where(table.c.label == str(label))
        if ids is not None:
            for keys in batched(sorted(self.keys(ids)), PAGE):
                yield self._db.read(query.where(table.c.id.in_(keys)))
            return
        last = 0
        while page := self._db.read(query.where(table.c.id > last).limit(PAGE)):
            yield page
            last = page[-1]["id"]

    def keys(self, ids: Collection[str]) -> list[int]:
        """The keys of the rows of sequences, each once; UnknownNameError where one of the ids is not there."""
        table = schema.sequences
        found: dict[str, int] = {}
        for some in batched(dict.fromkeys(ids), PAGE):
            rows = self._db.read(select(table.c.sequence_id, table.c.id).where(table.c.sequence_id.in_(some)))
            found.update((row["sequence_id"], row["id"]) for row in rows)
        for sequence_id in ids:
            if sequence_id not in found:
                known = self._db.read(select(table.c.sequence_id).order_by(table.c.id).limit(10_000))
                raise UnknownNameError("sequence", sequence_id, [row["sequence_id"] for row in known])
        return list(found.values())


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
        f"duplicate id {given.sequence_id!r}: the store holds a sequence of that id with other content: {differs}"
    )


def check_turns(wanted: range, found: Collection[int]) -> None:
    """Raise ValueError where the turns that were found are not all those that a sequence has."""
    if len(found) != len(wanted):
        raise ValueError(f"only {len(found)} of its {len(wanted)} turns are there")
    if sorted(found) != list(wanted):
        raise ValueError(f"its turns are not numbered from {wanted.start} to {wanted.stop - 1}")


def check_content(row: Row, turns: Collection[Row]) -> None:
    """Raise ValueError where a sequence and its turns, given as rows, are not what was stored."""
    check_turns(range(1, row["turns"] + 1), [turn["turn"] for turn in turns])
    for turn in turns:
        for side in ("prompt", "response"):
            if (chars := len(turn[side] or "")) != turn[f"{side}_chars"]:
                raise ValueError(
                    f"the {side} of turn {turn['turn']} has {chars} characters, and {turn[f'{side}_chars']} are "
                    f"stored as {side}_chars"
                )
    said = ((turn["prompt"], turn["response"], turn["metadata"]) for turn in turns)
    names = row["label"], row["source"], row["metadata"], row["conversation"].get("metadata") or {}
    if content_hash(*names, said) != row["content_sha256"]:
        raise ValueError("its prompts, responses, label, source or metadata do not match its content_sha256")


def turns_within(turns: range, last: int) -> range:
    """Those of some turns, which follow each other, that a sequence with `last` turns has.

    >>> turns_within(range(3, 9), 5), len(turns_within(range(3, 9), 2))
    (range(3, 6), 0)
    """
    return range(max(turns.start, 1), min(turns.stop, last + 1))


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


def _read_turn(row: RowMapping) -> Turn:
    names = ("prompt", "response", "timestamp", "response_timestamp")
    return Turn(
        number=row["turn"],
        metadata=json_object(row["metadata"], f"turn {row['turn']}: metadata"),
        **{name: row[name] for name in names},
    )
