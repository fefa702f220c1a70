"""Replies that a scan pays for: kept in its folder before anybody reads them, until the scan is complete."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from turnwise._support.locations import Location
from turnwise.errors import LocationError, ObserverError
from turnwise.scoring import Reply

REPLIES: Final = "replies"
"""Folder of the replies within the folder of findings."""

_ENDING: Final = ".jsonl"


class ScanJournal:
    """The `turnwise.scoring.ReplyJournal` of a scan, and the books of what it paid for. Safe for threads."""

    # Each worker adds lines to a file of its own, and finds those of all others; behind a URL, where nothing can
    # be added to a file, each reply is a file. A line that was not written to its end when its worker was killed
    # counts as no reply.

    final = True  # a part that was killed is done again, and its failures are to be the same

    def __init__(self, findings: Location) -> None:
        self._folder = findings / REPLIES
        self._own = uuid4().hex
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._ends: dict[str, int] = {}
        self._places: dict[tuple[str, int], tuple[str, int]] = {}
        self._paid: Counter[str] = Counter()

    def find(self, request_key: str, repeat: int) -> Reply | None:
        key = request_key, repeat
        with self._reading:
            if key not in self._places and not (self._folder.is_url and self._ends):
                self._read_on()
            place = self._places.get(key)
        if place is None:
            return None
        with (self._folder / place[0]).open() as file:
            file.seek(place[1])
            return _reply(json.loads(file.readline()))

    def record(self, reply: Reply) -> None:
        """Keep a reply; durable when this returns, else ObserverError: nothing more should be paid for."""
        line = (json.dumps({**asdict(reply), "received_at": reply.received_at.isoformat()}) + "\n").encode()
        try:
            if self._folder.is_url:
                name = f"{uuid4().hex}{_ENDING}"
                (self._folder / name).write(line)
                with self._reading:
                    self._take(name, 0, line)
                return
            path = (self._folder / f"{self._own}{_ENDING}").path
            with self._writing:
                path.parent.mkdir(exist_ok=True)
                with path.open("ab") as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
        except (OSError, LocationError) as error:
            raise ObserverError(f"a reply that was paid for can't be kept in {self._folder}: {error}") from error

    def paid(self) -> dict[str, float]:
        """What all replies come to, for `Manifest.replies`."""
        with self._reading:
            self._read_on()
            return dict(sorted(self._paid.items()))

    def clear(self) -> None:
        for name in self._folder.names():
            (self._folder / name).remove()
        if not self._folder.is_url and self._folder.is_folder():
            self._folder.path.rmdir()

    def _read_on(self) -> None:
        """Take in what was added since the last time."""
        if self._folder.is_url:  # other processes write there too, and its listings may be kept
            self._folder.filesystem.invalidate_cache()
        for name, size in self._folder.sizes().items():
            if name.endswith(_ENDING) and size > self._ends.get(name, 0):
                for at, line in self._lines(name):
                    self._take(name, at, line)

    def _lines(self, name: str) -> Iterator[tuple[int, bytes]]:
        with (self._folder / name).open() as file:
            at = self._ends.get(name, 0)
            file.seek(at)
            for line in file:
                if line.endswith(b"\n"):
                    yield at, line
                at += len(line)

    def _take(self, name: str, at: int, line: bytes) -> None:
        if name in self._ends and at < self._ends[name]:
            return
        self._ends[name] = at + len(line)
        try:
            reply = _reply(json.loads(line))
        except (ValueError, TypeError, KeyError):
            return  # what a machine that lost its power left
        self._places[reply.request_key, reply.repeat] = name, at
        self._paid["calls"] += 1
        for counted in ("prompt_tokens", "completion_tokens", "cost_usd"):
            if (value := getattr(reply, counted)) is not None:
                self._paid[counted] += value


def _reply(values: dict[str, Any]) -> Reply:
    return Reply(**{**values, "received_at": datetime.fromisoformat(values["received_at"])})
