"""The runs of a store: started once, never mixed, and what they have come to."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, RowMapping, insert, select

from turnwise.errors import UnknownNameError, UsageError
from turnwise.store import schema
from turnwise.store.database import intact
from turnwise.store.file import StoreFile
from turnwise.store.records import Run, read_run
from turnwise.store.tallies import RunTally, tally


class StoredRuns(StoreFile):
    """The part of a store that says how scores came about."""

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, oldest first."""
        return tuple(map(self._made_run, self._read(select(schema.runs).order_by(schema.runs.c.id))))

    def run(self, name: str) -> Run:
        """Return one run.

        Raises:
            UnknownNameError: the store has no run of that name.
        """
        rows = self._read(select(schema.runs).where(schema.runs.c.name == name))
        if not rows:
            raise UnknownNameError("run", name, self._run_names())
        return self._made_run(rows[0])

    def _made_run(self, row: RowMapping) -> Run:
        with intact(self.path, f"run {row['name']!r}"):
            return read_run(row)

    def _run_names(self) -> list[str]:
        return [row["name"] for row in self._read(select(schema.runs.c.name).order_by(schema.runs.c.id))]

    def start_run(self, run: Run) -> Run:
        """Store a run, or return the one of that name if it has the same configuration.

        Raises:
            UsageError: there is a run of that name with another configuration; the message says what differs.
        """
        return self._writer.submit(lambda connection: self._start_run(connection, run)).result()

    def _start_run(self, connection: Connection, run: Run) -> Run:
        table = schema.runs
        row = connection.execute(select(table).where(table.c.name == run.name)).mappings().first()
        if row is None:
            values = {name: getattr(run, name) for name in Run.__slots__}
            values.update(parameters=dict(run.parameters), operating_points=dict(run.operating_points))
            connection.execute(insert(table).values(values))
            return run
        stored = read_run(row)
        for field in ("observer", "observer_version", "context", "parameters"):
            there, here = getattr(stored, field), getattr(run, field)
            if there != here:
                was, would = _differing(field.replace("_", " "), there, here)
                raise UsageError(
                    f"run {run.name!r} was made with {was}, not {would}: "
                    "a run never mixes configurations; use another --run"
                )
        return stored

    def only_run(self) -> str:
        """Return the name of the only run.

        Raises:
            UsageError: the store has none, or several; the message lists them.
        """
        names = self._run_names()
        if len(names) == 1:
            return names[0]
        if not names:
            raise UsageError(f"{self.path} has no run yet: make one with turnwise evaluate --store {self.path}")
        raise UsageError(f"{self.path} has several runs: choose one with --run ({', '.join(names)})")

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        """Return every run with what it has come to, oldest first."""
        found = tally(self._read)
        return tuple((run, found.get(run.name, RunTally(run.name))) for run in self.runs())

    def principle_versions(self, run: str) -> dict[str, str]:
        """Return the version of every principle that a run was scored against, by name."""
        table = schema.provenances
        query = select(table.c.principle, table.c.principle_version).join(schema.runs)
        return {
            row["principle"]: row["principle_version"]
            for row in self._read(query.where(schema.runs.c.name == run))
        }


def _differing(field: str, there: object, here: object) -> tuple[str, str]:
    """Return what is stored and what is given where they differ; of settings on both sides only those that do."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping) and there.keys() == here.keys()):
        return f"{field} {there!r}", repr(here)
    names = [name for name in there if there[name] != here[name]]
    was = ", ".join(f"{name} {there[name]!r}" for name in names)
    return was, ", ".join(repr(here[name]) for name in names)
