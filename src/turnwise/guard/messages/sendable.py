"""What a model may be sent of a list of messages, in the shape in which the caller has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Ordered
from copy import deepcopy
from typing import Any, Final, TypeVar

from turnwise.conversation import Conversation, Role, Side, Turn
from turnwise.conversation.message_entries import TEXT_PARTS, MessageEntry, has_results
from turnwise.conversation.message_formats import (
    OPENAI,
    WITHHELD_RESULT,
    cut,
    last_step,
    messages_of_turn,
    says_anything,
)
from turnwise.conversation.message_formats import sendable as without_withheld
from turnwise.conversation.tool_log import CALLS, RESULTS, TEXTS, Step, ToolCall, ToolLog, ToolResult
from turnwise.errors import GuardError
from turnwise.guard.finding import TextKind
from turnwise.guard.messages.chain import plain_text
from turnwise.guard.results import PipelineResult
from turnwise.guard.setup import Setup
from turnwise.guard.tool_texts import redacted_parts
from turnwise.guard.turn_checks import readable_checks

Messages = list[dict[str, Any]]

Given = TypeVar("Given")

Kind = TypeVar("Kind", ToolCall, ToolResult)

_OURS: Final = (Role.SYSTEM, Role.DEVELOPER)  # roles of messages that are part of no turn


def goes_on(result: PipelineResult) -> bool:
    """Whether a model may be asked: nothing was blocked but what tools gave back, which it reads as withheld."""
    return all(part.pipeline_type is TextKind.TOOL_RESULT for part in result.parts or (result,) if part.blocked)


def sendable(setup: Setup, messages: Ordered[Mapping[str, Any]], result: PipelineResult) -> Messages:
    """A list of messages as a model may be sent it; see `GuardrailPipeline.sendable`."""
    if not goes_on(result):
        raise GuardError("the last message was blocked, so nothing may be sent; see result.reasons")
    given: Messages = [message if isinstance(message, dict) else dict(message) for message in messages]
    first = len(given) - 1
    while first and has_results(given[first]) and has_results(given[first - 1]):
        first -= 1
    last = _checked(given[first:], result)
    lists = setup.lists
    chat = None if lists is None else lists.held(result.conversation_id)
    if lists is None or chat is None or result.place is None or lists.is_clean(result.place):
        return [*given[:first], *last]
    earlier = _earlier(given[:first], chat, result)
    return _rebuilt(given, chat, result) if earlier is None else [*earlier, *last]


def _checked(messages: Messages, result: PipelineResult) -> Messages:
    """The messages that were checked last, with what the check made of their texts."""
    parts, log = result.parts or (result,), ToolLog(deepcopy(messages))
    steps_of: dict[TextKind, Mapping[str, Step]] = {
        TextKind.TOOL_RESULT: log.results,
        TextKind.TOOL_CALL: log.calls,
    }
    changed = False
    for kind, steps in steps_of.items():
        told = [part for part in parts if part.pipeline_type is kind]
        if len(told) > len(steps):
            raise GuardError(f"a {kind.replace('_', ' ')} is not in the list; give the list that was checked")
        for part, step in zip(told[::-1], [*steps.values()][::-1], strict=False):
            if part.blocked:
                log.replace(step, WITHHELD_RESULT, whole=True)
            elif part.text != (step.arguments if isinstance(step, ToolCall) else step.content):
                log.replace(step, part.text)
            else:
                continue
            changed = True
    sent = log.messages if changed else list(messages)
    for part in parts:
        if part.pipeline_type in (TextKind.INPUT, TextKind.OUTPUT):
            sent[-1] = with_text(sent[-1], part.text, part)
    return sent


def _earlier(messages: Messages, chat: Conversation, result: PipelineResult) -> Messages | None:
    """Earlier messages as their conversation has them; None where they can't be told apart in it."""
    lead, slices = cut(OPENAI.entries(messages)) if messages else ([], [])
    raws = iter(messages)
    ours = [next(raws) for _ in lead]
    stretches = [[(entry, next(raws)) for entry in entries] for entries in slices]
    said = [
        (entry, raw) for entry, raw in zip(lead, ours, strict=True) if entry.role not in _OURS
    ]  # what tools gave back, in a list of only what is new
    stretches = [said, *stretches] if said else stretches
    prompt = next((part for part in result.parts or (result,) if part.pipeline_type is TextKind.INPUT), None)
    number = (result.turn_number or 0) if prompt is None else (prompt.turn_number or 1) - 1
    gone: set[str] = set()
    found: list[tuple[Turn, Messages]] = []
    for stretch in reversed(stretches):
        while number and not _is_of(stretch, chat.turn(number)):
            if not (chat.turn(number).withheld(Side.PROMPT) or chat.turn(number).withheld(Side.RESPONSE)):
                return None
            number -= 1
        if not number:
            return None
        found.append((chat.turn(number), [raw for _, raw in stretch]))
        number -= 1
    sent = [raw for entry, raw in zip(lead, ours, strict=True) if entry.role in _OURS]
    for turn, told in reversed(found):
        left = _as_turn(turn, told, gone)
        if left is None:
            return None
        sent += left
    return sent


def _is_of(stretch: Ordered[tuple[MessageEntry, Any]], turn: Turn) -> bool:
    """Whether messages begin with the prompt of a turn, as it came or as it was redacted."""
    first = stretch[0][0]
    if first.role is not Role.USER:
        return has_results(first.raw) or not turn.prompt
    text = first.text or ""
    record = readable_checks(turn.checks, turn.number)
    if text == turn.prompt or record is None or record.input is None:
        return text == turn.prompt
    return redacted_parts([text], record.input.details.values()) == [turn.prompt]


def _as_turn(turn: Turn, raws: Messages, gone: set[str]) -> Messages | None:
    """The caller's messages of a turn with the texts that the turn has, without what it withholds."""
    if turn.withheld(Side.PROMPT):
        return [raw for raw in raws if raw.get("role") in _OURS]
    own, withheld = messages_of_turn(turn), turn.withheld_tools()
    entries = OPENAI.entries(own or [{"role": "user", "content": ""}])
    theirs, log = ToolLog(deepcopy(raws)), ToolLog(own)
    calls = _steps(theirs.calls, log.calls, lambda step: (CALLS, step.call_id) in withheld)
    results = _steps(theirs.results, log.results, lambda step: (RESULTS, step.call_id) in withheld)
    muted = {at for at, identity in log.first_calls.items() if (TEXTS, identity) in withheld}
    if turn.withheld(Side.RESPONSE):
        after = last_step(entries)
        muted |= {at for at in range(after + 1, len(entries)) if entries[at].role is Role.ASSISTANT}
    told, said = _spoken(OPENAI.entries(raws)), _spoken(entries)
    spoken = _paired(told, said, lambda one: one[0] in muted)
    if spoken is None and not muted and {text for _, text in said} <= {text for _, text in told}:
        spoken = []  # a turn has what was said several times once
    if calls is None or results is None or spoken is None:
        return None
    changed = False
    steps: list[tuple[Step, Step]] = [*calls, *results]
    for mine, one in steps:
        old, new = (step.arguments if isinstance(step, ToolCall) else step.content for step in (mine, one))
        if plain_text(old) != plain_text(new):
            theirs.replace(mine, new)
            changed = True
    messages = theirs.messages if changed else list(raws)
    for (at, old), (_, new) in spoken:
        if old.strip() != new.strip():
            messages[at] = with_text(messages[at], new)
    first = messages[0]
    if first.get("role") == Role.USER and (OPENAI.read(first).text or "") != turn.prompt:
        messages[0] = with_text(first, turn.prompt)
    if not (withheld or muted or gone):
        return messages
    left = {(CALLS, mine.call_id) for mine, one in calls if (CALLS, one.call_id) in withheld}
    left |= {(RESULTS, mine.call_id) for mine, one in results if (RESULTS, one.call_id) in withheld}
    silent = [mine[0] for mine, one in spoken if one[0] in muted]
    kept: Messages = without_withheld(deepcopy(messages), withheld=left, silent=silent, gone=gone)
    return [message for message in kept if says_anything(message)]


def _spoken(entries: Ordered[MessageEntry]) -> list[tuple[int, str]]:
    """What the assistant says, with the index of its message."""
    return [
        (at, entry.text)
        for at, entry in enumerate(entries)
        if entry.role is Role.ASSISTANT and entry.text is not None
    ]


def _steps(
    theirs: Mapping[str, Kind], own: Mapping[str, Kind], withheld: Callable[[Kind], bool]
) -> list[tuple[Kind, Kind]] | None:
    """Calls or results of a list with those of its turn: by their ids, else in order; None for too many."""
    if theirs.keys() <= own.keys():
        return [(step, own[identity]) for identity, step in theirs.items()]
    return _paired(list(theirs.values()), list(own.values()), withheld)


def _paired(
    theirs: list[Given], own: list[Given], hidden: Callable[[Given], bool]
) -> list[tuple[Given, Given]] | None:
    """Things of a list with those of its turn: all, those that are not hidden, or the first; None for too many."""
    seen = own if len(theirs) == len(own) else [one for one in own if not hidden(one)]
    if len(seen) != len(theirs):
        seen = own[: len(theirs)]
    return list(zip(theirs, seen, strict=True)) if len(seen) == len(theirs) else None


def _rebuilt(messages: Messages, chat: Conversation, result: PipelineResult) -> Messages:
    """A list as its conversation has it, in OpenAI's shape: redacted, without what was blocked."""
    ours = [message for message in messages if message.get("role") in _OURS]
    sent, last = chat.to_messages(until=result.turn_number), messages[-1]
    while result.recorded and sent and sent[-1].get("role") != last.get("role"):
        sent.pop()  # what was said to it when it was sent before
    if sent and last.get("role") == Role.USER and sent[-1].get("role") == Role.USER:
        # What nobody reads of it, such as a picture, is part of no turn.
        sent[-1] = with_text(dict(last), str(sent[-1]["content"]))
    return [*ours, *sent]


def with_text(message: dict[str, Any], text: str, result: PipelineResult | None = None) -> dict[str, Any]:
    """A message with another text; parts that hold none stay. ``result`` tells what was replaced in which part."""
    content = message.get("content")
    if not isinstance(content, list):
        if content is None and isinstance(message.get("refusal"), str):
            return message if message["refusal"] == text else {**message, "refusal": text}
        return message if content == text else {**message, "content": text}
    said = [part for part in content if part.get("type") in TEXT_PARTS]
    old = [str(part.get(TEXT_PARTS[part["type"]])) for part in said]
    if "\n".join(old) == text or not said:
        return message
    new = [] if result is None else redacted_parts(old, result.details.values())
    if "\n".join(new) != text:
        new = [text]
    texts = iter(new)
    left = []
    for part in content:
        if part.get("type") not in TEXT_PARTS:
            left.append(part)
        elif (told := next(texts, None)) is not None:
            left.append({**part, TEXT_PARTS[part["type"]]: told})
    return {**message, "content": left}
