"""A check as the audit is told of it, and as it is written: JSON values without personal data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Protocol, Self

from turnwise.conversation import Conversation
from turnwise.guard.audit.privacy import Redact, private_name
from turnwise.guard.records import Detail, PipelineResult, Status

VERSION: Final = 1
"""Of what is written; a later one may have other keys."""

CHECK, GAP = "check", "gap"
"""Kinds of events: one check, and a number of events that are missing."""

_DEPTH = 12
"""Levels of nesting that are written; deeper values are left out."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One check, as it is handed to the audit. The key of a rate limit is no part of it.

    Args:
        result: what the caller was given.
        details: what each guardrail said, by name; a copy, since the caller may change what was given.
        pipeline: name of the pipeline.
        session_id: the session that the text belongs to.
        participants: names and types of both sides of the conversation.
        model: ``model_id`` of the conversation, where it is known.
        timestamp: when the check ended, aware.
    """

    result: PipelineResult
    details: tuple[tuple[str, Detail], ...]
    pipeline: str
    session_id: str
    participants: dict[str, str]
    model: str | None
    timestamp: datetime

    @classmethod
    def of(
        cls, result: PipelineResult, session_id: str, conversation: Conversation, pipeline: str, now: datetime
    ) -> Self:
        """Return the event of a check."""
        model = conversation.model_info.get("model_id")
        return cls(
            result=result,
            details=tuple(result.details.items()),
            pipeline=pipeline,
            session_id=session_id,
            participants=conversation.participants,
            model=model if isinstance(model, str) else None,
            timestamp=now,
        )


class AuditSink(Protocol):
    """Takes events. `write` must not wait for a disk or a network, and raises nothing."""

    def write(self, event: AuditEvent) -> None:
        """Take an event."""

    def close(self) -> None:
        """Write what is still held, and close. Closing twice is harmless; events after that are left out."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Makes the record of an event.

    Args:
        text: ``redacted``, ``hash`` or ``raw``.
        redact: takes out what must not be written.
    """

    text: str
    redact: Redact

    def __call__(self, event: AuditEvent) -> dict[str, Any]:
        """Return what is written of a check, as JSON values; docs/audit-and-forensics.md names the keys."""
        result, details = event.result, event.details
        sides = event.participants
        return {
            "v": VERSION,
            "kind": CHECK,
            "time": time_text(event.timestamp),
            "pipeline": event.pipeline,
            "conversation_id": self._name(result.conversation_id),
            "session_id": self._name(event.session_id),
            "participants": {
                key: self._name(value) if key in ("initiator", "responder") else value
                for key, value in sides.items()
            },
            "model": None if event.model is None else self._name(event.model),
            "turn": result.turn_number,
            "side": str(result.pipeline_type),
            "blocked": result.blocked,
            "warned": any(detail.warned for _, detail in details),
            "rate_limited": result.rate_limited,
            "reasons": [self.redact(f"{name}: {detail.reason}") for name, detail in details if detail.blocked],
            "warnings": [self.redact(f"{name}: {detail.reason}") for name, detail in details if detail.warned],
            "guardrails": {name: self._detail(detail) for name, detail in details},
            "stance": None if result.stance is None else self._plain(result.stance.to_dict()),
            "seconds": round(result.seconds, 7),
            **self._text(result.text, rate_limited=result.rate_limited),
        }

    def _name(self, name: str) -> str:
        # As in texts: half a surrogate pair becomes its code point, since no database column takes it.
        return private_name(name.encode("utf-8", "backslashreplace").decode(), self.redact)

    def _text(self, text: str, *, rate_limited: bool) -> dict[str, Any]:
        written: dict[str, Any] = {"text": None, "text_sha256": None, "characters": len(text)}
        if self.text == "hash" or rate_limited:
            # The conversation has the same hash of a refused prompt, and nothing else of it.
            written["text_sha256"] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        elif self.text == "redacted":
            # No hash beside it: nine missing digits are found from a hash within the hour.
            written["text"] = self.redact(text)
        if self.text == "raw":
            written["text"] = text
        return written

    def _detail(self, detail: Detail) -> dict[str, Any]:
        shown: dict[str, Any] = {"status": str(detail.status), "seconds": round(detail.seconds, 7)}
        if detail.status is not Status.EVALUATED or detail.found:
            shown |= {"reason": self.redact(detail.reason), "blocked": detail.blocked, "found": detail.found}
            shown["action"] = None if detail.action is None else str(detail.action)
            shown["path"] = None if detail.path is None else str(detail.path)
        if detail.confidence:
            shown["confidence"] = self._plain(detail.confidence)
        if detail.redactions:
            shown["redacted"] = dict(Counter(redaction.kind for redaction in detail.redactions))
        if detail.data is not None:
            shown["data"] = self._plain(detail.data)
        return shown

    def _plain(self, value: object, depth: int = 0) -> Any:
        """Return a value as JSON has it; what JSON lacks becomes null, or the name of its type."""
        if isinstance(value, str):
            return self.redact(str(value))
        if value is None or isinstance(value, int | float):
            return None if value is None or not math.isfinite(value) else value
        if depth >= _DEPTH:
            return None
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self._plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(item, depth + 1) for item in value]
        return type(value).__name__


def gap_record(now: datetime, *, dropped: int, policy: str, unwritten: int, error: str | None) -> dict[str, Any]:
    """Return the record of events that are missing.

    Args:
        now: the present time, aware.
        dropped: events that the full queue had no room for.
        policy: which gave way.
        unwritten: events that the file did not take.
        error: why it did not.
    """
    return {
        "v": VERSION,
        "kind": GAP,
        "time": time_text(now),
        "dropped": dropped,
        "policy": policy,
        "unwritten": unwritten,
        "error": error,
    }


def time_text(time: datetime) -> str:
    """Return a time as it is written: in UTC, so that it sorts as text as it does as time."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")
