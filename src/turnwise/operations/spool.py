"""What a receiver got, on disk until its conversations have finished, and are stored or scored."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, LoadOptions
from turnwise.datasets.traces.loader import step_values
from turnwise.datasets.traces.otel import OTEL
from turnwise.datasets.traces.steps import TraceStep
from turnwise.errors import TurnwiseError, UsageError
from turnwise.findings import PartEntry
from turnwise.runs.engines import Tell
from turnwise.runs.parts import Part, Records
from turnwise.runs.scanning import ScanPlan

if TYPE_CHECKING:
    from turnwise.store import Store

_LOG = logging.getLogger("turnwise.operations")

_AT_ONCE: Final = 200
"""Conversations that are stored in one transaction."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS steps (place INTEGER PRIMARY KEY, chat TEXT, trace TEXT, digest BLOB UNIQUE, body TEXT);
CREATE INDEX IF NOT EXISTS steps_by_chat ON steps (chat);
CREATE INDEX IF NOT EXISTS steps_by_trace ON steps (trace);
CREATE TABLE IF NOT EXISTS traces (trace TEXT PRIMARY KEY, chat TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chats (chat TEXT PRIMARY KEY, last REAL, fresh INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS given (part INTEGER, chat TEXT, since REAL, PRIMARY KEY (part, chat)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (sequence TEXT, digest TEXT, part INTEGER, PRIMARY KEY (sequence, digest))
WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS chats_by_time ON chats (fresh, last);
"""


class TakenSteps(NamedTuple):
    """What a request held: steps that are kept now, steps that were known, and why others were refused."""

    kept: int
    known: int
    refused: tuple[str, ...]


class Spool:
    """Steps of traces on disk, until their conversations are stored, and for `keep` seconds after.

    Threads may use it at the same time; one process.

    Args:
        path: an SQLite file; made where there is none.
        keep: seconds for which steps of stored conversations are kept, to know what is sent again or comes late.

    Raises:
        UsageError: the file is none, or can't be written to.
    """

    def __init__(self, path: str | Path, keep: float = 86_400.0) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._path = path
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise UsageError(f"{path} can't keep what is received: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def take(self, steps: Iterable[TraceStep | BadRecord]) -> TakenSteps:
        """Keep steps; when this returns they are on disk.

        Raises:
            UsageError: they can't be written.
        """
        refused, kept, now = [], 0, time.time()
        rows: list[tuple[TraceStep, str, bytes]] = []
        for step in steps:
            if isinstance(step, BadRecord):
                refused.append(step.reason)
            else:
                body = json.dumps(step_values(step))
                rows.append((step, body, blake2b(body.encode(), digest_size=16).digest()))
        try:
            with self._writing():
                for step, body, digest in rows:
                    chat = self._chat_of(step)
                    done = self._file.execute(
                        "INSERT OR IGNORE INTO steps (chat, trace, digest, body) VALUES (?, ?, ?, ?)",
                        (chat, step.trace, digest, body),
                    )
                    kept += done.rowcount
                    if done.rowcount:
                        self._file.execute("INSERT OR REPLACE INTO chats VALUES (?, ?, 1)", (chat, now))
        except sqlite3.Error as error:
            raise UsageError(f"{self._path} can't keep what is received: {error}") from error
        return TakenSteps(kept, len(rows) - kept, tuple(refused))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            with self._file:  # commits, or rolls back after an error
                yield

    def _chat_of(self, step: TraceStep) -> str:
        """The conversation of a step; those of its trace that came before it was known move there."""
        row = self._file.execute("SELECT chat FROM traces WHERE trace = ?", (step.trace,)).fetchone()
        if row is not None:
            return str(row[0])
        if not step.conversation:
            return step.trace
        self._file.execute("INSERT INTO traces VALUES (?, ?)", (step.trace, step.conversation))
        if step.conversation != step.trace:
            moved = self._file.execute(
                "UPDATE steps SET chat = ? WHERE trace = ? AND chat = ?",
                (step.conversation, step.trace, step.trace),
            )
            if moved.rowcount:
                self._file.execute("DELETE FROM chats WHERE chat = ?", (step.trace,))
        return step.conversation

    def finished(self, quiet: float, most: int = _AT_ONCE) -> list[str]:
        """Conversations that have something that is not stored, and to which nothing came for so many seconds."""
        query = "SELECT chat FROM chats WHERE fresh = 1 AND last <= ? ORDER BY last LIMIT ?"
        with self._lock:
            return [chat for (chat,) in self._file.execute(query, (time.time() - quiet, most))]

    def conversation(self, chat: str) -> Iterator[Sequence | BadRecord]:
        """Put a conversation together: its sequence, and those of agents that the main one called."""
        with self._lock:
            bodies = self._file.execute(
                "SELECT place, body FROM steps WHERE chat = ? ORDER BY place", (chat,)
            ).fetchall()
        steps = ((place, TraceStep(*json.loads(body))) for place, body in bodies)
        return OTEL().grouped(steps, "otlp", LoadOptions())

    def stored(self, chats: Iterable[tuple[str, float]]) -> None:
        """Note that conversations are stored, unless something came since a time; drop what is old."""
        with self._writing():
            self._file.executemany("UPDATE chats SET fresh = 0 WHERE chat = ? AND last <= ?", chats)
            old = "SELECT chat FROM chats WHERE fresh = 0 AND last <= ?"
            before = (time.time() - self._keep,)
            for table in ("steps", "traces", "chats"):
                self._file.execute(f"DELETE FROM {table} WHERE chat IN ({old})", before)

    def waiting(self) -> int:
        """How many conversations have something that is not stored."""
        with self._lock:
            return int(self._file.execute("SELECT count(*) FROM chats WHERE fresh = 1").fetchone()[0])

    def states(self, sequence: str) -> list[str]:
        """Digests of the states of a sequence that were given to parts of a scan."""
        with self._lock:
            found = self._file.execute("SELECT digest FROM states WHERE sequence = ?", (sequence,))
            return [digest for (digest,) in found]

    def give(self, part: int, chats: Iterable[str], since: float, states: Iterable[tuple[str, str]]) -> None:
        """Note that conversations, as they were at a time, go into a part of a scan, and their states."""
        with self._writing():
            self._file.executemany("INSERT INTO given VALUES (?, ?, ?)", ((part, chat, since) for chat in chats))
            self._file.executemany("INSERT INTO states VALUES (?, ?, ?)", ((*state, part) for state in states))

    def settle(self, done: Collection[int]) -> None:
        """Note which parts are on disk; what was given to another one is as if it had not been given."""
        with self._lock:
            given = self._file.execute("SELECT part, chat, since FROM given").fetchall()
        self.stored([(chat, since) for part, chat, since in given if part in done])
        with self._writing():
            lost = {(part,) for part, _, _ in given if part not in done}
            self._file.executemany("DELETE FROM states WHERE part = ?", lost)
            self._file.execute("DELETE FROM given")


# Conversations that have finished


def store_finished(spool: Spool, store: Store, quiet: float) -> int:
    """Store conversations to which nothing came for `quiet` seconds; returns how many sequences are new.

    A crash between the store and the spool does no harm: a conversation that is there word for word is left alone.
    """
    new = 0
    while chats := spool.finished(quiet):
        begun = time.time() - quiet
        made: list[Sequence] = []
        for one in chain.from_iterable(map(spool.conversation, chats)):
            if isinstance(one, BadRecord):
                _LOG.warning("a conversation can't be stored: %s", one.reason)
            else:
                made.append(one)
        try:
            new += sum(one.new for one in store.add_sequences(made))
        except UsageError:  # some were stored before something came late
            new += sum(_add(store, one) for one in made)
        spool.stored((chat, begun) for chat in chats)
    return new


def _add(store: Store, sequence: Sequence) -> bool:
    """Store a sequence; one whose id is taken by an earlier state of it gets a number."""
    for number in range(1, 1_000):
        try:
            return store.add_sequences([in_state(sequence, number)])[0].new
        except UsageError:
            continue
    _LOG.warning("%s was stored in 1,000 states; what came last is left out", sequence.sequence_id)
    return False


def in_state(sequence: Sequence, number: int) -> Sequence:
    """A sequence as the state of that number of a conversation, from 1: a later one has a name of its own."""
    if number == 1:
        return sequence
    name = sequence.sequence_id
    about = {**sequence.metadata, "group": name, "replaces": name}
    return replace(sequence, sequence_id=f"{name}/{number}", metadata=about)


def keep_storing(store: Store, quiet: float, spool: Spool, stop: threading.Event) -> None:
    """Store conversations to which nothing came for `quiet` seconds, until the event is set."""
    while not stop.wait(1.0):
        try:
            store_finished(spool, store, quiet)
        except (TurnwiseError, sqlite3.Error) as error:
            _LOG.warning("conversations can't be stored now: %s", error)


def scan_received(
    plan: ScanPlan,
    quiet: float,
    spool: Spool,
    stop: threading.Event,
    *,
    patience: float,
    progress: Tell | None = None,
) -> None:
    """Score conversations to which nothing came for `quiet` seconds, until the event is set.

    A conversation is in one part of the findings, also after a kill. One to which something comes later is scored
    anew, whole, under its id and a number.

    Args:
        plan: a plan without inputs, whose findings go on; see `turnwise.runs.plan_scan`.
        quiet: seconds without anything new after which a conversation has finished.
        spool: what was received.
        stop: is set where no more is to be begun.
        patience: seconds that a conversation which has finished waits for others of its part.
        progress: is told of each part.

    Raises:
        FindingsError: the folder has something else, or findings of another scan.
        ObserverError: the observer can't go on; what was received is kept.
    """

    def parts(done: Mapping[int, PartEntry]) -> Iterator[Part]:
        spool.settle(done)
        number, row = max(done, default=-1) + 1, sum(one.counts.rows for one in done.values()) + 1
        while chats := _finished(spool, quiet, plan.manifest.part_rows, patience, stop):
            since = time.time() - quiet
            items, states = _new(spool, chats)
            spool.give(number, chats, since, states)
            if items:
                yield Part(number, 0, row, len(items), Records(items), 0)
            spool.settle({number})  # a part is done when the next one is asked for
            number, row = number + bool(items), row + len(items)

    plan.run_live(parts, progress)


def _finished(spool: Spool, quiet: float, most: int, patience: float, stop: threading.Event) -> list[str]:
    """Conversations for a part; none once it is to end."""
    while not stop.is_set():
        chats = spool.finished(quiet, most)
        if len(chats) == most or spool.finished(quiet + patience, 1):
            return chats
        stop.wait(min(1.0, patience + 0.05))
    return []


def _new(spool: Spool, chats: list[str]) -> tuple[tuple[Sequence | BadRecord, ...], list[tuple[str, str]]]:
    """The sequences of conversations that are in no part yet, and name and digest of each."""
    items: list[Sequence | BadRecord] = []
    known: dict[str, list[str]] = {}
    states: list[tuple[str, str]] = []
    for one in chain.from_iterable(map(spool.conversation, chats)):
        if isinstance(one, BadRecord):
            items.append(one)
            continue
        name, digest = one.sequence_id, one.content_hash()
        if name not in known:
            known[name] = spool.states(name)
        digests = known[name]
        if digest not in digests:
            digests.append(digest)
            items.append(in_state(one, len(digests)))
            states.append((name, digest))
    return tuple(items), states
