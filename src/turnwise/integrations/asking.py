"""What an integration asks a pipeline for, written once for sync and async frameworks."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from turnwise.conversation import Conversation, Side
from turnwise.guard import GuardrailPipeline, PipelineResult

Value = TypeVar("Value")

WITHHELD: Final = "[message withheld]"
"""Stands in a framework's history for a prompt that was blocked, so that no model reads it later."""

REFUSAL: Final = "I can't help with that."
"""What is answered by default where something was blocked."""


class Ask(NamedTuple):
    """One check: the pipeline's method, and its arguments by name."""

    method: str
    arguments: Mapping[str, Any]


Asking = Generator[Ask, PipelineResult, Value]
"""Work that asks for checks, is sent their results, and returns what comes of them."""


def ask(pipeline: GuardrailPipeline, asking: Asking[Value]) -> Value:
    """Make the checks one after the other in this thread, and return what comes of them."""
    try:
        wanted = next(asking)
        while True:
            wanted = asking.send(getattr(pipeline, wanted.method)(**wanted.arguments))
    except StopIteration as ended:
        value: Value = ended.value
        return value


async def aask(pipeline: GuardrailPipeline, asking: Asking[Value]) -> Value:
    """Make the checks as `ask` does, without blocking the event loop."""
    try:
        wanted = next(asking)
        while True:
            wanted = asking.send(await getattr(pipeline, f"a{wanted.method}")(**wanted.arguments))
    except StopIteration as ended:
        value: Value = ended.value
        return value


def open_turn(conversation: Conversation, number: int | None) -> int | None:
    """Return a turn number where the turn waits for a response or its response was blocked; else None."""
    last = conversation.history.last
    if number is None or last is None or not 1 <= number <= last.number:
        return None
    turn = conversation.turn(number)
    return None if turn.complete and not turn.blocked(Side.RESPONSE) else number


def was_blocked(conversation: Conversation, prompt: str) -> bool:
    """Whether a prompt of the conversation was blocked.

    A framework that keeps its own history may give it again, together with the next one.
    """
    return any(turn.prompt == prompt and turn.blocked(Side.PROMPT) for turn in conversation)


def told(result: PipelineResult, *, explain: bool = True) -> dict[str, Any]:
    """What a framework may keep of a verdict: nothing of the text; reasons and scores if `explain`.

    >>> pipeline = GuardrailPipeline.from_preset("basic")
    >>> told(pipeline.check_input("Hello!"))["blocked"]
    False
    """
    why = {
        "reasons": list(result.reasons),
        "warnings": list(result.warnings),
        "failures": list(result.failures),
        "unread": list(result.unread),
    }
    return {
        "blocked": result.blocked,
        **(why if explain else {}),
        "pipeline_type": str(result.pipeline_type),
        "conversation_id": result.conversation_id,
        "turn_number": result.turn_number,
        "rate_limited": result.rate_limited,
        "retry_after": result.retry_after,
    }
