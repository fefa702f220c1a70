"""A finished comparison as its folder holds it, and what its arms would say at other thresholds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from turnwise._support.bounded import read_json
from turnwise._support.table_files import file_name
from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer.data.arm_scores import ArmScores

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
            raise UsageError(
                f"can't read {path}: {error.strerror}; name a folder that turnwise study compare --report wrote"
            ) from error

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

    def arm(self, name: str, part: str = "test") -> ArmScores:
        """The scores of an arm on ``test``, ``calibrate`` or ``train``."""
        if name not in self.arms:
            raise UnknownNameError("arm", name, self.arms)
        if part not in self.parts:
            raise UnknownNameError("part", part, self.parts)
        chosen = (self._rows["arm"] == name) & (self._rows["part"] == part)
        return ArmScores(name, {column: values[chosen] for column, values in self._rows.items()})

    def tables(self) -> tuple[ShownTable, ...]:
        """The tables in the order of the report; one that can't be read is left out."""
        order = {name: place for place, name in enumerate(_in_order("tables"))}
        paths = sorted(
            (self.folder / "tables").glob("*.csv"), key=lambda path: (order.get(path.stem, 99), path.stem)
        )
        return tuple(found for path in paths if (found := self._table(path.stem)) is not None)

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
        order = {name: place for place, name in enumerate(_in_order("figures"))}
        paths = sorted(
            (self.folder / "figures").glob("*.svg"), key=lambda path: (order.get(path.stem, 99), path.stem)
        )
        return {path.stem: self._read(f"figures/{path.name}") for path in paths}


def _in_order(kind: Literal["figures", "tables"]) -> list[str]:
    """The names of a report's figures or tables in its order."""
    from turnwise.study.report.page import SECTIONS

    if kind == "tables":
        return [name for _, _, _, tables in SECTIONS for name in tables]
    return ["answer", *(name for _, _, figures, _ in SECTIONS for name in figures)]


def _read_verdicts(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of the verdicts; a missing number is NaN."""
    import duckdb
    import numpy as np

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
        raise UsageError(
            f"can't read {path}: {error.strerror}; name a folder that turnwise study compare --report wrote"
        ) from error
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
