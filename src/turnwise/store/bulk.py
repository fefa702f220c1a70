"""Many rows at once, as fast as the driver of the record's database gives them."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Double, Select, cast, func, select, type_coerce
from sqlalchemy.types import LargeBinary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 1_000_000
"""Rows of numbers that are held in memory at once."""

_SPAN = 500_000
"""Row numbers that one statement goes through in PostgreSQL, which holds what it finds in memory."""

_HEAD = 20
"""Bytes before the first element of an array in PostgreSQL's binary form: five numbers about the array."""


def rows(record: Connection, query: Select[Any]) -> Generator[tuple[Any, ...], None, None]:
    """Yield the rows of a query. In SQLite values come as they are stored, times and JSON as text."""
    if record.dialect.name != "sqlite":
        yield from map(tuple, record.execute(query))
        return
    cursor: Any = record.connection.cursor()
    cursor.execute(str(query.compile(record.engine, compile_kwargs={"literal_binds": True})))
    yield from cursor


def numbers(
    record: Connection, query: Select[Any], key: ColumnElement[int], after: int, last: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the rows of a query whose columns are numbers, none of them missing, at most a million at a time.

    Only rows whose `key` is above `after` and up to `last`, which in SQLite has to be the last there is. Raises
    ValueError or TypeError where a value is missing or no number.
    """
    if record.dialect.name == "sqlite":
        yield from _from_sqlite(record, query.where(key > after))
        return
    for start in range(after, last, _SPAN):
        yield from _from_postgresql(record, query.where(key > start, key <= min(start + _SPAN, last)))


def _from_sqlite(record: Connection, query: Select[Any]) -> Iterator[NDArray[np.float64]]:
    import numpy as np

    width = len(query.selected_columns)
    with closing(rows(record, query)) as found:
        values = chain.from_iterable(found)
        while flat := array("d", islice(values, _BATCH * width)):  # numpy would take a text for a number, and None
            yield np.frombuffer(flat).reshape(-1, width)


def _from_postgresql(record: Connection, query: Select[Any]) -> Iterator[NDArray[np.float64]]:
    """Yield the whole result: each column comes as an array of PostgreSQL, which numpy can read."""
    import numpy as np

    element = np.dtype([("bytes", ">i4"), ("value", ">f8")])
    found = query.subquery()
    packed = [
        type_coerce(func.array_send(func.array_agg(cast(column, Double))), LargeBinary) for column in found.columns
    ]
    columns = record.execute(select(*packed)).one()
    if columns[0] is None:
        return
    arrays = [np.frombuffer(column, element, offset=_HEAD) for column in columns]
    if any((array["bytes"] != element["value"].itemsize).any() for array in arrays):
        raise ValueError("a number is missing")
    yield np.stack([array["value"].astype(np.float64) for array in arrays], axis=1)
