"""Session memory, what outlives a conversation: trust, boundary testing, circuit breaker, stance."""

from turnwise.sessions.breaker import BreakerState, Phase, next_breaker
from turnwise.sessions.evidence import PERSON, Evidence, PersonRecord
from turnwise.sessions.live import Sessions
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.memory_state_store import MemoryStateStore
from turnwise.sessions.refusal import is_refusal
from turnwise.sessions.reply_outcome import (
    Outcomes,
    ReplyOutcome,
    first_break,
    nearest_break,
    outcome_of,
    outcomes_of,
)
from turnwise.sessions.settings import (
    DEFAULT_PRESET,
    BoundarySettings,
    BreakerSettings,
    EvidenceSettings,
    PresetInfo,
    SessionSettings,
    TrajectorySettings,
    preset,
    presets,
)
from turnwise.sessions.stance import (
    EngagementMode,
    Friction,
    SessionTrajectory,
    Stance,
    TrustLevel,
    assess,
    boundary_testing,
    direction,
    friction,
)
from turnwise.sessions.state import SESSION, BreakerCounts, ExchangeCounts, SessionState
from turnwise.sessions.state_store import Change, Evicted, StateKind, StateStore

__all__ = [
    "DEFAULT_PRESET",
    "PERSON",
    "SESSION",
    "BoundarySettings",
    "BreakerCounts",
    "BreakerSettings",
    "BreakerState",
    "Change",
    "EngagementMode",
    "Evicted",
    "Evidence",
    "EvidenceSettings",
    "ExchangeCounts",
    "Friction",
    "MemoryStateStore",
    "Outcomes",
    "PersonRecord",
    "Phase",
    "PresetInfo",
    "ReplyOutcome",
    "SessionMemory",
    "SessionSettings",
    "SessionState",
    "SessionTrajectory",
    "Sessions",
    "Stance",
    "StateKind",
    "StateStore",
    "TrajectorySettings",
    "TrustLevel",
    "assess",
    "boundary_testing",
    "direction",
    "first_break",
    "friction",
    "is_refusal",
    "nearest_break",
    "next_breaker",
    "outcome_of",
    "outcomes_of",
    "preset",
    "presets",
]
