"""Imports an export or another store into a store: each row checked, each error with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

from sqlalchemy import Table

from turnwise._support.batches import batched
from turnwise._support.paths import to_path
from turnwise._support.visible import shown
from turnwise.errors import StoreCorruptError, StoreError, UsageError
from turnwise.store import schema
from turnwise.store.database import BUSY_SECONDS, PAGE, Database
from turnwise.store.runs import Runs
from turnwise.store.transfer.folder import FORMATS, MEND, SCHEMA_VERSION, check_files, read_manifest
from turnwise.store.transfer.merging import Merge, Merged
from turnwise.store.transfer.snapshot import read_snapshot
from turnwise.store.transfer.tables import TABLES, Record, Row, value_reader


def import_record(database: Database, runs: Runs, location: str | Path) -> Merged:
    """Import an export or a store into a store; see `Store.import_from`."""
    name = str(location)
    if "://" not in name and "\0" not in name and to_path(name).is_dir():
        return _merged(database, runs, ExportFolder(name))
    other = Database(name, create=False, clock=database.clock, busy_seconds=BUSY_SECONDS)
    try:
        return read_snapshot(other, lambda record: _merged(database, runs, record))
    finally:
        other.finish()
        other.close()


def _merged(database: Database, runs: Runs, source: Record) -> Merged:
    for page in source.pages(schema.runs):
        for row in page:
            runs.hold(row["name"])
    stopped = Event()
    job = database.write(lambda connection: Merge(source, database.where, stopped).run(connection))
    try:
        return job.result()
    except BaseException:  # somebody pressed Ctrl-C, and does not want it any more
        stopped.set()
        raise


class ExportFolder:
    """An export that was checked against its manifest; a `Record`. A format that can't be imported is refused."""

    def __init__(self, folder: str | Path) -> None:
        self.name = str(folder)
        self._folder = to_path(folder)
        self._manifest = read_manifest(folder)
        name = self._manifest.format
        if name not in FORMATS:
            raise StoreError(f"{folder} is an export in the unknown format {name!r}: {MEND}")
        read = FORMATS[name].read
        if read is None:
            lost = " ".join(FORMATS[name].not_carried)
            raise UsageError(
                f"{folder} can't be imported: it is an export as {name}, which does not carry all of a store; "
                f"export the store as {' or '.join(other for other in FORMATS if FORMATS[other].read)}. {lost}"
            )
        self._read = read
        self._ending = name
        tables = TABLES
        if self._manifest.schema_version < SCHEMA_VERSION:  # a table that came later has no file
            tables = tuple(table for table in TABLES if self._file(table) in self._manifest.files)
        self._tables = frozenset(table.name for table in tables)
        check_files(self._folder, self._manifest, [self._file(table) for table in tables])

    def _file(self, table: Table) -> str:
        return f"{table.name}.{self._ending}"

    def pages(self, table: Table) -> Iterator[list[Row]]:
        """Yield the rows of a table in the order of their keys, some hundreds at a time."""
        if table.name not in self._tables:
            return
        path, said = self._folder / self._file(table), self._manifest.files[self._file(table)].rows
        count = 0
        for page in batched(self._rows(path, table), PAGE):
            count += len(page)
            yield page
        if count != said:
            raise StoreCorruptError(f"{path} has {count} rows, its manifest says {said}; {MEND}")

    def _rows(self, path: Path, table: Table) -> Iterator[Row]:
        readers = {column.name: value_reader(column) for column in table.columns}
        fine = 0
        try:
            for row in self._read(path, table):
                if row.keys() != readers.keys():
                    self._check_columns(table, row)
                yield {name: readers[name](value) for name, value in row.items()}
                fine += 1
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise StoreCorruptError(f"{path}, row {fine + 1}: {error}; {MEND}") from error

    def _check_columns(self, table: Table, row: dict[str, Any]) -> None:
        """Refuse a row with unknown columns, or without one that this version wrote."""
        for name in row:
            if name not in table.c:
                raise ValueError(f"a table {table.name} has no column {shown(name)}")
        missing = [column.name for column in table.columns if column.name not in row]
        if missing and self._manifest.schema_version == SCHEMA_VERSION:
            raise ValueError(f"{missing[0]} is missing")
