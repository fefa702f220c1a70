"""turnwise: catch manipulation that unfolds over several turns of a conversation."""

from typing import TYPE_CHECKING

from turnwise._version import __version__
from turnwise.errors import TurnwiseError

if TYPE_CHECKING:
    from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
    from turnwise.datasets import open_dataset as load
    from turnwise.forensics import analyze_conversation_forensics
    from turnwise.front_door import Report, check, score
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.runs import detect, evaluate
    from turnwise.scoring import Evaluation, Failure, Score, Trajectory, balance, trust_strength
    from turnwise.store import Store

__all__ = [
    "Conversation",
    "Evaluation",
    "Failure",
    "GuardrailPipeline",
    "Label",
    "PipelineResult",
    "Report",
    "Score",
    "Sequence",
    "Side",
    "Store",
    "Trajectory",
    "Turn",
    "TurnwiseError",
    "__version__",
    "analyze_conversation_forensics",
    "balance",
    "check",
    "detect",
    "evaluate",
    "load",
    "score",
    "trust_strength",
]

_LAZY = {
    "turnwise.conversation": ("Conversation", "Label", "Sequence", "Side", "Turn"),
    "turnwise.runs": ("detect", "evaluate"),
    "turnwise.guard": ("GuardrailPipeline", "PipelineResult"),
    "turnwise.forensics": ("analyze_conversation_forensics",),
    "turnwise.front_door": ("Report", "check", "score"),
    "turnwise.scoring": ("Evaluation", "Failure", "Score", "Trajectory", "balance", "trust_strength"),
    "turnwise.store": ("Store",),
}
"""What stands where: loaded when it is asked for, since no command needs all of it."""


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "load":
        return import_module("turnwise.datasets").open_dataset
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
