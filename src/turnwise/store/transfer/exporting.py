"""Exports a store to a folder, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from turnwise._support.notebook import Shown
from turnwise._support.paths import to_path
from turnwise._version import __version__
from turnwise.errors import StoreError, UnknownNameError, UsageError
from turnwise.store.database import Database
from turnwise.store.transfer.folder import FORMATS, SCHEMA_VERSION, FileEntry, Manifest, digest
from turnwise.store.transfer.snapshot import Snapshot, read_snapshot
from turnwise.store.transfer.tables import Progress

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
    progress: Progress,
) -> Exported:
    """Write a store into a new folder; see `Store.export`."""
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
        manifest = Manifest(
            turnwise=__version__,
            schema_version=SCHEMA_VERSION,
            format=format,
            created_at=database.clock(),
            runs=None if runs is None else list(runs),
            where=where,
            files={name: FileEntry(rows=count, sha256=digest(part / name)) for name, count in rows.items()},
            not_carried=list(not_carried),
        )
        manifest.write(part)
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
