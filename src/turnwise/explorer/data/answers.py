"""What views ask of a record: pages of sequences, filtered and sorted by the mirror, and two runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from turnwise.conversation import Label
from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer.data.flags import Flagging, Flags, rule_of
from turnwise.explorer.data.record import FACTS, ViewedStore
from turnwise.explorer.data.words import WordIndex
from turnwise.runs.flips import ArmVerdicts, Compared, arm_verdicts, compare_arms
from turnwise.store.source import Newest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SORTS: Final[Mapping[str, str]] = {
    "imported": "sequence", "id": "sequence_id", "label": "label", "source": "source", "category": "category",
    "tactic": "tactic", "turns": "turns", "flag": "flag", "F": "F", "I": "I", "T": "T",
}  # fmt: skip
"""Columns to sort by; those of a missing value come last either way."""

SIZES: Final = (25, 50, 100)
"""Rows of a page that may be chosen."""

SAVED: Final = 100_000
"""Rows that a file of them has at most."""

_SERIES = 200
"""Turns of a small graph at most."""

_ARMS = 8
"""Arms of two compared runs whose verdicts are kept."""

_MOST_CHOICES = 200
"""Values of a field that a filter offers."""


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "str": str, "int": int, "float": float, "bool": lambda text: text == "yes",
}  # fmt: skip
"""What reads the text of an address, by the type of a field of `Filter`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which sequences, in which order, and which page of them.

    An empty rule is the run's default; see `Flagging.flags` for `rule` and `when`, and `WordIndex.find` for
    `words`. `first_flag` and `last_flag` bound the turn of the flag. `least` and `most` (0 to 1) bound the highest
    and the lowest value of a component, of any principle where none is named.
    """

    run: str | None = None
    rule: str = ""
    when: str = "ever"
    flagged: str = ""
    label: str = ""
    source: str = ""
    category: str = ""
    tactic: str = ""
    words: str = ""
    least_turns: int | None = None
    most_turns: int | None = None
    first_flag: int | None = None
    last_flag: int | None = None
    principle: str = ""
    component: str = "F"
    least: float | None = None
    most: float | None = None
    sort: str = "imported"
    descending: bool = False
    page: int = 1
    size: int = 50

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise UnknownNameError("column to sort by", self.sort, SORTS)
        if self.label and self.label not in tuple(Label):
            raise UnknownNameError("label", self.label, map(str, Label))
        if self.component not in ("T", "I", "F"):
            raise UnknownNameError("component", self.component, "TIF")
        if self.flagged not in ("", "yes", "no"):
            raise UsageError(f"flagged is {self.flagged!r}; use yes, no, or nothing")
        if not 1 <= self.size <= 1_000 or self.page < 1:
            raise UsageError("size must be from 1 to 1000 rows a page, and page at least 1")

    @classmethod
    def of_address(cls, state: Mapping[str, str]) -> Self:
        """The filter that the texts of an address say, by name of its fields."""
        given: dict[str, Any] = {}
        kinds = {one.name: str(one.type).partition(" ")[0] for one in fields(cls)}
        for name, text in state.items():
            if name not in kinds or text == "":
                continue
            try:
                given[name] = _READERS[kinds[name]](text)
            except ValueError:
                raise UsageError(f"{name.replace('_', ' ')} is {text[:40]!r}; type a number") from None
        return cls(**given)


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """A sequence of a page.

    `flag` is the first turn that was flagged. T is the lowest, I and F are the highest of its prompts in the run;
    None where nothing was scored. `series` has the highest F over principles, as (turn, F) in order.
    """

    sequence_id: str
    label: str
    source: str
    category: str
    tactic: str
    turns: int
    flag: int | None
    T: float | None
    I: float | None  # noqa: E741 - the field's name
    F: float | None
    series: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SequencePage:
    """A page of sequences: `total` sequences of `of` pass the filter.

    `judged` is how many the rule has judged so far and how many there are to judge; `indexed` the same of the
    index of words, None where no word was asked for.
    """

    rows: tuple[SequenceRow, ...]
    total: int
    of: int
    rule: str = ""
    judged: tuple[int, int] = (1, 1)
    indexed: tuple[int, int] | None = None

    @property
    def complete(self) -> bool:
        """Whether rule and words have seen every sequence, so that asking again gives the same."""
        return all(done >= of for done, of in (self.judged, self.indexed or (1, 1)))

    @property
    def left_out(self) -> str:
        """What is said where a file of all pages leaves rows out; empty where it has all."""
        return f"CSV saves the first {SAVED:,}" if self.total > SAVED else ""


class Answers:
    """What every view asks about a record, with what is kept between questions.

    Closing stops the work in the background, nothing else.
    """

    def __init__(self, record: ViewedStore) -> None:
        self.record = record
        self.flagging = Flagging(record)
        self.words = WordIndex(record)
        self._arm = lru_cache(_ARMS)(self._arm_now)

    def close(self) -> None:
        """Stop what works in the background."""
        self.words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pair(self, a: tuple[str, str], b: tuple[str, str], corrected: bool) -> Compared:
        """Two arms, each a run and a detector, by the labels of the data sets or as people corrected them.

        Where a detector is not named, it is the first that judges the run.
        """
        store, newest = self.record.store, self.record.newest()
        people = store.people.authors() if corrected else ()
        return compare_arms(store, self._arm(*a, newest), self._arm(*b, newest), people)

    def _arm_now(self, run: str, detector: str, _: Newest) -> ArmVerdicts:
        return arm_verdicts(self.record.store, run, detector or None, self.record.library())

    def find(self, wanted: Filter) -> SequencePage:
        """A page of sequences."""
        flags, rule = None, ""
        if wanted.run is not None:
            rule = wanted.rule or rule_of(self.record, wanted.run)
            flags = self._flags(wanted.run, rule, wanted)
        indexed = self.words.progress() if wanted.words else None
        with self.record.tables() as tables:
            joins = self._joins(tables, wanted, flags)
            conditions, values = _conditions(wanted)
            holds = " AND ".join(conditions)
            query = f"FROM copied.sequences s LEFT JOIN facts USING (sequence) {joins} WHERE {holds}"
            order = SORTS[wanted.sort]
            way = "DESC" if wanted.descending else "ASC"
            [[total]] = tables.execute(f"SELECT count(*) {query}", values).fetchall()
            found = tables.execute(
                "SELECT sequence, sequence_id, label, source, coalesce(category, ''), coalesce(tactic, ''), "
                f"turns, flag, T, I, F {query} ORDER BY {order} {way} NULLS LAST, sequence LIMIT ? OFFSET ?",
                [*values, wanted.size, (wanted.page - 1) * wanted.size],
            ).fetchall()
            [[of]] = tables.execute("SELECT count(*) FROM copied.sequences").fetchall()
            series = _series(tables, wanted.run, [row[0] for row in found])
        rows = tuple(replace(SequenceRow(*row[1:]), series=tuple(series.get(row[0], ()))) for row in found)
        judged = (1, 1) if flags is None else (flags.done, flags.of)
        return SequencePage(rows, total, of, rule, judged, indexed)

    def every(self, wanted: Filter) -> list[SequenceRow]:
        """The rows of all pages, of which `SequencePage.left_out` tells those that are left out."""
        rows: list[SequenceRow] = []
        page = 1
        while len(rows) < SAVED:
            found = self.find(replace(wanted, page=page, size=1_000)).rows
            rows += found
            if len(found) < 1_000:
                break
            page += 1
        return rows

    def choices(self) -> dict[str, list[str]]:
        """The values that filters offer, the commonest first: sources, categories, tactics, principles."""
        with self.record.tables() as tables:
            found = {
                name: _commonest(tables, name, "copied.sequences" if name == "source" else "facts")
                for name in ("source", *FACTS)
            }
            names = tables.execute("SELECT name FROM copied.principles ORDER BY name").fetchall()
        return {**found, "principle": [name for (name,) in names]}

    def _flags(self, run: str, rule: str, wanted: Filter) -> Flags | None:
        """What a rule flags; None where the run has no score yet and nobody asks for flags."""
        if not wanted.rule and not wanted.flagged and not self.record.scored_sequences(run):
            return None
        return self.flagging.flags(run, rule, wanted.when)

    def _joins(self, tables: DuckDBPyConnection, wanted: Filter, flags: Flags | None) -> str:
        """Give the connection the tables that a filter needs, and return how they are joined."""
        nothing = np.empty(0, np.int64)
        given = {"sequence": flags.sequences if flags else nothing, "flag": flags.turns if flags else nothing}
        tables.register("flagged", given)
        joins = " LEFT JOIN flagged USING (sequence)"
        if wanted.words:
            tables.register("wording", {"sequence": self.words.find(wanted.words)})
            joins += " SEMI JOIN wording USING (sequence)"
        run = _number(tables, "run", "copied.runs", wanted.run)
        joins += (
            " LEFT JOIN (SELECT sequence, min(T) AS T, max(I) AS I, max(F) AS F FROM copied.evaluations "
            f"WHERE run = {run} AND NOT response GROUP BY sequence) summed USING (sequence)"
        )
        if wanted.least is not None or wanted.most is not None:
            whose = ""
            if wanted.principle:
                whose = f" AND principle = {_number(tables, 'principle', 'copied.principles', wanted.principle)}"
            joins += (
                f" JOIN (SELECT sequence, max({wanted.component}) AS highest, min({wanted.component}) AS lowest "
                f"FROM copied.evaluations WHERE run = {run} AND NOT response{whose} GROUP BY sequence) limited "
                "USING (sequence)"
            )
        return joins


def _conditions(wanted: Filter) -> tuple[list[str], list[Any]]:
    """What has to hold, and the values of its question marks."""
    conditions, values = ["TRUE"], []
    for name in ("label", "source", "category", "tactic"):
        if getattr(wanted, name):
            conditions.append(f"{name} = ?")
            values.append(getattr(wanted, name))
    limits = {
        "turns >= ?": wanted.least_turns, "turns <= ?": wanted.most_turns, "flag >= ?": wanted.first_flag,
        "flag <= ?": wanted.last_flag, "highest >= ?": wanted.least, "lowest <= ?": wanted.most,
    }  # fmt: skip
    for condition, value in limits.items():
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if wanted.flagged:
        conditions.append("flag IS NOT NULL" if wanted.flagged == "yes" else "flag IS NULL AND F IS NOT NULL")
    return conditions, values


def _number(tables: DuckDBPyConnection, column: str, table: str, name: str | None) -> int:
    """The number of a run or principle in the mirror; -1 without a name."""
    found = tables.execute(f"SELECT {column} FROM {table} WHERE name = ?", [name]).fetchall()
    if not found and name is not None:
        known = [one for (one,) in tables.execute(f"SELECT name FROM {table}").fetchall()]
        raise UnknownNameError(column, name, known)
    return int(found[0][0]) if found else -1


def _series(tables: DuckDBPyConnection, run: str | None, rows: list[int]) -> dict[int, list[tuple[int, float]]]:
    found: dict[int, list[tuple[int, float]]] = {}
    if not rows or run is None:
        return found
    values = tables.execute(
        "SELECT sequence, turn, max(F) FROM copied.evaluations "
        "WHERE run = (SELECT run FROM copied.runs WHERE name = ?) "
        f"AND NOT response AND turn <= {_SERIES} AND sequence IN ({', '.join(map(str, rows))}) "
        "GROUP BY sequence, turn ORDER BY sequence, turn",
        [run],
    ).fetchall()
    for sequence, turn, value in values:
        found.setdefault(sequence, []).append((turn, value))
    return found


def _commonest(tables: DuckDBPyConnection, name: str, table: str) -> list[str]:
    query = f"SELECT {name} FROM {table} WHERE {name} <> '' GROUP BY {name} ORDER BY count(*) DESC, {name}"
    return [value for (value,) in tables.execute(f"{query} LIMIT {_MOST_CHOICES}").fetchall()]
