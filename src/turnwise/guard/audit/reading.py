"""Questions to an audit, in a file of JSON lines or in a store."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from turnwise.bounded import read_json
from turnwise.errors import GuardError
from turnwise.guard.audit.privacy import pseudonym
from turnwise.guard.audit.record import CHECK, GAP, time_text
from turnwise.paths import to_path

_SQLITE: Final = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """Which events are asked for; all conditions have to hold.

    Args:
        conversation_id: only of this conversation; by its name, also where a pseudonym was written.
        session_id: only of this session, likewise.
        guardrail: only where this guardrail found something, or failed.
        blocked: only where the text was blocked (or, False, where it was not).
        since: only from this time on, aware.
        until: only before this time, aware.
        limit: the latest so many; None for all.

    Raises:
        GuardError: a time without a zone or that UTC can't hold, or a limit out of range.
    """

    conversation_id: str | None = None
    session_id: str | None = None
    guardrail: str | None = None
    blocked: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            time = getattr(self, name)
            if time is not None and time.tzinfo is None:
                raise GuardError(f"{name} is {time}, which has no zone; add one, such as +00:00")
            try:
                _ = time and time_text(time)
            except OverflowError:
                raise GuardError(
                    f"{name} is {time}, which is out of range in UTC; use a later or earlier time"
                ) from None
        if self.limit is not None and not 1 <= self.limit <= sys.maxsize:
            raise GuardError(f"limit is {self.limit}; use a whole number from 1, at most {sys.maxsize}")


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """What an audit holds of what was asked for.

    Args:
        events: the records, in the order in which they were written.
        gaps: records of events that are missing, of the times asked for.
        unreadable: lines that are no record, each with its number and why.
        checked: records of checks that were looked through.
    """

    events: tuple[dict[str, Any], ...]
    gaps: tuple[dict[str, Any], ...] = ()
    unreadable: tuple[str, ...] = ()
    checked: int = 0


@dataclass(slots=True)
class _Wanted:
    """A question made ready to be asked of many records."""

    question: AuditQuestion
    conversations: tuple[str, ...] = field(init=False)
    sessions: tuple[str, ...] = field(init=False)
    since: str | None = field(init=False)
    until: str | None = field(init=False)

    def __post_init__(self) -> None:
        asked = self.question
        self.conversations, self.sessions = _names(asked.conversation_id), _names(asked.session_id)
        self.since = None if asked.since is None else time_text(asked.since)
        self.until = None if asked.until is None else time_text(asked.until)

    def in_time(self, record: Mapping[str, Any]) -> bool:
        time = str(record.get("time"))
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)

    def matches(self, record: Mapping[str, Any]) -> bool:
        asked = self.question
        if self.conversations and record.get("conversation_id") not in self.conversations:
            return False
        if self.sessions and record.get("session_id") not in self.sessions:
            return False
        if asked.blocked is not None and record.get("blocked") is not asked.blocked:
            return False
        return asked.guardrail is None or _fired(record, asked.guardrail)


def read_audit(location: str | Path, question: AuditQuestion | None = None) -> AuditAnswer:
    """Return what an audit holds of what is asked for.

    A line that a crash tore is left out and named; the others are read.

    Args:
        location: a file of JSON lines, or a store.
        question: which events; all by default.

    Raises:
        GuardError: the file can't be read, or is no audit.
        StoreError: the store can't be opened.
    """
    wanted = _Wanted(question or AuditQuestion())
    try:
        path = to_path(str(location).removeprefix("sqlite:///"), home=True)
        with path.open("rb") as file:
            stored = file.read(len(_SQLITE)) == _SQLITE
            if not stored:
                file.seek(0)
                return _of_lines(file, path, wanted)
    except OSError as error:
        raise GuardError(f"the audit {location} can't be read: {error.strerror}") from error
    return _of_store(str(path), wanted)


def _of_lines(lines: Iterable[bytes], path: Path, wanted: _Wanted) -> AuditAnswer:
    unreadable: list[str] = []
    found: deque[dict[str, Any]] = deque(maxlen=wanted.question.limit)
    gaps, checked = [], 0
    for record in _records(lines, unreadable):
        if not wanted.in_time(record):
            continue
        if record["kind"] == GAP:
            gaps.append(record)
        elif record["kind"] == CHECK:
            checked += 1
            if wanted.matches(record):
                found.append(record)
    if unreadable and not (checked or gaps or found) and len(unreadable) == _count(path):
        raise GuardError(f"{path} is no audit: {unreadable[0]}")
    return AuditAnswer(tuple(found), tuple(gaps), tuple(unreadable), checked)


def _records(lines: Iterable[bytes], unreadable: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = read_json(line)
        except ValueError:
            torn = "" if line.endswith(b"\n") else "; it is the last line, and torn: a crash, or a write under way"
            unreadable.append(f"line {number} is no JSON{torn}")
            continue
        if isinstance(record, dict) and isinstance(record.get("kind"), str) and "time" in record:
            yield record
        else:
            unreadable.append(f"line {number} is no event of an audit")


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(bool(line.strip()) for line in file)


def _of_store(location: str, wanted: _Wanted) -> AuditAnswer:
    from turnwise.store import Store

    asked = wanted.question
    found: list[dict[str, Any]] = []
    gaps, checked = [], 0
    with Store(location) as store:
        for record in store.audit.events(
            conversation_ids=wanted.conversations,
            session_ids=wanted.sessions,
            since=asked.since,
            until=asked.until,
        ):
            if record["kind"] == GAP:
                gaps.append(record)
                continue
            checked += 1
            if wanted.matches(record):
                found.append(record)
                if len(found) == asked.limit:
                    break
    return AuditAnswer(tuple(reversed(found)), tuple(reversed(gaps)), (), checked)


def _names(name: str | None) -> tuple[str, ...]:
    """Return what may be written of a name: itself, or what stands for it."""
    return () if name is None else (name, pseudonym(name))


def _fired(record: Mapping[str, Any], guardrail: str) -> bool:
    details = record.get("guardrails")
    detail = details.get(guardrail) if isinstance(details, Mapping) else None
    return isinstance(detail, Mapping) and (detail.get("found") is True or detail.get("status") == "failed")
