"""What the audit is told of a check."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from turnwise.conversation import Conversation
from turnwise.guard.records import Detail
from turnwise.guard.result import PipelineResult


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


class AuditSink(Protocol):
    """Takes events. `write` must not wait for a disk or a network, and raises nothing."""

    def write(self, event: AuditEvent) -> None:
        """Take an event."""

    def close(self) -> None:
        """Write what is still held, and close. Closing twice is harmless; events after that are left out."""


def audited(
    result: PipelineResult, session_id: str, conversation: Conversation, pipeline: str, now: datetime
) -> AuditEvent:
    """Return the event of a check."""
    model = conversation.model_info.get("model_id")
    return AuditEvent(
        result=result,
        details=tuple(result.details.items()),
        pipeline=pipeline,
        session_id=session_id,
        participants=conversation.participants,
        model=model if isinstance(model, str) else None,
        timestamp=now,
    )
