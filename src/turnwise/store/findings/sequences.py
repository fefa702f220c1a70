"""The conversations of findings: heads from the index, texts from the files of their part."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from turnwise._support.batches import batched
from turnwise.conversation import Conversation, Label, Sequence, Turn, group_of
from turnwise.errors import UnknownNameError
from turnwise.findings import SEQUENCES, TURNS
from turnwise.store.damage import intact
from turnwise.store.database import PAGE
from turnwise.store.findings.files import FoundFiles, part_of, refused
from turnwise.store.findings.index import NAME
from turnwise.store.findings.mirror import FoundMirror
from turnwise.store.sequences import SequenceHead, check_turns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SHOWN = 20
"""Known ids that an error may name the nearest of."""


class NumberedHead(NamedTuple):
    """The head of a sequence and its row number, above 0."""

    number: int
    head: SequenceHead


class FoundSequences:
    """The conversations of findings; methods as in `turnwise.store.sequences.Sequences`."""

    def __init__(self, files: FoundFiles, mirror: FoundMirror) -> None:
        self._files = files
        self._mirror = mirror

    def add(self, sequences: Iterable[Sequence], *, relabel: bool = False) -> NoReturn:
        """Refuse to add any."""
        raise refused("add sequences", "scan them into another folder, or turnwise import them into a store")

    def read(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Sequence]:
        """Yield sequences with their texts, in the order of the inputs."""
        for part, heads in self.pages(ids, label):
            numbers = [one.number for one in heads]
            wanted = _wanted(numbers)
            query = f"SELECT key + 1, metadata FROM {self._files.table(SEQUENCES, [part])} WHERE {wanted}"
            metadata = dict(self._files.read(query))
            rows = self._files.read(
                f"SELECT key + 1, turn, prompt, response FROM {self._files.table(TURNS, [part])} WHERE {wanted} "
                "ORDER BY key, turn"
            )
            turns = {number: list(some) for number, some in groupby(rows, lambda row: row[0])}
            for number, head in heads:
                with intact(self._files.where, f"sequence {head.sequence_id!r}"):
                    mine = turns.get(number, [])
                    check_turns(range(1, head.turns + 1), [row[1] for row in mine])
                    yield Sequence(
                        sequence_id=head.sequence_id,
                        label=head.label,
                        source=head.source,
                        conversation=Conversation.from_dict(
                            {"conversation_id": head.sequence_id}, turns=[_turn(row) for row in mine]
                        ),
                        metadata=json.loads(metadata[number] or "{}"),
                    )

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        """Some turns of a sequence."""
        [number] = self.keys([sequence_id])
        rows = self._files.read(
            f"SELECT key + 1, turn, prompt, response FROM {self._files.table(TURNS, [part_of(number)])} "
            "WHERE key = ? AND turn BETWEEN ? AND ? ORDER BY turn",
            [number - 1, turns.start, turns.stop - 1],
        )
        with intact(self._files.where, f"sequence {sequence_id!r}"):
            return tuple(map(_turn, rows))

    def heads(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[SequenceHead]:
        """Yield sequences without their texts."""
        for _, page in self.pages(ids, label):
            for one in page:
                yield one.head

    def pages(
        self, ids: Collection[str] | None = None, label: Label | None = None
    ) -> Iterator[tuple[int, list[NumberedHead]]]:
        """Yield heads, some of a part at a time, with the number of the part."""
        wanted = "TRUE" if label is None else f"label = '{label}'"
        query = f"SELECT sequence, sequence_id, label, source, turns FROM {NAME}.sequences WHERE {wanted}"
        if ids is not None:
            for keys in batched(sorted(self.keys(ids)), PAGE):
                yield from self._by_part(f"{query} AND sequence IN ({', '.join(map(str, keys))})")
            return
        last = 0
        while rows := self._ask(f"{query} AND sequence > {last} ORDER BY sequence LIMIT {10 * PAGE}"):
            yield from _grouped(rows)
            last = rows[-1][0]

    def groups(self, ids: Collection[str] | None = None, label: Label | None = None) -> dict[str, str]:
        """The group of each sequence by id."""
        found: dict[str, str] = {}
        for part, heads in self.pages(ids, label):
            wanted = _wanted([one.number for one in heads])
            query = f"SELECT key + 1, metadata FROM {self._files.table(SEQUENCES, [part])} WHERE {wanted}"
            metadata = dict(self._files.read(query))
            for number, head in heads:
                with intact(self._files.where, f"sequence {head.sequence_id!r}"):
                    found[head.sequence_id] = group_of(json.loads(metadata[number] or "{}"), head.sequence_id)
        return found

    def ids_with(self, key: str, value: str | int, most: int) -> list[str]:
        """The ids of sequences with a value in their metadata."""
        path = '$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'  # one key, no path
        rows = self._ask(
            "SELECT sequence_id FROM copied.sequences JOIN copied.found USING (sequence) "
            "WHERE json_extract_string(metadata, ?) = ? ORDER BY sequence LIMIT ?",
            [path, str(value), most],
        )
        return [sequence_id for (sequence_id,) in rows]

    def keys(self, ids: Collection[str]) -> list[int]:
        """The row numbers of sequences, in no order; UnknownNameError where one of the ids is not there."""
        wanted = list(dict.fromkeys(ids))
        rows = self._ask(
            f"SELECT sequence_id, min(sequence) FROM {NAME}.sequences WHERE sequence_id IN (SELECT unnest(?)) "
            "GROUP BY sequence_id",
            [wanted],
        )
        found = dict(rows)
        for name in wanted:
            if name not in found:
                near = self._ask(
                    f"SELECT sequence_id FROM {NAME}.sequences "
                    "ORDER BY jaro_winkler_similarity(sequence_id, ?) DESC, sequence LIMIT ?",
                    [name, _SHOWN],
                )
                raise UnknownNameError("sequence", name, [one for (one,) in near])
        return list(found.values())

    def _by_part(self, query: str) -> Iterator[tuple[int, list[NumberedHead]]]:
        yield from _grouped(self._ask(f"{query} ORDER BY sequence"))

    def _ask(self, query: str, values: Collection[Any] = ()) -> list[tuple[Any, ...]]:
        connection: DuckDBPyConnection
        with self._mirror.tables() as connection, self._files.translated():
            return connection.execute(query, list(values)).fetchall()


def _grouped(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, list[NumberedHead]]]:
    for part, some in groupby(rows, lambda row: part_of(row[0])):
        yield (
            part,
            [NumberedHead(row[0], SequenceHead(row[1], Label(row[2]), row[3], row[4])) for row in some],
        )


def _wanted(numbers: Collection[int]) -> str:
    """A condition on the keys of rows of one part: a span and, where it has holes, each of them."""
    low, high = min(numbers) - 1, max(numbers) - 1
    span = f"key BETWEEN {low} AND {high}"
    if high - low + 1 == len(numbers):
        return span
    return f"{span} AND key IN ({', '.join(str(number - 1) for number in numbers)})"


def _turn(row: tuple[Any, ...]) -> Turn:
    return Turn(number=row[1], prompt=row[2], response=row[3])
