"""An export for ArangoDB: JSON lines that ``arangoimport`` reads, of documents with ``_key`` and of edges.

    sequences ◄─ of_sequence ─┬─ evaluations ─┬─ in_run ─► runs
                              ├─ failures ────┘
                              └─ corrections, human_scores, reviews
    evaluations, failures ◄─ of_outcome ── calls          replies          audit_events

A sequence holds its turns. docs/export.md has the commands, examples/arangodb/queries.aql questions in AQL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Table

from turnwise.store import schema
from turnwise.store.transfer.formats import line
from turnwise.store.transfer.snapshot import Row, Snapshot, TellTable, conversations, json_values

NOT_CARRIED = (
    "A whole number of more than 64 bits in metadata becomes a number of double precision in ArangoDB.",
    "Half of a surrogate pair in metadata becomes a question mark, since ArangoDB takes valid Unicode alone.",
)

EDGES = ("of_sequence", "in_run", "of_outcome")
"""The collections of edges; all others hold documents."""

_LONGEST_KEY = 254
"""Bytes of a key. Source: the manual of ArangoDB, "Document keys"."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@()+,;$!*'")
"""What stands for itself in a key. ArangoDB allows ``:``, ``=`` and ``%`` too: they part and escape."""

_NOT_FIELDS = frozenset(("id", "run", "sequence", "provenance", "reply", "evaluation", "failure"))

Document = dict[str, Any]
Write = Callable[[str, Document], None]


def key(*parts: object) -> str:
    """A key that ArangoDB takes; other parts give another key.

    What a key can't hold is written as ``%XX``, a byte of UTF-8 each. One that would be too long ends with its
    SHA-256 behind a ``=``.

    >>> key("first", "attack 01/a", 2), len(key("x" * 300))
    ('first:attack%2001%2Fa:2', 254)
    """
    whole = ":".join(
        "".join(one if one in _PLAIN else "".join(f"%{byte:02X}" for byte in one.encode()) for one in str(part))
        for part in parts
    )
    if 0 < len(whole) <= _LONGEST_KEY:
        return whole
    mark = "=" + hashlib.sha256(whole.encode()).hexdigest()
    return whole[: _LONGEST_KEY - len(mark)] + mark


def write(folder: Path, record: Snapshot, progress: TellTable) -> dict[str, int]:
    """Write all collections, and return how many lines each file has."""
    people = (schema.corrections, schema.human_scores, schema.reviews)
    names = ["sequences", "runs", "evaluations", "failures", "calls", "replies", "audit_events", *EDGES]
    names += [table.name for table in people]
    counts = dict.fromkeys((f"{name}.jsonl" for name in names), 0)
    with ExitStack() as opened:
        files: dict[str, IO[bytes]] = {
            name: opened.enter_context((folder / f"{name}.jsonl").open("wb")) for name in names
        }

        def put(name: str, document: Document) -> None:
            files[name].write(line(document, f"{record.name}, {name}", halves=False))
            counts[f"{name}.jsonl"] += 1

        _write_sequences(record, put)
        _write_runs(record, put)
        for table in (schema.evaluations, schema.failures):
            _write_outcomes(record, table, put)
        _write_calls(record, put)
        for table in people:
            _write_people(record, table, put)
        for table in (schema.replies, schema.audit_events):
            for row in _rows(record, table):
                put(table.name, {"_key": key(row["id"]), **_fields(table, row)})
        for name in names:
            progress(name, counts[f"{name}.jsonl"])
    return counts


def _rows(record: Snapshot, table: Table) -> Iterator[Row]:
    return (row for page in record.pages(table, named=True) for row in page)


def _fields(table: Table, row: Row) -> Document:
    """The values of a row under the names of their columns, without its keys."""
    return {name: value for name, value in json_values(table, row).items() if name not in _NOT_FIELDS}


def _write_sequences(record: Snapshot, put: Write) -> None:
    for row, turns in chain.from_iterable(conversations(record)):
        fields = _fields(schema.sequences, row)
        fields |= {"turns": [_fields(schema.turns, turn) for turn in turns], "turn_count": row["turns"]}
        put("sequences", {"_key": key(row["sequence_id"]), **fields})


def _write_runs(record: Snapshot, put: Write) -> None:
    versions: dict[str, dict[str, set[str]]] = {}
    for row in _rows(record, schema.provenances):
        of_run = versions.setdefault(row["run_name"], {})
        of_run.setdefault(row["principle"], set()).add(row["principle_version"])
    for row in _rows(record, schema.runs):
        principles = {name: sorted(some) for name, some in versions.get(row["name"], {}).items()}
        put("runs", {"_key": key(row["name"]), **_fields(schema.runs, row), "principle_versions": principles})


def _reply(row: Row) -> Document:
    return {"reply": None if row["reply"] is None else f"replies/{key(row['reply'])}"}


def _outcome_key(table: Table, row: Row) -> str:
    about = key(row["run_name"], row["sequence_id"], row["turn"], row["side"], row["principle"])
    return about if table is schema.evaluations else key("failure", row["id"])


def _write_outcomes(record: Snapshot, table: Table, put: Write) -> None:
    for row in _rows(record, table):
        name, run, sequence = _outcome_key(table, row), key(row["run_name"]), key(row["sequence_id"])
        names = ("sequence_id", "label", "source", "principle_version", "code_version")
        about = {"run": row["run_name"], **{name: row[name] for name in names}, "row": row["id"], **_reply(row)}
        put(table.name, {"_key": name, **about, **_fields(table, row)})
        edge_key, start = key(table.name, row["id"]), f"{table.name}/{name}"
        put("of_sequence", {"_key": edge_key, "_from": start, "_to": f"sequences/{sequence}"})
        put("in_run", {"_key": edge_key, "_from": start, "_to": f"runs/{run}"})


def _write_people(record: Snapshot, table: Table, put: Write) -> None:
    for row in _rows(record, table):
        name = key(row["id"])
        put(table.name, {"_key": name, "sequence_id": row["sequence_id"], **_fields(table, row)})
        edge = {"_from": f"{table.name}/{name}", "_to": f"sequences/{key(row['sequence_id'])}"}
        put("of_sequence", {"_key": key(table.name, row["id"]), **edge})


def _write_calls(record: Snapshot, put: Write) -> None:
    for row in record.calls_with_outcomes():
        table = schema.failures if row["evaluation"] is None else schema.evaluations
        name, outcome = key(row["id"]), _outcome_key(table, {**row, "id": row["failure"]})
        put("calls", {"_key": name, **_reply(row), **_fields(schema.calls, row)})
        put("of_outcome", {"_key": name, "_from": f"calls/{name}", "_to": f"{table.name}/{outcome}"})
