"""A finished comparison as its folder holds it, and what its arms would say at other thresholds."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise._support.bounded import read_json
from turnwise._support.table_files import file_name
from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate

_BEYOND: Final = 1e-6
"""By how much, relative to the highest score, a threshold lies above it where nothing is to be flagged."""


class Changed(NamedTuple):
    """A conversation whose verdict another threshold changes."""

    sequence_id: str
    source: str
    attack: bool
    score: float  # the arm's highest
    flagged: bool  # the new verdict
    turn: int | None  # where it was flagged before

    @property
    def better(self) -> bool:
        """Whether the new verdict is the one that the label asks for."""
        return self.flagged is self.attack


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """What an arm says of the conversations at some threshold."""

    threshold: float  # or how far all are moved, where there are several
    recall: Rate
    false_positives: Rate
    before: tuple[Rate, Rate]  # recall and false positives at the threshold of the study
    changed: tuple[Changed, ...]  # those nearest to that threshold first
    missing: int  # conversations without a score, which are in none of the rates


class StudyScores:
    """The scores of one arm of a study on one part, in arrays, so that a threshold is tried in no time."""

    def __init__(self, name: str, rows: Mapping[str, NDArray[Any]]) -> None:
        self.name = name
        self._rows = rows
        self._known = ~np.isnan(rows["score"])
        limits = np.where(np.isnan(rows["threshold"]), np.inf, rows["threshold"])
        self.several = len(np.unique(limits[self._known])) > 1  # of the folds: all are moved by a difference
        self._limits = limits
        self.own = 0.0 if self.several or not self._known.any() else float(limits[self._known][0])
        self._attack = rows["attack"]
        self._margins = rows["score"] - limits if self.several else rows["score"]
        self._was = self._known & (rows["score"] >= limits)
        self.odd = int(
            (self._was != rows["fired"])[self._known].sum()
        )  # verdicts that don't follow from the score

    def __len__(self) -> int:
        return len(self._known)

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """Thresholds at which something changes, rising: each score, and one above all of them."""
        found = np.unique(self._margins[self._known & np.isfinite(self._margins)])
        if not len(found):
            return np.zeros(1)
        above = found[-1] + max(abs(float(found[-1])), 1.0) * _BEYOND
        return np.append(found, above)

    @property
    def start(self) -> float:
        """The threshold of the study as a slider can show it; one above all scores where it flags nothing."""
        return self.own if math.isfinite(self.own) else float(self.steps[-1])

    def bins(self, count: int = 60, sources: Iterable[str] = ()) -> tuple[list[int], list[int], float, float]:
        """How many attacks, and benign conversations, lie in each part of the scale, and the ends of the scale."""
        low, high = float(self.steps[0]), float(self.steps[-1])
        known = self._known & self._of(sources) & np.isfinite(self._margins)
        ends = (low, high if high > low else low + 1.0)
        made = [
            np.histogram(self._margins[known & kind], count, ends)[0] for kind in (self._attack, ~self._attack)
        ]
        return made[0].tolist(), made[1].tolist(), low, high

    def _of(self, sources: Iterable[str]) -> NDArray[np.bool_]:
        wanted = tuple(sources)
        return np.isin(self._rows["source"], wanted) if wanted else np.ones(len(self), dtype=bool)

    def next_step(self, threshold: float, up: bool) -> float:
        """The next threshold at which another conversation changes sides."""
        place = int(np.searchsorted(self.steps, threshold, "right" if up else "left"))
        place = min(place, len(self.steps) - 1) if up else max(place - 1, 0)
        return float(self.steps[place])

    def at(self, threshold: float, sources: Iterable[str] = ()) -> AtThreshold:
        """What the arm says at a threshold, or where there are several with all of them moved by so much."""
        chosen = self._of(sources)
        known = self._known & chosen
        now = known & (self._margins >= threshold)
        turned = np.flatnonzero(known & (now != self._was))
        distance = np.abs(self._margins[turned] - (0.0 if self.several else self.start))
        order = turned[np.lexsort((turned, distance))]
        return AtThreshold(
            threshold,
            *self._rates(now, known),
            self._rates(self._was & chosen, known),
            tuple(self._changed(int(place), bool(now[place])) for place in order),
            int((chosen & ~self._known).sum()),
        )

    def _rates(self, flagged: NDArray[np.bool_], known: NDArray[np.bool_]) -> tuple[Rate, Rate]:
        attacks, benign = known & self._attack, known & ~self._attack
        return (
            Rate(int((flagged & attacks).sum()), int(attacks.sum())),
            Rate(int((flagged & benign).sum()), int(benign.sum())),
        )

    def _changed(self, place: int, flagged: bool) -> Changed:
        rows, turn = self._rows, self._rows["turn"][place]
        return Changed(
            str(rows["sequence"][place]),
            str(rows["source"][place]),
            bool(rows["attack"][place]),
            float(rows["score"][place]),
            flagged,
            None if flagged or math.isnan(turn) else int(turn),
        )


NUMBERS: Final = "results.json"
VERDICTS: Final = "verdicts.parquet"

_COLUMNS: Final = ("arm", "sequence", "source", "label", "part", "score", "threshold", "fired", "turn")

_MOST_BYTES: Final = 64_000_000
"""Bytes of a file of a study that is read whole."""


class ShownTable(NamedTuple):
    """A table of a study, under the name of its files; `numeric` tells of each column whether it has numbers."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    note: str


class FinishedStudy:
    """What ``turnwise study compare --report`` wrote into a folder. Files are read when they are asked for."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.name = self.folder.name
        try:
            self.numbers: dict[str, Any] = read_json(self._read(NUMBERS))
            self.warnings = tuple(map(str, self.numbers["warnings"]))
            self._rows = _read_verdicts(self.folder / VERDICTS)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.folder} holds no study that can be read: {error}") from error

    def _read(self, name: str) -> bytes:
        path = self.folder / name
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise UsageError(f"{path} is too large to show: at most {_MOST_BYTES:,} bytes are read")
            return path.read_bytes()
        except OSError as error:
            raise _unreadable(path, error) from error

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the order of the study."""
        return tuple(dict.fromkeys(map(str, self._rows["arm"])))

    @property
    def chosen(self) -> str:
        """The arm that the study follows, or the first."""
        name = self.numbers.get("chosen")
        return name if name in self.arms else self.arms[0]

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the conversations, ``test`` first; what an arm says of the others flatters it."""
        found = set(map(str, self._rows["part"]))
        return tuple(name for name in ("test", "calibrate", "train") if name in found)

    @property
    def sources(self) -> tuple[str, ...]:
        """Data sets of the conversations, sorted."""
        return tuple(sorted(set(map(str, self._rows["source"]))))

    def arm(self, name: str, part: str = "test") -> StudyScores:
        """The scores of an arm on ``test``, ``calibrate`` or ``train``."""
        if name not in self.arms:
            raise UnknownNameError("arm", name, self.arms)
        if part not in self.parts:
            raise UnknownNameError("part", part, self.parts)
        chosen = (self._rows["arm"] == name) & (self._rows["part"] == part)
        return StudyScores(name, {column: values[chosen] for column, values in self._rows.items()})

    def tables(self) -> tuple[ShownTable, ...]:
        """The tables in the order of the report; one that can't be read is left out."""
        tables = (self._table(path.stem) for path in self._files("tables", ".csv"))
        return tuple(table for table in tables if table is not None)

    def _files(self, kind: Literal["figures", "tables"], ending: str) -> list[Path]:
        """Figures or tables in the order of the report."""
        order = {name: place for place, name in enumerate(_in_order(kind))}
        found = (self.folder / kind).glob(f"*{ending}")
        return sorted(found, key=lambda path: (order.get(path.stem, 99), path.stem))

    def _table(self, name: str) -> ShownTable | None:
        try:
            rows = list(csv.reader(io.StringIO(self._read(f"tables/{name}.csv").decode())))
            told = self._read(f"tables/{name}.md").decode().splitlines()
        except (UsageError, UnicodeDecodeError, csv.Error):
            return None
        marks = next((line for line in told if line.startswith("|---")), "")
        numeric = tuple(mark.endswith(":") for mark in marks.strip("|").split("|"))
        if not rows or len(numeric) != len(rows[0]) or any(len(row) != len(rows[0]) for row in rows):
            return None
        texts = [line for line in told[1:] if line and not line.startswith("|")]
        title = told[0].strip("*") if told else name
        return ShownTable(name, title, tuple(rows[0]), tuple(map(tuple, rows[1:])), numeric, " ".join(texts))

    def figures(self) -> dict[str, bytes]:
        """The drawings as SVG, by name, in the order of the report."""
        return {path.stem: self._read(f"figures/{path.name}") for path in self._files("figures", ".svg")}


def _in_order(kind: Literal["figures", "tables"]) -> list[str]:
    """The names of a report's figures or tables in its order."""
    from turnwise.study.report.page import SECTIONS

    if kind == "tables":
        return [name for _, _, _, tables in SECTIONS for name in tables]
    return ["answer", *(name for _, _, figures, _ in SECTIONS for name in figures)]


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"can't read {path}: {error.strerror}; name a folder that turnwise study compare --report wrote"
    )


def _read_verdicts(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of the verdicts; a missing number is NaN."""
    import duckdb

    wanted = ", ".join(f'"{name}"' for name in _COLUMNS if name != "score")
    # A verdict without a score had no evidence: no threshold reaches it.
    wanted += ", CASE WHEN fired THEN score WHEN NOT fired THEN coalesce(score, '-inf'::DOUBLE) END AS score"
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                raise UsageError(f"{path} is no Parquet file; repeat turnwise study compare --report")
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            asked = f"SELECT {wanted} FROM read_parquet(?)"
            found = connection.execute(asked, [file_name(str(path))]).fetchnumpy()
    except OSError as error:
        raise _unreadable(path, error) from error
    except duckdb.Error as error:
        raise UsageError(f"can't read {path}: {str(error).splitlines()[0]}") from error
    if not len(found["arm"]):
        raise UsageError(f"{path} holds no verdict; write the report again with turnwise study compare --report")
    filled = {
        name: np.ma.filled(found[name].astype(object), None) for name in ("arm", "sequence", "source", "part")
    }
    return {
        **{name: values.astype(str) for name, values in filled.items()},
        "attack": np.ma.filled(found["label"].astype(object), "").astype(str) == "attack",
        "fired": np.ma.filled(found["fired"].astype(float), 0.0) > 0,
        **{name: np.ma.filled(found[name].astype(float), np.nan) for name in ("score", "threshold", "turn")},
    }


def find_studies(named: Iterable[str | Path], store: str) -> dict[str, Path]:
    """The folders of studies by name: those that were named, and those beside the store.

    Nothing else on the machine can be opened by whoever sees the page.
    """
    found: dict[str, Path] = {}
    for folder in map(Path, named):
        if not (folder / VERDICTS).is_file():
            raise UsageError(f"{folder} holds no study: name a folder that turnwise study compare --report wrote")
        found[_free(folder.name or str(folder.resolve().name), found)] = folder
    known = {path.resolve() for path in found.values()}
    if "://" not in store:
        beside = Path(store).resolve().parent
        for path in sorted(beside.glob(f"*/{VERDICTS}")):
            if (path.parent / NUMBERS).is_file() and path.parent.resolve() not in known:
                found[_free(path.parent.name, found)] = path.parent
    return found


def _free(name: str, taken: Mapping[str, Path]) -> str:
    number = 2
    while name in taken:
        name, number = f"{name.removesuffix(f' ({number - 1})')} ({number})", number + 1
    return name
