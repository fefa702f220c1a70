"""An export or another store, opened and merged into a store."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from turnwise.paths import to_path
from turnwise.store import schema
from turnwise.store.database import BUSY_SECONDS, Database
from turnwise.store.runs import Runs
from turnwise.store.transfer.merging import Merge, Merged
from turnwise.store.transfer.reading import ExportFolder
from turnwise.store.transfer.snapshot import read_snapshot
from turnwise.store.transfer.tables import Record


def import_record(database: Database, runs: Runs, location: str | Path) -> Merged:
    """Import an export or a store into a store; see `Store.import_from`."""
    name = str(location)
    if "://" not in name and "\0" not in name and to_path(name).is_dir():
        return _merged(database, runs, ExportFolder(name))
    other = Database(name, create=False, clock=database.clock, busy_seconds=BUSY_SECONDS)
    try:
        return read_snapshot(other, lambda record: _merged(database, runs, record))
    finally:
        other.finish()
        other.close()


def _merged(database: Database, runs: Runs, source: Record) -> Merged:
    for page in source.pages(schema.runs):
        for row in page:
            runs.hold(row["name"])
    stopped = Event()
    job = database.write(lambda connection: Merge(source, database.where, stopped).run(connection))
    try:
        return job.result()
    except BaseException:  # somebody pressed Ctrl-C, and does not want it any more
        stopped.set()
        raise
