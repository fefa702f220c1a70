"""What a check gives back to the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnwise.guard.records import Detail, Pipeline, Record, Status
from turnwise.sessions import Stance


@dataclass(frozen=True, slots=True, eq=False)
class PipelineResult(Record):
    """The verdict of a pipeline on one text. Every field can be read as an attribute and as a key.

    Args:
        blocked: whether the text must not go on.
        warnings: ``"name: reason"`` of every guardrail that warned.
        reasons: ``"name: reason"`` of every guardrail that blocked.
        details: what each guardrail said, by name.
        pipeline_type: ``input`` or ``output``.
        conversation_id: the conversation that the text belongs to.
        turn_number: its turn, from 1; None where the rate limit refused it.
        stance: the stance towards the session, where a guardrail knows it; as a key a mapping.
        text: the text, redacted where a guardrail redacts.
        rate_limited: whether a rate limit refused it, so that no guardrail ran.
        seconds: how long the check took.
    """

    blocked: bool
    warnings: list[str]
    reasons: list[str]
    details: Mapping[str, Detail]
    pipeline_type: Pipeline
    conversation_id: str
    turn_number: int | None
    stance: Stance | None
    text: str
    rate_limited: bool = False
    seconds: float = 0.0

    derived = ("failures",)

    @property
    def failures(self) -> list[str]:
        """``"name: reason"`` of every guardrail that failed to check the text, whichever way it went."""
        failed = ((name, detail) for name, detail in self.details.items() if detail.status is Status.FAILED)
        return [f"{name}: {detail.reason}" for name, detail in failed]
