"""What people say of findings: kept in a record beside them, with the conversations that they speak of."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from turnwise.clock import Clock
from turnwise.errors import StoreError
from turnwise.store.database import BUSY_SECONDS, Database
from turnwise.store.findings.files import FoundFiles
from turnwise.store.findings.places import beside, for_the_user
from turnwise.store.findings.sequences import FoundSequences
from turnwise.store.people import People
from turnwise.store.sequences import Sequences

FILE: Final = "people.db"


class FoundPeople(People):
    """What people said of findings. Nothing that a scan does to its folder touches it.

    It is a store like any other, ``people.db`` beside the findings, or in the user's folder of data where nothing
    can be written there; it is made when somebody says something for the first time.
    """

    def __init__(self, files: FoundFiles, sequences: FoundSequences, clock: Clock) -> None:
        self._files = files
        self._found = sequences
        self._clock = clock
        self._opened = False

    @property
    def path(self) -> Path:
        """Where it is kept; StoreError where no folder can be written."""
        folder = self._files.findings.folder
        if (path := beside(folder, FILE)) is not None:
            return path
        try:
            return for_the_user(folder, "data", FILE)
        except OSError as error:
            raise StoreError(
                f"what people say of {self._files.where} can't be kept: neither it nor {error.filename} "
                "can be written"
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

    def _rows(self, table: Any, ids: Collection[str] | None, author: str | None) -> Any:
        if not self._open(create=False):
            return iter(())
        if ids is not None:
            self._found.keys(ids)
            there = {head.sequence_id for head in self._sequences.heads()}
            ids = [name for name in ids if name in there]
        return super()._rows(table, ids, author)

    def _hold(self, sequence_id: str) -> None:
        """Copy a conversation into the record with its texts, since that is what is spoken of."""
        [sequence] = self._found.read([sequence_id])
        self._open(create=True)
        self._sequences.add([sequence])

    def _open(self, *, create: bool) -> bool:
        """Open the record, and return whether there is one."""
        if not self._opened:
            path = self.path
            if not (create or path.exists()):
                return False
            self._db = Database(str(path), create=True, clock=self._clock, busy_seconds=BUSY_SECONDS)
            self._sequences = Sequences(self._db)
            self._opened = True
        return True
