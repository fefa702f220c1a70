"""How the last messages of a list are checked: in the conversation that it continues, or as the list has it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from collections.abc import Sequence as Ordered
from functools import partial
from time import perf_counter
from typing import Any

from turnwise.conversation import Conversation
from turnwise.conversation.messages import OPENAI
from turnwise.errors import GuardError, SessionError, StateError
from turnwise.guard.checking import refused
from turnwise.guard.guardrail import TextKind
from turnwise.guard.identity.lists import Found, ListedTexts, MessageLists
from turnwise.guard.identity.place import MovedError, PlacedText
from turnwise.guard.records import PipelineResult, joined
from turnwise.guard.request import LastText, LastTexts, before_last, last_texts
from turnwise.guard.setup import Setup
from turnwise.guard.state.keeper import done
from turnwise.guard.step import CheckRun
from turnwise.guard.texts import (
    Opened,
    check_call,
    check_prompt,
    check_response,
    check_result,
    open_stream,
    session_of,
)

_PLACES = 20
"""How often the place of a list of messages is looked for, where others go on with its conversation meanwhile."""


def check_last(
    setup: Setup, messages: Ordered[Mapping[str, Any]], kwargs: Mapping[str, Any]
) -> CheckRun | PipelineResult:
    """Check what came last in a list of messages; arguments as for `GuardrailPipeline.check_messages`."""
    last = last_texts(messages)
    named = {name: kwargs.get(name) for name in ("conversation_id", "after")}
    given = {name: value for name, value in kwargs.items() if name not in named}
    lists = _lists(setup, *named.values())
    if lists is None:
        return _several(setup, last.texts, before_last(messages, last), given)
    return _found(setup, lists, messages, last, named, given)


def _lists(setup: Setup, *named: str | None) -> MessageLists | None:
    """Return what finds conversations by lists of messages; None without a state store that keeps them.

    Raises:
        GuardError: something is named that only such a store has.
    """
    lists = None if setup.keeper is None else setup.keeper.lists
    if lists is None and any(value is not None for value in named):
        raise GuardError(
            "conversation_id and after name what a state store keeps, and there is none that keeps "
            "conversations; pass state_store, or leave them out"
        )
    return lists


def _as_state_error(error: SessionError) -> StateError:
    return error if isinstance(error, StateError) else StateError(str(error))


def _found(
    setup: Setup,
    lists: MessageLists,
    messages: Ordered[Mapping[str, Any]],
    last: LastTexts,
    named: Mapping[str, str | None],
    kwargs: Mapping[str, Any],
) -> CheckRun:
    """Check what came last in a list of messages, in the conversation that it continues."""
    here, start = kwargs.get("here", True), perf_counter()
    listed = ListedTexts.of(*last)
    for _ in range(_PLACES):
        try:
            find = partial(lists.find, listed, session_id=kwargs.get("session_id"), **named)
            found: Found = yield from done(find, here=here)
            if found.retry is not None:
                return (yield from _again(setup, found.retry, found.chat, kwargs, start))
            assert found.place is not None
            return (yield from _several(setup, found.texts, found.chat, kwargs, found.place.text(0)))
        except MovedError:
            continue
        except (StateError, SessionError) as error:
            placed = PlacedText(None, trouble=_as_state_error(error))
            return (yield from _several(setup, last.texts, before_last(messages, last), kwargs, placed))
    raise StateError("other checks of this conversation were faster again and again; send the messages again")


def _again(
    setup: Setup, retry: PipelineResult, chat: Conversation, kwargs: Mapping[str, Any], start: float
) -> CheckRun:
    """Return what the record says of messages that were checked before; a prompt counts for rate limits again."""
    if setup.keeper is not None and setup.limits.active and retry.pipeline_type is TextKind.INPUT:
        here = kwargs.get("here", True)
        refusal, _ = yield from setup.keeper.refuse(kwargs.get("key"), kwargs.get("role"), here=here)
        if refusal is not None:
            session = session_of(kwargs.get("session_id"), chat, setup)
            return refused(setup, retry.text, chat, refusal, session, perf_counter() - start)
    return retry.replaced(recorded=True, seconds=perf_counter() - start)


def _several(
    setup: Setup,
    texts: Ordered[LastText],
    before: Conversation,
    kwargs: Mapping[str, Any],
    placed: PlacedText | None = None,
) -> CheckRun:
    """Check texts one after the other, and join what comes of several."""
    results: list[PipelineResult] = []
    for index, text in enumerate(texts):
        run = _one(setup, text, before, kwargs, placed if placed is None else placed.at(index))
        results.append(run if isinstance(run, PipelineResult) else (yield from run))
    return results[0] if len(results) == 1 else joined(results)


def _one(
    setup: Setup, text: LastText, before: Conversation, kwargs: Mapping[str, Any], placed: PlacedText | None
) -> CheckRun | PipelineResult:
    kept = placed is not None and placed.place is not None
    more: dict[str, Any] = {"unread": text.unread, "kept": kept, "placed": placed}
    if text.kind is TextKind.INPUT:
        return check_prompt(setup, text.text, before, **more, **kwargs)
    number = None if placed is None or placed.place is None else placed.place.turn_number
    if text.kind is TextKind.OUTPUT:
        given = {name: value for name, value in kwargs.items() if name not in ("key", "role")}
        return check_response(setup, text.text, before, turn_number=number, **more, **given)
    more |= {"here": kwargs.get("here", True), "session_id": kwargs.get("session_id"), "turn_number": number}
    if text.kind is TextKind.TOOL_CALL:
        return check_call(setup, text.name, text.text, before, text.call_id, **more)
    return check_result(setup, text.text, before, text.call_id, text.name or None, **more)


def open_listed_stream(
    setup: Setup,
    messages: Ordered[Mapping[str, Any]],
    session_id: str | None,
    metadata: Mapping[str, Any] | None,
    conversation_id: str | None,
    after: str | None,
    *,
    here: bool = True,
) -> Generator[Any, Any, Opened]:
    """Open the reply to a list of messages, in the conversation that it continues; as `open_stream`."""
    listed = ListedTexts.of(entries := OPENAI.entries(messages), len(entries), ())
    lists = _lists(setup, conversation_id, after)
    placed = None
    for _ in range(_PLACES if lists is not None else 0):
        assert lists is not None
        try:
            find = partial(lists.find, listed, conversation_id, session_id, after)
            found: Found = yield from done(find, here=here)
            assert found.place is not None
            found.place.enter(0)
        except MovedError:
            continue
        except (StateError, SessionError) as error:
            placed = PlacedText(None, trouble=_as_state_error(error))
            break
        placed = PlacedText(found.place, entered=True)
        return open_stream(setup, found.chat, found.place.turn_number, None, session_id, metadata, placed)
    chat = Conversation.from_messages(messages)
    for turn in chat.get_incomplete_turns():
        if turn is not chat.last_turn:
            chat.withdraw(turn.number)
    return open_stream(setup, chat, None, None, session_id, metadata, placed or PlacedText(None))
