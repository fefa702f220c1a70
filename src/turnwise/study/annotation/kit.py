"""What was handed out to whom: rows to judge under neutral ids, and the manifest that says what each id is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from turnwise._support.locations import to_path
from turnwise._support.visible import visible_lines
from turnwise.conversation import Label, Seen, Sequence, Side
from turnwise.datasets import digests
from turnwise.datasets.annotated import MODES
from turnwise.errors import DatasetError

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
class Item:
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
    items: dict[str, Item]
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


def cells_of(sequence: Sequence, mode: str) -> Iterator[Cells]:
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
    """A message with its speaker. Its further lines are indented, so that none passes for another message.

    It never begins with what a spreadsheet takes for a number, a date or a formula.
    """
    lines = visible_lines(text.replace("\r\n", "\n").replace("\t", "    ")).split("\n")
    return f"[{who}] " + "\n    ".join(lines)


def _fitting(text: str) -> str:
    if len(text) <= MOST_CELL:
        return text
    tail = MOST_CELL - _HEAD - 100
    return f"{text[:_HEAD]}\n[... {len(text) - _HEAD - tail:,} characters are left out ...]\n{text[-tail:]}"
