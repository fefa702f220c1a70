"""The sink of a scan: files of parts, each whole or not at all, and the manifest; what is there is not redone."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise._support.locations import PARTIAL, Location
from turnwise._support.table_files import quoted
from turnwise.errors import FindingsError, LocationError
from turnwise.findings import (
    ABOUT,
    COLUMNS,
    FAILURES,
    MANIFEST,
    SCORES,
    SEQUENCES,
    STAGE_COLUMNS,
    TURNS,
    Counts,
    DeadLetter,
    Findings,
    Manifest,
    PartEntry,
    PartFile,
    content_entry,
    file_entry,
    part_entry,
    part_file,
)
from turnwise.runs.engines import Progress, Tell
from turnwise.runs.paid_replies import ScanJournal
from turnwise.runs.parts import FinishedPart, Part

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]

_FOLDERS = ("", f"{SEQUENCES}/", f"{TURNS}/", f"{FAILURES}/")
"""Where the files of parts are, within the folder of findings."""

_SIDES = "['prompt', 'response']"

_SPECIAL = {
    (SCORES, "side"): f"{_SIDES}[side + 1]",
    (SCORES, "principle"): "$principles[principle + 1]",
    (SCORES, "flag_turn"): "nullif(flag_turn, 0)",
    (SEQUENCES, "flag_turn"): "nullif(flag_turn, 0)",
    (SEQUENCES, "peak"): "CASE WHEN isnan(peak) THEN NULL ELSE peak END",
    **{
        (SCORES, name): f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
        for name, kind in STAGE_COLUMNS.items()
        if kind == "DOUBLE"
    },
}
"""Columns that come as numbers for something else: codes of names, and what stands for NULL."""


class PartFiles:
    """Writes the files of parts into a folder of findings; one a process. The file of sequences is the last: where
    it is there, the part is whole. `principles` are the names by their code in the columns of scores."""

    def __init__(self, folder: Location, principles: Sequence[str]) -> None:
        self._folder = folder
        self._principles = list(principles)
        self._connection: DuckDBPyConnection | None = None

    def write(
        self,
        number: int,
        *,
        scores: Columns,
        sequences: Columns,
        turns: Columns | None,
        failures: Sequence[DeadLetter] = (),
        counts: Counts | None = None,
        input: int = 0,
        first_row: int = 1,
    ) -> PartEntry:
        """Write a part and return what the manifest says of it; `turns` are None where texts are not kept."""
        # Tables have an array for each column of `turnwise.findings.COLUMNS`, and scores maybe STAGE_COLUMNS too:
        # ``side`` is 0 for the prompt and 1 for the response, ``principle`` an index; see _SPECIAL.
        files: dict[str, PartFile] = {}
        if failures:
            place = part_file(FAILURES, number)
            lines = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in failures)
            content = "".join(lines).encode(errors="replace")
            (self._folder / place).write(content)
            files[place] = content_entry(content)
        for table, columns in {TURNS: turns, SCORES: scores}.items():
            if columns is not None:
                place = part_file(table, number)
                files[place] = self._write_parquet(table, columns, self._folder / place)
        entry = PartEntry(number, input, first_row, counts or Counts(), files)
        place = part_file(SEQUENCES, number)
        last = self._write_parquet(SEQUENCES, sequences, self._folder / place, json.dumps(asdict(entry)))
        return _with_file(entry, place, last)

    def _write_parquet(self, table: str, columns: Columns, place: Location, about: str | None = None) -> PartFile:
        if place.is_url:
            with tempfile.TemporaryDirectory() as folder:
                local = Path(folder) / place.base
                self._copy(table, columns, local, about)
                content = local.read_bytes()
            place.write(content)
            return content_entry(content)
        partial = place.partial()
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            self._copy(table, columns, partial, about)
            entry = file_entry(partial)
            partial.replace(place.path)
        except OSError as error:
            raise LocationError(f"can't write {place}: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)
        return entry

    def _copy(self, table: str, columns: Columns, path: Path, about: str | None) -> None:
        import duckdb

        if self._connection is None:
            self._connection = duckdb.connect(config={"threads": 1})  # so that equal columns give equal bytes
        given = dict(columns)
        wanted = COLUMNS[table] if table != SCORES else {**COLUMNS[table], **STAGE_COLUMNS}
        query = ", ".join(
            f'CAST({_SPECIAL.get((table, name), f"{chr(34)}{name}{chr(34)}")} AS {kind}) AS "{name}"'
            for name, kind in wanted.items()
            if name in given or name not in STAGE_COLUMNS
        )
        query = query.replace("$principles", "[" + ", ".join(map(quoted, self._principles)) + "]")
        options = "FORMAT parquet, COMPRESSION zstd"
        if about is not None:
            options += f", KV_METADATA {{{ABOUT}: {quoted(about)}}}"
        try:
            self._connection.execute(f"COPY (SELECT {query} FROM given) TO {quoted(str(path))} ({options})")
        except duckdb.Error as error:
            raise LocationError(f"can't write {path}: {str(error).splitlines()[0]}") from error
        del given  # DuckDB reads the variable by its name


def _with_file(entry: PartEntry, place: str, file: PartFile) -> PartEntry:
    return replace(entry, files=dict(sorted({**entry.files, place: file}.items())))


def _read_entry(folder: Location, number: int) -> PartEntry | None:
    """What a part's file of sequences says of the part; None where it can't be read."""
    import duckdb

    place = folder / part_file(SEQUENCES, number)
    try:
        content = place.read()
        with tempfile.TemporaryDirectory() as scratch, duckdb.connect(config={"threads": 1}) as connection:
            local = Path(scratch) / place.base
            local.write_bytes(content)
            found = connection.execute(
                "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = ?", [str(local), ABOUT]
            ).fetchone()
        if found is None:
            return None
        entry = part_entry(json.loads(found[0]))
    except (LocationError, duckdb.Error, ValueError, TypeError, KeyError):
        return None
    return _with_file(entry, part_file(SEQUENCES, number), content_entry(content))


def done_parts(findings: Findings) -> dict[int, PartEntry]:
    """The parts that are done and whose files are whole, by number, also those that the manifest lacks."""
    # What a worker wrote last was perhaps not in the manifest when the scan was killed; a part's file of sequences
    # is its last, and says what belongs to it.
    folder = findings.folder
    known = {part.number: part for part in findings.manifest.parts}
    for name in (folder / SEQUENCES).names():
        number = _number(name)
        if number is not None and number not in known:
            entry = _read_entry(folder, number)
            if entry is not None:
                known[number] = entry
    sizes = {f"{table}{name}": size for table in _FOLDERS for name, size in (folder / table).sizes().items()}
    return {
        number: part
        for number, part in known.items()
        if all(sizes.get(name) == file.bytes for name, file in part.files.items())
    }


def _number(name: str) -> int | None:
    middle = name.removeprefix(f"{SEQUENCES}-").removesuffix(".parquet")
    return int(middle) if middle.isdecimal() and name.endswith(".parquet") else None


def clear_partial(folder: Location) -> None:
    """Remove what a killed scan wrote only in part; files of object stores are whole or not there."""
    if folder.is_url:
        return
    for table in _FOLDERS:
        for name in (folder / table).sizes():
            if name.endswith(PARTIAL):
                (folder / table / name).remove()


_LOCK = ".scan.lock"

_NOT_COMPARED = {"parts", "complete", "totals", "replies", "sha256"}

_PAUSE = 1.0
"""Seconds between two writings of the manifest, at least; parts that it lacks are found by their files."""

_SHARE = 30
"""So many times as long as the last writing took is waited before the next."""


class FindingsSink:
    """Takes parts whose files are written, and writes the manifest now and then; nobody else may, see `alone`.
    `total` are the bytes of input of all parts; 0 where they come as time goes by, and none is to wait."""

    def __init__(
        self, folder: Location, manifest: Manifest, parts: Iterator[Part], total: int, tell: Tell | None = None
    ) -> None:
        self._began = time.monotonic()
        self._folder = folder
        self._manifest = manifest
        self._not_before = self._began + _PAUSE
        self._parts = parts
        self._total = total
        self._tell = tell
        self._journal = ScanJournal(folder)
        clear_partial(folder)
        self._done = done_parts(Findings(folder, manifest))
        self.resumed = len(self._done)
        self.repeated = 0
        self.cost_usd = 0.0
        self._counts = sum((part.counts for part in self._done.values()), Counts())
        self._bytes = self._before = self._here = 0

    @property
    def findings(self) -> Findings:
        return Findings(self._folder, self._manifest)

    def missing(self) -> Iterator[Part]:
        for part in self._parts:
            if part.number in self._done:
                self._bytes += part.size
                self._before += part.size
            else:
                yield part

    def take(self, results: Sequence[FinishedPart]) -> None:
        for done in results:
            self._done[done.entry.number] = done.entry
            if time.monotonic() >= self._not_before or not self._total:
                self._write()
            self._counts += done.entry.counts
            self._bytes += done.size
            self._here += done.entry.counts.conversations
            self.repeated += 1
            self.cost_usd += done.cost_usd
            if self._tell is not None:
                reached, seconds = min(self._bytes, self._total), time.monotonic() - self._began
                self._tell(Progress(reached, self._total, self._before, self._here, seconds, self._counts))

    def close(self, *, complete: bool) -> None:
        self._write(complete=complete)
        if complete:
            self._journal.clear()

    def _write(self, *, complete: bool = False) -> None:
        began = time.monotonic()
        made = self._manifest.with_parts(self._done, complete=complete)
        self._manifest = replace(made, replies=self._journal.paid())
        (self._folder / MANIFEST).write(self._manifest.to_json())
        now = time.monotonic()
        self._not_before = now + max(_PAUSE, _SHARE * (now - began))


@contextmanager
def alone(folder: Location) -> Iterator[None]:
    """Keep other scans out of a local folder; the system lets go of the lock when this process ends."""
    if folder.is_url:  # can't be locked: who writes one scan from two machines has only the later findings
        yield
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    lock = folder.path / _LOCK
    connection = sqlite3.connect(lock, isolation_level=None, timeout=0.0)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        raise FindingsError(f"another scan writes to {folder}: wait for it, or choose another folder") from error
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        connection.close()


def stored_manifest(folder: Location, wanted: Manifest) -> Manifest | None:
    """The manifest of findings that this scan goes on with, None for none yet; FindingsError for others."""
    place = folder / MANIFEST
    if not place.exists():
        others = [name for name in folder.names() if not name.startswith(".")]
        if others:
            raise FindingsError(
                f"{folder} is not empty and has no {MANIFEST} (it has {others[0]}): choose another folder"
            )
        return None
    found = Manifest.from_json(place.read(), str(place))
    different = _differences(json.loads(found.to_json()), json.loads(wanted.to_json()))
    if different:
        if not done_parts(Findings(folder, found)):
            return None  # nothing was done: whatever was wrong with it is put right now
        raise FindingsError(
            f"{folder} has findings of another scan: {'; '.join(different)}. "
            "Repeat the command that began it, or choose another folder"
        )
    return found


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What differs, a text each, a dozen at most."""
    texts: list[str] = []
    for name in wanted:
        if name in _NOT_COMPARED or found.get(name) == wanted[name]:
            continue
        if name == "inputs":
            texts += _different_inputs(found["inputs"], wanted["inputs"])
        elif isinstance(wanted[name], dict) and isinstance(found.get(name), dict):
            before, now = found[name], wanted[name]
            keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
            texts += [f"{name}.{key} was {_shown(before.get(key))}, now {_shown(now.get(key))}" for key in keys]
        else:
            texts.append(f"{name} was {_shown(found.get(name))}, now {_shown(wanted[name])}")
    return texts[:12]


def _different_inputs(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[str]:
    before, now = ({one["name"]: one for one in ones} for ones in (found, wanted))
    changed = [f"the input {name} has changed" for name in now if name in before and before[name] != now[name]]
    changed += [f"the input {name} is new" for name in now if name not in before]
    changed += [f"the input {name} is missing" for name in before if name not in now]
    return changed or ["the inputs come in another order"]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
