"""Filled sheets taken in: how far people agree, what is to be settled, and the set that it becomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.locations import to_path
from turnwise.errors import DatasetError, UsageError
from turnwise.principles import builtin_principles
from turnwise.runs.judgements import export_people, folder_of, record_people
from turnwise.scoring import Score
from turnwise.store.people import SET, read_author
from turnwise.study.annotation.agreement import Agreement, agreement
from turnwise.study.annotation.kit import (
    LABEL,
    MANIFEST,
    PROVENANCE,
    READ,
    Cells,
    Faults,
    Kit,
    Sheet,
    SheetAnswer,
    cells_of,
    read_kit,
    read_sheet,
    write_sheet,
)

if TYPE_CHECKING:
    from turnwise.store import Store

TO_SETTLE: Final = "adjudicate.csv"
"""Sheet of the rows on which people disagree, in the folder of the kit."""

_ONLY_F: Final = "only F was asked: T is 1 - F, I is 0"


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What came of the sheets of a kit.

    Args:
        annotators: who judged.
        rows: how many rows were judged, and `twice` how many by two people.
        disagreements: how many of these they disagree on by more than the distance.
        agreement: Krippendorff's alpha on each component that was asked for, or on labels.
        to_settle: the sheet of disagreements; None where there are none, or they are settled.
        files: the set; none while something is to be settled.
        truth: the run that ``--truth`` takes, or the author of labels that ``--corrected-by`` takes; None for
            scores in findings, which have no other run.
    """

    annotators: tuple[str, ...]
    rows: int
    twice: int
    disagreements: int
    agreement: tuple[Agreement, ...]
    to_settle: str | None = None
    files: tuple[str, ...] = ()
    truth: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """What came of it as JSON values."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**told, "agreement": [one.to_dict() for one in self.agreement]}


def take_in(
    store: Store,
    kit: str | Path,
    sheets: Sequence[str | Path] = (),
    *,
    out: str | Path,
    name: str = "people",
    distance: float = 0.3,
    adjudicated: str | Path | None = None,
    adjudicator: str = "",
    provenance: Mapping[str, str] | None = None,
) -> TakenIn:
    """Take in what people filled, and make it a set that studies take for truth.

    Each person's values are kept in the store under their name. Where two differ by more than `distance` in some F
    (or in the label), a sheet of these rows is written beside the manifest, and the set is made once that is
    filled. Of other rows the mean counts.

    Args:
        store: where the conversations are.
        kit: folder that `hand_out` made.
        sheets: filled sheets; by default those in the folder of the kit, all of which have to be filled.
        out: folder that the set gets a folder in.
        name: of the set. It is kept under the author ``set-NAME``; a run of scores is ``judged-by-set-NAME``.
        distance: largest difference in F that needs no settling, from 0 to 1.
        adjudicated: the sheet of disagreements, filled.
        adjudicator: who filled it.
        provenance: what there is to tell of `PROVENANCE`, in place of what the manifest says.

    Raises:
        DatasetError: manifest or sheets can't be read, or don't fit; all that is wrong is told, by file and line.
        UsageError: an argument doesn't fit, something is not told, or the set is there already.
    """
    if not 0 <= distance <= 1:
        raise UsageError(f"distance must be from 0 to 1, not {distance}")
    if (adjudicated is None) != (not adjudicator.strip()):
        raise UsageError("give both the sheet of settled rows and the name of who settled them")
    handed, folder = read_kit(kit), to_path(kit)
    author = read_author(f"{SET}{read_author(name)}")
    cells = _unchanged(store, handed)
    read = _read(handed, sheets or [folder / "sheets" / f"{folder_of(one)}.csv" for one in handed.sheets])
    rows: dict[str, list[SheetAnswer]] = {}
    for sheet in read:
        for key, given in sheet.given.items():
            rows.setdefault(key, []).append(given)
    disputed = [key for key, some in sorted(rows.items()) if _differ(handed, some, distance)]
    settled: Mapping[str, SheetAnswer] = {}
    if adjudicated is not None:
        faults = Faults()
        settled = read_sheet(adjudicated, handed, faults, disputed).given
        faults.raise_any()
    to_settle = folder / TO_SETTLE if disputed and not settled else None
    target = to_path(out) / folder_of(author)
    told: dict[str, str] = {}
    if to_settle is None:
        told = _told(handed, provenance or {})
        if target.exists() or author in store.people.authors():
            raise UsageError(f"{out} or {store.location} has a set named {name!r} already; give another name")
        try:
            target.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"can't write {out}: {error.strerror or error}") from error
    elif to_settle.exists():
        raise UsageError(f"{to_settle} is there: give it as the settled one, or delete it to have it written anew")
    for sheet in read:
        _keep(store, handed, sheet.annotator, sheet.given.values())
    found = TakenIn(
        annotators=tuple(sheet.annotator for sheet in read),
        rows=len(rows),
        twice=sum(len(some) > 1 for some in rows.values()),
        disagreements=len(disputed),
        agreement=_agreement(store, handed, {sheet.annotator for sheet in read}),
    )
    if to_settle is not None:
        _write_disputed(to_settle, handed, cells, {key: rows[key] for key in disputed})
        return replace(found, to_settle=str(to_settle))
    about = {
        **told,
        "kind": "people",
        "people": len(read),
        "mode": handed.mode,
        "filled": handed.filled,
        "principles": handed.principles,
        "rows": found.rows,
        "conversations": len({handed.items[key].sequence_id for key in rows}),
        "judged_twice": found.twice,
        "distance": distance,
        "disagreements": len(disputed),
        "adjudicator": adjudicator.strip() or None,
        "agreement": [replace(one, authors=()).to_dict() for one in found.agreement],
        "guideline_sha256": handed.guideline_sha256,
        "manifest_sha256": hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest(),
    }
    _keep(store, handed, author, (settled.get(key) or _mean(some) for key, some in rows.items()))
    files = [str(to_path(out) / file) for file in export_people(store, out, [author])]
    readings = json.dumps({author: about}, ensure_ascii=False, indent=1, sort_keys=True)
    (target / "readings.json").write_text(f"{readings}\n", encoding="utf-8", newline="\n")
    truth = author if handed.mode == LABEL else None
    if truth is None and not store.is_findings:
        [summary] = record_people(store, out, [author])
        truth = summary.run
    return replace(found, files=(*files, str(target / "readings.json")), truth=truth)


def _unchanged(store: Store, kit: Kit) -> dict[str, Cells]:
    """What each row showed; a DatasetError where the store no longer has that text, or a principle changed."""
    now = {one.name: one.revision for one in builtin_principles()}
    if changed := [name for name, revision in kit.principles.items() if now.get(name) != revision]:
        raise DatasetError(f"the sheets need the definitions of {', '.join(changed)} they were made with")
    shown = {
        (one.sequence_id, cells.turn): cells
        for one in store.sequences(ids={item.sequence_id for item in kit.items.values()})
        for cells in cells_of(one, kit.mode)
    }
    found = {}
    for key, item in kit.items.items():
        cells = shown.get((item.sequence_id, item.turn))
        if cells is None or cells.digest != item.digest:
            raise DatasetError(
                f"{item.sequence_id}, turn {item.turn} has another text in {store.location} than when it was "
                f"handed out as {key}; take the sheets into the store that they came from"
            )
        found[key] = cells
    return found


def _read(kit: Kit, paths: Iterable[str | Path]) -> list[Sheet]:
    faults = Faults()
    read: dict[str, Sheet] = {}
    for path in paths:
        sheet = read_sheet(path, kit, faults)
        if other := read.get(sheet.annotator):
            raise DatasetError(f"{other.file} and {sheet.file} are both by {sheet.annotator}: give one of them")
        read[sheet.annotator] = sheet
    faults.raise_any()
    return list(read.values())


def _differ(kit: Kit, some: Sequence[SheetAnswer], distance: float) -> bool:
    if kit.mode == LABEL:
        return len({one.label for one in some}) > 1
    each = zip(*(_scores(kit, one).values() for one in some), strict=True)
    values = [[score.F for score in scores] for scores in each]
    return any(max(given) - min(given) > distance + 1e-9 for given in values)


def _mean(some: Sequence[SheetAnswer]) -> SheetAnswer:
    values = zip(*(one.values for one in some), strict=True)
    return replace(some[0], values=tuple(round(fmean(given), 4) for given in values), note="")


def _scores(kit: Kit, given: SheetAnswer) -> dict[str, Score]:
    """The scores of a row; where only F was asked, T is 1 - F and I is 0."""
    each = len(kit.filled)
    parts = [given.values[start : start + each] for start in range(0, len(given.values), each)]
    whole = [one if each > 1 else (round(1 - one[0], 4), 0.0, one[0]) for one in parts]
    return {name: Score(*one) for name, one in zip(kit.principles, whole, strict=True)}


def _keep(store: Store, kit: Kit, author: str, some: Iterable[SheetAnswer]) -> None:
    """Keep in the store what somebody gave, unless that is their latest word already."""
    side, seen = READ[kit.mode]
    people, ids = store.people, {one.sequence_id for one in kit.items.values()}
    had: set[tuple[object, ...]] = {
        (one.sequence_id, one.turn, one.side, one.seen, one.principle, one.score)
        for one in people.scores(ids=ids, author=author)
    } | {(one.sequence_id, one.label) for one in people.corrections(ids=ids, author=author)}
    for given in some:
        name, turn = given.item.sequence_id, given.item.turn
        if kit.mode == LABEL:
            if (name, given.label) not in had:
                people.correct_label(name, given.label, author, given.note)
            continue
        scores = _scores(kit, given)
        if any((name, turn, side, seen, *score) not in had for score in scores.items()):
            note = f"{given.note}\n{_ONLY_F}" if kit.filled == "F" else given.note
            people.judge(name, turn, scores, author, versions=kit.principles, side=side, seen=seen, note=note)


def _agreement(store: Store, kit: Kit, authors: Collection[str]) -> tuple[Agreement, ...]:
    people, ids = store.people, {one.sequence_id for one in kit.items.values()}
    scores = [
        one for one in people.scores(ids=ids) if one.author in authors and (one.side, one.seen) == READ[kit.mode]
    ]
    labels = [one for one in people.corrections(ids=ids) if one.author in authors and one.label is not None]
    found = agreement([] if kit.mode == LABEL else scores, labels if kit.mode == LABEL else [], {})
    return tuple(one for one in found if not one.component or one.component in kit.filled)


def _told(kit: Kit, provenance: Mapping[str, str]) -> dict[str, str]:
    told = {one: (provenance.get(one) or kit.provenance.get(one, "")).strip() for one in PROVENANCE}
    if missing := [one for one, text in told.items() if not text]:
        raise UsageError(
            f"it is not known who judged, and how: give {', '.join(missing)}, as options or under provenance in "
            f"{MANIFEST} ('not known' is an answer)"
        )
    return told


def _write_disputed(
    path: Path, kit: Kit, cells: Mapping[str, Cells], rows: Mapping[str, Sequence[SheetAnswer]]
) -> None:
    """Write the rows to settle, each with what was given, lowest first, and not by whom."""
    written = []
    for key, some in rows.items():
        given = zip(*([one.label] if kit.mode == LABEL else one.values for one in some), strict=True)
        written.append((kit.items[key], cells[key], [" and ".join(map(str, sorted(one))) for one in given]))
    try:
        write_sheet(path, kit, "adjudication", written, [f"given: {one}" for one in kit.columns])
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
