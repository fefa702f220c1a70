"""What is kept of a check: small objects that read like JSON objects.

A long conversation keeps these for every turn, so they are slotted objects that become dicts when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from turnwise.guard.guardrail import Action, Redaction
from turnwise.scoring import Score
from turnwise.sessions import Stance


class Pipeline(StrEnum):
    """Which texts a check was about."""

    INPUT = "input"
    OUTPUT = "output"


class Status(StrEnum):
    """What became of a guardrail at a check. Skipped is not checked, and not checked is not clean."""

    EVALUATED = "evaluated"
    SKIPPED = "skipped"
    FAILED = "failed"


class Path(StrEnum):
    """Which way a failed guardrail went."""

    OPEN = "open"
    CLOSED = "closed"


class Record(Mapping[str, Any]):
    """A slotted dataclass that is also a mapping from field to JSON value."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        if key not in _names(type(self)):
            raise KeyError(key)
        return _plain(getattr(self, key))

    def __iter__(self) -> Iterator[str]:
        return iter(_names(type(self)))

    def __len__(self) -> int:
        return len(_names(type(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {name: _plain(getattr(self, name)) for name in self}


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Return the keys of a record: its fields, and what it derives from them."""
    derived: tuple[str, ...] = getattr(kind, "derived", ())
    hidden: tuple[str, ...] = getattr(kind, "hidden", ())
    return tuple(field.name for field in fields(kind) if field.name not in hidden) + derived


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, Record | Stance | Score):
        return value.to_dict()
    if isinstance(value, Redaction):
        return {
            "start": value.start,
            "end": value.end,
            "kind": value.kind,
            "placeholder": value.placeholder,
        }
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value]


@dataclass(frozen=True, slots=True, eq=False)
class Detail(Record):
    """What one guardrail said at one check.

    Args:
        status: evaluated, skipped or failed.
        blocked: whether it blocked the text, by what it found or because it failed.
        found: whether it found something.
        action: what was done about it: block, redact, warn or log; None where nothing was.
        confidence: how sure it is that something is there, in [0, 1].
        reason: what was found, or why it was skipped or failed.
        redactions: what was replaced, by offsets in the text that this guardrail saw.
        seconds: how long it took.
        path: ``open`` where a failed guardrail let the text pass, ``closed`` where it did not; None else.
        data: what else it gave, such as scores.
    """

    status: Status
    blocked: bool = False
    found: bool = False
    action: Action | None = None
    confidence: float = 0.0
    reason: str = ""
    redactions: tuple[Redaction, ...] = ()
    seconds: float = 0.0
    path: Path | None = None
    data: Mapping[str, Any] | None = None

    @property
    def warned(self) -> bool:
        """Whether it gave a warning."""
        return not self.blocked and self.action in (Action.WARN, Action.REDACT)


@dataclass(frozen=True, slots=True, eq=False)
class SideRecord(Record):
    """One check of one side of a turn, as the turn keeps it.

    Args:
        pipeline_type: ``input`` or ``output``.
        timestamp: when the check ended, aware.
        blocked: whether the text was blocked.
        names: names of the guardrails that are part of the check, in the order in which they ran.
        verdicts: what each said, in the same order.
        stance: the stance towards the session after the check, where a guardrail knows it.
    """

    derived = ("warnings", "reasons", "details")
    hidden = ("names", "verdicts")

    pipeline_type: Pipeline
    timestamp: datetime
    blocked: bool
    names: tuple[str, ...]
    verdicts: tuple[Detail, ...]
    stance: Stance | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """``"name: reason"`` of every guardrail that warned."""
        return self._told("warned")

    @property
    def reasons(self) -> tuple[str, ...]:
        """``"name: reason"`` of every guardrail that blocked."""
        return self._told("blocked")

    @property
    def details(self) -> dict[str, Detail]:
        """What each guardrail said, by name."""
        return dict(zip(self.names, self.verdicts, strict=True))

    def _told(self, what: str) -> tuple[str, ...]:
        told = zip(self.names, self.verdicts, strict=True)
        return tuple(f"{name}: {detail.reason}" for name, detail in told if getattr(detail, what))


@dataclass(frozen=True, slots=True, eq=False)
class TurnRecord(Record):
    """The checks of a turn: both sides apart under ``input`` and ``output``, and joined beside them.

    Args:
        input: the last check of the prompt; a mapping where the turn was read from JSON.
        output: the last check of the response.
        last: which of the two came last.
    """

    derived = ("blocked", "warnings", "reasons", "details", "pipeline_type", "timestamp")
    hidden = ("last",)

    input: Mapping[str, Any] | None
    output: Mapping[str, Any] | None
    last: Pipeline

    @property
    def _sides(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(side for side in (self.input, self.output) if side is not None)

    @property
    def _latest(self) -> Mapping[str, Any]:
        side: Mapping[str, Any] = getattr(self, self.last)
        return side

    @property
    def blocked(self) -> bool:
        """Whether either side was blocked."""
        return any(side["blocked"] for side in self._sides)

    @property
    def warnings(self) -> list[str]:
        """Warnings of both sides."""
        return [text for side in self._sides for text in side["warnings"]]

    @property
    def reasons(self) -> list[str]:
        """Reasons of both sides."""
        return [text for side in self._sides for text in side["reasons"]]

    @property
    def details(self) -> dict[str, Any]:
        """What each guardrail said by name; of one that checked both sides, at the last check."""
        joined: dict[str, Any] = {}
        for side in sorted(self._sides, key=lambda side: side["pipeline_type"] == self.last):
            joined.update(side["details"])
        return joined

    @property
    def pipeline_type(self) -> Pipeline:
        """Which side was checked last."""
        return self.last

    @property
    def timestamp(self) -> str:
        """When the last check ended."""
        return str(self._latest["timestamp"])

    @classmethod
    def after(cls, before: Mapping[str, Any] | None, side: SideRecord) -> TurnRecord:
        """Return the checks of a turn after one more.

        Args:
            before: what stood there; None before the first check.
            side: the check.
        """
        sides: dict[str, Any] = dict.fromkeys(Pipeline)
        if isinstance(before, TurnRecord):
            sides = {Pipeline.INPUT: before.input, Pipeline.OUTPUT: before.output}
        elif before is not None:
            sides = {name: before.get(name) for name in Pipeline}
        sides[side.pipeline_type] = side
        return cls(sides[Pipeline.INPUT], sides[Pipeline.OUTPUT], side.pipeline_type)
