"""turnwise: catch manipulation that unfolds over several turns of a conversation."""

from typing import TYPE_CHECKING

from turnwise._version import __version__
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import TurnwiseError
from turnwise.scoring import Evaluation, Failure, Score, Trajectory, balance, trust_strength

if TYPE_CHECKING:
    from turnwise.datasets import open_dataset as load
    from turnwise.evaluation import detect, evaluate
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.guard.forensics import analyze_conversation_forensics
    from turnwise.report import Report, check, score
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
    "GuardrailPipeline": "turnwise.guard:GuardrailPipeline",
    "PipelineResult": "turnwise.guard:PipelineResult",
    "Report": "turnwise.report:Report",
    "Store": "turnwise.store:Store",
    "analyze_conversation_forensics": "turnwise.guard.forensics:analyze_conversation_forensics",
    "check": "turnwise.report:check",
    "detect": "turnwise.evaluation:detect",
    "evaluate": "turnwise.evaluation:evaluate",
    "load": "turnwise.datasets:open_dataset",
    "score": "turnwise.report:score",
}
"""What stands where: loaded when it is asked for, since no command needs all of it."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(import_module(module), attribute)
