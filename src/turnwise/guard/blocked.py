"""What callers get who want a blocked text to be an exception."""

from __future__ import annotations

from turnwise.errors import TurnwiseError
from turnwise.guard.records import PipelineResult


class GuardrailBlocked(TurnwiseError):  # noqa: N818 - it names what happened, which is no fault of the caller
    """A guardrail blocked a text. The message has the reasons, and nothing of the text.

    Args:
        result: the verdict.
    """

    def __init__(self, result: PipelineResult) -> None:
        kind = result.pipeline_type.replace("_", " ")
        super().__init__(f"the {kind} was blocked: {'; '.join(result.reasons) or 'no reason was given'}")
        self.result = result
