"""Conversations of the past: read from files that a guard wrote, and put through a pipeline anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.clock import utc_now
from turnwise.conversation import Conversation, Label, Sequence, ToolCall, Turn
from turnwise.conversation.participants import FIELDS
from turnwise.datasets import BadRecord
from turnwise.errors import ConversationError
from turnwise.guard.audit.chain import ERASURE, TORN
from turnwise.guard.audit.reader import events_in, missing_in
from turnwise.guard.audit.record import CHECK, CORRECTION, GAP
from turnwise.guard.audit.settings import AuditSettings
from turnwise.guard.config import Config
from turnwise.guard.finding import CONTEXT, TextKind
from turnwise.guard.pipeline import GuardrailPipeline
from turnwise.guard.rate_limits import EVENTS, RateLimits
from turnwise.guard.results import PipelineResult
from turnwise.guard.step import finish
from turnwise.guard.texts import RESERVED_KEYS, check_beside
from turnwise.guard.tool_texts import context_of, take_context

_MOST: Final = 64 * 1024**2  # bytes of a line, or of a conversation that is written over several lines


def replay_pipeline(config: Config, audit: str | Path | None = None) -> GuardrailPipeline:
    """Return a pipeline for texts of the past: without rate limits and state, which are for live ones.

    With an audit it runs in mode ``log``, and tells there what it would have done.

    Raises:
        GuardError: a guardrail can't be built, or the audit can't be written to.
    """
    settings = None if audit is None else AuditSettings(str(audit), when_full="block")
    pipeline = GuardrailPipeline(dataclasses.replace(config, rate_limits=RateLimits(), audit=settings, state=None))
    if audit is not None:
        pipeline.set_mode("log")
    return pipeline


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
        extra: Mapping[str, Any] = {
            key: value for key, value in turn.own_metadata.items() if key not in RESERVED_KEYS
        }
        now = turn.timestamp or utc_now()
        if not (turn.silent and turn.number == 1):
            yield copy, pipeline.check_input(turn.prompt, conversation=copy, session_id=session, metadata=extra)
        for one in context_of(turn):
            run = check_beside(pipeline._setup, one.kind, one.text, copy, one.name, session, one.digest)
            yield copy, finish(run)
        for result in _tools_again(pipeline, turn, copy, session):
            yield copy, result
        if turn.response is not None:
            now = turn.response_timestamp or now
            about: Mapping[str, Any] = {"session_id": session, "turn_number": turn.number}
            yield copy, pipeline.check_output(turn.response, conversation=copy, **about)


def check_again(
    pipeline: GuardrailPipeline, conversation: Conversation, session_id: str | None = None
) -> tuple[Conversation, list[PipelineResult]]:
    """Check a conversation turn by turn; return a copy that carries the checks, and their results in order.

    In each turn the prompt is checked, then what stood beside it, then calls and results of tools in order, then
    the response, together with what was said beside the calls. Every turn is checked, also after a blocked
    one: what was said stays said. A turn without a time gets the present one in the copy, since a live turn has
    a time.

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
        about: Mapping[str, Any] = {
            "conversation": copy,
            "call_id": step.call_id,
            "turn_number": turn.number,
            "session_id": session,
        }
        if isinstance(step, ToolCall):
            yield pipeline.check_tool_call(step.name, step.arguments, **about)
        else:
            yield pipeline.check_tool_result(step.content, name=step.name or None, **about)


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


def recorded(file: str | Path) -> Iterator[Sequence | BadRecord] | None:
    """Return the conversations of an audit, or of a file of conversations as JSON; None for another file.

    What can't be read comes as a `BadRecord`.

    Args:
        file: JSON Lines as an audit writes them, or conversations as `Conversation.to_dict` gives them: a single
            one, or one a line. Unknown keys of an audit are passed over.
    """
    path = Path(file)
    if not path.is_file():
        return None
    with path.open("rb") as lines:
        first, second = lines.readline(_MOST), lines.readline(_MOST)
    head = _json(first)
    # Behind a line that a crash cut off stands an event that says so.
    if _is_event(head) or (head is None and _is_event(_json(second))):
        return _audited(path)
    if head is None and first.lstrip().startswith(b"{") and path.stat().st_size <= _MOST:
        whole = path.read_bytes()
        return _conversations([(1, whole)]) if _is_conversation(_json(whole)) else None
    return _conversations(_lines(path)) if _is_conversation(head) else None


def _json(text: bytes) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as lines:
        yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _is_event(data: Any) -> bool:
    return (
        isinstance(data, dict) and data.get("kind") in (CHECK, CORRECTION, GAP, ERASURE, TORN) and "time" in data
    )


def _is_conversation(data: Any) -> bool:
    return isinstance(data, dict) and {"conversation_id", "participants", "turns"} <= data.keys()


def _conversations(lines: Iterable[tuple[int, bytes]]) -> Iterator[Sequence | BadRecord]:
    for number, line in lines:
        try:
            yield _sequence(Conversation.from_dict(read_json(line)), "conversations", number)
        except ValueError as error:
            yield BadRecord(number, str(error))


def _audited(path: Path) -> Iterator[Sequence | BadRecord]:
    """The conversations of an audit in the order in which they began, after the lines that can't be read."""
    found: dict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = {}
    with path.open("rb") as lines:
        for number, event in events_in(lines):
            if isinstance(event, str):
                yield BadRecord(number, event)
            elif event["kind"] == GAP:
                yield BadRecord(number, f"the audit misses {missing_in(event)} checks here")
            elif event["kind"] == CHECK and not event.get("rate_limited"):
                whose = str(event.get("tenant") or ""), str(event.get("conversation_id") or "")
                found.setdefault(whose, []).append((number, event))
    for (_, name), events in found.items():
        yield _spoken(name, events)


def _spoken(name: str, events: list[tuple[int, Mapping[str, Any]]]) -> Sequence | BadRecord:
    """The conversation that was checked; turns are counted anew, since an audit may begin in the middle of one."""
    sides = events[0][1].get("participants") or {}
    chat = Conversation(
        conversation_id=name or None, participants={key: sides[key] for key in FIELDS if key in sides}
    )
    turns: dict[int, int] = {}
    line = first = events[0][0]
    try:
        for line, event in events:  # noqa: B007 - the line is told where its event can't be read
            turns[event["turn"]] = _said(chat, event, turns.get(event["turn"]))
        return _sequence(chat, "audit", first)
    except (KeyError, ValueError, TypeError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        return BadRecord(line, f"the conversation can't be put together: {missing}")


def _said(chat: Conversation, event: Mapping[str, Any], turn: int | None) -> int:
    """Add a text of an audit to a conversation; returns the number of its turn."""
    text, side, time = event.get("text"), event["side"], datetime.fromisoformat(event["time"])
    if text is None:
        raise ConversationError("the audit has no text of this conversation; replay needs text: redacted, or raw")
    if side == TextKind.INPUT:
        return chat.add_prompt(text, timestamp=time).number
    if side in CONTEXT:
        return take_context(chat, TextKind(side), event["tool"], text)[0].number
    if side == TextKind.TOOL_CALL:
        return chat.tools.take_call(event["tool"], text, call_id=event["call_id"], turn_number=turn)[0].number
    if side == TextKind.TOOL_RESULT:
        return chat.tools.take_result(
            text, call_id=event["call_id"], name=event["tool"] or None, turn_number=turn
        )[0].number
    return _answered(chat, text, time, turn)


def _answered(chat: Conversation, text: str, time: datetime, turn: int | None) -> int:
    if turn is None:
        return chat.add_turn("", text, timestamp=time, response_timestamp=time).number
    if chat.turn(turn).complete:  # it was blocked, and this one came in its place
        return chat.history.rephrase(turn, text).number
    return chat.add_response(text, turn_number=turn, timestamp=time).number


def _sequence(chat: Conversation, source: str, line: int) -> Sequence:
    return Sequence(chat.conversation_id, Label.UNLABELLED, source, chat, line=line)
