"""A conversation of the past, put through a pipeline as if it happened now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from turnwise.clock import utc_now
from turnwise.conversation import Conversation, ToolCall, Turn
from turnwise.guard.config import Config
from turnwise.guard.limits import EVENTS, RateLimits
from turnwise.guard.pipeline import GuardrailPipeline
from turnwise.guard.records import PipelineResult
from turnwise.guard.request import RESERVED


def replay_pipeline(config: Config) -> GuardrailPipeline:
    """Return a pipeline for texts of the past: without rate limits, audit and state, which are for live ones.

    Raises:
        GuardError: a guardrail can't be built.
    """
    return GuardrailPipeline(dataclasses.replace(config, rate_limits=RateLimits(), audit=None, state=None))


def checks_of(
    pipeline: GuardrailPipeline, conversation: Conversation, session_id: str | None = None
) -> Iterator[tuple[Conversation, PipelineResult]]:
    """Check a conversation turn by turn; yield each result as it comes, with the copy that carries the checks.

    Arguments and order are those of `check_again`.
    """
    now = utc_now()
    copy = Conversation(**_about(conversation), clock=lambda: now)
    session = session_id or conversation.conversation_id
    for turn in conversation:
        extra: Mapping[str, Any] = {key: value for key, value in turn.own_metadata.items() if key not in RESERVED}
        now = turn.timestamp or utc_now()
        yield copy, pipeline.check_input(turn.prompt, conversation=copy, session_id=session, metadata=extra)
        for result in _tools_again(pipeline, turn, copy, session):
            yield copy, result
        if turn.response is not None:
            now = turn.response_timestamp or now
            yield (
                copy,
                pipeline.check_output(
                    turn.response, conversation=copy, session_id=session, turn_number=turn.number
                ),
            )


def check_again(
    pipeline: GuardrailPipeline, conversation: Conversation, session_id: str | None = None
) -> tuple[Conversation, list[PipelineResult]]:
    """Check a conversation turn by turn; return a copy that carries the checks, and their results in order.

    In each turn the prompt is checked, then calls and results of tools in order, then the response, together
    with what was said beside the calls. Every turn is checked, also after a blocked one: what was said stays
    said. A turn without a time gets the present one in the copy, since a live turn has a time.

    Args:
        pipeline: the pipeline.
        conversation: the conversation; it is not changed.
        session_id: its session; by default its own, so that conversations don't affect each other.
    """
    copy = Conversation(**_about(conversation))
    results = []
    for copy, result in checks_of(pipeline, conversation, session_id):  # noqa: B007 - the copy is returned
        results.append(result)
    return copy, results


def _tools_again(
    pipeline: GuardrailPipeline, turn: Turn, copy: Conversation, session: str
) -> Iterator[PipelineResult]:
    """Check the calls and results of a turn, which the copy has with its messages."""
    for step in turn.tool_steps:
        if isinstance(step, ToolCall):
            yield pipeline.check_tool_call(
                step.name,
                step.arguments,
                conversation=copy,
                call_id=step.call_id,
                turn_number=turn.number,
                session_id=session,
            )
        else:
            yield pipeline.check_tool_result(
                step.content,
                conversation=copy,
                call_id=step.call_id,
                name=step.name or None,
                turn_number=turn.number,
                session_id=session,
            )


def replay(
    pipeline: GuardrailPipeline, conversation: Conversation, session_id: str | None = None
) -> tuple[Conversation, list[PipelineResult]]:
    """Check a conversation as `check_again` does; its turns keep their times, or go without one.

    >>> chat = Conversation.from_turns([("Hello", "Hi there")], conversation_id="c1")
    >>> pipeline = GuardrailPipeline({"guardrails": [{"length": {"max_characters": 6}}]})
    >>> checked, results = replay(pipeline, chat)
    >>> [result.blocked for result in results], checked.turn(1).metadata["guardrail_results"]["blocked"]
    ([False, True], True)
    """
    checked, results = check_again(pipeline, conversation, session_id)
    turns = (
        dataclasses.replace(now, timestamp=then.timestamp, response_timestamp=then.response_timestamp)
        for now, then in zip(checked, conversation, strict=True)
    )
    return Conversation.from_turns(turns, **_about(conversation)), results


def _about(conversation: Conversation) -> dict[str, Any]:
    return {
        "conversation_id": conversation.conversation_id,
        "participants": conversation.participants,
        "model_info": conversation.model_info,
        "metadata": {key: value for key, value in conversation.metadata.items() if key != EVENTS},
    }
