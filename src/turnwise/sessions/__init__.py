"""Session memory, what outlives a conversation: trust, boundary testing, circuit breaker, stance."""

from turnwise.sessions.boundary import boundary_testing
from turnwise.sessions.breaker import BreakerSettings, BreakerState, Phase, next_breaker
from turnwise.sessions.friction import Friction, friction
from turnwise.sessions.live import Sessions
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.presets import DEFAULT_PRESET, PresetInfo, preset, presets
from turnwise.sessions.refusal import is_refusal
from turnwise.sessions.settings import BoundarySettings, SessionSettings, TrajectorySettings
from turnwise.sessions.stance import EngagementMode, Stance, TrustLevel, assess
from turnwise.sessions.state import BreakerCounts, ExchangeCounts, SessionState
from turnwise.sessions.store import Evicted, MemoryStateStore, StateStore
from turnwise.sessions.trajectory import SessionTrajectory, direction

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
