"""Checks what came last in a list of messages, in the conversation that it continues, or by itself."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from turnwise.conversation import Conversation, Role, from_messages
from turnwise.conversation.message_entries import MessageEntry, has_results, read_calls, read_results, unread
from turnwise.conversation.message_formats import OPENAI, messages_of_turn
from turnwise.conversation.tool_log import ToolLog
from turnwise.errors import ConversationError, GuardError, SessionError, StateError
from turnwise.guard.finding import TextKind
from turnwise.guard.messages.lists import (
    ListedTexts,
    ListPlace,
    ListPosition,
    MessageLists,
    MovedError,
    PlacedText,
)
from turnwise.guard.results import PipelineResult, joined
from turnwise.guard.running import refused
from turnwise.guard.setup import Setup
from turnwise.guard.state.guard_state import as_state_error
from turnwise.guard.step import TURN_SECONDS, CheckRun, done, entered
from turnwise.guard.texts import (
    CheckMode,
    Opened,
    check_call,
    check_prompt,
    check_response,
    check_result,
    checked_session,
    counted,
    open_stream,
    session_of,
    usable,
)
from turnwise.guard.tool_texts import encodable
from turnwise.guard.turn_checks import TextCheck, readable_checks

_KINDS = {Role.USER: TextKind.INPUT, Role.ASSISTANT: TextKind.OUTPUT}
"""As what the text of a message is checked, by its role."""

_ROLES = (*_KINDS, Role.TOOL, Role.FUNCTION)  # roles of messages that are checked
_NAMED = 5  # parts that are named at most where several could not be read


class LastText(NamedTuple):
    """A text that came last in a list of messages; of a call its arguments, empty where nothing can be read."""

    kind: TextKind
    text: str
    unread: str = ""  # what else the messages hold, and where
    name: str = ""
    call_id: str | None = None
    names: tuple[str, ...] = ()  # of those who speak in the messages, and of tools that they call


class LastTexts(NamedTuple):
    """What came last in a list: all messages, the index of the first that came last, the texts of these."""

    entries: list[MessageEntry]
    first: int
    texts: list[LastText]


def last_texts(messages: Sequence[Mapping[str, Any]]) -> LastTexts:
    """What came last in a list of messages; at least one text.

    >>> last = last_texts([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
    >>> last.first, last.texts[0].kind.value, last.texts[0].text
    (1, 'output', 'Ho')
    """
    entries = OPENAI.entries(messages)
    last = entries[-1]
    if last.role not in _ROLES:
        raise GuardError(f"the last message has role {last.role}; use one of {', '.join(_ROLES)}")
    first = len(entries) - 1
    while first and has_results(entries[first].raw) and _only_results(entries[first - 1]):
        first -= 1
    texts: list[LastText] = []
    for entry in entries[first:]:
        texts += [
            LastText(TextKind.TOOL_RESULT, encodable(one.text), name=one.name, call_id=one.call_id)
            for one in read_results(entry.raw)
        ]
    calls = [
        LastText(TextKind.TOOL_CALL, one.text, name=one.name, call_id=one.call_id) for one in read_calls(last.raw)
    ]
    told = _left_out(messages, first)
    if last.text is not None and last.role in _KINDS:
        texts.append(LastText(_KINDS[last.role], last.text))
    texts += calls
    if not texts and not told:
        raise GuardError(f"the last message, of role {last.role}, has no text to check")
    if not texts:
        texts.append(LastText(_KINDS.get(last.role, TextKind.INPUT), ""))
    texts[0] = texts[0]._replace(unread=told, names=tuple(_names_in(entries)))
    return LastTexts(entries, first, texts)


def before_last(messages: Sequence[Mapping[str, Any]], last: LastTexts) -> Conversation:
    """The conversation before what came last in a list of messages, as the list has it."""
    before = messages[: last.first]
    conversation = from_messages(before) if before else Conversation()
    if last.texts[0].kind is not TextKind.INPUT:
        # It belongs to the message right before it, or to nothing; never to an older one that was left unanswered.
        for turn in conversation.get_incomplete_turns():
            if turn is not conversation.history.last:
                conversation.history.withdraw(turn.number)
    return conversation


def _only_results(entry: MessageEntry) -> bool:
    return has_results(entry.raw) and (entry.role is not Role.USER or entry.text is None)


def _names_in(entries: Sequence[MessageEntry]) -> set[str]:
    """All names in a list of messages; those before the last ones may have been seen by no check."""
    plain = {"role", "content"}
    named = [
        entry.raw
        for entry in entries
        if not plain.issuperset(entry.raw) or isinstance(entry.raw.get("content"), list)
    ]
    names = {raw["name"] for raw in named if isinstance(raw.get("name"), str)}
    return names | {call.name for raw in named for call in read_calls(raw)}


def _left_out(messages: Sequence[Mapping[str, Any]], first: int) -> str:
    """What the last messages hold that nobody reads; empty where there is nothing."""
    told = []
    for place in range(first, len(messages)):
        parts = unread(messages[place])
        if parts:
            rest = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
            told.append(f"message {place + 1}: {', '.join(parts[:_NAMED])}{rest}")
    more = f"; and of {len(told) - _NAMED} more messages" if len(told) > _NAMED else ""
    return f"{'; '.join(told[:_NAMED])}{more} not read" if told else ""


_PLACES = 20
"""How often the place of a list of messages is looked for, where others go on with its conversation meanwhile."""


def check_last(
    setup: Setup,
    messages: Sequence[Mapping[str, Any]],
    named: ListClaim,
    given: Mapping[str, Any],
    *,
    here: bool = True,
) -> CheckRun:
    """Check what came last in a list of messages; arguments as for `GuardrailPipeline.check_messages`."""
    last = last_texts(messages)
    lists = _lists(setup, named)
    if lists is None:
        return _several(setup, last.texts, before_last(messages, last), given, CheckMode(here, kept=False))
    return _found(setup, lists, messages, last, named, given, here=here)


class ListClaim(NamedTuple):
    """What a caller says of the place of a list of messages; see `GuardrailPipeline.check_messages`."""

    conversation_id: str | None = None
    conversation: Conversation | None = None
    after: str | None = None
    recognised: bool = False
    scope: str | None = None

    @property
    def name(self) -> str | None:
        """Name of the conversation; None where none is given."""
        return self.conversation_id if self.conversation is None else self.conversation.conversation_id


def _lists(setup: Setup, named: ListClaim) -> MessageLists | None:
    """What finds conversations by lists of messages; None where each list stands by itself."""
    if setup.lists is None and any(named[:3]):
        raise GuardError(
            "conversation_id, conversation and after name what is kept, and the state store keeps no "
            "conversations; set conversations: true under state, or leave them out"
        )
    if setup.state is None and not any(named[:4]):
        return None
    if setup.lists is not None and named.conversation is not None:
        setup.lists.hold(usable(named.conversation))
    return setup.lists


def _scope(session_id: str | None, named: ListClaim) -> tuple[str | None, str | None]:
    return None if session_id is None else checked_session(session_id), named.scope


def _found(
    setup: Setup,
    lists: MessageLists,
    messages: Sequence[Mapping[str, Any]],
    last: LastTexts,
    named: ListClaim,
    kwargs: Mapping[str, Any],
    *,
    here: bool,
) -> CheckRun:
    """Check what came last in a list of messages, in the conversation that it continues."""
    start = perf_counter()
    listed = ListedTexts.of(*last)
    scope = _scope(kwargs.get("session_id"), named)
    for _ in range(_PLACES):
        try:
            find = partial(lists.find, listed, named.name, scope, named.after)
            found: ListPosition = yield from done(find, here=here)
            if found.retry is not None:
                return (yield from _again(setup, found.retry, found.chat, kwargs, start, here=here))
            assert found.place is not None
            mode = CheckMode(here, placed=found.place.text(0))
            return (yield from _several(setup, found.texts, found.chat, kwargs, mode))
        except MovedError:
            continue
        except (StateError, SessionError) as error:
            mode = CheckMode(here, kept=False, placed=PlacedText(None, trouble=as_state_error(error)))
            return (yield from _several(setup, last.texts, before_last(messages, last), kwargs, mode))
    raise StateError("other checks of this conversation were faster again and again; send the messages again")


def _again(
    setup: Setup, retry: PipelineResult, chat: Conversation, kwargs: Mapping[str, Any], start: float, *, here: bool
) -> CheckRun:
    """The record of messages that were checked before; a prompt counts for rate limits again."""
    if setup.limited and retry.pipeline_type is TextKind.INPUT:
        refusal, _ = yield from counted(setup, kwargs.get("key"), kwargs.get("role"), here=here)
        if refusal is not None:
            session = session_of(kwargs.get("session_id"), chat, setup)
            return refused(setup, retry.text, chat, refusal, session, perf_counter() - start)
    return retry.replaced(recorded=True, seconds=perf_counter() - start)


def _several(
    setup: Setup, texts: Sequence[LastText], before: Conversation, kwargs: Mapping[str, Any], mode: CheckMode
) -> CheckRun:
    """Check texts one after the other, and join what comes of several."""
    results: list[PipelineResult] = []
    placed = mode.placed
    for index, text in enumerate(texts):
        if placed is not None and placed.place is not None and setup.state is None:
            results.append((yield from _in_process(setup, text, placed.place, index, kwargs, here=mode.here)))
            continue
        at = mode if placed is None else mode._replace(placed=placed.at(index))
        results.append((yield from _one(setup, text, before, kwargs, at)))
    return results[0] if len(results) == 1 else joined(results)


def _in_process(
    setup: Setup, text: LastText, place: ListPlace, index: int, kwargs: Mapping[str, Any], *, here: bool
) -> CheckRun:
    """Check a text of a conversation that is in this process alone."""
    assert setup.lists is not None
    lock = setup.lists.lock(place.chat)
    if not (yield from entered(lock, here=here)):
        raise GuardError(f"an earlier check of this conversation has run for {TURN_SECONDS:g} s; wait for it")
    try:
        place.enter(index)
        mode = CheckMode(here, placed=place.text(index))
        result = yield from _one(setup, text, place.chat, kwargs, mode)
        return place.note(index, result, setup.lists.note)
    finally:
        lock.release()


def _one(
    setup: Setup, text: LastText, before: Conversation, kwargs: Mapping[str, Any], mode: CheckMode
) -> CheckRun:
    more: dict[str, Any] = {"unread": text.unread, "mode": mode._replace(names=text.names)}
    if text.kind is TextKind.INPUT:
        return check_prompt(setup, text.text, before, **more, **kwargs)
    placed = mode.placed
    more["turn_number"] = None if placed is None or placed.place is None else placed.place.turn_number
    if text.kind is TextKind.OUTPUT:
        given = {name: value for name, value in kwargs.items() if name not in ("key", "role")}
        return check_response(setup, text.text, before, **more, **given)
    more["session_id"] = kwargs.get("session_id")
    if text.kind is TextKind.TOOL_CALL:
        return check_call(setup, text.name, text.text, before, text.call_id, **more)
    return check_result(setup, text.text, before, text.call_id, text.name or None, **more)


def open_listed_stream(
    setup: Setup,
    messages: Sequence[Mapping[str, Any]],
    session_id: str | None,
    metadata: Mapping[str, Any] | None,
    named: ListClaim,
    *,
    here: bool = True,
) -> Generator[Any, Any, Opened]:
    """Open the reply to a list of messages, in the conversation that it continues; as `open_stream`."""
    listed = ListedTexts.of(entries := OPENAI.entries(messages), len(entries), ())
    lists, scope = _lists(setup, named), _scope(session_id, named)
    placed = None
    for _ in range(_PLACES if lists is not None else 0):
        assert lists is not None
        try:
            find = partial(lists.find, listed, named.name, scope, named.after)
            found: ListPosition = yield from done(find, here=here)
            assert found.place is not None
            found.place.enter(0)
        except MovedError:
            continue
        except (StateError, SessionError) as error:
            placed = PlacedText(None, trouble=as_state_error(error))
            break
        placed = PlacedText(found.place, entered=True)
        return open_stream(setup, found.chat, found.place.turn_number, None, session_id, metadata, placed)
    chat = from_messages(messages)
    for turn in chat.get_incomplete_turns():
        if turn is not chat.history.last:
            chat.history.withdraw(turn.number)
    return open_stream(setup, chat, None, None, session_id, metadata, placed or PlacedText(None))


def unchecked(messages: Iterable[Any], result: PipelineResult, chat: Conversation | None) -> list[Any]:
    """Messages, with an empty one in place of each that the check of the last ones, or one of `chat`, has read."""
    known = {(part.pipeline_type, part.text) for part in result.parts or (result,)}
    for turn in () if chat is None else chat.turns:
        record = readable_checks(turn.checks, turn.number)
        if record is None:
            continue
        raws = messages_of_turn(turn) if record.texts else []
        told: list[tuple[TextCheck | None, TextKind, str | None]] = [
            (record.input, TextKind.INPUT, turn.prompt),
            (record.output, TextKind.OUTPUT, turn.response),
            *((record.tool_calls.get(one.call_id), TextKind.TOOL_CALL, one.arguments) for one in turn.tool_calls),
            *(
                (record.tool_results.get(one.call_id), TextKind.TOOL_RESULT, one.content)
                for one in turn.tool_results
            ),
            *(
                (record.texts.get(name), TextKind.OUTPUT, raws[at].get("content"))
                for at, name in ToolLog(raws).first_calls.items()
            ),
        ]
        known |= {(kind, str(text)) for check, kind, text in told if check is not None and not check.blocked}
    return [{} if _is_known(message, known) else message for message in messages]


def _is_known(message: Any, known: Container[tuple[TextKind, str]]) -> bool:
    try:
        texts = last_texts([message]).texts
    except (ConversationError, GuardError):
        return False
    return all((one.kind, one.text) in known and not one.unread for one in texts)
