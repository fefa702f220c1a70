"""Session memory, what outlives a conversation: trust, boundary testing, circuit breaker, stance."""

from turnwise.sessions.breaker import BreakerState, Phase, next_breaker
from turnwise.sessions.live import Evicted, MemoryStateStore, Sessions, StateStore
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.refusal import is_refusal
from turnwise.sessions.rules import Friction, SessionTrajectory, boundary_testing, direction, friction
from turnwise.sessions.settings import (
    DEFAULT_PRESET,
    BoundarySettings,
    BreakerSettings,
    PresetInfo,
    SessionSettings,
    TrajectorySettings,
    preset,
    presets,
)
from turnwise.sessions.stance import EngagementMode, Stance, TrustLevel, assess
from turnwise.sessions.state import BreakerCounts, ExchangeCounts, SessionState

__all__ = [
    "DEFAULT_PRESET",
    "BoundarySettings",
    "BreakerCounts",
    "BreakerSettings",
    "BreakerState",
    "EngagementMode",
    "Evicted",
    "ExchangeCounts",
    "Friction",
    "MemoryStateStore",
    "Phase",
    "PresetInfo",
    "SessionMemory",
    "SessionSettings",
    "SessionState",
    "SessionTrajectory",
    "Sessions",
    "Stance",
    "StateStore",
    "TrajectorySettings",
    "TrustLevel",
    "assess",
    "boundary_testing",
    "direction",
    "friction",
    "is_refusal",
    "next_breaker",
    "preset",
    "presets",
]
