"""turnwise: catch manipulation that unfolds over several turns of a conversation."""

from typing import TYPE_CHECKING

from turnwise._version import __version__
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import TurnwiseError
from turnwise.scoring import Evaluation, Failure, Score, Trajectory, balance, trust_strength

if TYPE_CHECKING:
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.guard.forensics import analyze_conversation_forensics

__all__ = [
    "Conversation",
    "Evaluation",
    "Failure",
    "GuardrailPipeline",
    "Label",
    "PipelineResult",
    "Score",
    "Sequence",
    "Side",
    "Trajectory",
    "Turn",
    "TurnwiseError",
    "__version__",
    "analyze_conversation_forensics",
    "balance",
    "trust_strength",
]


def __getattr__(name: str) -> object:
    # The guard brings the session memory with it, which a command that scores or asks need not wait for.
    if name in ("GuardrailPipeline", "PipelineResult"):
        from turnwise import guard

        return getattr(guard, name)
    if name == "analyze_conversation_forensics":
        from turnwise.guard import forensics

        return forensics.analyze_conversation_forensics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
