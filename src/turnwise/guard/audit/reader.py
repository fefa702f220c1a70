"""Reads an audit, in a JSON Lines file or a store: its events, answers to questions, a table for spreadsheets."""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise._support.table_files import cell
from turnwise.clock import Clock, utc_now
from turnwise.errors import GuardError
from turnwise.guard.audit.chain import Verification, Wanted
from turnwise.guard.audit.record import CHECK, CORRECTION, GAP, pseudonym, time_text
from turnwise.guard.audit.sinks import Erased, JsonLinesSink, StoreSink, verify_file
from turnwise.guard.audit.writer import erase_in
from turnwise.guard.names import canonical_name, short_id
from turnwise.guard.written_values import GuardMetadataError

_SQLITE: Final = b"SQLite format 3\0"

_SERVERS: Final = ("postgresql://", "postgresql+psycopg://", "postgres://")
"""How the location of a store in a server begins."""

CSV_COLUMNS: Final = (
    "time",
    "pipeline",
    "conversation_id",
    "session_id",
    "initiator",
    "responder",
    "model",
    "turn",
    "side",
    "tool",
    "call_id",
    "outcome",
    "blocked",
    "warned",
    "rate_limited",
    "reasons",
    "warnings",
    "failed",
    "not_read",
    "stance",
    "trust",
    "seconds",
    "text",
    "text_sha256",
)
"""Columns of the table, left to right."""


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """Which events are asked for; all conditions have to hold.

    Args:
        conversation_id: only this conversation; its name also finds events that have its pseudonym.
        session_id: only this session, likewise.
        person: only conversations whose initiator has this name, likewise.
        guardrail: only where this guardrail found something, failed, or did not read the text.
        blocked: only where the text was blocked (False: only where it was not).
        since: only from this time on, aware.
        until: only before this time, aware.
        limit: at most so many, the latest ones, from 1; None for all.

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
    person: str | None = None

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

    `events` stand in the order in which they were written. `gaps` are the records of missing events in the time
    asked for; `unreadable` names the lines that are no record, by number, and says why; `checked` counts the
    checks that were looked through.
    """

    events: tuple[dict[str, Any], ...]
    gaps: tuple[dict[str, Any], ...] = ()
    unreadable: tuple[str, ...] = ()
    checked: int = 0


class _Wanted:
    """A question, made ready to be asked of many records."""

    def __init__(self, asked: AuditQuestion) -> None:
        self.question = asked
        self.conversations, self.sessions = names_of(asked.conversation_id), spellings_of(asked.session_id)
        self.people = spellings_of(asked.person)
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
        if self.people:
            person = str(_mapping(record.get("participants")).get("initiator") or "")
            if person not in self.people and canonical_name(person) not in self.people:
                return False
        if asked.blocked is not None and record.get("blocked") is not asked.blocked:
            return False
        return asked.guardrail is None or _fired(record, asked.guardrail)


def read_audit(location: str | Path, question: AuditQuestion | None = None) -> AuditAnswer:
    """Return what an audit holds of what is asked for; torn lines are named and left out.

    Args:
        location: a JSON Lines file, or a store: a file or ``postgresql://...``.
        question: what is asked for; None for everything.

    Raises:
        GuardError: the file can't be read, or is no audit.
        StoreError: the store can't be opened.
    """
    wanted = _Wanted(question or AuditQuestion())
    place = audit_at(location)
    if isinstance(place, Path):
        return _answer(_lines_of(place, wanted), wanted)
    from turnwise.store import Store

    with Store(place) as store:
        events = store.audit.events(
            conversation_ids=wanted.conversations,
            session_ids=wanted.sessions,
            since=wanted.question.since,
            until=wanted.question.until,
        )
        return _answer(events, wanted, latest_first=True)


def stream_audit(
    location: str | Path, since: datetime | None = None, until: datetime | None = None
) -> Iterator[dict[str, Any] | str]:
    """Yield the events in the time asked for, a store's latest first, and what a line is that is none."""
    place = audit_at(location)
    if isinstance(place, Path):
        yield from _lines_of(place, _Wanted(AuditQuestion(since=since, until=until)))
        return
    from turnwise.store import Store

    with Store(place) as store:
        yield from store.audit.events(since=since, until=until)


def _lines_of(path: Path, wanted: _Wanted) -> Iterator[dict[str, Any] | str]:
    """The events of a file that are in the time asked for, and what a line is that is none."""
    first, read = "", 0
    try:
        with path.open("rb") as file:
            for number, event in events_in(file):
                if isinstance(event, str):
                    told = f"line {number} is {event}"
                    first = first or told
                    yield told
                else:
                    read += 1
                    if wanted.in_time(event):
                        yield event
    except OSError as error:
        raise GuardError(f"the audit {path} can't be read: {error.strerror}") from error
    if first and not read:
        raise GuardError(f"{path} is not an audit ({first}): name a file that a guard's audit wrote")


def _answer(events: Iterable[dict[str, Any] | str], wanted: _Wanted, *, latest_first: bool = False) -> AuditAnswer:
    limit, checked = wanted.question.limit, 0
    found: deque[dict[str, Any]] = deque(maxlen=limit)
    gaps: list[dict[str, Any]] = []
    unreadable: list[str] = []
    for event in events:
        if isinstance(event, str):
            unreadable.append(event)
        elif event["kind"] == GAP:
            gaps.append(event)
        elif event["kind"] in (CHECK, CORRECTION):
            checked += event["kind"] == CHECK
            if not (latest_first and len(found) == limit) and wanted.matches(event):
                found.append(event)
    if latest_first:
        found.reverse()
        gaps.reverse()
    return AuditAnswer(tuple(found), tuple(gaps), tuple(unreadable), checked)


def events_in(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the number of each line, from 1, with its event, or with what it is instead; empty lines are left out.

    >>> [*events_in([b"5"])]
    [(1, 'not an event of an audit: it is 5, not an object with keys')]
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = read_json(line)
        except ValueError:
            cut = "" if line.endswith(b"\n") else "; the last line: cut off by a crash, or still being written"
            yield number, f"not JSON{cut}"
            continue
        problem = problem_of(event)
        yield number, event if problem is None else f"not an event of an audit: {problem}"


def problem_of(record: object) -> str | None:
    """What is wrong with a record of an audit; None where it can be read.

    >>> problem_of({"kind": "check", "time": "2025-01-01T00:00:00+00:00", "reasons": 5})
    'reasons is 5, not a list'
    """
    from turnwise.guard.stored_checks import StoredEvent, read_as

    try:
        read_as(StoredEvent, record, "")
    except GuardMetadataError as error:
        return str(error)
    return None


def missing_in(gap: Mapping[str, Any]) -> int:
    """How many events an event of the kind ``gap`` says are missing."""
    return (gap.get("dropped") or 0) + (gap.get("unwritten") or 0)


def verify_audit(location: str | Path, *, expected: str | None = None, first: int = 1) -> Verification:
    """Return where the chain of an audit breaks, if it does.

    Files that rotation moved away are part of a file's chain: those beside it whose names begin like its own.
    Where the environment variable ``TURNWISE_AUDIT_KEY`` is set, hashes have to be made with that key.

    Args:
        location: as for `read_audit`.
        expected: a hash that has to occur in the chain, such as the head of an earlier verification.
        first: number of the first event, from 1, where files with earlier ones were deleted.

    Raises:
        GuardError: the file can't be read.
        StoreError: the store can't be opened.
    """
    place = audit_at(location)
    if isinstance(place, Path):
        try:
            return verify_file(place, expected=expected, first=first)
        except OSError as error:
            raise GuardError(f"the audit {location} can't be read: {error.strerror}") from error
    sink = StoreSink(place, create=False)
    try:
        return sink.verify(expected, first)
    finally:
        sink.close()


def erase_audit(location: str | Path, wanted: Wanted, why: str, clock: Clock = utc_now) -> Erased:
    """Erase the personal parts of the wanted events of an audit; an event appended to it says so, and `why`."""
    place = audit_at(location)
    sink = JsonLinesSink(place, clock=clock) if isinstance(place, Path) else StoreSink(place, clock, create=False)
    return erase_in(sink, str(location), wanted, why)


def audit_at(location: str | Path) -> Path | str:
    """The file of an audit, or the location of the store that has it; an SQLite file is a store."""
    if str(location).startswith(_SERVERS):
        return str(location)
    try:
        path = to_path(str(location).removeprefix("sqlite:///"), home=True)
        with path.open("rb") as file:
            return str(path) if file.read(len(_SQLITE)) == _SQLITE else path
    except OSError as error:
        raise GuardError(f"the audit {location} can't be read: {error.strerror}") from error


def names_of(name: str | None) -> tuple[str, ...]:
    """How a name may have been written: as it is, or as its pseudonym."""
    return () if name is None else (name, pseudonym(name))


def spellings_of(name: str | None) -> tuple[str, ...]:
    """How a session or person may have been written: under the name asked for, or the form sessions know."""
    return () if name is None else (*names_of(name), *names_of(short_id(canonical_name(name))))


def _fired(record: Mapping[str, Any], guardrail: str) -> bool:
    details = record.get("guardrails")
    detail = details.get(guardrail) if isinstance(details, Mapping) else None
    return isinstance(detail, Mapping) and (
        detail.get("found") is True or detail.get("status") in ("failed", "not_read")
    )


def export_csv(events: Iterable[Mapping[str, Any]], path: str | Path) -> int:
    """Write checks to a CSV file, replacing one that is there, and return how many rows.

    Args:
        events: events of an audit, such as `AuditAnswer.events`.
        path: the file.

    Raises:
        GuardError: the file can't be written.
    """
    count = 0
    try:
        with to_path(path).open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(CSV_COLUMNS)
            for event in events:
                writer.writerow([cell(value) for value in _row(event)])
                count += 1
    except OSError as error:
        raise GuardError(f"can't write {path}: {error.strerror}") from error
    return count


def _row(event: Mapping[str, Any]) -> list[Any]:
    sides, stance, details = (_mapping(event.get(key)) for key in ("participants", "stance", "guardrails"))
    failed, not_read = (
        [name for name, detail in details.items() if _mapping(detail).get("status") == status]
        for status in ("failed", "not_read")
    )
    derived = {
        "initiator": sides.get("initiator"),
        "responder": sides.get("responder"),
        "reasons": "; ".join(map(str, event.get("reasons") or ())),
        "warnings": "; ".join(map(str, event.get("warnings") or ())),
        "failed": "; ".join(failed),
        "not_read": "; ".join(not_read),
        "stance": stance.get("mode"),
        "trust": stance.get("trust"),
    }
    return [derived[name] if name in derived else event.get(name) for name in CSV_COLUMNS]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
