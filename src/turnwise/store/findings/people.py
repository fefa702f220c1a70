"""What people say of findings: kept in a record beside them, with the conversations that they speak of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table

from turnwise._support.locations import Location
from turnwise.clock import Clock
from turnwise.errors import StoreError
from turnwise.store.database import BUSY_SECONDS, Database
from turnwise.store.erasure import Erasure, erase_rows, erasures, finish, matching, new_receipt
from turnwise.store.findings.files import beside, for_the_user
from turnwise.store.people import People
from turnwise.store.record_source import RecordSource
from turnwise.store.sequences import add_sequences
from turnwise.store.source import Source

FILE: Final = "people.db"


class FoundPeople(People):
    """What people said of findings. Nothing that a scan does to its folder touches it.

    It is a store like any other, ``people.db`` beside the findings, or in the user's folder of data where nothing
    can be written there; it is made when somebody says something for the first time.
    """

    def __init__(self, folder: Location, found: Source, clock: Clock) -> None:
        self._folder = folder
        self._found = found
        self._clock = clock
        self._opened = False

    @property
    def path(self) -> Path:
        """Where it is kept; StoreError where no folder can be written."""
        if (path := beside(self._folder, FILE)) is not None:
            return path
        try:
            return for_the_user(self._folder, "data", FILE)
        except OSError as error:
            raise StoreError(
                f"judgements of {self._folder} can't be saved: make it or {error.filename} writable"
            ) from error

    def close(self) -> None:
        """Let go of the record."""
        if self._opened:
            self._db.finish()
            self._db.close()
            self._opened = False

    def authors(self) -> tuple[str, ...]:
        """Who has said something, sorted."""
        return super().authors() if self._open(create=False) else ()

    def _rows(self, table: Table, ids: Collection[str] | None, author: str | None) -> Iterator[Any]:
        if not self._open(create=False):
            return iter(())
        if ids is not None:
            wanted = {head.sequence_id for page in self._found.pages(ids) for _, head in page}
            there = {head.sequence_id for page in self._source.pages() for _, head in page}
            ids = wanted & there
        return super()._rows(table, ids, author)

    def _hold(self, ids: Collection[str]) -> None:
        """Copy conversations into the record with their texts, since those are what is spoken of."""
        spoken_of = [one for page in self._found.pages(ids) for one in self._found.sequences(page)]
        self._open(create=True)
        add_sequences(self._db, spoken_of)

    def begun(self, ids: Collection[str]) -> tuple[int, Erasure] | None:
        """The receipt of an erasure of some of these conversations that was killed, if there is one."""
        return matching(erasures(self._db), ids) if self._open(create=False) else None

    def begin_erasing(self, ids: Sequence[str], author: str, reason: str) -> tuple[int, Erasure]:
        """Erase what was said of conversations, with the copies of their texts; the receipt is to be finished."""
        self._open(create=True)
        there = {head.sequence_id: number for page in self._source.pages() for number, head in page}
        keys = [there[one] for one in ids if one in there]
        return erase_rows(self._db, keys, new_receipt(ids, self._clock(), author, reason))

    def finish_erasing(self, begun: tuple[int, Erasure], counts: Mapping[str, int]) -> Erasure:
        """Close a receipt, once the findings are without the conversations; `counts` are what went from them."""
        number, receipt = begun
        return finish(self._db, number, replace(receipt, counts={**counts, **receipt.counts}))

    def receipts(self) -> tuple[Erasure, ...]:
        """The receipts of what was erased, oldest first."""
        return super().receipts() if self._open(create=False) else ()

    def _open(self, *, create: bool) -> bool:
        """Open the record, and return whether there is one."""
        if not self._opened:
            path = self.path
            if not (create or path.exists()):
                return False
            self._db = Database(str(path), create=True, clock=self._clock, busy_seconds=BUSY_SECONDS)
            self._source = RecordSource(self._db)
            self._opened = True
        return True
