"""The guard: guardrails in front of and behind a live model, with the whole conversation in view."""

from turnwise.guard.guardrail import (
    CLEAN,
    Action,
    Check,
    Cost,
    Finding,
    Guardrail,
    GuardrailInfo,
    On,
    OnError,
    Redaction,
    TextKind,
    ToolText,
    describe_guardrails,
    guardrail,
    guardrail_names,
)
from turnwise.guard.kit import check_guardrail, finding_of
from turnwise.guard.pipeline import GuardrailPipeline
from turnwise.guard.records import Detail, PipelineResult, Status
from turnwise.guard.step import Step
from turnwise.guard.stream import AsyncOutputStream, OutputStream

__all__ = [
    "CLEAN",
    "Action",
    "AsyncOutputStream",
    "Check",
    "Cost",
    "Detail",
    "Finding",
    "Guardrail",
    "GuardrailInfo",
    "GuardrailPipeline",
    "On",
    "OnError",
    "OutputStream",
    "PipelineResult",
    "Redaction",
    "Status",
    "Step",
    "TextKind",
    "ToolText",
    "check_guardrail",
    "describe_guardrails",
    "finding_of",
    "guardrail",
    "guardrail_names",
]
