"""Observers: what scores a turn of a conversation against principles.

`protocol` says what an observer is, `registry` names and builds them, and `session` alone drives them. `local` are
those that ship with weights, `llm` asks a language model, `second_look` both; `replay` and `scripted` don't read.
`conformance` is the kit for one of your own, `why` explains a score.
"""

from typing import TYPE_CHECKING

from turnwise.observers.protocol import (
    BoundsRequests,
    CanStop,
    Context,
    ContextMode,
    CostEstimator,
    Estimate,
    HasStages,
    KeepsReplies,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObserverInfo,
    ObservesMany,
    Request,
    SharesAllowance,
    Stage,
    TellsAsked,
    Workers,
)
from turnwise.observers.registry import (
    DEFAULT_OBSERVER,
    OBSERVERS,
    Setting,
    build_cost_estimator,
    build_live_observer,
    build_observer,
    describe_observer,
    list_observers,
    observer,
    observer_settings,
    read_settings,
)
from turnwise.observers.scripted import Script, ScriptedObserver
from turnwise.observers.session import (
    ObservedMany,
    ObservedTurn,
    ObserverSession,
    check_asked,
    check_supported,
    observe_conversations,
)

if TYPE_CHECKING:
    from turnwise.observers.ablation import LeftOut, Why, explain
    from turnwise.observers.conformance import check_observer
    from turnwise.observers.llm import (
        Batch,
        BatchDone,
        ChatClient,
        ChatError,
        ChatReply,
        ChatRequest,
        FaultKind,
        LastingLlmObserver,
        LlmObserver,
        LlmSettings,
        Message,
        ScriptedClient,
    )
    from turnwise.observers.local import LocalObserver, LocalSmallObserver
    from turnwise.observers.replay import ReplayObserver
    from turnwise.observers.second_look import SecondLookObserver

__all__ = [
    "DEFAULT_OBSERVER",
    "OBSERVERS",
    "Batch",
    "BatchDone",
    "BoundsRequests",
    "CanStop",
    "ChatClient",
    "ChatError",
    "ChatReply",
    "ChatRequest",
    "Context",
    "ContextMode",
    "CostEstimator",
    "Estimate",
    "FaultKind",
    "HasStages",
    "KeepsReplies",
    "LastingLlmObserver",
    "LeftOut",
    "LlmObserver",
    "LlmSettings",
    "LocalObserver",
    "LocalSmallObserver",
    "Message",
    "NotRead",
    "Observation",
    "ObservationFailure",
    "ObservedMany",
    "ObservedTurn",
    "Observer",
    "ObserverInfo",
    "ObserverSession",
    "ObservesMany",
    "ReplayObserver",
    "Request",
    "Script",
    "ScriptedClient",
    "ScriptedObserver",
    "SecondLookObserver",
    "Setting",
    "SharesAllowance",
    "Stage",
    "TellsAsked",
    "Why",
    "Workers",
    "build_cost_estimator",
    "build_live_observer",
    "build_observer",
    "check_asked",
    "check_observer",
    "check_supported",
    "describe_observer",
    "explain",
    "list_observers",
    "observe_conversations",
    "observer",
    "observer_settings",
    "read_settings",
]

_LAZY = {
    "ablation": "LeftOut Why explain",
    "conformance": "check_observer",
    "llm": "Batch BatchDone ChatClient ChatError ChatReply ChatRequest FaultKind LastingLlmObserver LlmObserver "
    "LlmSettings Message ScriptedClient",
    "local": "LocalObserver LocalSmallObserver",
    "replay": "ReplayObserver",
    "second_look": "SecondLookObserver",
}
"""What stands where: loaded when it is asked for, since most need none of it."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _LAZY.items():
        if name in names.split():
            return getattr(import_module(f"turnwise.observers.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
