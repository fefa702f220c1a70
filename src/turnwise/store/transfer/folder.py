"""The folder of an export: its manifest, and the formats of its files with what each can't carry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Table

from turnwise._support.paths import to_path
from turnwise.errors import StoreCorruptError, StoreError, StoreVersionError
from turnwise.store import schema
from turnwise.store.transfer import arangodb, csv_tables, jsonl, parquet
from turnwise.store.transfer.snapshot import Snapshot
from turnwise.store.transfer.tables import Progress

MANIFEST = "manifest.json"

MEND = "make the export anew, or restore a copy of it"
"""What to do where an export is damaged."""

_BLOCK = 1 << 20

SCHEMA_VERSION = schema.MIGRATIONS[-1].version


class FileEntry(BaseModel):
    """One file of an export: how many rows it has, and the digest of its bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int
    sha256: str


class Manifest(BaseModel):
    """What an export holds.

    `runs` are those that were wanted, None for all; `where` is the condition on sequences, None for none;
    `not_carried` has a sentence for each thing of a store that such an export leaves out. `created_at` is in UTC.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    turnwise: str
    schema_version: int
    format: str
    created_at: datetime
    runs: list[str] | None = None
    where: str | None = None
    files: dict[str, FileEntry]
    not_carried: list[str] = []

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        (folder / MANIFEST).write_text(f"{self.model_dump_json(indent=2)}\n", encoding="utf-8", newline="\n")


def read_manifest(folder: str | Path) -> Manifest:
    """What an export holds; StoreError where the folder is none, can't be read, or is a later turnwise's."""
    path = to_path(folder) / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
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


def digest(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def check_files(folder: Path, manifest: Manifest, needed: list[str]) -> None:
    """Refuse an export in which one of the `needed` files is missing or is not what was written."""
    for name in needed:
        path = folder / name
        if name not in manifest.files:
            raise StoreCorruptError(f"{folder / MANIFEST} is damaged: it does not name {name}; {MEND}")
        try:
            same = digest(path) == manifest.files[name].sha256
        except FileNotFoundError:
            raise StoreCorruptError(f"{folder} is damaged: {name} is missing; {MEND}") from None
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error.strerror or error}") from error
        if not same:
            raise StoreCorruptError(f"{path} was changed or cut off after the export; {MEND}")


class Format(NamedTuple):
    """One format. `write` returns how many rows each file has; `read` is None where nothing can be imported."""

    write: Callable[[Path, Snapshot, Progress], dict[str, int]]
    read: Callable[[Path, Table], Iterator[dict[str, Any]]] | None = None
    not_carried: tuple[str, ...] = ()


FORMATS = {
    "parquet": Format(parquet.write, parquet.read),
    "jsonl": Format(jsonl.write, jsonl.read),
    "csv": Format(csv_tables.write, not_carried=csv_tables.NOT_CARRIED),
    "arangodb": Format(arangodb.write, not_carried=arangodb.NOT_CARRIED),
}
"""The formats by name."""
