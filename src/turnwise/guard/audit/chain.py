"""The hash chain of an audit: each event carries a hash over itself and the event before.

The personal part of an event goes into the hash as one digest, salted with a salt that stands beside it. Part
and salt can be erased: the digest that stays tells nothing, and the event's hash and the chain still hold.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.guard.audit.record import VERSION, time_text

ERASURE, TORN = "erasure", "torn"
"""Kinds of events: parts of earlier events were erased, and a line that was cut off stands before this one."""

KEY_VARIABLE: Final = "TURNWISE_AUDIT_KEY"
"""Environment variable with a secret: without it nobody can make hashes that verify."""

START: Final = "0" * 64  # stands for the hash before the first event

_OF_CHECKS: Final = (
    "pipeline",
    "tenant",
    "model",
    "turn",
    "side",
    "outcome",
    "blocked",
    "warned",
    "rate_limited",
    "would_block",
)
_OF_OTHERS: Final = ("dropped", "policy", "unwritten", "error", "bytes", "events", "why", "rule", "to", "status")
KEPT: Final = frozenset(("v", "kind", "time", "n", *_OF_CHECKS, "seconds", "characters", *_OF_OTHERS))
"""Keys that are no personal data. What is under any other can be erased."""

_CHAIN: Final = frozenset(("prev", "salt", "personal", "erased", "hash"))


class ChainHead(NamedTuple):
    """The number, from 1, and the hash of the last event of a chain; the defaults stand for an empty chain."""

    n: int = 0
    hash: str = START

    @classmethod
    def of(cls, record: Mapping[str, Any] | None) -> ChainHead | None:
        """The head that an event makes; None where it is not part of a chain."""
        n, own = (None, None) if record is None else (record.get("n"), record.get("hash"))
        return cls(n, own) if type(n) is int and isinstance(own, str) else None


def secret() -> bytes:
    """The secret from the environment; empty where there is none."""
    return os.environ.get(KEY_VARIABLE, "").encode("utf-8", "surrogateescape")


text_of: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
"""Returns an event as its line has it, in ASCII, without the end of the line."""


class Sealed(NamedTuple):
    """An event with its hash: as a record, as the line to write, and as the new head of the chain."""

    record: dict[str, Any]
    text: str
    head: ChainHead


def sealed(records: Iterable[Mapping[str, Any]], head: ChainHead, key: bytes) -> list[Sealed]:
    """Chain events to `head`, the event before them; `key` is the secret, empty for none."""
    chained = []
    for record in records:
        kept, personal = _parted(record)
        kept["n"] = head.n + 1
        salt, before, own = secrets.token_hex(16), text_of(kept), text_of(personal)
        ring = {"prev": head.hash, "salt": salt, "hash": _hash(head.hash, before, _digest(salt, own), key)}
        text = ",".join(part[1:-1] for part in (before, own, text_of(ring)) if part != "{}")
        head = ChainHead(head.n + 1, ring["hash"])
        chained.append(Sealed({**kept, **personal, **ring}, f"{{{text}}}\n", head))
    return chained


def record_in(line: bytes) -> dict[str, Any] | None:
    """The event in a line; None where there is none."""
    try:
        record = read_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


Wanted = Callable[[Mapping[str, Any]], bool]
"""Tells whether the personal parts of an event are to be erased."""


class Erasing:
    """Erases the personal parts of the events that are wanted, and makes the event that tells of it, and why."""

    def __init__(self, wanted: Wanted, why: str, now: datetime) -> None:
        self._wanted = wanted
        self._why = why
        self._time = time_text(now)
        self._numbers: list[int] = []

    def left_of(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is left of an event, its hash unchanged; None for one that stays as it is."""
        if "erased" in record or not self._wanted(record):
            return None
        kept, personal = _parted(record)
        left, head = {**kept, "erased": self._time}, ChainHead.of(record)
        if head is not None:
            self._numbers.append(head.n)
            digest = _digest(str(record.get("salt")), text_of(personal))
            left |= {"prev": record.get("prev"), "personal": digest, "hash": record["hash"]}
        return left

    def event(self) -> dict[str, Any]:
        """The event that tells of the erasure."""
        numbers = ranges(self._numbers)
        return {"v": VERSION, "kind": ERASURE, "time": self._time, "why": self._why, "events": numbers}


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Whole numbers as the first and last of each run.

    >>> ranges([7, 1, 2, 3])
    [[1, 3], [7, 7]]
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _parted(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    kept = {name: value for name, value in record.items() if name in KEPT}
    return kept, {name: value for name, value in record.items() if name not in KEPT and name not in _CHAIN}


def _digest(salt: str, personal: str) -> str:
    return sha256(f"{salt}{personal}".encode("ascii")).hexdigest()


def _hash(before: str, kept: str, digest: str, key: bytes) -> str:
    return hmac.digest(key, f"{before}{kept}{digest}".encode("ascii"), "sha256").hex()


class Damage(NamedTuple):
    """Where a chain breaks, and what is wrong there.

    `place` is file and line, or row, such as ``audit.jsonl, line 7``; the audit's name where all of it is meant.
    """

    place: str
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What verifying an audit found.

    Keep the hash of `head`, the last event, somewhere else: then nobody can rewrite what came before it
    unnoticed. `events` counts what is part of the chain, `erased` those of them without their personal parts.
    `notes` are no damage, such as a line that a crash cut off.
    """

    events: int
    erased: int
    head: ChainHead
    damage: tuple[Damage, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def intact(self) -> bool:
        """Whether there is a chain and it breaks nowhere."""
        return self.events > 0 and not self.damage

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "intact": self.intact,
            "events": self.events,
            "erased": self.erased,
            "head": self.head._asdict(),
            "damage": [one._asdict() for one in self.damage],
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class ChainReader:
    """Follows a chain line by line, or row by row, and notes where it breaks."""

    key: bytes  # the secret of its hashes, empty for none
    expected: str | None = None  # a hash that has to occur in it
    first: int = 1  # number of its first event, where earlier ones are known to be gone
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    last: ChainHead = field(init=False)
    _sure: bool = field(init=False)  # `last` is what the line before says, which was intact
    _unchained: int = 0
    _unreadable: str | None = None
    _erased: dict[int, tuple[str, str]] = field(default_factory=dict)
    _erasures: list[tuple[str, Sequence[Sequence[int]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last, self._sure = ChainHead(self.first - 1), self.first == 1

    def line(self, place: str, line: bytes) -> None:
        """Follow a line, given with its line end."""
        record = record_in(line)
        if record is None:
            self._told_unreadable()
            self._unreadable = place
        elif ChainHead.of(record) is None:
            self.record(place, record)
        else:
            self.record(place, record, changed=line.rstrip(b"\n") != text_of_any(record))

    def record(self, place: str, record: Mapping[str, Any], *, changed: bool = False) -> None:
        """Follow an event; `changed` where its line is known not to be as we write it."""
        if record.get("kind") == TORN and self._unreadable is not None:
            self.notes.append(f"{self._unreadable} was cut off while it was written; the next writer says so")
            self._unreadable = None
        self._told_unreadable()
        head = ChainHead.of(record)
        if head is None:
            self._unchained += 1
            if self.events:
                self._broken(place, "it carries no hash")
            return
        self.events += 1
        try:
            changed = changed or not self._authentic(record)
        except ValueError:  # what no event of ours holds, such as a number that is none
            changed = True
        if changed:
            self._broken(place, "it was changed")
            return
        if head.hash == self.expected:
            self.expected = None
        if "erased" in record:
            self._erased[head.n] = (place, str(record["erased"]))
        if record.get("kind") == ERASURE:
            self._erasures.append((str(record.get("time")), record.get("events") or ()))
        if head.n <= self.last.n:
            self.damage.append(Damage(place, f"event {head.n} stands here after event {self.last.n}"))
            return
        if head.n > self.last.n + 1:
            missing = str(self.last.n + 1) if head.n == self.last.n + 2 else f"{self.last.n + 1} to {head.n - 1}"
            self.damage.append(Damage(place, f"before it events are missing: {missing}"))
        elif self._sure and record["prev"] != self.last.hash:
            what = f"it does not follow event {self.last.n}: one of the two was written anew"
            self.damage.append(Damage(place, what))
        self.last, self._sure = head, True

    def _authentic(self, record: Mapping[str, Any]) -> bool:
        kept, personal = _parted(record)
        erased = "erased" in record
        if erased is not ("personal" in record) or (erased and (personal or "salt" in record)):
            return False
        digest = str(record["personal"]) if erased else _digest(str(record.get("salt")), text_of(personal))
        return bool(_hash(str(record.get("prev")), text_of(kept), digest, self.key) == record["hash"])

    def _broken(self, place: str, what: str) -> None:
        """Note damage to a line that counts as one event; the next event is not compared with it."""
        self.damage.append(Damage(place, what))
        self.last, self._sure = ChainHead(self.last.n + 1, self.last.hash), False

    def _told_unreadable(self) -> None:
        if self._unreadable is not None:
            place, self._unreadable = self._unreadable, None
            self._broken(place, "it is not JSON")

    def end(self, name: str, kept: ChainHead | None = None, *, cut_off: bool = False) -> Verification:
        """What was found; `kept` is the last event by the file beside the audit, None without one."""
        if self._unreadable is not None and cut_off and (kept is None or kept.n <= self.last.n):
            self.notes.append(f"{self._unreadable}, the last one, was cut off while it was written")
            self._unreadable = None
        self._told_unreadable()
        if not self.events:
            self.notes.append(f"{name} has no chain: none of its {self._unchained} events carries a hash")
        elif self._unchained:
            self.notes.append(f"{self._unchained} events carry no hash")
        if kept is not None and kept.n > self.last.n:
            what = f"the end is missing: {kept.n} events were written, and event {self.last.n} is the last"
            self.damage.append(Damage(name, what))
        if self.expected is not None:
            self.damage.append(
                Damage(name, f"no event has the hash {self.expected}: it was written anew or cut off")
            )
        for n, (place, time) in self._erased.items():
            if not any(at == time and any(a <= n <= b for a, b in runs) for at, runs in self._erasures):
                self.damage.append(Damage(place, f"it says that it was erased, and no event of {time} says so"))
        return Verification(self.events, len(self._erased), self.last, tuple(self.damage), tuple(self.notes))


def text_of_any(record: Mapping[str, Any]) -> bytes:
    """The line of an event that somebody else may have written; empty where it can't be one."""
    try:
        return text_of(record).encode("ascii")
    except ValueError:
        return b""
