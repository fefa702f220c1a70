"""The guard: guardrails in front of and behind a live model, with the whole conversation in view."""

from turnwise.guard.functions import AsyncGuardrail, guardrail
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
    guardrail_names,
)
from turnwise.guard.kit import check_guardrail, finding_of
from turnwise.guard.pipeline import GuardrailPipeline
from turnwise.guard.records import Detail, GuardrailBlocked, Outcome, PipelineResult, Status
from turnwise.guard.request import NO_CONVERSATION, NoConversation
from turnwise.guard.session import Forgotten, GuardSession
from turnwise.guard.setup import Mode
from turnwise.guard.state import (
    RedisStateStore,
    SqliteStateStore,
    StateStatus,
    check_state_store,
    open_state_store,
)
from turnwise.guard.step import Step
from turnwise.guard.stream import AsyncOutputStream, OutputStream
from turnwise.sessions import MemoryStateStore, StateStore

__all__ = [
    "CLEAN",
    "NO_CONVERSATION",
    "Action",
    "AsyncGuardrail",
    "AsyncOutputStream",
    "Check",
    "Cost",
    "Detail",
    "Finding",
    "Forgotten",
    "GuardSession",
    "Guardrail",
    "GuardrailBlocked",
    "GuardrailInfo",
    "GuardrailPipeline",
    "MemoryStateStore",
    "Mode",
    "NoConversation",
    "On",
    "OnError",
    "Outcome",
    "OutputStream",
    "PipelineResult",
    "Redaction",
    "RedisStateStore",
    "SqliteStateStore",
    "StateStatus",
    "StateStore",
    "Status",
    "Step",
    "TextKind",
    "ToolText",
    "check_guardrail",
    "check_state_store",
    "describe_guardrails",
    "finding_of",
    "guardrail",
    "guardrail_names",
    "open_state_store",
]
