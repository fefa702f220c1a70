"""The record as the explorer reads it: the store, what metadata say in its mirror, and what is named beside it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from turnwise._support.visible import visible
from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer.data.studies import FinishedStudy, find_studies
from turnwise.patterns import Library, default_library, load_patterns
from turnwise.runs.flips import fact, read_object
from turnwise.store import Store
from turnwise.store.source import Newest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from turnwise.explorer.data.trial import Trials
    from turnwise.explorer.data.watch import AuditWatch, ServiceWatch
    from turnwise.store.query import QueryResult


SERVICE_KEY: Final = "TURNWISE_SERVICE_KEY"
"""The environment variable that holds the API key of the service that is watched."""

_OPEN_STUDIES: Final = 4


class NamedInputs:
    """What whoever starts the explorer names. The page chooses among these names, and opens nothing else.

    Studies beside the store are found without being named. A wrong folder, audit file or address is refused at
    once.
    """

    def __init__(
        self,
        store: Store,
        studies: Iterable[str | Path] = (),
        audits: Iterable[str | Path] = (),
        service: str | None = None,
        key: str = "",
    ) -> None:
        self._store = store
        self._folders = tuple(studies)
        find_studies(self._folders, store.location)
        self._audits = tuple(map(str, audits))
        self.service: ServiceWatch | None = None
        if self._audits or service is not None:  # the guard is imported where it is asked for
            from turnwise.explorer.data.watch import AuditWatch, ServiceWatch

            for path in self._audits:
                AuditWatch(path)
            self.service = None if service is None else ServiceWatch(service, key)
        self._opened = lru_cache(_OPEN_STUDIES)(self._open)

    @cached_property
    def trials(self) -> Trials:
        """Conversations under the guard's presets."""
        from turnwise.explorer.data.trial import Trials

        return Trials()

    def studies(self) -> tuple[str, ...]:
        """The names of the studies that can be shown."""
        return tuple(find_studies(self._folders, self._store.location))

    def study(self, name: str) -> FinishedStudy:
        """A study; one that was written anew is read anew."""
        found = find_studies(self._folders, self._store.location)
        if name not in found:
            raise UnknownNameError("study", name, found)
        try:
            written = (found[name] / "verdicts.parquet").stat().st_mtime_ns
        except OSError as error:
            raise UsageError(f"can't read the study {name} any more ({error.strerror}): restore it") from error
        return self._opened(found[name], written)

    @staticmethod
    def _open(folder: Path, written: int) -> FinishedStudy:
        return FinishedStudy(folder)

    def audits(self) -> dict[str, str]:
        """Where an audit can be watched, by name: the store itself, and the files that were named."""
        store = {} if self._store.is_findings else {"store": self._store.location}
        return store | {f"file{number}": path for number, path in enumerate(self._audits)}

    def audit(self, name: str) -> AuditWatch:
        """An audit to watch, from its beginning on."""
        from turnwise.explorer.data.watch import AuditWatch

        places = self.audits()
        if name not in places:
            raise UnknownNameError("audit", name, places)
        return AuditWatch(self._store if name == "store" else places[name])

    def close(self) -> None:
        """Let go of the pipelines. Closing twice is harmless."""
        if "trials" in self.__dict__:
            self.trials.close()


FACTS: Final = ("category", "tactic")
"""Keys of the metadata that the explorer sorts and filters by."""

_PAGE = 50_000
"""Sequences whose metadata are in memory at once."""

_LATEST_SECONDS: Final = 2.0
"""How long the latest run is taken for the latest."""


class ViewedStore:
    """A store that is looked at, by several threads at once. Only what people say of it is written to it.

    `patterns` is a YAML file of the user's own named patterns, which need not be there yet.
    """

    def __init__(
        self, store: Store, name: str | None = None, patterns: Path | None = None, named: NamedInputs | None = None
    ) -> None:
        self.store = store
        self.named = NamedInputs(store) if named is None else named
        self.where = visible(store.location)
        self.name = name or Path(store.location).name
        self.patterns = patterns
        self._latest: tuple[float, str | None] | None = None

    def library(self) -> Library:
        """The named patterns that there are, with those of the user's file as it is now."""
        if self.patterns is None or not self.patterns.exists():
            return default_library()
        return load_patterns(self.patterns)

    def query(self, pattern: str, run: str, when: str = "ever") -> QueryResult:
        """Which sequences of a run match a pattern, in which named patterns may stand."""
        return self.store.query(pattern, run, when=when, patterns=self.library())

    def latest_run(self) -> str | None:
        """The run that was started last of those that nobody is writing; else the last, and None if there is none.

        It is looked for anew every few seconds.
        """
        at = time.monotonic()
        if self._latest is None or at - self._latest[0] > _LATEST_SECONDS:
            names = [run.name for run in reversed(self.store.runs())]
            finished = (name for name in names if not self.store.is_being_written(name))
            self._latest = at, next(finished, names[0] if names else None)
        return self._latest[1]

    def newest(self) -> Newest:
        """How far the store has come: numbers of the last rows, which takes next to no time."""
        return self.store.source.newest()

    def scored_sequences(self, run: str) -> int:
        """How many sequences have a score in a run."""
        query = (
            "SELECT count(DISTINCT sequence) FROM copied.evaluations JOIN copied.runs USING (run) WHERE name = ?"
        )
        with self.tables() as tables:
            [[found]] = tables.execute(query, [run]).fetchall()
        return int(found)

    @contextmanager
    def tables(self) -> Iterator[DuckDBPyConnection]:
        """Give a connection to the mirror, up to date.

        Beside the tables of docs/sql.md, and those in the schema ``copied`` with numbers for names, there is
        ``facts`` (sequence, category, tactic): what the metadata of a sequence say.
        """
        with self.store.mirror.tables() as connection:
            self._copy_facts(connection)
            yield connection

    def _copy_facts(self, connection: DuckDBPyConnection) -> None:
        """Bring the table of facts up to date; it lies in the mirror, so it is gone where that begins anew."""
        columns = ", ".join(f"{name} VARCHAR" for name in FACTS)
        connection.execute(f"CREATE TABLE IF NOT EXISTS facts (sequence BIGINT, {columns})")
        [[last]] = connection.execute("SELECT coalesce(max(sequence), 0) FROM facts").fetchall()
        [[newest]] = connection.execute("SELECT coalesce(max(sequence), 0) FROM copied.sequences").fetchall()
        while last < newest:
            found = [
                (key, read_object(value))
                for key, value in self.store.source.metadata(last, _PAGE)
                if key <= newest
            ]
            if not found:
                return
            made: dict[str, Any] = {"sequence": np.array([key for key, _ in found], np.int64)}
            for name in FACTS:
                made[name] = np.array([fact(metadata.get(name)) for _, metadata in found], object)
            connection.register("fresh_facts", made)
            connection.execute("INSERT INTO facts BY NAME SELECT * FROM fresh_facts")
            connection.unregister("fresh_facts")
            last = found[-1][0]
