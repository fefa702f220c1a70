"""Makes a text part of its turn and has it checked, by its kind; alike for sync and async."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import ATTEMPTS_KEY, CHECKING_KEYS, CHECKING_TOOLS, CONTEXT_KEY, GUARD_KEY
from turnwise.errors import GuardError, StateError
from turnwise.guard.finding import TextKind
from turnwise.guard.guardrail import Check, ToolText
from turnwise.guard.messages.lists import PlacedText
from turnwise.guard.names import UNNAMED, canonical_name, checked_name, digest_of, short_id
from turnwise.guard.rate_limits import Refusal
from turnwise.guard.results import Detail, PipelineResult
from turnwise.guard.running import amended, broken_off, refused, run_check, tell, tell_corrections
from turnwise.guard.setup import Setup
from turnwise.guard.state.conversations import refuse_forgotten
from turnwise.guard.state.guard_state import Begun
from turnwise.guard.state.stores import StateTransaction
from turnwise.guard.step import CheckRun
from turnwise.guard.stream import CheckCall, EndStream, StreamEnd
from turnwise.guard.tool_texts import Arguments, encodable, take_context
from turnwise.guard.turn_checks import with_attempt, with_text_beside
from turnwise.sessions.state import ID_BYTES

RESERVED_KEYS: Final = (GUARD_KEY, ATTEMPTS_KEY, CONTEXT_KEY, CHECKING_TOOLS, *CHECKING_KEYS.values())
"""Keys of a turn's metadata that belong to the guard."""


class CheckMode(NamedTuple):
    """`here`: guardrails run in this thread; `kept`: a state store keeps it; `placed` and `names`: of a list."""

    here: bool = True
    kept: bool = True
    placed: PlacedText | None = None
    names: tuple[str, ...] = ()


HERE: Final = CheckMode()
AWAITED: Final = CheckMode(here=False)


@dataclass(slots=True)
class _PendingText:
    """A text to check, in which way and since when; `unread` is what of its message nobody could read."""

    setup: Setup
    chat: Conversation
    session: str
    mode: CheckMode
    unread: str
    start: float = field(default_factory=perf_counter)

    @classmethod
    def of(
        cls,
        setup: Setup,
        conversation: Conversation | NoConversation,
        session_id: str | None,
        mode: CheckMode,
        unread: str = "",
    ) -> _PendingText:
        chat = usable(conversation)
        if setup.own_clock:
            chat.limits.use_clock(setup.clock)
        if setup.state is None and len(setup.forgotten):
            refuse_forgotten(setup.forgotten, chat)
        if conversation is NO_CONVERSATION:  # it has no name to be found by in a state store
            mode = mode._replace(kept=False)
        return cls(setup, chat, session_of(session_id, chat, setup), mode, unread)

    def refused(self, content: str, refusal: Refusal | None = None) -> PipelineResult:
        """The result of a prompt that a rate limit refused; None for that of its conversation."""
        return refused(self.setup, content, self.chat, refusal, self.session, perf_counter() - self.start)

    def run(self, check: Check, ended: StreamEnd | None = None, trouble: Detail | None = None) -> CheckRun:
        """Run the guardrails over the text; `trouble` is what is told of the state store."""
        if ended is not None and ended.dropped is not None:
            return broken_off(self.setup, check, self.start, ended.dropped, trouble)
        here, _, placed, names = self.mode
        forged = "" if placed is None else placed.forged
        known = None if ended is None else ended.known
        return run_check(
            self.setup,
            check,
            self.unread,
            self.start,
            here=here,
            known=known,
            trouble=trouble,
            forged=forged,
            names=names,
        )

    def checked(
        self,
        make: Callable[[], Check | PipelineResult],
        trouble: StateError | None = None,
        *,
        but: int = 0,
        ended: StreamEnd | None = None,
    ) -> CheckRun:
        """Check the text that `make` makes part of its turn, again where another worker was faster."""
        setup, chat, (here, kept, placed, _) = self.setup, self.chat, self.mode
        if setup.state is None:
            check = make()
            return check if isinstance(check, PipelineResult) else (yield from self.run(check, ended))

        def begin(work: StateTransaction, told: Detail | None) -> Begun | PipelineResult:
            if placed is not None:
                placed.enter()
            check = make()
            if isinstance(check, PipelineResult):
                return check
            check.state = work
            begun[:] = [check]
            run = self.run(check, ended, told)
            return Begun(check, run if placed is None else placed.noted(run, work))

        begun: list[Check] = []
        trouble = (None if placed is None else placed.trouble) or trouble
        owner = digest_of(self.session) if kept or self.session != chat.conversation_id else ""
        result, checked = yield from setup.state.run(
            begin, partial(amended, setup), chat, owner, kept=kept, here=here, trouble=trouble, but=but
        )
        if checked and setup.audit is not None:
            tell(setup, result, self.session, chat)
        if checked and begun[0].afterwards:
            tell_corrections(setup, begun[0])
        return result


def counted(
    setup: Setup, key: str | None, role: str | None, *, here: bool
) -> Generator[Any, Any, tuple[Refusal | None, StateError | None]]:
    """Count a prompt unless a limit refuses it; returns the refusal, and why not all workers count it."""
    if setup.state is None:
        return setup.limits.refuse(key, role, setup.clock()), None
    return (yield from setup.state.refuse(key, role, here=here))


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
) -> CheckRun:
    """Make a prompt a turn and check it; arguments as for `GuardrailPipeline.check_input`."""
    content = checkable(content)
    text = _PendingText.of(setup, conversation, session_id, mode, unread)
    extra = turn_metadata(metadata, Side.PROMPT)
    trouble = None
    if setup.limited:
        refusal, trouble = yield from counted(setup, key, role, here=mode.here)
        if refusal is not None:
            return text.refused(content, refusal)

    def make() -> Check | PipelineResult:
        turn = text.chat.limits.try_add_prompt(content, extra)
        if turn is None:
            return text.refused(content)
        return Check(content, Side.PROMPT, turn, text.chat, text.session)

    return (yield from text.checked(make, trouble))


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
    """Complete a turn with a response and check it; as `GuardrailPipeline.check_output`."""
    content = checkable(content)
    text = _PendingText.of(setup, conversation, session_id, mode, unread)

    def make() -> Check:
        answered = _answer(content, text.chat, turn_number, turn, metadata)
        return Check(content, Side.RESPONSE, answered, text.chat, text.session)

    return text.checked(make)


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
    text = _PendingText.of(setup, conversation, session_id, mode, unread)
    given = encodable(arguments) if isinstance(arguments, str) else arguments

    def make() -> Check:
        turn, call = text.chat.tools.take_call(
            name, given, call_id=call_id, turn_number=turn_number, checking=True, moved=with_text_beside
        )
        read = Arguments(call.arguments)
        tool = ToolText(TextKind.TOOL_CALL, call.name, call.call_id, read)
        return Check(read.text, Side.RESPONSE, turn, text.chat, text.session, tool=tool)

    return text.checked(make)


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
    """Make what a tool gave back part of its turn and check it; as `GuardrailPipeline.check_tool_result`."""
    content = checkable(content)
    text = _PendingText.of(setup, conversation, session_id, mode, unread)

    def make() -> Check:
        turn, result = text.chat.tools.take_result(
            content, call_id=call_id, name=name, turn_number=turn_number, checking=True, moved=with_text_beside
        )
        tool = ToolText(TextKind.TOOL_RESULT, result.name, result.call_id)
        return Check(content, Side.PROMPT, turn, text.chat, text.session, tool=tool)

    return text.checked(make)


def check_beside(
    setup: Setup,
    kind: TextKind,
    content: str,
    conversation: Conversation | NoConversation,
    name: str,
    session_id: str | None = None,
    digest: str = "",
    mode: CheckMode = HERE,
) -> CheckRun:
    """Make a description of a tool (which has a `digest`), a document or a memory part of a turn, and check it."""
    content, name = checkable(content), checkable(name)
    text = _PendingText.of(setup, conversation, session_id, mode)

    def make() -> Check:
        turn, tool = take_context(text.chat, kind, name, content, digest)
        return Check(content, Side.PROMPT, turn, text.chat, text.session, tool=tool)

    return text.checked(make)


Opened = tuple[EndStream, CheckCall, Setup, Conversation, Turn, str]  # what a stream is made of


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
    mode = CheckMode(kept=placed is None or placed.place is not None, placed=placed)
    text = _PendingText.of(setup, conversation, session_id, mode)
    answered = _answer("", text.chat, turn_number, turn, metadata)

    def call(name: str, arguments: str, call_id: str | None, *, here: bool) -> CheckRun:
        at = placed
        if at is not None and at.place is not None:
            at = at.place.called(name, arguments)
        mode = CheckMode(here, text.mode.kept, at)
        run = check_call(setup, name, arguments, text.chat, call_id, answered.number, session_id, mode=mode)
        return _noted(setup, at, run)

    return partial(_end_stream, text), call, setup, text.chat, answered, text.session


def _end_stream(text: _PendingText, check: Check, ended: StreamEnd, *, here: bool) -> CheckRun:
    """Check a response that came in pieces, or record that it broke off."""
    check.text = content = checkable(check.text)
    placed, turn = text.mode.placed, check.turn
    if placed is not None and placed.place is not None:
        placed.place.spoken(content)
    text.chat.history.rephrase(turn.number, content)
    text.mode = text.mode._replace(here=here)
    begun = [check]

    def make() -> Check:
        return begun.pop() if begun else Check(content, Side.RESPONSE, turn, text.chat, text.session)

    return _noted(text.setup, placed, text.checked(make, but=turn.number, ended=ended))


def _noted(setup: Setup, placed: PlacedText | None, run: CheckRun) -> CheckRun:
    """The check of a text whose place, without a state store, is noted at its end."""
    if setup.state is not None or placed is None or placed.place is None or setup.lists is None:
        return run
    return placed.place.noted(placed.index, run, setup.lists.note)


def session_of(session_id: str | None, conversation: Conversation, setup: Setup) -> str:
    """The named session in any spelling, else what the configuration says; ids of conversations as they are."""
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
