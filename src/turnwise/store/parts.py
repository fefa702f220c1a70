"""What a store is made of where it is a record in a database."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from turnwise.clock import Clock
from turnwise.scoring import NOT_READ
from turnwise.store import schema
from turnwise.store.audit_log import AuditLog
from turnwise.store.database import Database
from turnwise.store.journal import Journal
from turnwise.store.numbered import Numbered
from turnwise.store.runs import Runs
from turnwise.store.scores import Scores
from turnwise.store.sequences import Sequences

if TYPE_CHECKING:
    from turnwise.store.mirror import Mirror
    from turnwise.store.people import People


class RecordParts:
    """The parts of a store over one database. `turnwise.store.findings` has those of the findings of a scan."""

    note: str | None = None
    """What whoever reads the store ought to know of it."""

    def __init__(self, location: str, *, create: bool, clock: Clock, busy_seconds: float) -> None:
        self.database = Database(location, create=create, clock=clock, busy_seconds=busy_seconds)
        self.where = self.database.where
        self.sequences = Sequences(self.database)
        self.runs = Runs(self.database)
        self.scores = Scores(self.database, self.runs, self.sequences)
        self.numbered = Numbered(self.database)
        self.journal = Journal(self.database)
        self.audit = AuditLog(self.database)

    @cached_property
    def people(self) -> People:
        """What people said."""
        from turnwise.store.people import People

        return People(self.database, self.sequences)

    @cached_property
    def mirror(self) -> Mirror:
        """The copy that questions are asked of."""
        from turnwise.store.mirror import Mirror

        return Mirror(self.database)

    @property
    def own_runs(self) -> Runs:
        """The runs, for an import that adds others to them."""
        return self.runs

    def prepare(self, progress: Callable[[int], None]) -> None:
        """Do nothing: questions bring their copy up to date themselves."""

    def counts(self) -> dict[str, int]:
        """How many sequences, turns, runs, evaluations, failures and unread texts there are."""
        tables = (schema.sequences, schema.turns, schema.runs, schema.evaluations, schema.failures)
        queries = {table.name: select(func.count().label("n")).select_from(table) for table in tables}
        failures = queries["failures"]
        queries["failures"] = failures.where(schema.failures.c.reason != NOT_READ)
        queries["unread"] = failures.where(schema.failures.c.reason == NOT_READ)
        return {name: self.database.read(query)[0]["n"] for name, query in queries.items()}

    def close(self) -> None:
        """Write what is pending and let go of the database."""
        if "mirror" in vars(self):
            self.mirror.close()
        self.database.finish()
        self.runs.close()
        self.journal.close()
        self.database.close()

    def discard(self) -> None:
        """Once closed, remove a file that was made here and holds nothing."""
        self.database.discard()
