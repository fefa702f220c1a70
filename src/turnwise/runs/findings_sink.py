"""The sink of a scan: parts go into a folder of findings, and those that are whole there are not done again."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from turnwise._support.locations import Location
from turnwise.errors import FindingsError
from turnwise.findings import MANIFEST, Counts, Findings, Manifest
from turnwise.runs.paid_replies import ScanJournal
from turnwise.runs.part_files import clear_partial, done_parts
from turnwise.runs.parts import Done, Part
from turnwise.runs.run import Progress, Tell

_LOCK = ".scan.lock"

_NOT_COMPARED = {"parts", "complete", "totals", "replies", "sha256"}

_PAUSE = 1.0
"""Seconds between two writings of the manifest, at least; parts that it lacks are found by their files."""

_SHARE = 30
"""So many times as long as the last writing took is waited before the next."""


class FindingsSink:
    """Takes parts whose files are written, and writes the manifest now and then.

    Args:
        folder: where findings go; nobody else may write there, see `alone`.
        manifest: the one that is there.
        parts: all parts that there are.
        total: bytes of input that they stand for; 0 where they come as time goes by, and none is to wait.
        tell: is told of each part that is done.
    """

    def __init__(
        self, folder: Location, manifest: Manifest, parts: Iterator[Part], total: int, tell: Tell | None = None
    ) -> None:
        self._began = time.monotonic()
        self._folder = folder
        self._manifest = manifest
        self._not_before = self._began + _PAUSE
        self._parts = parts
        self._total = total
        self._tell = tell
        self._journal = ScanJournal(folder)
        clear_partial(folder)
        self._done = done_parts(Findings(folder, manifest))
        self.resumed = len(self._done)
        self.repeated = 0
        self.cost_usd = 0.0
        self._counts = sum((part.counts for part in self._done.values()), Counts())
        self._bytes = self._before = self._here = 0

    @property
    def findings(self) -> Findings:
        """What is there, as the manifest that was written last says."""
        return Findings(self._folder, self._manifest)

    def missing(self) -> Iterator[Part]:
        """Yield the parts that are not done yet."""
        for part in self._parts:
            if part.number in self._done:
                self._bytes += part.size
                self._before += part.size
            else:
                yield part

    def take(self, results: Sequence[Done]) -> None:
        """Add parts that are done; the manifest is written where it is time."""
        for done in results:
            self._done[done.entry.number] = done.entry
            if time.monotonic() >= self._not_before or not self._total:
                self._write()
            self._counts += done.entry.counts
            self._bytes += done.size
            self._here += done.entry.counts.conversations
            self.repeated += 1
            self.cost_usd += done.cost_usd
            if self._tell is not None:
                reached, seconds = min(self._bytes, self._total), time.monotonic() - self._began
                self._tell(Progress(reached, self._total, self._before, self._here, seconds, self._counts))

    def close(self, *, complete: bool) -> None:
        """Write the manifest; `complete` says that all parts are done, so that no reply is asked for again."""
        self._write(complete=complete)
        if complete:
            self._journal.clear()

    def _write(self, *, complete: bool = False) -> None:
        began = time.monotonic()
        made = self._manifest.with_parts(self._done, complete=complete)
        self._manifest = replace(made, replies=self._journal.paid())
        (self._folder / MANIFEST).write(self._manifest.to_json())
        now = time.monotonic()
        self._not_before = now + max(_PAUSE, _SHARE * (now - began))


@contextmanager
def alone(folder: Location) -> Iterator[None]:
    """Keep other scans out of a local folder; the system lets go of the lock when this process ends.

    A folder behind a URL can't be locked: who writes one scan from two machines has only the later findings.
    """
    if folder.is_url:
        yield
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    lock = folder.path / _LOCK
    connection = sqlite3.connect(lock, isolation_level=None, timeout=0.0)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        raise FindingsError(f"another scan writes to {folder}: wait for it, or choose another folder") from error
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        connection.close()


def stored_manifest(folder: Location, wanted: Manifest) -> Manifest | None:
    """The manifest of findings that this scan goes on with; None where there are none yet.

    FindingsError where the folder holds something else, or findings of another scan; it says what differs.
    """
    place = folder / MANIFEST
    if not place.exists():
        others = [name for name in folder.names() if not name.startswith(".")]
        if others:
            raise FindingsError(
                f"{folder} is not empty and has no {MANIFEST} (it has {others[0]}): choose another folder"
            )
        return None
    found = Manifest.from_json(place.read(), str(place))
    different = _differences(json.loads(found.to_json()), json.loads(wanted.to_json()))
    if different and not done_parts(Findings(folder, found)):
        return None  # nothing was done: whatever was wrong with it is put right now
    if different:
        raise FindingsError(
            f"{folder} has findings of another scan: {'; '.join(different)}. "
            "Repeat the command that began it, or choose another folder"
        )
    return found


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What differs, a text each, a dozen at most."""
    texts: list[str] = []
    for name in wanted:
        if name in _NOT_COMPARED or found.get(name) == wanted[name]:
            continue
        if name == "inputs":
            texts += _different_inputs(found["inputs"], wanted["inputs"])
        elif isinstance(wanted[name], dict) and isinstance(found.get(name), dict):
            before, now = found[name], wanted[name]
            keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
            texts += [f"{name}.{key} was {_shown(before.get(key))}, now {_shown(now.get(key))}" for key in keys]
        else:
            texts.append(f"{name} was {_shown(found.get(name))}, now {_shown(wanted[name])}")
    return texts[:12]


def _different_inputs(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[str]:
    before, now = ({one["name"]: one for one in ones} for ones in (found, wanted))
    changed = [f"the input {name} has changed" for name in now if name in before and before[name] != now[name]]
    changed += [f"the input {name} is new" for name in now if name not in before]
    changed += [f"the input {name} is missing" for name in before if name not in now]
    return changed or ["the inputs come in another order"]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
