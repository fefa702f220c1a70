"""What people change of findings: their words are kept beside them, and conversations leave them.

To erase, all new files of parts are made first, then a plan is written that names them, then each takes the place
of the old one, and the manifest is the last. A plan that is there belongs to an erasure that was killed:
`finish_erasing` ends it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Table

from turnwise._support.bounded import read_json
from turnwise._support.locations import Location
from turnwise._support.table_files import quoted
from turnwise.clock import Clock
from turnwise.errors import FindingsError, StoreError
from turnwise.findings import (
    ABOUT,
    FAILURES,
    MANIFEST,
    MEND,
    SCORES,
    SEQUENCES,
    TURNS,
    Findings,
    Manifest,
    PartEntry,
    PartFile,
    content_entry,
    file_entry,
    part_file,
)
from turnwise.store.database import BUSY_SECONDS, Database
from turnwise.store.erasure import Erasure, erase_rows, erasures, finish, matching, new_receipt
from turnwise.store.findings.files import beside, for_the_user
from turnwise.store.people import People
from turnwise.store.record_source import RecordSource
from turnwise.store.sequences import add_sequences
from turnwise.store.source import Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE: Final = "people.db"


class FoundPeople(People):
    """What people said of findings: a store of its own, made when somebody says something for the first time."""

    def __init__(self, folder: Location, found: Source, clock: Clock) -> None:
        self._folder = folder
        self._found = found
        self._clock = clock
        self._opened = False

    @property
    def path(self) -> Path:
        """Where it is kept; StoreError where no folder can be written."""
        if (path := beside(self._folder, FILE)) is not None:
            return path
        try:
            return for_the_user(self._folder, "data", FILE)
        except OSError as error:
            raise StoreError(
                f"judgements of {self._folder} can't be saved: make it or {error.filename} writable"
            ) from error

    def close(self) -> None:
        if self._opened:
            self._db.close()
            self._opened = False

    def authors(self) -> tuple[str, ...]:
        return super().authors() if self._open(create=False) else ()

    def _rows(self, table: Table, ids: Collection[str] | None, author: str | None) -> Iterator[Any]:
        if not self._open(create=False):
            return iter(())
        if ids is not None:
            wanted = {head.sequence_id for page in self._found.pages(ids) for _, head in page}
            there = {head.sequence_id for page in self._source.pages() for _, head in page}
            ids = wanted & there
        return super()._rows(table, ids, author)

    def _hold(self, ids: Collection[str]) -> None:
        """Copy conversations into the record with their texts, since those are what is spoken of."""
        spoken_of = [one for page in self._found.pages(ids) for one in self._found.sequences(page)]
        self._open(create=True)
        add_sequences(self._db, spoken_of)

    def begun(self, ids: Collection[str]) -> tuple[int, Erasure] | None:
        """The receipt of an erasure of some of these conversations that was killed, if there is one."""
        return matching(erasures(self._db), ids) if self._open(create=False) else None

    def begin_erasing(self, ids: Sequence[str], author: str, reason: str) -> tuple[int, Erasure]:
        """Erase what was said of conversations, with the copies of their texts; the receipt is to be finished."""
        self._open(create=True)
        there = {head.sequence_id: number for page in self._source.pages() for number, head in page}
        keys = [there[one] for one in ids if one in there]
        return erase_rows(self._db, keys, new_receipt(ids, self._clock(), author, reason))

    def finish_erasing(self, begun: tuple[int, Erasure], counts: Mapping[str, int]) -> Erasure:
        """Close a receipt, once the findings are without the conversations; `counts` are what went from them."""
        number, receipt = begun
        return finish(self._db, number, replace(receipt, counts={**counts, **receipt.counts}))

    def receipts(self) -> tuple[Erasure, ...]:
        return super().receipts() if self._open(create=False) else ()

    def _open(self, *, create: bool) -> bool:
        """Open the record, and return whether there is one."""
        if not self._opened:
            path = self.path
            if not (create or path.exists()):
                return False
            self._db = Database(str(path), create=True, clock=self._clock, busy_seconds=BUSY_SECONDS)
            self._source = RecordSource(self._db)
            self._opened = True
        return True


PLAN: Final = ".erasing.json"
_NEW: Final = ".erasing"
_TABLES: Final = (SCORES, SEQUENCES, TURNS, FAILURES)


def erase_from_findings(findings: Findings, ids: Collection[str]) -> Counter[str]:
    """Write the files of all parts with some conversations anew without them; return rows that went, by table."""
    import duckdb

    folder = findings.folder.path
    counts: Counter[str] = Counter()
    parts: dict[int, PartEntry] = {}
    made: list[str] = []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE erased (id VARCHAR)")
        connection.executemany("INSERT INTO erased VALUES (?)", [[one] for one in ids])
        eraser = _Eraser(connection, folder, frozenset(ids))
        for part in findings.manifest.parts:
            try:
                parts[part.number], went, files = eraser.without(part)
            except duckdb.Error as error:
                raise FindingsError(f"part {part.number} of {folder}: {str(error).splitlines()[0]}") from error
            counts += went
            made += files
    if made:
        manifest = findings.manifest.with_parts(parts, complete=findings.manifest.complete)
        plan = {"files": made, "manifest": manifest.to_json().decode()}
        (findings.folder / PLAN).write(json.dumps(plan).encode())
        finish_erasing(findings.folder)
    return counts


def finish_erasing(location: Location) -> None:
    """End an erasure that was killed after its plan was written, and clear up after one that was killed before."""
    if location.is_url:
        return
    folder = location.path
    plan = folder / PLAN
    if not plan.exists():
        for table in ("", SEQUENCES, TURNS, FAILURES):
            for left in (folder / table).glob(f"*{_NEW}"):
                left.unlink()
        return
    try:
        told = read_json(plan.read_bytes())
        manifest = Manifest.from_json(str(told["manifest"]).encode(), str(plan))
        names = {name for part in manifest.parts for name in (part_file(one, part.number) for one in _TABLES)}
        wanted = [name for name in told["files"] if name in names]
    except (ValueError, KeyError, TypeError) as error:
        raise FindingsError(f"{plan} is damaged: {MEND}") from error
    for name in wanted:
        new = folder / f"{name}{_NEW}"
        if new.exists():
            new.replace(folder / name)
    (location / MANIFEST).write(manifest.to_json())
    plan.unlink()


class _Eraser:
    """Makes the new files of parts without some conversations, whose ids are in the table ``erased`` too."""

    def __init__(self, connection: DuckDBPyConnection, folder: Path, ids: frozenset[str]) -> None:
        self._connection = connection
        self._folder = folder
        self._ids = ids

    def without(self, part: PartEntry) -> tuple[PartEntry, Counter[str], list[str]]:
        """A part without the conversations: its entry, the rows that went, and the files that were made."""
        [gone] = self._connection.execute(
            "SELECT count(*), count(*) FILTER (scored), count(*) FILTER (fired), coalesce(sum(turns), 0) "
            f"FROM {self._rows(part, SEQUENCES)} WHERE sequence IN (FROM erased)"
        ).fetchall()
        kept, letters = self._letters(part)
        if not gone[0] and not letters:
            return part, Counter(), []
        went, made = Counter({SEQUENCES: gone[0], FAILURES: len(letters)}), []
        files = dict(part.files)
        if letters:
            name = part_file(FAILURES, part.number)
            content = "".join(f"{line}\n" for line in kept).encode()
            (self._folder / f"{name}{_NEW}").write_bytes(content)
            files[name] = content_entry(content)
            made.append(name)
        asked, unanswered = self._second_looks(part)
        for table in (TURNS, SCORES):
            name = part_file(table, part.number)
            if name in files:
                query = f"SELECT count(*) FROM {self._rows(part, table)} WHERE sequence IN (FROM erased)"
                [[went[table]]] = self._connection.execute(query).fetchall()
                files[name] = self._copy(part, table)
                made.append(name)
        before = part.counts
        unread = Counter(one["language"] for one in letters if one.get("language") is not None)
        counts = replace(
            before,
            conversations=before.conversations - gone[0],
            left_out=before.left_out + gone[0],
            scored=before.scored - gone[1],
            fired=before.fired - gone[2],
            turns=before.turns - gone[3],
            scores=before.scores - went[SCORES],
            failures=before.failures - sum(one.get("language") is None for one in letters),
            unread=_less(before.unread, unread),
            asked=before.asked - asked,
            unanswered=_less(before.unanswered, unanswered),
        )
        last = part_file(SEQUENCES, part.number)  # which says what the others are
        files.pop(last)
        entry = replace(part, counts=counts, files=files)
        files = {**files, last: self._copy(part, SEQUENCES, json.dumps(asdict(entry)))}
        return replace(entry, files=dict(sorted(files.items()))), went, [*made, last]

    def _rows(self, part: PartEntry, table: str) -> str:
        return f"read_parquet({quoted(str(self._folder / part_file(table, part.number)))})"

    def _letters(self, part: PartEntry) -> tuple[list[str], list[dict[str, Any]]]:
        """The lines of dead letters that stay, and those that go."""
        name = part_file(FAILURES, part.number)
        if name not in part.files:
            return [], []
        kept, gone = [], []
        for line in (self._folder / name).read_text(encoding="utf-8").splitlines():
            letter = json.loads(line)
            if letter.get("sequence") in self._ids:
                gone.append(letter)
            else:
                kept.append(line)
        return kept, gone

    def _second_looks(self, part: PartEntry) -> tuple[int, Counter[str]]:
        """Turns of erased conversations that a judge was asked about, and the unanswered ones by the reason."""
        if part_file(SCORES, part.number) not in part.files:
            return 0, Counter()
        rows = self._rows(part, SCORES)
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        if "asked" not in {row[0] for row in described}:
            return 0, Counter()
        counted = f"count(DISTINCT (key, turn)) FROM {rows} WHERE sequence IN (FROM erased)"
        [[asked]] = self._connection.execute(f"SELECT {counted} AND asked IS NOT NULL").fetchall()
        reasons = self._connection.execute(
            f"SELECT unanswered, {counted} AND unanswered IS NOT NULL GROUP BY unanswered"
        ).fetchall()
        return asked, Counter(dict(reasons))

    def _copy(self, part: PartEntry, table: str, about: str | None = None) -> PartFile:
        new = self._folder / f"{part_file(table, part.number)}{_NEW}"
        options = "FORMAT parquet, COMPRESSION zstd"
        if about is not None:
            options += f", KV_METADATA {{{ABOUT}: {quoted(about)}}}"
        kept = f"SELECT * FROM {self._rows(part, table)} WHERE sequence NOT IN (FROM erased)"
        self._connection.execute(f"COPY ({kept}) TO {quoted(str(new))} ({options})")
        return file_entry(new)


def _less(before: Mapping[str, int], gone: Mapping[str, int]) -> dict[str, int]:
    return {name: count - gone.get(name, 0) for name, count in before.items() if count > gone.get(name, 0)}
