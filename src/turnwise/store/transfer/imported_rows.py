"""The rows of an import beside those of the store: the keys that they got, and those that were there already."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select

from turnwise._support.batches import batched
from turnwise.store.database import PAGE
from turnwise.store.transfer.tables import Row


class KeyMap:
    """Keys by keys, kept as stretches that are shifted alike: a million rows that follow each other are one.

    >>> keys = KeyMap()
    >>> for old, new in ((1, 11), (2, 12), (5, 3)):
    ...     keys.add(old, new)
    >>> keys.get(2), keys.get(5), keys.get(3)
    (12, 3, None)
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = []

    def add(self, old: int, new: int) -> None:
        """Add a key; ValueError where it does not follow the one before."""
        if self._ends and old <= self._ends[-1]:
            raise ValueError("rows are not in the order of their keys, or a key is there twice")
        if self._ends and old == self._ends[-1] + 1 and new - old == self._shifts[-1]:
            self._ends[-1] = old
            return
        self._starts.append(old)
        self._ends.append(old)
        self._shifts.append(new - old)

    def get(self, old: int) -> int | None:
        """The new key, or None where the old one was not added."""
        place = bisect_right(self._starts, old) - 1
        return old + self._shifts[place] if place >= 0 and old <= self._ends[place] else None


class Twins:
    """The rows of a table that were there before an import, which are those up to the key `last`.

    Rows are looked for by the column `by`, and are equal if they differ in `ignored` columns only.
    """

    def __init__(
        self, connection: Connection, table: Table, last: int, by: str, ignored: Collection[str] = ("id",)
    ) -> None:
        self._connection = connection
        self._table = table
        self._last = last
        self._by = by
        self._said = [column.name for column in table.columns if column.name not in ignored]
        self._taken: set[int] = set()

    def of(self, rows: Iterable[Row], *conditions: ColumnElement[bool]) -> list[int | None]:
        """The key of the row that is equal to each of some rows, None where there is none left.

        The rows must name others by their keys in the store; `conditions` must hold for a row of the store.
        """
        given, table = list(rows), self._table
        if not self._last:
            return [None] * len(given)
        found: dict[str, list[int]] = {}
        column = table.c[self._by]
        for some in batched(dict.fromkeys(row[self._by] for row in given), PAGE):
            query = select(table).where(column.in_(some), table.c.id <= self._last, *conditions)
            for stored in self._connection.execute(query.order_by(table.c.id)).mappings():
                if stored["id"] not in self._taken:
                    found.setdefault(self._content(stored), []).append(stored["id"])
        keys: list[int | None] = []
        for row in given:
            equal = found.get(self._content(row))
            keys.append(equal.pop(0) if equal else None)
        self._taken.update(key for key in keys if key is not None)
        return keys

    def _content(self, row: Any) -> str:
        return json.dumps([row[name] for name in self._said], sort_keys=True, default=str)
