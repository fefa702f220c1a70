"""What was handed out to whom: rows to judge under neutral ids, the manifest, and the sheets of CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from turnwise._support.locations import to_path
from turnwise._support.table_files import cell
from turnwise._support.visible import shown, visible_lines
from turnwise.conversation import Label, Seen, Side
from turnwise.conversation import Sequence as Chat
from turnwise.datasets import digests
from turnwise.datasets.annotated import MODES
from turnwise.errors import DatasetError, UsageError

MANIFEST: Final = "manifest.json"

LABEL: Final = "label"
"""The way of judging in which a whole conversation gets a label; the others are `MODES`."""

READ: Final[Mapping[str, tuple[Side, Seen]]] = {**MODES, LABEL: (Side.PROMPT, Seen.BOTH)}

PROVENANCE: Final = ("who", "trained", "paid", "when", "guideline")
"""What has to be told of a set: who judged, how they were trained and paid, when, by which guideline."""

LABELS: Final = tuple(map(str, Label))

MOST_CELL: Final = 30_000
"""Characters of a cell: spreadsheets cut a text off after 32,767."""

_HEAD: Final = 10_000


@dataclass(frozen=True, slots=True)
class SheetItem:
    """A row of a sheet: a turn, or in the way `LABEL` a conversation, that is to be judged.

    `digest` is that of what is to be read (`turnwise.conversation.SeenDigest`), `shown` that of the cells.
    """

    id: str
    sequence_id: str
    turn: int
    digest: str
    shown: str


@dataclass(frozen=True, slots=True)
class Kit:
    """What was handed out.

    Args:
        mode: ``history``, ``turn``, ``replies`` or ``label``.
        filled: components that people give; none for labels.
        principles: revision of each principle, by name; none for labels.
        seed: what the order was drawn with.
        twice: share of the conversations that two people judge.
        guideline_sha256: of the guideline.
        provenance: what is told of `PROVENANCE`; may be filled in the manifest.
        items: every row, by its id.
        sheets: ids of the rows of each annotator, in the order of their sheet.
    """

    mode: Literal["history", "turn", "replies", "label"]
    filled: Literal["TIF", "F", ""]
    principles: dict[str, str]
    seed: int
    twice: float
    guideline_sha256: str
    provenance: dict[str, str]
    items: dict[str, SheetItem]
    sheets: dict[str, tuple[str, ...]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to fill."""
        return tuple(f"{part} of {name}" for name in self.principles for part in self.filled) or (LABEL,)

    def to_json(self) -> bytes:
        """The manifest."""
        from pydantic import TypeAdapter

        return TypeAdapter(Kit).dump_json(self, indent=1)


def read_kit(folder: str | Path) -> Kit:
    """Read the manifest of a folder that `hand_out` made; DatasetError where it is none."""
    from pydantic import TypeAdapter

    path = Path(folder) / MANIFEST
    try:
        kit = TypeAdapter(Kit).validate_json(to_path(path).read_bytes())
    except OSError as error:
        raise DatasetError(
            f"can't read {path}: {error.strerror or error}; name a folder of judgements hand-out"
        ) from error
    except ValueError as error:
        raise DatasetError(f"{path} is no manifest of judgements hand-out: {error}") from error
    if any(not kit.items.keys() >= set(ids) for ids in kit.sheets.values()):
        raise DatasetError(f"{path} names no row of one of the sheets; restore a copy of the folder")
    return kit


class Cells(NamedTuple):
    """What a row shows of a turn: what comes before, and what is judged."""

    turn: int
    digest: str
    before: str
    text: str


def shown_digest(before: str, text: str) -> str:
    """The digest of two cells, whatever a program for sheets did to blanks and line ends.

    >>> shown_digest("", "[user] a\\nb") == shown_digest("", "'[user]  a\\r\\n b ")
    True
    """
    plain = "\0".join(" ".join(cell.strip().removeprefix("'").split()) for cell in (before, text))
    return hashlib.sha256(plain.encode(errors="backslashreplace")).hexdigest()[:16]


def cells_of(sequence: Chat, mode: str) -> Iterator[Cells]:
    """The rows of a conversation, in the order of its turns. No row shows a later turn."""
    side, seen = READ[mode]
    known = digests(sequence.conversation, seen)
    before: list[str] = []
    for turn in sequence.conversation:
        number = "" if mode == "turn" else f"{turn.number} "
        said = [_said(f"{number}user", turn.prompt)]
        if seen is Seen.BOTH and turn.response is not None:
            said.append(_said(f"{number}reply", turn.response))
        if mode != LABEL and len(said) > (side is Side.RESPONSE):
            past = [] if seen is Seen.PROMPT else [*before, *said[:-1]]
            yield Cells(turn.number, known[turn.number], _fitting("\n".join(past)), _fitting(said[-1]))
        before += said
    if mode == LABEL:
        last = sequence.conversation.get_turn_count()
        yield Cells(last, known[last], "", _fitting("\n".join(before)))


def _said(who: str, text: str) -> str:
    """A message with its speaker."""
    # Further lines are indented, so that none passes for another message. It never begins with what a spreadsheet
    # takes for a number, a date or a formula.
    lines = visible_lines(text.replace("\r\n", "\n").replace("\t", "    ")).split("\n")
    return f"[{who}] " + "\n    ".join(lines)


def _fitting(text: str) -> str:
    if len(text) <= MOST_CELL:
        return text
    tail = MOST_CELL - _HEAD - 100
    return f"{text[:_HEAD]}\n[... {len(text) - _HEAD - tail:,} characters are left out ...]\n{text[-tail:]}"


ANNOTATOR: Final = "annotator"
NOTE: Final = "note"
BEFORE: Final = "before"
"""Column of the text that comes before what is judged."""

MOST_BYTES: Final = 256 << 20
"""Size of the largest sheet that is written or read."""

_MOST_TOLD: Final = 20
_MOST_NOTE: Final = 5_000

Row = tuple[SheetItem, Cells, Sequence[str]]
"""A row to write: what it is, what it shows, and what was given so far, for who settles it."""


@dataclass(frozen=True, slots=True)
class SheetAnswer:
    """What a person put into a row: a number for each column to fill, or the label."""

    item: SheetItem
    values: tuple[float, ...]
    label: str
    note: str


class Sheet(NamedTuple):
    """A sheet that came back: who filled it, and what they gave by row."""

    file: str
    annotator: str
    given: Mapping[str, SheetAnswer]


class Faults:
    """What is wrong with sheets, gathered so that all of it can be mended at once."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._count = 0

    def add(self, text: str) -> None:
        """Keep one fault."""
        self._count += 1
        if len(self._told) < _MOST_TOLD:
            self._told.append(text)

    def raise_any(self) -> None:
        """Raise a DatasetError with what was gathered, if anything was."""
        if self._count:
            more = self._count - len(self._told)
            told = [*self._told, *([f"and {more} more"] if more else [])]
            raise DatasetError("nothing was taken in; mend this and try again:\n" + "\n".join(told))


def write_sheet(path: Path, kit: Kit, annotator: str, rows: Iterable[Row], given: Sequence[str] = ()) -> None:
    """Write a sheet; `given` names columns of what others gave. A file that is there is not written over."""
    to_fill = kit.columns
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\r\n")
    table.writerow((ANNOTATOR, "id", BEFORE, "text", *given, *to_fill, NOTE))
    for item, cells, told in rows:
        shows = (annotator, item.id, cells.before, cells.text, *told)
        table.writerow([*map(cell, shows), *([""] * len(to_fill)), ""])
    # With a byte order mark, by which Excel knows UTF-8.
    content = written.getvalue().encode("utf-8-sig", errors="backslashreplace")
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path} would have more than {MOST_BYTES >> 20} MiB; hand out fewer conversations")
    with path.open("xb") as file:
        file.write(content)


def read_sheet(path: str | Path, kit: Kit, faults: Faults, wanted: Sequence[str] | None = None) -> Sheet:
    """Read a filled sheet, CSV in UTF-8 or UTF-16; what is wrong with its rows goes into `faults`."""
    # `wanted` are the ids of its rows, by default those that its annotator was given.
    annotator: str | None = None
    given, seen = dict[str, SheetAnswer](), set[str]()
    for line, row in _rows(path, (ANNOTATOR, "id", BEFORE, "text", *kit.columns, NOTE)):
        name, key = _plain(row[ANNOTATOR]), _plain(row["id"])
        where = f"{path}, line {line} ({shown(key)})"
        if annotator is None:
            annotator = name
            if wanted is None and name not in kit.sheets:
                raise DatasetError(
                    f"{path}, line {line}, column {ANNOTATOR}: {shown(name)} was handed no sheet; "
                    f"known: {', '.join(kit.sheets)}"
                )
            wanted = kit.sheets[name] if wanted is None else wanted
            due = frozenset(wanted)
        if name != annotator:
            faults.add(f"{where}, column {ANNOTATOR}: {shown(name)}, but the sheet begins with {shown(annotator)}")
        elif key not in due:
            faults.add(f"{where}, column id: no row of this sheet")
        elif key in seen:
            faults.add(f"{where}, column id: a second time")
        else:
            seen.add(key)
            if shown_digest(row[BEFORE], row["text"]) != kit.items[key].shown:
                faults.add(f"{where}, columns {BEFORE} and text: not the text that was handed out")
            elif (found := _given(row, kit.items[key], kit, where, faults)) is not None:
                given[key] = found
    if annotator is None:
        raise DatasetError(f"{path} has no row below its headings: restore the rows that were handed out")
    missing = [one for one in wanted or () if one not in seen]
    if missing:
        few = ", ".join(missing[:5]) + (" and more" if len(missing) > 5 else "")
        faults.add(f"{path}: {len(missing)} rows are missing: {few}")
    return Sheet(str(path), annotator, given)


def _given(row: Mapping[str, str], item: SheetItem, kit: Kit, where: str, faults: Faults) -> SheetAnswer | None:
    values: list[float] = []
    label, right = "", True
    for column in kit.columns:
        text = _plain(row[column])
        if kit.mode == LABEL:
            label = text.lower()
            fits, wanted = label in LABELS, f"one of {', '.join(LABELS)}"
        else:
            values.append(_number(text))
            fits, wanted = 0 <= values[-1] <= 1, "a number from 0 to 1"
        if not fits:
            right = False
            faults.add(f"{where}, column {column}: {shown(text) if text else 'empty'}, where {wanted} is needed")
    note = row[NOTE].strip()
    if len(note) > _MOST_NOTE:
        right = False
        faults.add(f"{where}, column {NOTE}: {len(note):,} characters; at most {_MOST_NOTE:,} are kept")
    return SheetAnswer(item, tuple(values), label, note) if right else None


def _number(text: str) -> float:
    """The number of a cell, with a decimal point or comma; NaN where it is none."""
    try:
        return float(text.replace(",", ".", 1))
    except ValueError:
        return math.nan


def _rows(path: str | Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a file, each with the line where it begins and its cells by column; empty rows are left out."""
    text = _text(path)
    heading = text.partition("\n")[0].partition("\r")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=heading.count))
    places: dict[str, int] = {}
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise DatasetError(f"{path}, line {line}: not CSV: {error}") from error
        if row is None:
            return
        if not places:
            names = [_plain(name) for name in row]
            for name in columns:
                if names.count(name) != 1:
                    what = "no column" if name not in names else "two columns"
                    raise DatasetError(f"{path}, line {line}: {what} {name!r}; keep the headings as they were")
            places = {name: names.index(name) for name in columns}
        elif any(one.strip() for one in row):
            yield line, {name: row[place] if place < len(row) else "" for name, place in places.items()}


def _text(path: str | Path) -> str:
    try:
        with to_path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise DatasetError(f"{path} is too large: a sheet has at most {MOST_BYTES >> 20} MiB")
    if content.startswith(b"PK\3\4"):
        raise DatasetError(f"{path} is a workbook: save it as 'CSV UTF-8'")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"{path}, line {line}: not UTF-8: save it as 'CSV UTF-8'") from error


def _plain(text: str) -> str:
    return text.strip().removeprefix("'")
