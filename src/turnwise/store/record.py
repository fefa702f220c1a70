"""A record in a database: what reads it and what writes it, over one connection pool and one writer."""

from __future__ import annotations

from turnwise.clock import Clock
from turnwise.store.audit_log import AuditLog
from turnwise.store.database import Database
from turnwise.store.journal import Journal
from turnwise.store.record_source import RecordSource
from turnwise.store.runs import Runs
from turnwise.store.score_appending import Appender


class Record:
    """A record that is open."""

    def __init__(self, location: str, *, create: bool, clock: Clock, busy_seconds: float) -> None:
        self.database = Database(location, create=create, clock=clock, busy_seconds=busy_seconds)
        self.source = RecordSource(self.database)
        self.runs = Runs(self.database)
        self.appender = Appender(self.database, self.runs)
        self.journal = Journal(self.database)
        self.audit = AuditLog(self.database)

    def close(self) -> None:
        """Write what is pending and let go of the database."""
        self.database.finish()
        self.runs.close()
        self.journal.close()
        self.database.close()
