"""Makes a text part of its turn and has it checked, by its kind; alike for sync and async."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import ATTEMPTS_KEY, CHECKING_KEYS, CHECKING_TOOLS, CONTEXT_KEY, GUARD_KEY
from turnwise.errors import GuardError
from turnwise.guard.finding import TextKind
from turnwise.guard.guardrail import Check, ToolText
from turnwise.guard.messages.lists import PlacedText
from turnwise.guard.names import UNNAMED, canonical_name, checked_name, digest_of, short_id
from turnwise.guard.results import Detail, PipelineResult
from turnwise.guard.running import amended, broken_off, refused, run_check, tell, tell_corrections
from turnwise.guard.setup import Setup
from turnwise.guard.state.conversations import refuse_forgotten
from turnwise.guard.state.guard_state import Begun, GuardState
from turnwise.guard.state.stores import Work
from turnwise.guard.step import CheckRun
from turnwise.guard.stream import CheckCall, EndStream, StreamEnd
from turnwise.guard.tool_texts import Arguments, encodable, take_context
from turnwise.guard.turn_checks import with_attempt, with_text_beside
from turnwise.sessions.state import ID_BYTES

if TYPE_CHECKING:
    from turnwise.guard.results import Detail


RESERVED_KEYS: Final = (GUARD_KEY, ATTEMPTS_KEY, CONTEXT_KEY, CHECKING_TOOLS, *CHECKING_KEYS.values())
"""Keys of a turn's metadata that belong to the guard."""


class CheckMode(NamedTuple):
    """How a text is checked.

    The guardrails run in this thread if `here`; else each step is yielded to who awaits it. `kept` says whether a
    state store keeps the conversation. `placed` and `names` are for a text of a list of messages: where it stands,
    and names that came with it.
    """

    here: bool = True
    kept: bool = True
    placed: PlacedText | None = None
    names: tuple[str, ...] = ()


HERE: Final = CheckMode()


AWAITED: Final = CheckMode(here=False)


def check_prompt(
    setup: Setup,
    content: str,
    conversation: Conversation | NoConversation,
    key: str | None = None,
    role: str | None = None,
    session_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    unread: str = "",
    mode: CheckMode = HERE,
) -> CheckRun | PipelineResult:
    """Make a prompt a turn and check it; arguments as for `GuardrailPipeline.check_input`.

    `unread` is what of its message nobody could read.
    """
    start = perf_counter()
    content = checkable(content)
    chat, session = _placed(setup, conversation, session_id)
    extra = turn_metadata(metadata, Side.PROMPT)
    if setup.state is not None:

        def prompt() -> Check | PipelineResult:
            turn = chat.limits.try_add_prompt(content, extra)
            if turn is None:
                return refused(setup, content, chat, None, session, perf_counter() - start)
            return Check(content, Side.PROMPT, turn, chat, session)

        run = partial(run_check, setup, unread=unread, start=start, here=mode.here, names=mode.names)
        counted = (content, key, role) if setup.limited else None
        mode = _kept_if_given(mode, conversation)
        return _kept(setup, setup.state, prompt, run, chat, session, mode, counted=counted)
    refusal = setup.limits.refuse(key, role, setup.clock()) if setup.limited else None
    turn = None if refusal else chat.limits.try_add_prompt(content, extra)
    if turn is None:
        return refused(setup, content, chat, refusal, session, perf_counter() - start)
    check = Check(content, Side.PROMPT, turn, chat, session)
    forged = "" if mode.placed is None else mode.placed.forged
    return run_check(setup, check, unread, start, here=mode.here, forged=forged, names=mode.names)


def check_response(
    setup: Setup,
    content: str,
    conversation: Conversation | NoConversation,
    turn_number: int | None = None,
    turn: Turn | None = None,
    session_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    unread: str = "",
    mode: CheckMode = HERE,
) -> CheckRun:
    """Complete a turn with a response and check it; as `check_prompt` and `GuardrailPipeline.check_output`."""
    start = perf_counter()
    content = checkable(content)
    chat, session = _placed(setup, conversation, session_id)
    mode = _kept_if_given(mode, conversation)

    def response() -> Check:
        answered = _answer(content, chat, turn_number, turn, metadata)
        return Check(content, Side.RESPONSE, answered, chat, session)

    return _checked(setup, response, unread, start, chat, session, mode)


def check_call(
    setup: Setup,
    name: str,
    arguments: str | Mapping[str, Any],
    conversation: Conversation | NoConversation,
    call_id: str | None,
    turn_number: int | None = None,
    session_id: str | None = None,
    unread: str = "",
    mode: CheckMode = HERE,
) -> CheckRun:
    """Make a tool call part of its turn and check it; as `GuardrailPipeline.check_tool_call`."""
    start = perf_counter()
    chat, session = _placed(setup, conversation, session_id)
    mode = _kept_if_given(mode, conversation)

    def tool_call() -> Check:
        turn, call = chat.tools.take_call(
            name,
            encodable(arguments) if isinstance(arguments, str) else arguments,
            call_id=call_id,
            turn_number=turn_number,
            checking=True,
            moved=with_text_beside,
        )
        read = Arguments(call.arguments)
        tool = ToolText(TextKind.TOOL_CALL, call.name, call.call_id, read)
        return Check(read.text, Side.RESPONSE, turn, chat, session, tool=tool)

    return _checked(setup, tool_call, unread, start, chat, session, mode)


def check_result(
    setup: Setup,
    content: str,
    conversation: Conversation | NoConversation,
    call_id: str | None,
    name: str | None,
    turn_number: int | None = None,
    session_id: str | None = None,
    unread: str = "",
    mode: CheckMode = HERE,
) -> CheckRun:
    """Make what a tool gave back part of its turn and check it; as `check_call`."""
    start = perf_counter()
    content = checkable(content)
    chat, session = _placed(setup, conversation, session_id)
    mode = _kept_if_given(mode, conversation)

    def tool_result() -> Check:
        turn, result = chat.tools.take_result(
            content,
            call_id=call_id,
            name=name,
            turn_number=turn_number,
            checking=True,
            moved=with_text_beside,
        )
        tool = ToolText(TextKind.TOOL_RESULT, result.name, result.call_id)
        return Check(content, Side.PROMPT, turn, chat, session, tool=tool)

    return _checked(setup, tool_result, unread, start, chat, session, mode)


def check_beside(
    setup: Setup,
    kind: TextKind,
    text: str,
    conversation: Conversation | NoConversation,
    name: str,
    session_id: str | None = None,
    digest: str = "",
    mode: CheckMode = HERE,
) -> CheckRun:
    """Make a description of a tool, a document or a memory part of the last turn and check it; as `check_call`.

    `digest` is of a description.
    """
    start = perf_counter()
    text, name = checkable(text), checkable(name)
    chat, session = _placed(setup, conversation, session_id)
    mode = _kept_if_given(mode, conversation)

    def beside() -> Check:
        turn, tool = take_context(chat, kind, name, text, digest)
        return Check(text, Side.PROMPT, turn, chat, session, tool=tool)

    return _checked(setup, beside, "", start, chat, session, mode)


def _placed(
    setup: Setup, conversation: Conversation | NoConversation, session_id: str | None
) -> tuple[Conversation, str]:
    """The conversation of a check, and its session."""
    chat = usable(conversation)
    if setup.own_clock:
        chat.limits.use_clock(setup.clock)
    if setup.state is None and len(setup.forgotten):
        refuse_forgotten(setup.forgotten, chat)
    return chat, session_of(session_id, chat, setup)


def _kept_if_given(mode: CheckMode, conversation: Conversation | NoConversation) -> CheckMode:
    """The mode of a check; a text without a conversation has no name to be found by in a state store."""
    return mode if conversation is not NO_CONVERSATION else mode._replace(kept=False)


def open_stream(
    setup: Setup,
    conversation: Conversation | NoConversation,
    turn_number: int | None,
    turn: Turn | None,
    session_id: str | None,
    metadata: Mapping[str, Any] | None,
    placed: PlacedText | None = None,
) -> Opened:
    """Complete the turn that a response answers with nothing yet, and return what a stream is made of."""
    start = perf_counter()
    chat, session = _placed(setup, conversation, session_id)
    answered = _answer("", chat, turn_number, turn, metadata)
    mode = CheckMode(
        kept=conversation is not NO_CONVERSATION and (placed is None or placed.place is not None), placed=placed
    )
    end = partial(_end_stream, setup, start, mode)
    call = partial(_call_of_stream, setup, chat, answered.number, session_id, mode)
    return end, call, setup, chat, answered, session


Opened = tuple[EndStream, CheckCall, Setup, Conversation, Turn, str]
"""What a stream is made of."""


def _call_of_stream(
    setup: Setup,
    chat: Conversation,
    number: int,
    session_id: str | None,
    mode: CheckMode,
    name: str,
    arguments: str,
    call_id: str | None,
    *,
    here: bool,
) -> CheckRun:
    """Check a call of a tool that came with a response in pieces."""
    placed = mode.placed
    if placed is not None and placed.place is not None:
        placed = placed.place.called(name, arguments)
    mode = CheckMode(here, mode.kept, placed)
    run = check_call(setup, name, arguments, chat, call_id, number, session_id, mode=mode)
    if setup.state is not None or placed is None or placed.place is None or setup.lists is None:
        return run
    return placed.place.noted(placed.index, run, setup.lists.note)


def _end_stream(
    setup: Setup, start: float, mode: CheckMode, check: Check, ended: StreamEnd, *, here: bool
) -> CheckRun | PipelineResult:
    """Check a response that came in pieces, or record that it broke off."""
    check.text = checkable(check.text)
    place = None if mode.placed is None else mode.placed.place
    if place is not None:
        place.spoken(check.text)
    chat, number, text = check.conversation, check.turn.number, check.text
    chat.history.rephrase(number, text)
    if ended.dropped is not None:
        run: Run = partial(broken_off, setup, start=start, why=ended.dropped)
    else:
        run = partial(run_check, setup, unread="", start=start, here=here, known=ended.known)
    if setup.state is None:
        if place is None or setup.lists is None:
            return run(check)
        return place.noted(0, run(check), setup.lists.note)
    session = check.session_id
    again = partial(Check, text, Side.RESPONSE, check.turn, chat, session)
    return _kept(setup, setup.state, again, run, chat, session, mode._replace(here=here), but=number)


def _checked(
    setup: Setup,
    make: Callable[[], Check],
    unread: str,
    start: float,
    chat: Conversation,
    session: str,
    mode: CheckMode,
) -> CheckRun:
    """Check a text, which `make` makes part of its turn; with a state store where there is one."""
    if setup.state is None:
        forged = "" if mode.placed is None else mode.placed.forged
        return run_check(setup, make(), unread, start, here=mode.here, forged=forged, names=mode.names)
    run = partial(run_check, setup, unread=unread, start=start, here=mode.here, names=mode.names)
    return _kept(setup, setup.state, make, run, chat, session, mode)


Run = Callable[..., CheckRun]
"""Runs the guardrails over a check; ``trouble`` is what is told of the state store."""


def _kept(
    setup: Setup,
    state: GuardState,
    make: Callable[[], Check | PipelineResult],
    run: Run,
    chat: Conversation,
    session: str,
    mode: CheckMode,
    *,
    counted: tuple[str, str | None, str | None] | None = None,
    but: int = 0,
) -> CheckRun:
    """Check a text with a state store: what comes of it is written in one step before the result is told.

    `make` makes the text part of its turn, and again where another worker was faster; a result of it is a refusal.
    `counted` is the text, with key and role whose limits count it. `but` is the turn that is under check already.
    """
    here, kept, placed, _ = mode
    start, trouble = perf_counter(), None if placed is None else placed.trouble
    if counted is not None:
        content, key, role = counted
        refusal, uncounted = yield from state.refuse(key, role, here=here)
        trouble = trouble or uncounted
        if refusal is not None:
            return refused(setup, content, chat, refusal, session, perf_counter() - start)

    def begin(work: Work, told: Detail | None) -> Begun | PipelineResult:
        if placed is not None:
            placed.enter()
        check = make()
        if isinstance(check, PipelineResult):
            return check
        check.state = work
        begun[:] = [check]
        if placed is None:
            return Begun(check, run(check=check, trouble=told))
        return Begun(check, placed.noted(run(check=check, trouble=told, forged=placed.forged), work))

    begun: list[Check] = []
    owner = digest_of(session) if kept or session != chat.conversation_id else ""
    result, checked = yield from state.run(
        begin, partial(amended, setup), chat, owner, kept=kept, here=here, trouble=trouble, but=but
    )
    if checked and setup.audit is not None:
        tell(setup, result, session, chat)
    if checked and begun[0].afterwards:
        tell_corrections(setup, begun[0])
    return result


def session_of(session_id: str | None, conversation: Conversation, setup: Setup) -> str:
    """The session of a text: the one that is named, else what the configuration says.

    All spellings of a name are one session; the id of a conversation counts as it is.
    """
    if session_id is not None:
        return checked_session(session_id)
    person = canonical_name(conversation.initiator) if setup.by_person else ""
    # People without a name are not one person.
    name = conversation.conversation_id if person in UNNAMED else person
    return name if name.isascii() and len(name) <= ID_BYTES else short_id(name)


def _answer(
    content: str,
    conversation: Conversation,
    turn_number: int | None,
    turn: Turn | None,
    metadata: Mapping[str, Any] | None,
) -> Turn:
    """Complete the turn that a response answers; one that is named and has a blocked response gets another."""
    extra = turn_metadata(metadata, Side.RESPONSE)
    number = answered_turn(turn_number, turn, conversation)
    if number is not None:
        answered = conversation.turn(number)
        if answered.complete and answered.blocked(Side.RESPONSE):
            conversation.history.annotate(number, ATTEMPTS_KEY, partial(with_attempt, answered))
            # With the messages that the turn came from, which hold the blocked text.
            conversation.history.replace_text(number, Side.RESPONSE, "")
            return conversation.history.rephrase(number, content, extra)
    return conversation.answer(content, extra, turn_number=number)


def checked_session(session_id: object) -> str:
    """The id that a named session has in the session memory, whatever the spelling."""
    return short_id(checked_name(session_id, "session_id"))


class NoConversation(Enum):
    """The conversation of a text that belongs to none."""

    NO_CONVERSATION = "no conversation"


NO_CONVERSATION: Final = NoConversation.NO_CONVERSATION
"""What a check has for a conversation where none is passed."""


def usable(conversation: object) -> Conversation:
    """The conversation of a check; a new one for a text that stands by itself."""
    if conversation is NO_CONVERSATION:
        return Conversation()
    if not isinstance(conversation, Conversation):
        raise GuardError(
            f"conversation must be a Conversation, not {type(conversation).__name__}: keep the object from "
            "check to check, or pass Conversation(conversation_id=...); from a state store it is "
            "pipeline.load_conversation(conversation_id); leave it out for a text that stands by itself"
        )
    return conversation


def checkable(content: object) -> str:
    """Content as text that every guardrail can read; see `encodable`."""
    if content is None:
        raise GuardError("Content cannot be None")
    if not isinstance(content, str):
        raise GuardError(f"content is {type(content).__name__}, not text")
    return content if content.isascii() else encodable(content)


def turn_metadata(metadata: Mapping[str, Any] | None, side: Side) -> dict[str, Any]:
    """What joins the metadata of a turn: the caller's, and the mark that one side is being checked."""
    if metadata is None:
        return {CHECKING_KEYS[side]: True}
    extra = json_object(metadata, "metadata")
    for key in RESERVED_KEYS:
        if key in extra:
            raise GuardError(f"metadata has the key {key!r}, which is the guard's own; rename yours")
    return {**extra, CHECKING_KEYS[side]: True}


def answered_turn(number: int | None, turn: Turn | None, conversation: Conversation) -> int | None:
    """Number of the turn that a response answers, given as a number, as a turn, or not at all."""
    if turn is None:
        return number
    if number is not None and number != turn.number:
        raise GuardError(f"turn_number is {number}, but turn is number {turn.number}; give one of them")
    if conversation.turn(turn.number) is not turn:
        raise GuardError(f"turn {turn.number} is of another conversation; give a turn of this one")
    return turn.number
