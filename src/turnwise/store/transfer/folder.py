"""The folder of an export, with its formats and manifest: written whole or not at all, read back row by row."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Table

from turnwise._support.batches import batched
from turnwise._support.locations import to_path
from turnwise._support.notebook import Shown
from turnwise._support.visible import shown
from turnwise._version import __version__
from turnwise.errors import StoreCorruptError, StoreError, StoreVersionError, UnknownNameError, UsageError
from turnwise.store import schema
from turnwise.store.database import PAGE, Database
from turnwise.store.transfer import arangodb, formats
from turnwise.store.transfer.snapshot import TABLES, Row, Snapshot, TellTable, read_snapshot, value_reader

MANIFEST = "manifest.json"

MEND = "make the export anew, or restore a copy of it"
"""What to do where an export is damaged."""

SCHEMA_VERSION = schema.MIGRATIONS[-1].version


class FileEntry(BaseModel):
    """One file of an export: how many rows it has, and the digest of its bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int
    sha256: str


class ExportManifest(BaseModel):
    """What an export holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turnwise: str
    schema_version: int
    format: str
    created_at: datetime  # in UTC
    runs: list[str] | None = None  # those that were wanted
    where: str | None = None  # the condition on sequences
    files: dict[str, FileEntry]
    not_carried: list[str] = []  # a sentence for each thing of a store that is left out


def read_manifest(folder: str | Path) -> ExportManifest:
    """What an export holds; StoreError where the folder is none, can't be read, or is a later turnwise's."""
    path = to_path(folder) / MANIFEST
    try:
        manifest = ExportManifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(
            f"{folder} is a folder without {MANIFEST}, so no export: name one of turnwise export, or a store"
        ) from None
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        raise StoreCorruptError(f"{path} is damaged ({reason}); {MEND}") from error
    if manifest.schema_version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{folder} has schema version {manifest.schema_version}, this turnwise knows {SCHEMA_VERSION}: "
            "upgrade with python -m pip install --upgrade turnwise"
        )
    return manifest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class TableFormat(NamedTuple):
    """One format. `write` returns how many rows each file has; `read` is None where nothing can be imported."""

    write: Callable[[Path, Snapshot, TellTable], dict[str, int]]
    read: Callable[[Path, Table], Iterator[dict[str, Any]]] | None = None
    not_carried: tuple[str, ...] = ()


FORMATS = {
    "parquet": TableFormat(formats.write_parquet, formats.read_parquet),
    "jsonl": TableFormat(formats.write_jsonl, formats.read_jsonl),
    "csv": TableFormat(formats.write_csv, not_carried=formats.CSV_NOT_CARRIED),
    "arangodb": TableFormat(arangodb.write, not_carried=arangodb.NOT_CARRIED),
}
"""The formats by name."""

_PART = "What belongs to no run that was wanted is left out, the audit of guards among it."


@dataclass(frozen=True, slots=True)
class Exported(Shown):
    """What an export did: `rows` by file, and `not_carried`, a sentence for each thing that it does not hold."""

    folder: str
    format: str
    rows: Mapping[str, int]
    not_carried: tuple[str, ...]


def export(
    database: Database,
    folder: str | Path,
    format: str,
    *,
    runs: Collection[str] | None,
    where: str | None,
    progress: TellTable,
) -> Exported:
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    made = FORMATS[format]
    not_carried = (*made.not_carried, *(() if runs is None and where is None else (_PART,)))
    target = _new_folder(folder)
    part: Path | None = None

    def write(record: Snapshot) -> dict[str, int]:
        nonlocal part
        _remove(part)  # of a try before, in which the server was lost
        record.check()
        part = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        return made.write(part, record, progress)

    try:
        rows = read_snapshot(database, write, runs, where)
        assert part is not None
        manifest = ExportManifest(
            turnwise=__version__,
            schema_version=SCHEMA_VERSION,
            format=format,
            created_at=database.clock(),
            runs=None if runs is None else list(runs),
            where=where,
            files={name: FileEntry(rows=count, sha256=_digest(part / name)) for name, count in rows.items()},
            not_carried=list(not_carried),
        )
        text = f"{manifest.model_dump_json(indent=2)}\n"
        (part / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        part.chmod(0o755)
        if target.exists():
            target.rmdir()
        part.rename(target)
    except OSError as error:
        raise StoreError(f"can't write {folder}: {error.strerror or error}") from error
    finally:
        _remove(part)
    return Exported(str(folder), format, rows, not_carried)


def _remove(folder: Path | None) -> None:
    if folder is not None and folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(folder: str | Path) -> Path:
    """The path of a folder that is to be made, or is empty; else UsageError."""
    try:
        target = to_path(folder)
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise UsageError(f"{folder} is there already: name a new folder, or an empty one")
        if not target.parent.is_dir():
            raise UsageError(f"can't write {folder}: there is no folder {target.parent}; make it first")
    except OSError as error:
        raise UsageError(f"can't write {folder}: {error.strerror or error}") from error
    return target.absolute()


class ExportFolder:
    """An export that was checked against its manifest; an `Importable`. Others are refused."""

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
        for table in tables:
            self._check(self._file(table))

    def _file(self, table: Table) -> str:
        return f"{table.name}.{self._ending}"

    def _check(self, name: str) -> None:
        """Refuse a file that is missing or is not what was written."""
        path = self._folder / name
        if name not in self._manifest.files:
            raise StoreCorruptError(f"{self._folder / MANIFEST} is damaged: it does not name {name}; {MEND}")
        try:
            same = _digest(path) == self._manifest.files[name].sha256
        except FileNotFoundError:
            raise StoreCorruptError(f"{self._folder} is damaged: {name} is missing; {MEND}") from None
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error.strerror or error}") from error
        if not same:
            raise StoreCorruptError(f"{path} was changed or cut off after the export; {MEND}")

    def pages(self, table: Table) -> Iterator[list[Row]]:
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
