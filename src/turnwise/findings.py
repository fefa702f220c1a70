"""Findings: what a scan leaves in a folder. Names of files, columns of tables, and the manifest.

    findings/manifest.json
    findings/scores-000000.parquet                  a row a score, by sequence, turn, side and principle
    findings/sequences/sequences-000000.parquet     a row a conversation
    findings/turns/turns-000000.parquet             its texts; not where they were not wanted
    findings/failures/failures-000000.jsonl         what could not be read or scored, and texts in languages that
                                                    the observer does not read; only where there is such

A part of the input is a file of each. While a scan that is paid for has not ended, ``replies`` has what it paid
for (`turnwise.runs.paid_replies`). Only the files of parts that are done count; `Findings` names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from turnwise._support.locations import Location
from turnwise.errors import FindingsError

MEND: Final = "restore a copy, or scan again into another folder"
"""What to do where a file of a part is damaged."""

LAYOUT: Final = 1
"""Version of names, columns and manifest."""

MANIFEST: Final = "manifest.json"
SCORES: Final = "scores"
SEQUENCES: Final = "sequences"
TURNS: Final = "turns"
FAILURES: Final = "failures"
STAGES: Final = "stages"
"""What of a manifest's `run` describes screen and judge, where one decided on the scores of the other."""

ABOUT: Final = "turnwise_part"
"""Key in the metadata of a part's file of sequences under which it says what the part came to."""

_DIGEST: Final = "sha256"

PLACES: Final = 1 << 24
"""Conversations that a part can have: a key is the number of the part times this, and the place in the part."""

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    SCORES: {
        "key": "BIGINT",
        "sequence": "VARCHAR",
        "turn": "INTEGER",
        "side": "VARCHAR",
        "principle": "VARCHAR",
        "T": "DOUBLE",
        "I": "DOUBLE",
        "F": "DOUBLE",
        "detector_score": "DOUBLE",
        "fired": "BOOLEAN",
        "flag_turn": "INTEGER",
        "chars": "INTEGER",
    },
    SEQUENCES: {
        "key": "BIGINT",
        "sequence": "VARCHAR",
        "label": "VARCHAR",
        "source": "VARCHAR",
        "file": "VARCHAR",
        "row": "BIGINT",
        "turns": "INTEGER",
        "scored": "BOOLEAN",
        "fired": "BOOLEAN",
        "flag_turn": "INTEGER",
        "peak": "DOUBLE",
        "digest": "VARCHAR",
        "metadata": "VARCHAR",
    },
    TURNS: {
        "key": "BIGINT",
        "sequence": "VARCHAR",
        "turn": "INTEGER",
        "prompt": "VARCHAR",
        "response": "VARCHAR",
    },
}
"""Columns of each table in order, with types in DuckDB; docs/reference/score-tables.md says what they hold."""


STAGE_COLUMNS: Final[Mapping[str, str]] = {
    "asked": "VARCHAR",
    "unanswered": "VARCHAR",
    **{f"{stage}_{component}": "DOUBLE" for stage in ("screen", "judge") for component in "TIF"},
}
"""Columns that scores have beside these in a scan with a second look."""


def part_file(table: str, number: int) -> str:
    """Return the path of a part's file within the folder of findings.

    >>> part_file("scores", 7), part_file("turns", 7), part_file("failures", 7)
    ('scores-000007.parquet', 'turns/turns-000007.parquet', 'failures/failures-000007.jsonl')
    """
    ending = "jsonl" if table == FAILURES else "parquet"
    folder = "" if table == SCORES else f"{table}/"
    return f"{folder}{table}-{number:06d}.{ending}"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a part, or a whole scan, came to.

    Args:
        rows: records of the input that were looked at.
        conversations: of these, the ones that could be read and were wanted.
        turns: their turns.
        scored: conversations with at least one score.
        scores: scores.
        fired: conversations at which the detector fired.
        failures: dead letters: what could not be read or scored.
        left_out: rows that a condition or a sample left out.
        unread: texts without a score since the observer does not read their language, by language.
        asked: turns that the judge of a second look was asked about.
        unanswered: those of them without a score of it, by the reason.
    """

    rows: int = 0
    conversations: int = 0
    turns: int = 0
    scored: int = 0
    scores: int = 0
    fired: int = 0
    failures: int = 0
    left_out: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    asked: int = 0
    unanswered: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        mine, others = asdict(self), asdict(other)
        return Counts(**{name: _sum(value, others[name]) for name, value in mine.items()})


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, int):
        return left + right
    return {name: left.get(name, 0) + right.get(name, 0) for name in sorted({*left, *right})}


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file of a part: its size in bytes, and its SHA-256 as hexadecimal digits."""

    bytes: int
    sha256: str


def content_entry(content: bytes) -> PartFile:
    """What the manifest says of a file with some content."""
    return PartFile(len(content), hashlib.sha256(content).hexdigest())


def file_entry(path: Path) -> PartFile:
    """What the manifest says of a file on this machine."""
    with path.open("rb") as file:
        return PartFile(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A part that is done.

    Args:
        number: number of the part, from 0.
        input: index of the input file in `Manifest.inputs`.
        first_row: number of its first record in that file, from 1.
        counts: what it came to.
        files: its files by their path within the folder.
    """

    number: int
    input: int
    first_row: int
    counts: Counts
    files: Mapping[str, PartFile]


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


@dataclass(frozen=True, slots=True)
class Input:
    """An input file.

    Args:
        name: path or URL as it was given or found.
        bytes: its size.
        digest: ``sha256:...`` of the whole content; of a file behind a URL ``ukey:...``, the token of its store,
            such as an ETag.
    """

    name: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What findings are: how they were made, of what, and which parts are done.

    Args:
        versions: of turnwise, its code, Python and the libraries that bytes depend on.
        run: ``name``, ``observer`` (its specification), ``observer_version``, ``context``, ``parameters`` and
            ``operating_points``, as a run of a store has them; with a second look also ``stages``, the same of
            screen and judge.
        principles: name and revision of each, in the order in which they are scored.
        detector: ``spec``, ``threshold`` (None where it never fires), ``threshold_source``, and ``mapping``, which
            builds it.
        reading: format, columns, label and source as they were given.
        selection: condition, sample and seed, sides, and whether texts are kept.
        part_rows: conversations that a part has at most.
        inputs: the files, in order.
        parts: those that are done, by number.
        complete: whether all parts are done.
        totals: the sum over the parts that are done.
        replies: of the replies of a language model that were kept, how many (``calls``), their ``prompt_tokens``
            and ``completion_tokens``, and ``cost_usd``, as far as it is known; empty where there are none.
        layout: version of names and columns.
    """

    versions: Mapping[str, str]
    run: Mapping[str, Any]
    principles: tuple[Mapping[str, str], ...]
    detector: Mapping[str, Any]
    reading: Mapping[str, Any]
    selection: Mapping[str, Any]
    part_rows: int
    inputs: tuple[Input, ...]
    parts: tuple[PartEntry, ...] = ()
    complete: bool = False
    totals: Counts = field(default_factory=Counts)
    replies: Mapping[str, float] = field(default_factory=dict)
    layout: int = LAYOUT

    def to_json(self) -> bytes:
        """Return it as JSON with a digest of itself; equal manifests give equal bytes."""
        values = asdict(self)
        told = {**values, _DIGEST: _digest(values)}
        return (json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Manifest:
        """Read what `to_json` wrote.

        Args:
            content: the JSON.
            where: its path, for messages.

        Raises:
            FindingsError: it is no manifest, damaged, or of a later layout.
        """
        try:
            value = json.loads(content)
            digest = value.pop(_DIGEST, None)  # that of 0.2.0 had none
            layout = value["layout"]
            if layout != LAYOUT:
                raise FindingsError(
                    f"{where} has layout {layout!r}, and this version of turnwise reads {LAYOUT}: "
                    "use the version that made it"
                )
            if digest not in (None, _digest(value)):
                raise FindingsError(f"{where} was changed after it was written: restore a copy, or scan again")
            value["principles"] = tuple(value["principles"])
            value["inputs"] = tuple(Input(**one) for one in value["inputs"])
            value["parts"] = tuple(map(part_entry, value["parts"]))
            value["totals"] = Counts(**value["totals"])
            return cls(**value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FindingsError(
                f"{where} is not the manifest of a scan, or damaged: {type(error).__name__}: {error}"
            ) from error

    @property
    def revisions(self) -> dict[str, str]:
        """The revision of every principle, by name."""
        return {str(one["name"]): str(one["revision"]) for one in self.principles}

    @property
    def has_stages(self) -> bool:
        """Whether a screen scored every turn, and a judge those that it pointed at."""
        return STAGES in self.run

    def columns(self, table: str) -> Mapping[str, str]:
        """The columns that a table of this scan has, with their types."""
        more = STAGE_COLUMNS if table == SCORES and self.has_stages else {}
        return {**COLUMNS[table], **more}

    def with_parts(self, parts: Mapping[int, PartEntry], *, complete: bool) -> Manifest:
        """Return the same manifest with these parts done, by number."""
        ordered = tuple(parts[number] for number in sorted(parts))
        totals = Counts()
        for part in ordered:
            totals += part.counts
        return replace(self, parts=ordered, complete=complete, totals=totals)


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def part_entry(value: Mapping[str, Any]) -> PartEntry:
    """Return the entry of a part from its JSON values; what is missing or wrong raises as a constructor does."""
    files = {name: PartFile(**one) for name, one in value["files"].items()}
    return PartEntry(**{**value, "counts": Counts(**value["counts"]), "files": files})


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings that were opened: the manifest, and the files of the parts that are done.

    Args:
        folder: where they are.
        manifest: what they are.
    """

    folder: Location
    manifest: Manifest

    def files(self, table: str) -> list[Location]:
        """Return the files of a table, in the order of the parts; those of `FAILURES` are JSONL.

        Args:
            table: `SCORES`, `SEQUENCES`, `TURNS` or `FAILURES`.
        """
        return [place for place, _ in self._entries(table)]

    def check(self, *tables: str) -> None:
        """Refuse local files that are not byte for byte those that the scan wrote.

        Args:
            tables: their tables, as for `files`.

        Raises:
            FindingsError: a file was changed; the message names it.
            LocationError: a file can't be read.
        """
        for place, entry in (one for table in tables if not self.folder.is_url for one in self._entries(table)):
            if place.sha256() != entry.sha256:
                raise FindingsError(f"{place} is damaged, or was changed after the scan; {MEND}")

    def _entries(self, table: str) -> Iterator[tuple[Location, PartFile]]:
        for part in self.manifest.parts:
            name = part_file(table, part.number)
            if name in part.files:
                yield self.folder / name, part.files[name]


def findings_folder(name: str) -> Location:
    """Return the folder that findings are in, named by itself, by its manifest, or by a pattern of its files.

    >>> [str(findings_folder(name)) for name in ("a", "a/", "a/manifest.json", "a/*.parquet", "s3://b/a/*.parquet")]
    ['a', 'a', 'a', 'a', 's3://b/a']
    """
    location = Location(name)
    if location.base == MANIFEST or location.base.endswith(".parquet"):
        return location.parent
    return location


def open_findings(name: str) -> Findings:
    """Open findings by their folder, their manifest, or a pattern of their files.

    Args:
        name: such as ``findings/``, ``findings/manifest.json`` or ``'s3://bucket/findings/*.parquet'``.

    Raises:
        FindingsError: there is no manifest, or it can't be read.
        LocationError: the place can't be reached.
    """
    folder = findings_folder(name)
    place = folder / MANIFEST
    if not place.exists():
        raise FindingsError(f"{folder} has no {MANIFEST}: name a folder that turnwise scan wrote")
    return Findings(folder, Manifest.from_json(place.read(), str(place)))
