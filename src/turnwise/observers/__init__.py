"""Observers: what scores a turn of a conversation against principles."""

from turnwise.observers.protocol import (
    BoundsRequests,
    CanStop,
    Context,
    ContextMode,
    KeepsReplies,
    Observation,
    ObservationFailure,
    Observer,
    ObserverInfo,
    Request,
    Scene,
    Workers,
)
from turnwise.observers.registry import OBSERVERS, build_observer, list_observers

__all__ = [
    "OBSERVERS",
    "BoundsRequests",
    "CanStop",
    "Context",
    "ContextMode",
    "KeepsReplies",
    "Observation",
    "ObservationFailure",
    "Observer",
    "ObserverInfo",
    "Request",
    "Scene",
    "Workers",
    "build_observer",
    "list_observers",
]
