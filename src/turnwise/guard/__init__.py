"""The guard: guardrails in front of and behind a live model, with the whole conversation in view.

What is where, in the order in which a check runs:

- `pipeline`: `GuardrailPipeline`, the door, with the `checks` that it makes; `config` reads its configuration
  (`written_values`: errors with line and key), `setup` builds it; `rate_limits` counts prompts;
- `texts`: a prompt, response, call or result becomes part of its turn and is checked (`tool_texts`: arguments of
  calls, and what stands beside messages); `messages`: lists of messages; `stream` and `stream_window`: a response
  in pieces;
- `running`: guardrails run over a text and the names that come with it, and what they say is kept;
- `step`: a guardrail in its place, and how a check runs or is awaited; `threads`: where it runs;
- `guardrail`: what a guardrail is and sees, and those that there are; `finding`: what it says;
- `results`: what a check gives back; `turn_checks`: what its turn keeps; `stored_checks`: that read from JSON;
- `guard_session` and `forgetting`: what an operator asks for; `kit`: tests for your own guardrail;
- `guardrails` and their `recognisers`; `scorer`: scores and levels for guardrails that ask an observer;
- `names`: the one form of a name; `state`: what survives a restart; `audit`: what is written of each check.
"""

from turnwise.guard.audit import (
    AuditAnswer,
    AuditEvent,
    AuditQuestion,
    AuditSettings,
    AuditSink,
    AuditStatus,
    AuditWriter,
    Verification,
    export_csv,
    read_audit,
    verify_audit,
)
from turnwise.guard.config import Config, build_guardrail
from turnwise.guard.finding import CLEAN, Action, Cost, EarlierPart, Finding, On, OnError, Redaction, TextKind
from turnwise.guard.forgetting import Forgotten
from turnwise.guard.guard_session import GuardSession
from turnwise.guard.guardrail import (
    GUARDRAILS,
    AsyncGuardrail,
    Check,
    Guardrail,
    GuardrailInfo,
    ToolText,
    describe_guardrails,
    guardrail,
    guardrail_names,
)
from turnwise.guard.kit import check_guardrail, finding_of
from turnwise.guard.pipeline import GuardrailPipeline
from turnwise.guard.results import Correction, Detail, GuardrailBlocked, GuardrailStatus, Outcome, PipelineResult
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
from turnwise.guard.texts import NO_CONVERSATION, NoConversation
from turnwise.guard.tool_texts import approve_tools
from turnwise.sessions import MemoryStateStore, StateStore

__all__ = [
    "CLEAN",
    "GUARDRAILS",
    "NO_CONVERSATION",
    "Action",
    "AsyncGuardrail",
    "AsyncOutputStream",
    "AuditAnswer",
    "AuditEvent",
    "AuditQuestion",
    "AuditSettings",
    "AuditSink",
    "AuditStatus",
    "AuditWriter",
    "Check",
    "Config",
    "Correction",
    "Cost",
    "Detail",
    "EarlierPart",
    "Finding",
    "Forgotten",
    "GuardSession",
    "Guardrail",
    "GuardrailBlocked",
    "GuardrailInfo",
    "GuardrailPipeline",
    "GuardrailStatus",
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
    "Step",
    "TextKind",
    "ToolText",
    "Verification",
    "approve_tools",
    "build_guardrail",
    "check_guardrail",
    "check_state_store",
    "describe_guardrails",
    "export_csv",
    "finding_of",
    "guardrail",
    "guardrail_names",
    "open_state_store",
    "read_audit",
    "verify_audit",
]
