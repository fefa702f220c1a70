"""The files of findings: where they are and what belongs to them, whether they are whole, and their rows."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.locations import Location, is_url, to_path
from turnwise._support.table_files import file_name, hide_progress_bar, quoted
from turnwise.errors import FindingsError, LocationError, StoreCorruptError, StoreError, UsageError
from turnwise.findings import (
    FAILURES,
    MANIFEST,
    MEND,
    PLACES,
    SCORES,
    SEQUENCES,
    TURNS,
    Findings,
    findings_folder,
    open_findings,
    part_file,
)
from turnwise.store.damaged_rows import first_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FOLDERS: Final = frozenset((
    "abfs", "abfss", "adl", "az", "file", "ftp", "gcs", "gs", "hdfs", "http", "https", "memory", "s3", "s3a",
    "sftp",
))  # fmt: skip
"""Schemes of URLs behind which there are folders and files."""

_PARQUET: Final = ".parquet"


def is_findings(location: str) -> bool:
    """Whether a location names the findings of a scan rather than a record.

    It may be a folder, its ``manifest.json``, a pattern of its Parquet files, or a URL of any of these.

    >>> is_findings("findings/*.parquet"), is_findings("s3://bucket/findings"), is_findings("work.db")
    (True, True, False)
    >>> is_findings("postgresql://me@server/work")
    False
    """
    if is_url(location):
        return location.partition("://")[0] in _FOLDERS
    if "\0" in location:
        return False
    base = Path(location).name
    if base == MANIFEST or base.endswith(_PARQUET):
        return True
    try:
        folder = to_path(location)
        return folder.is_dir() and ((folder / MANIFEST).exists() or any(folder.glob(f"*{_PARQUET}")))
    except OSError:
        return False


def opened(location: str) -> Findings:
    """Open findings that somebody named as a store; UsageError where that names only some of their parts."""
    from turnwise.store.findings.changes import finish_erasing

    base = Location(location).base
    with contextlib.suppress(OSError):
        finish_erasing(findings_folder(location))
    findings = _read(location)
    files = [place.base for place in findings.files(SCORES)]
    left_out = [name for name in files if not fnmatch.fnmatchcase(name, base)]
    if base.endswith(_PARQUET) and left_out:
        raise UsageError(
            f"{location} names {len(files) - len(left_out)} of the {len(files)} parts of these findings; a store "
            f"is all of them: give --store {findings.folder}"
        )
    return findings


def _read(location: str) -> Findings:
    try:
        return open_findings(location)
    except FindingsError as error:
        folder = Path(location) if Path(location).is_dir() else Path(location).parent
        if not is_url(location) and (folder / MANIFEST).is_file() and (folder / "sequences.parquet").is_file():
            raise FindingsError(
                f"{folder} is an export of a store and not the findings of a scan: make a store of it with "
                f"turnwise import --from-store {folder} --store work.db"
            ) from error
        raise


def beside(findings: Location, name: str) -> Path | None:
    """The path of a file beside findings; None where there is none, and none can be written."""
    if findings.is_url:
        return None
    path = findings.path / name
    return path if path.exists() or os.access(findings.path, os.W_OK) else None


def for_the_user(findings: Location, kind: str, name: str) -> Path:
    """The path of the user's own file that belongs to findings; its folder is made, or OSError raised."""
    variable, usual = {"cache": ("XDG_CACHE_HOME", ".cache"), "data": ("XDG_DATA_HOME", ".local/share")}[kind]
    home = Path(os.environ.get(variable) or Path.home() / usual)
    whole = findings.name if findings.is_url else str(findings.path.absolute())
    folder = home / "turnwise" / "findings" / hashlib.sha256(whole.encode()).hexdigest()[:20]
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


_NO_TEXTS: Final = "the scan kept no texts (--no-texts): scan again without it, into another folder"


class FoundFiles:
    """Findings as they were when opened: the parts done by then, none of whose files is missing or cut off."""

    def __init__(self, location: str) -> None:
        self.findings: Findings = opened(location)
        self.manifest = self.findings.manifest
        self.parts = self.manifest.parts
        self.where = str(self.findings.folder)
        self.remote = self.findings.folder.is_url
        self.principles = tuple(str(one["name"]) for one in self.manifest.principles)
        self._parts = {part.number: part for part in self.manifest.parts}
        self._lock = threading.Lock()
        self._connection: DuckDBPyConnection | None = None
        self._check()

    @property
    def has_texts(self) -> bool:
        return any(part_file(TURNS, part.number) in part.files for part in self.parts)

    @property
    def note(self) -> str | None:
        """How much is missing of a scan that has not ended; None of one that has."""
        if self.manifest.complete:
            return None
        inputs = self.manifest.inputs
        begun = {part.input for part in self.parts}
        return (
            f"the scan of {self.where} has not ended: {self.manifest.totals.rows:,} records are there, in "
            f"{len(self.parts):,} parts of {len(begun)} of {len(inputs)} input files; "
            "the command that began it goes on"
        )

    @cached_property
    def digest(self) -> str:
        """Tells these findings, with the parts that are done, from any others, and from changed ones."""
        told = [
            [part.number, *((name, file.sha256, self._changed(name)) for name, file in part.files.items())]
            for part in self.parts
        ]
        return hashlib.sha256(json.dumps([self.manifest.layout, self.principles, told]).encode()).hexdigest()

    @cached_property
    def when(self) -> datetime:
        """When the manifest was last written; findings hold no other time."""
        place = self.findings.folder / "manifest.json"
        try:
            if not self.remote:
                return datetime.fromtimestamp(place.path.stat().st_mtime, UTC)
            found: datetime = place.filesystem.modified(place.name)
        except (OSError, NotImplementedError, LocationError, KeyError):
            return datetime.fromtimestamp(0, UTC)
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def check(self, *tables: str) -> None:
        """Refuse local files that are not those that the scan wrote; StoreCorruptError where so."""
        try:
            self.findings.check(*tables)
        except FindingsError as error:
            raise StoreCorruptError(str(error)) from error

    def _changed(self, name: str) -> int | None:
        return None if self.remote else (self.findings.folder / name).path.stat().st_mtime_ns

    def close(self) -> None:
        with self._lock:
            self._connection = None

    def _check(self) -> None:
        names = {table: set((self.findings.folder / table).names()) for table in (SEQUENCES, TURNS)}
        names[SCORES] = set(self.findings.folder.names())
        missing = []
        for part in self.parts:
            for path, entry in part.files.items():
                folder, _, base = path.rpartition("/")
                if folder == FAILURES:
                    continue
                if base not in names.get(folder or SCORES, set()):
                    missing.append(path)
                elif not self.remote:
                    size = (self.findings.folder / path).size()
                    if size != entry.bytes:
                        raise StoreCorruptError(
                            f"{self.findings.folder / path} is damaged: it has {size:,} bytes, "
                            f"and the manifest says {entry.bytes:,}; {MEND}"
                        )
        if missing:
            more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise self.damaged(f"{missing[0]} is missing{more}")

    def damaged(self, what: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self.where} is damaged: {what}; {MEND}")

    def table(self, name: str, parts: Collection[int] | None = None) -> str:
        """SQL for a table over the files of parts, by default all, in their order; an empty one without any."""
        if name == TURNS and not self.has_texts:
            raise UsageError(f"{self.where} holds no text: {_NO_TEXTS}")
        numbers = sorted(self._parts) if parts is None else sorted(set(parts) & self._parts.keys())
        paths = [part_file(name, number) for number in numbers]
        files = [
            quoted(file_name((self.findings.folder / path).name))
            for number, path in zip(numbers, paths, strict=True)
            if path in self._parts[number].files
        ]
        if not files:
            columns = (f'NULL::{kind} AS "{column}"' for column, kind in self.manifest.columns(name).items())
            return f"(SELECT {', '.join(columns)} WHERE FALSE)"
        return f"read_parquet([{', '.join(files)}])"

    def prepared(self, connection: DuckDBPyConnection) -> DuckDBPyConnection:
        """Let a connection of DuckDB read where the findings are, and return it."""
        hide_progress_bar(connection)
        connection.execute("SET python_enable_replacements = false")
        if self.remote:
            connection.register_filesystem(self.findings.folder.filesystem)
        return connection

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query over tables of `table`."""
        import duckdb

        with self._lock:
            if self._connection is None:
                self._connection = self.prepared(duckdb.connect(":memory:"))
            cursor = self._connection.cursor()
        with self.translated():
            return cursor.execute(query, list(values)).fetchall()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what DuckDB says of the files inside the block into an error that says what to do."""
        import duckdb

        try:
            yield
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise StoreError(f"{self.where}: not enough memory to read it: {first_line(str(error))}") from error
        except duckdb.InterruptException:
            raise
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise StoreCorruptError(
                f"{self.where} is damaged, or not of this layout ({first_line(str(error))}); {MEND}"
            ) from error

    def failures(self) -> Iterator[dict[str, Any]]:
        """Yield the dead letters: what was not read or scored, each with ``file``, ``row`` and ``reason``."""
        self.check(FAILURES)
        for place in self.findings.files(FAILURES):
            try:
                for line in place.read().decode().splitlines():
                    yield dict(json.loads(line))
            except (ValueError, TypeError, LocationError) as error:
                raise StoreCorruptError(f"{place} can't be read ({error}); {MEND}") from error


def part_of(number: int) -> int:
    """The part that a sequence is in, by its row number, which is its key plus 1.

    >>> part_of(1), part_of((1 << 24) + 1)
    (0, 1)
    """
    return (number - 1) // PLACES
