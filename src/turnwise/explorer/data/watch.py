"""A guard at work: its audit in a file or a store as it grows, and the conversations of a running service."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise.errors import GuardError, UsageError
from turnwise.guard.audit.reader import missing_in, problem_of
from turnwise.guard.audit.record import CHECK, GAP
from turnwise.operations.following import GrowingFile

if TYPE_CHECKING:
    from turnwise.store import Store

KEPT: Final = 2_000
"""Events that a watch keeps; older ones make room."""

_TAIL: Final = 4_000_000
"""Bytes of a file that are read at first."""

_SERVICE_SECONDS: Final = 5.0
_MOST_ANSWER: Final = 16_000_000
"""Bytes of an answer of a service that are read."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One conversation as an audit knows it; stance and time (ISO 8601) are the latest that are known."""

    conversation_id: str
    who: str
    turns: int  # number of the last one
    blocked: int
    stance: str
    latest: str


class AuditWatch:
    """The latest checks of an audit, oldest first, and how many events are missing by its own account.

    `place` is a file of JSON lines, or an open store, which its caller closes. A file that was begun anew is read
    from its start.
    """

    def __init__(self, place: str | Path | Store) -> None:
        self._store = None if isinstance(place, str | Path) else place
        self._row = 0
        self.events: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.missing = 0
        if isinstance(place, str | Path):
            self._file = GrowingFile(to_path(place, home=True), _TAIL)
            weakref.finalize(self, self._file.close)  # a page that is left does not say so
            self._of_file(read=False)

    def look(self) -> int:
        """Take in what came, and return how many checks that were; TurnwiseError where it can't be read."""
        came = self._of_file() if self._store is None else self._of_store(self._store)
        numbers = [n for record in came if isinstance(n := record.get("n"), int)]
        if numbers:
            # A file that was written anew, with texts erased, is read once more.
            kept = [event for event in self.events if not event.get("n", 0) >= numbers[0]]
            self.events = deque(kept, maxlen=KEPT)
        for record in came:
            if record["kind"] == GAP:
                self.missing += missing_in(record)
            elif record["kind"] == CHECK:
                self.events.append(record)
        return sum(record["kind"] == CHECK for record in came)

    def _of_file(self, *, read: bool = True) -> list[dict[str, Any]]:
        path = self._file.path
        try:
            path.stat()
            return list(self._file.more()) if read else []
        except OSError as error:
            raise GuardError(f"the audit {path} can't be read ({error.strerror}): check its file") from error

    def _of_store(self, store: Store) -> list[dict[str, Any]]:
        found = store.audit.after(self._row, KEPT)
        self._row = found[-1][0] if found else self._row
        return [record for _, record in found if problem_of(record) is None]

    def conversations(self) -> list[Watched]:
        """The conversations of these events, the latest first."""
        by_name: dict[str, list[dict[str, Any]]] = {}
        for event in self.events:
            by_name.setdefault(str(event.get("conversation_id")), []).append(event)
        found = [_watched(name, events) for name, events in by_name.items()]
        return sorted(found, key=lambda one: one.latest, reverse=True)

    def checks(self, conversation_id: str) -> list[dict[str, Any]]:
        """The checks of a conversation, oldest first."""
        return [event for event in self.events if str(event.get("conversation_id")) == conversation_id]


def _watched(name: str, events: list[dict[str, Any]]) -> Watched:
    last = events[-1]
    stances = [event["stance"] for event in events if event.get("stance")]
    stance: Mapping[str, Any] = stances[-1] if stances else {}
    return Watched(
        name,
        str((last.get("participants") or {}).get("initiator") or ""),
        max((event.get("turn") or 0 for event in events), default=0),
        sum(event.get("blocked") is True for event in events),
        str(stance.get("mode") or ""),
        str(last["time"]),
    )


class ServiceWatch:
    """The conversations of a running ``turnwise serve``, read over HTTP with its API key (empty for none).

    The address is given by whoever starts the explorer, never by the page, so that the page opens no other doors.
    """

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise UsageError("give the address of a service, such as http://127.0.0.1:8080, without a login")
        self.url = url.rstrip("/")
        self.key = key

    def conversations(self) -> list[dict[str, Any]]:
        """What the service holds: of each conversation its id, turns, and when it was last active."""
        found = self._get("/v1/conversations")
        return list(_mappings(found.get("conversations")))

    def forensics(self, conversation_id: str) -> dict[str, Any]:
        """The forensic analysis of a conversation, with its texts as the service keeps them."""
        return self._get(f"/v1/conversations/{quote(conversation_id, safe='')}/forensics?texts=true")

    def _get(self, path: str) -> dict[str, Any]:
        import httpx

        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            with (
                httpx.Client(timeout=_SERVICE_SECONDS, trust_env=False) as client,
                client.stream("GET", self.url + path, headers=headers) as answer,
            ):
                body = b""
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > _MOST_ANSWER:
                        raise GuardError(f"{self.url} answers too much: at most {_MOST_ANSWER:,} bytes are read")
        except (httpx.HTTPError, UnicodeEncodeError) as error:
            raise GuardError(f"{self.url} does not answer: {type(error).__name__}") from error
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise GuardError(f"{self.url} asks for an API key: give one that it knows")
        if answer.status_code == httpx.codes.FORBIDDEN:
            raise GuardError(
                f"{self.url} gives this key no reasons: use an operator's, set explain: true for its tenant, "
                "or start it with --explain"
            )
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise GuardError(f"{self.url} no longer has this conversation; choose another one")
        try:
            found = read_json(body)
        except ValueError:
            found = None
        if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
            raise GuardError(f"{self.url} answers with status {answer.status_code}; it must be a turnwise service")
        return found


def _mappings(values: object) -> Iterable[dict[str, Any]]:
    return (one for one in values if isinstance(one, dict)) if isinstance(values, list) else ()
