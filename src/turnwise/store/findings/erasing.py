"""Conversations leave the findings of a scan: files of their parts are written anew without them.

All new files are made first, then a plan is written that names them, then each takes the place of the old one, and
the manifest is the last. A plan that is there belongs to an erasure that was killed: `finish_erasing` ends it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.bounded import read_json
from turnwise._support.locations import Location
from turnwise._support.table_files import quoted
from turnwise.errors import FindingsError, LocationError, UsageError
from turnwise.findings import (
    ABOUT,
    FAILURES,
    MANIFEST,
    MEND,
    SCORES,
    SEQUENCES,
    TURNS,
    Counts,
    Findings,
    Manifest,
    PartEntry,
    PartFile,
    part_file,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PLAN: Final = ".erasing.json"
_NEW: Final = ".erasing"
_TABLES: Final = (SCORES, SEQUENCES, TURNS, FAILURES)


def erase_from_findings(findings: Findings, ids: Collection[str]) -> Counter[str]:
    """Write the files of all parts with some conversations anew without them; return rows that went, by table."""
    import duckdb

    folder = _local(findings.folder)
    counts: Counter[str] = Counter()
    parts: dict[int, PartEntry] = {}
    made: list[str] = []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE erased (id VARCHAR)")
        connection.executemany("INSERT INTO erased VALUES (?)", [[one] for one in ids])
        for part in findings.manifest.parts:
            try:
                parts[part.number], went, files = _without(connection, folder, part, frozenset(ids))
            except duckdb.Error as error:
                raise FindingsError(f"part {part.number} of {folder}: {str(error).splitlines()[0]}") from error
            counts += went
            made += files
    if made:
        manifest = findings.manifest.with_parts(parts, complete=findings.manifest.complete)
        plan = {"files": made, "manifest": manifest.to_json().decode()}
        _write(folder / PLAN, json.dumps(plan).encode())
        finish_erasing(findings.folder)
    return counts


def finish_erasing(location: Location) -> bool:
    """End an erasure that was killed after its plan was written; return whether there was one.

    What one left behind that was killed before is removed.
    """
    if location.is_url:
        return False
    folder = location.path
    plan = folder / PLAN
    if not plan.exists():
        for table in ("", SEQUENCES, TURNS, FAILURES):
            for left in (folder / table).glob(f"*{_NEW}"):
                left.unlink()
        return False
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
    _write(folder / MANIFEST, manifest.to_json())
    plan.unlink()
    return True


def _without(
    connection: DuckDBPyConnection, folder: Path, part: PartEntry, ids: frozenset[str]
) -> tuple[PartEntry, Counter[str], list[str]]:
    """A part without some conversations: its entry, the rows that went, and the files that were written."""
    of_sequences = folder / part_file(SEQUENCES, part.number)
    gone = connection.execute(
        f"SELECT count(*), count(*) FILTER (scored), count(*) FILTER (fired), coalesce(sum(turns), 0) "
        f"FROM read_parquet({quoted(str(of_sequences))}) WHERE sequence IN (FROM erased)"
    ).fetchone()
    letters = folder / part_file(FAILURES, part.number)
    lines = (
        letters.read_text(encoding="utf-8").splitlines() if part_file(FAILURES, part.number) in part.files else []
    )
    kept = [line for line in lines if json.loads(line).get("sequence") not in ids]
    assert gone is not None
    if not gone[0] and len(kept) == len(lines):
        return part, Counter(), []
    counts: Counter[str] = Counter({SEQUENCES: gone[0], FAILURES: len(lines) - len(kept)})
    files, made = dict(part.files), []
    if len(kept) < len(lines):
        name = part_file(FAILURES, part.number)
        content = "".join(f"{line}\n" for line in kept).encode()
        (folder / f"{name}{_NEW}").write_bytes(content)
        files[name] = PartFile(len(content), hashlib.sha256(content).hexdigest())
        made.append(name)
    asked, unanswered = 0, Counter[str]()
    for table in (TURNS, SCORES):
        name = part_file(table, part.number)
        if name not in part.files:
            continue
        source = f"read_parquet({quoted(str(folder / name))})"
        [[count]] = connection.execute(f"SELECT count(*) FROM {source} WHERE sequence IN (FROM erased)").fetchall()
        counts[table] = count
        if table == SCORES:
            columns = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
            if "asked" in columns:
                asked, unanswered = _second_looks(connection, source)
        files[name] = _copy(connection, source, folder / name, None)
        made.append(name)
    gone_counts = _gone(part.counts, gone, counts, [json.loads(one) for one in set(lines) - set(kept)])
    entry = replace(
        part,
        counts=replace(
            gone_counts, asked=gone_counts.asked - asked, unanswered=_less(gone_counts.unanswered, unanswered)
        ),
        files={name: one for name, one in files.items() if name != part_file(SEQUENCES, part.number)},
    )
    name = part_file(SEQUENCES, part.number)
    last = _copy(connection, f"read_parquet({quoted(str(of_sequences))})", of_sequences, json.dumps(asdict(entry)))
    return replace(entry, files=dict(sorted({**entry.files, name: last}.items()))), counts, [*made, name]


def _gone(before: Counts, gone: tuple[int, ...], counts: Counter[str], letters: list[dict[str, Any]]) -> Counts:
    """What a part comes to without some conversations, which count as left out."""
    sequences, scored, fired, turns = gone
    unread = Counter(one["language"] for one in letters if one.get("language") is not None)
    return replace(
        before,
        conversations=before.conversations - sequences,
        left_out=before.left_out + sequences,
        turns=before.turns - turns,
        scored=before.scored - scored,
        fired=before.fired - fired,
        scores=before.scores - counts[SCORES],
        failures=before.failures - sum(one.get("language") is None for one in letters),
        unread=_less(before.unread, unread),
    )


def _second_looks(connection: DuckDBPyConnection, source: str) -> tuple[int, Counter[str]]:
    """Turns of erased conversations that a judge was asked about, and of these the unanswered by the reason."""
    of_these = f"FROM {source} WHERE sequence IN (FROM erased)"
    [[asked]] = connection.execute(
        f"SELECT count(DISTINCT (key, turn)) {of_these} AND asked IS NOT NULL"
    ).fetchall()
    rows = connection.execute(
        f"SELECT unanswered, count(DISTINCT (key, turn)) {of_these} AND unanswered IS NOT NULL GROUP BY 1"
    ).fetchall()
    return asked, Counter(dict(rows))


def _less(before: Mapping[str, int], gone: Mapping[str, int]) -> dict[str, int]:
    return {name: count - gone.get(name, 0) for name, count in before.items() if count > gone.get(name, 0)}


def _copy(connection: DuckDBPyConnection, source: str, place: Path, about: str | None) -> PartFile:
    new = place.with_name(f"{place.name}{_NEW}")
    options = "FORMAT parquet, COMPRESSION zstd"
    if about is not None:
        options += f", KV_METADATA {{{ABOUT}: {quoted(about)}}}"
    connection.execute(
        f"COPY (SELECT * FROM {source} WHERE sequence NOT IN (FROM erased)) TO {quoted(str(new))} ({options})"
    )
    with new.open("rb") as file:
        return PartFile(new.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _local(location: Location) -> Path:
    if location.is_url:
        raise UsageError(f"{location} is behind a URL: copy it to this machine, erase there, and put it back")
    return location.path


def _write(path: Path, content: bytes) -> None:
    try:
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise LocationError(f"can't write {path}: {error.strerror or error}") from error
