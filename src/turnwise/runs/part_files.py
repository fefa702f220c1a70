"""The files of parts: Parquet and dead letters in JSONL, each whole or not at all; and which parts are done."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise._support.locations import PARTIAL, Location
from turnwise._support.sql_text import quoted
from turnwise.errors import LocationError
from turnwise.findings import (
    ABOUT,
    COLUMNS,
    FAILURES,
    SCORES,
    SEQUENCES,
    STAGE_COLUMNS,
    TURNS,
    Counts,
    Findings,
    PartEntry,
    PartFile,
    part_entry,
    part_file,
)

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


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What could not be read or scored, or a text whose language the observer does not read.

    `row` is the number of the record in the file, from 1; `reason` is for a person and holds nothing of the text.
    `sequence` is None where the id could not be read, `turn` where the record as a whole is meant. `principle` is
    None where a text was not read, for all of them; `language` is the language of such a text, None for a failure.
    """

    file: str
    row: int
    reason: str
    sequence: str | None = None
    turn: int | None = None
    side: str | None = None
    principle: str | None = None
    language: str | None = None


class PartFiles:
    """Writes the files of parts into a folder of findings; one a process.

    Parquet is written by DuckDB with one thread, so equal columns give equal bytes. The file of sequences is the
    last: where it is there, the part is whole. `principles` are the names by their code in the columns of scores.
    """

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
        """Write a part and return what the manifest says of it.

        Tables have an array for each column of `turnwise.findings.COLUMNS`: ``side`` is 0 for the prompt and 1 for
        the response, ``principle`` an index, a ``flag_turn`` of 0 is none, and so is a ``peak`` that is not a
        number. Scores may have `turnwise.findings.STAGE_COLUMNS` too. `turns` are None where texts are not kept.
        """
        files: dict[str, PartFile] = {}
        if failures:
            place = part_file(FAILURES, number)
            lines = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in failures)
            content = "".join(lines).encode(errors="replace")
            (self._folder / place).write(content)
            files[place] = PartFile(len(content), _sha256(content))
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
            return PartFile(len(content), _sha256(content))
        partial = place.partial()
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            self._copy(table, columns, partial, about)
            with partial.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            entry = PartFile(partial.stat().st_size, digest)
            partial.replace(place.path)
        except OSError as error:
            raise LocationError(f"can't write {place}: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)
        return entry

    def _copy(self, table: str, columns: Columns, path: Path, about: str | None) -> None:
        import duckdb

        if self._connection is None:
            self._connection = duckdb.connect(config={"threads": 1})
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
    return _with_file(entry, part_file(SEQUENCES, number), PartFile(len(content), _sha256(content)))


def done_parts(findings: Findings) -> dict[int, PartEntry]:
    """The parts that are done, by number: those of the manifest, and those that it does not know of yet.

    What a worker wrote last was perhaps not in the manifest when the scan was killed; a part's file of sequences
    is its last, and says what belongs to it. Parts whose files are gone or cut short are left out.
    """
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


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
