"""What a place means for the turns of a conversation: whether it is the latest, and which of them a fork gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from turnwise.conversation import Conversation, Role, Side, Turn
from turnwise.conversation.message_entries import MessageEntry, read_calls, read_results
from turnwise.conversation.message_formats import messages_of_turn
from turnwise.conversation.tool_log import CALLS, RESULTS, ToolCall, ToolLog
from turnwise.conversation.turn import ATTEMPTS_KEY, GUARD_KEY, OPENAI_KEY
from turnwise.guard.finding import TextKind
from turnwise.guard.messages.chain import ChainLink, MessageCheck
from turnwise.guard.results import GuardrailStatus, PipelineResult, joined
from turnwise.guard.step import UNREAD
from turnwise.guard.turn_checks import TextCheck, TurnChecks, readable_checks

FORKED = "forked_from"
"""Key of a conversation's metadata that says of which turn of which conversation it is a fork."""


def is_latest(chat: Conversation, link: ChainLink, entries: Iterable[MessageEntry] = ()) -> bool:
    """Whether nothing let through comes after a place, but for `entries`, which `absorb` may have taken in."""
    if link.turn > chat.get_turn_count():
        return False
    for number in range(chat.get_turn_count(), link.turn, -1):
        # What was blocked reached nobody, nor did a prompt whose reply was: a caller may leave both out.
        later = chat.turn(number)
        if not (later.withheld(Side.PROMPT) or later.withheld(Side.RESPONSE)):
            return False
    if not link.turn:
        return True
    turn = chat.turn(link.turn)
    taken = [entry.text for entry in entries if entry.role is Role.ASSISTANT]
    if not (link.spoken or turn.response is None or turn.response in taken or turn.withheld(Side.RESPONSE)):
        return False
    steps = turn.tool_steps[link.steps :]
    if not steps:
        return True
    known = {one.call_id for entry in entries for one in (*read_calls(entry.raw), *read_results(entry.raw))}
    withheld = turn.withheld_tools()
    return all(
        step.call_id in known or (CALLS if isinstance(step, ToolCall) else RESULTS, step.call_id) in withheld
        for step in steps
    )


def absorb(chat: Conversation, entries: Iterable[MessageEntry], link: ChainLink, *, fresh: bool = False) -> None:
    """Make messages after `link` parts of a conversation, made for them where `fresh`; again is harmless."""
    number = link.turn or None
    for entry in entries:
        for result in read_results(entry.raw):
            chat.tools.take_result(
                result.text, call_id=result.call_id, name=result.name or None, turn_number=number
            )
        if entry.role is Role.USER and (entry.text is not None or not any(True for _ in read_results(entry.raw))):
            number = chat.add_prompt(entry.text or "").number
        elif entry.role is Role.ASSISTANT:
            if entry.text is not None:
                number = _answered(chat, entry.text, number, fresh=fresh)
            for call in read_calls(entry.raw):
                turn, _ = chat.tools.take_call(call.name, call.text, call_id=call.call_id, turn_number=number)
                number = turn.number


def _answered(chat: Conversation, text: str, number: int | None, *, fresh: bool) -> int:
    turn = None if number is None else chat.turn(number)
    if turn is None:
        return chat.answer(text).number
    if turn.response is None:
        return chat.add_response(text, turn_number=turn.number).number
    if fresh:
        return chat.history.rephrase(turn.number, f"{turn.response}\n{text}").number
    return turn.number


def fork(chat: Conversation | None, link: ChainLink, entries: Sequence[MessageEntry], name: str) -> Conversation:
    """A conversation that shares the turns up to a place with `chat`, if any, and then goes its own way."""
    if chat is None:
        made = Conversation(conversation_id=name or None)
    else:
        # With their checks and scores: guardrails stand where they stood then, and nothing is scored again.
        turns = [Turn.from_dict(turn.to_dict()) for turn in chat.turns[: link.turn]]
        if turns:
            _cut(turns[-1], link)
        data = chat.to_dict(turns=False)
        data["conversation_id"] = f"{name[:200]}~{uuid4().hex[:12]}"
        data["metadata"] = {
            **data["metadata"],
            FORKED: {"conversation_id": chat.conversation_id, "turn": link.turn},
        }
        data["rate_limit_counts_after"] = min(data["rate_limit_counts_after"], len(turns))
        made = Conversation.from_dict(data, turns=turns)
    absorb(made, entries, link, fresh=True)
    return made


def _cut(turn: Turn, link: ChainLink) -> None:
    """Take from a turn what came after a place."""
    turn.own_metadata.pop(ATTEMPTS_KEY, None)
    if not link.spoken:
        turn.response = turn.response_timestamp = None
    log = ToolLog(messages_of_turn(turn, whole=False)) if OPENAI_KEY in turn.own_metadata else None
    kept = {step.call_id for step in log.steps[: link.steps]} if log is not None else set()
    if log is not None and (len(log.steps) > link.steps or not link.spoken):
        ends = [step.place.message for step in log.steps[: link.steps]]
        first = 1 if turn.prompt else 0
        turn.own_metadata[OPENAI_KEY] = log.messages[: max(ends, default=first - 1) + 1]
        if not ends:
            del turn.own_metadata[OPENAI_KEY]
    record = readable_checks(turn.checks, turn.number)
    if record is not None:
        parts: dict[str, Any] = {}
        for key in ("tool_calls", "tool_results", "texts"):
            checks: Mapping[str, TextCheck] = getattr(record, key)
            parts[key] = {name: check for name, check in checks.items() if name in kept}
        left = replace(record, output=record.output if link.spoken else None, **parts)
        if left.records:
            turn.checks = replace(left, last=left.records[-1].pipeline_type)
        else:
            del turn.own_metadata[GUARD_KEY]


def check_of(turn: Turn, result: PipelineResult) -> MessageCheck:
    """What tells the check of a text from others of its turn."""
    kind = result.pipeline_type
    record = _find(readable_checks(turn.checks, turn.number), kind, result.call_id or "")
    return MessageCheck(str(kind), result.call_id or "", record.timestamp.isoformat() if record else "")


def _find(record: TurnChecks | None, kind: str, call_id: str) -> TextCheck | None:
    if record is None:
        return None
    if kind == TextKind.INPUT:
        return record.input
    if kind == TextKind.OUTPUT:
        return record.output
    return (record.tool_calls if kind == TextKind.TOOL_CALL else record.tool_results).get(call_id)


def recorded(chat: Conversation, link: ChainLink) -> PipelineResult | None:
    """What the checks of a message said, by the record; None where one is missing or failed."""
    if not link.checked or link.turn > chat.get_turn_count():
        return None
    turn = chat.turn(link.turn)
    record, results = readable_checks(turn.checks, turn.number), []
    for one in link.checked:
        check = _find(record, one.kind, one.call_id)
        if check is None or check.timestamp.isoformat() != one.time:
            beside = () if record is None else record.texts.values()
            check = next((text for text in beside if text.timestamp.isoformat() == one.time), None)
        if check is None or any(
            name != UNREAD and detail.status is GuardrailStatus.FAILED for name, detail in check.details.items()
        ):
            return None
        text = _text(turn, one)
        if text is None:
            return None
        results.append(check.result(chat.conversation_id, turn.number, text))
    return (results[0] if len(results) == 1 else joined(results)).replaced(place=link.place)


def _text(turn: Turn, check: MessageCheck) -> str | None:
    if check.kind == TextKind.INPUT:
        return turn.prompt
    if check.kind == TextKind.TOOL_CALL:
        return next((one.arguments for one in turn.tool_calls if one.call_id == check.call_id), None)
    if check.kind == TextKind.TOOL_RESULT:
        return next((one.content for one in turn.tool_results if one.call_id == check.call_id), None)
    if turn.response is not None:
        return turn.response
    said = [message.get("content") for message in messages_of_turn(turn) if message.get("role") == Role.ASSISTANT]
    return next((text for text in said if isinstance(text, str)), None)
