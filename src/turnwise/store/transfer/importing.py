"""An export or another store, opened and merged into a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnwise.paths import to_path
from turnwise.store import schema
from turnwise.store.database import BUSY_SECONDS, Database
from turnwise.store.runs import Runs
from turnwise.store.transfer.merging import Merge, Merged
from turnwise.store.transfer.reading import ExportFolder
from turnwise.store.transfer.snapshot import snapshot
from turnwise.store.transfer.tables import Record


def import_record(database: Database, runs: Runs, location: str | Path) -> Merged:
    """Import an export or a store into a store; see `Store.import_from`."""
    with _opened(database, str(location)) as source:
        for page in source.pages(schema.runs):
            for row in page:
                runs.hold(row["name"])
        merge = Merge(source, str(database.path))
        job = database.write(merge.run)
        try:
            return job.result()
        except BaseException:  # somebody pressed Ctrl-C, and does not want it any more
            merge.stop()
            raise


@contextmanager
def _opened(target: Database, location: str) -> Iterator[Record]:
    if "://" not in location and "\0" not in location and to_path(location).is_dir():
        yield ExportFolder(location)
        return
    other = Database(location, create=False, clock=target.clock, busy_seconds=BUSY_SECONDS)
    try:
        with snapshot(other) as record:
            yield record
    finally:
        other.close()
        other.engine.dispose()
