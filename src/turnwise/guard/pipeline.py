"""The pipeline: guardrails in front of and behind a live model, with the whole conversation in view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import replace
from functools import partial
from hashlib import sha256
from os import PathLike
from time import perf_counter
from typing import Any, Final, Self

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.participants import UNKNOWN_NAME
from turnwise.conversation.tools import CALLS, RESULTS
from turnwise.conversation.turn import GUARD_KEY
from turnwise.errors import GuardError
from turnwise.guard.arguments import Arguments
from turnwise.guard.audit.record import AuditEvent, AuditSink
from turnwise.guard.audit.writer import AuditStatus
from turnwise.guard.config import Config, preset_names
from turnwise.guard.guardrail import Action, Check, TextKind, ToolText
from turnwise.guard.limits import CONVERSATION, KeyLimits, Refusal, note_refusal
from turnwise.guard.metadata import GuardMetadataError, read_turn
from turnwise.guard.records import Detail, PipelineResult, Records, SideRecord, Status, TurnRecord, joined
from turnwise.guard.request import (
    LastText,
    answered_turn,
    checkable,
    encodable,
    last_texts,
    short_id,
    turn_metadata,
)
from turnwise.guard.step import TOO_LONG, UNREAD, CheckRun, Step, afinish, failure, finish, redacted
from turnwise.sessions import Stance
from turnwise.sessions.state import ID_BYTES

RATE_LIMIT = "rate_limit"
"""Name under which results tell of a rate limit."""

_KINDS: Final[Mapping[str, TextKind]] = {
    Side.PROMPT: TextKind.INPUT,
    Side.RESPONSE: TextKind.OUTPUT,
    TextKind.TOOL_CALL: TextKind.TOOL_CALL,
    TextKind.TOOL_RESULT: TextKind.TOOL_RESULT,
}
"""Kind of text by side of a turn, and by what a tool has to do with it."""

_SECTIONS: Final = {TextKind.TOOL_CALL: CALLS, TextKind.TOOL_RESULT: RESULTS}
"""Where the checks of calls and results stand in what is kept of a turn."""

_PROMPT_MARK = turn_metadata(None, Side.PROMPT)

NOT_ENABLED = Detail(Status.SKIPPED, reason="not enabled")
NOT_READ = Detail(Status.SKIPPED, reason="the text is too long")


class GuardrailPipeline:
    """Checks what goes into a model and what comes out of it.

    Every check is kept with the turn that it was about. A pipeline serves many conversations at once, from several
    threads and event loops; two checks of one conversation may run at the same time.

    Args:
        config: a configuration as a mapping, the path of a YAML file with one, or a `Config`.
        clock: gives the present time, aware; for rate limits over keys and for the times of checks.
        audit: is told of every check; by default what the configuration says.

    Raises:
        GuardError: a configuration that can't be read or does not fit, or a guardrail that can't be built; it
            names file, line and key.

    >>> pipeline = GuardrailPipeline({"guardrails": [{"length": {"max_characters": 20}}]})
    >>> conversation = Conversation.human_ai("user_123", "some-model")
    >>> pipeline.check_input("Hello!", conversation=conversation).blocked
    False
    >>> pipeline.check_input("Hello " * 10, conversation=conversation).blocked
    True
    >>> conversation.turn(2).metadata["guardrail_results"]["blocked"]
    True
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | PathLike[str],
        *,
        clock: Clock = utc_now,
        audit: AuditSink | None = None,
    ) -> None:
        self.config = Config.read(config)
        self._clock = clock
        self._limits = KeyLimits(self.config.rate_limits, clock)
        steps = self.config.build()
        # Cheap ones first: the sort keeps the order of the file among those that cost alike.
        self._steps = tuple(sorted(steps, key=lambda step: step.cost))
        self._by_side = {
            side: tuple(step for step in self._steps if step.looks_at(kind)) for side, kind in _KINDS.items()
        }
        self._by_person = self.config.session_by == "initiator"
        self._names = {side: tuple(step.name for step in steps) for side, steps in self._by_side.items()}
        self._audit = self.config.open_audit(clock) if audit is None else audit

    @classmethod
    def from_preset(cls, name: str, *, clock: Clock = utc_now, audit: AuditSink | None = None) -> Self:
        """Return the pipeline of a preset.

        Args:
            name: such as ``"customer_service"``; see `available_presets`.
            clock: as for the constructor.
            audit: as for the constructor.

        Raises:
            UnknownNameError: no preset has that name.
        """
        return cls(Config.preset(name), clock=clock, audit=audit)

    @staticmethod
    def available_presets() -> tuple[str, ...]:
        """Return the names of the presets, sorted.

        >>> "customer_service" in GuardrailPipeline.available_presets()
        True
        """
        return preset_names()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The guardrails in the order in which they run."""
        return self._steps

    @property
    def audit_status(self) -> AuditStatus | None:
        """How the audit fares: what is written, waits, was dropped or failed. None without one that tells."""
        return getattr(self._audit, "status", None)

    def close(self) -> None:
        """Write what the audit still holds, and close it; checks after that are not audited."""
        if self._audit is not None:
            self._audit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Checks

    def check_input(
        self,
        content: str,
        *,
        conversation: Conversation | None = None,
        key: str | None = None,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PipelineResult:
        """Check a prompt, which becomes a turn of the conversation whatever comes of it.

        Only a rate limit keeps it from becoming one: the refused attempt is noted in the conversation's metadata,
        without its text. One that is longer than the configuration's ``max_characters`` is blocked unread, and its
        turn keeps so many of its characters. `Conversation.to_messages` leaves the turn out until its check has
        ended.

        Args:
            content: the prompt.
            conversation: the conversation that it continues; None for a prompt by itself.
            key: whose rate limits count, such as a user's name or an API token; it is kept as a hash.
            role: role of that key, for limits by role.
            session_id: the session, which may outlive the conversation; by default what the configuration says.
            metadata: joins the metadata of the turn; JSON values.

        Raises:
            GuardError: content that is None ("Content cannot be None") or no text, an empty session_id, or
                metadata with a key of the guard's own. No turn is made then, as after the next.
            ConversationError: metadata that JSON does not have.
        """
        return finish(self._input(content, conversation, key, role, session_id, metadata))

    async def acheck_input(
        self,
        content: str,
        *,
        conversation: Conversation | None = None,
        key: str | None = None,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PipelineResult:
        """Check a prompt as `check_input` does, without blocking the event loop where a guardrail waits."""
        return await afinish(self._input(content, conversation, key, role, session_id, metadata, here=False))

    def check_output(
        self,
        content: str,
        *,
        conversation: Conversation | None = None,
        turn_number: int | None = None,
        turn: Turn | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PipelineResult:
        """Check a response, which completes its turn whatever comes of it.

        `Conversation.to_messages` leaves the response out until its check has ended.

        Args:
            content: the response.
            conversation: the conversation that it continues; None for a response by itself.
            turn_number: the turn that it answers; by default the oldest that waits for a response, those with a
                blocked prompt left out. Where none waits, a turn with an empty prompt is made.
            turn: the same as a turn of the conversation.
            session_id: the session; by default what the configuration says.
            metadata: joins the metadata of the turn; JSON values.

        Raises:
            GuardError: as for `check_input`, or `turn` and `turn_number` that differ.
            ConversationError: as for `check_input`, or the turn does not exist, or has its response.
        """
        return finish(self._output(content, conversation, turn_number, turn, session_id, metadata))

    async def acheck_output(
        self,
        content: str,
        *,
        conversation: Conversation | None = None,
        turn_number: int | None = None,
        turn: Turn | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PipelineResult:
        """Check a response as `check_output` does, without blocking the event loop where a guardrail waits."""
        run = self._output(content, conversation, turn_number, turn, session_id, metadata, here=False)
        return await afinish(run)

    def check_tool_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] = "{}",
        *,
        conversation: Conversation | None = None,
        call_id: str | None = None,
        turn_number: int | None = None,
        session_id: str | None = None,
    ) -> PipelineResult:
        """Check the call of a tool that a model asks for, before it runs. It becomes part of its turn.

        Guardrails see the arguments as text: keys and values of the JSON, decoded; what is not JSON as it stands.
        `PipelineResult.text` has the arguments as they may go on, redacted where a guardrail redacts.
        `Conversation.to_messages` leaves a call out that was blocked or is under check, with its result.

        Args:
            name: name of the tool.
            arguments: the arguments: JSON text as the model gave it, or a mapping.
            conversation: the conversation that it is part of; None for a call by itself.
            call_id: its id, as the model gave it; by default one is made up, which the result tells.
            turn_number: its turn; by default the oldest that waits for a response, else the last one; where the
                prompt of that is blocked, or there is none, a turn with an empty prompt. What was checked as the
                response of that turn then stands beside the call, and the turn waits for its response again.
            session_id: the session; by default what the configuration says.

        Raises:
            GuardError: an empty session_id.
            ConversationError: a name or arguments that can't be, or there is no such turn.
        """
        return finish(self._tool_call(name, arguments, conversation, call_id, turn_number, session_id))

    async def acheck_tool_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] = "{}",
        *,
        conversation: Conversation | None = None,
        call_id: str | None = None,
        turn_number: int | None = None,
        session_id: str | None = None,
    ) -> PipelineResult:
        """Check a call as `check_tool_call` does, without blocking the event loop where a guardrail waits."""
        run = self._tool_call(name, arguments, conversation, call_id, turn_number, session_id, here=False)
        return await afinish(run)

    def check_tool_result(
        self,
        content: str,
        *,
        conversation: Conversation | None = None,
        call_id: str | None = None,
        name: str | None = None,
        turn_number: int | None = None,
        session_id: str | None = None,
    ) -> PipelineResult:
        """Check what a tool gave back, before a model reads it. It becomes part of the turn of its call.

        What others wrote does not count against the person: neither the trajectory of ``drift`` nor the session
        memory takes it in. In place of a result that was blocked or is under check `Conversation.to_messages` has
        ``[tool result withheld]``.

        Args:
            content: its text.
            conversation: the conversation that it is part of; None for a result by itself.
            call_id: id of the call that it answers; by default the first one that waits for a result. Where there
                is no such call, one with empty arguments stands in.
            name: name of the tool, where the call is not known.
            turn_number: the turn; by default that of the call, else as for `check_tool_call`.
            session_id: the session; by default what the configuration says.

        Raises:
            GuardError: content that is None or no text, or an empty session_id.
            ConversationError: there is no such turn.
        """
        return finish(self._tool_result(content, conversation, call_id, name, turn_number, session_id))

    async def acheck_tool_result(
        self,
        content: str,
        *,
        conversation: Conversation | None = None,
        call_id: str | None = None,
        name: str | None = None,
        turn_number: int | None = None,
        session_id: str | None = None,
    ) -> PipelineResult:
        """Check a result as `check_tool_result` does, without blocking the event loop where a guardrail waits."""
        run = self._tool_result(content, conversation, call_id, name, turn_number, session_id, here=False)
        return await afinish(run)

    def check_messages(self, messages: Ordered[Mapping[str, Any]], **kwargs: Any) -> PipelineResult:
        """Check what came last in an OpenAI list, with what is before it as the conversation so far.

        For callers who keep the list and no `Conversation`. Earlier messages are looked at again at every call,
        by the guardrails that look at the conversation, so the time of a call grows with the list.

        What came last is a prompt, a reply, the calls of tools that the assistant asks for (and its text), or all
        results of tools since the assistant spoke. Each text is a check of its own; of several, the result joins
        them, and ``parts`` has them apart. Anthropic's parts ``tool_use`` and ``tool_result`` are read as calls
        and results.

        Text is read: of content parts those of text. What else there is, such as images, documents or reasoning,
        nobody reads: the result then has a failure ``unread`` that says what and where, and the configuration's
        ``on_unread`` says what becomes of it.

        Args:
            messages: objects with ``role`` and ``content``. The last one is the user's, the assistant's, or what a
                tool or function gave back.
            kwargs: as for `check_input` and `check_output`, save the conversation and the turn; for calls and
                results ``session_id`` alone counts.

        Raises:
            ConversationError: an empty list, or a message that is none.
            GuardError: the last message is of another role, or holds nothing.
        """
        return finish(self._last(messages, kwargs))

    async def acheck_messages(self, messages: Ordered[Mapping[str, Any]], **kwargs: Any) -> PipelineResult:
        """Check the last message as `check_messages` does, without blocking the event loop."""
        return await afinish(self._last(messages, {**kwargs, "here": False}))

    # How a check goes, alike for sync and async

    def _last(self, messages: Ordered[Mapping[str, Any]], kwargs: Mapping[str, Any]) -> CheckRun | PipelineResult:
        before, texts = last_texts(messages)
        if len(texts) == 1:
            return self._one(texts[0], before, kwargs)
        return self._several(texts, before, kwargs)

    def _several(self, texts: Ordered[LastText], before: Conversation, kwargs: Mapping[str, Any]) -> CheckRun:
        """Check several texts, one after the other, and join what comes of them."""
        results: list[PipelineResult] = []
        for text in texts:
            run = self._one(text, before, kwargs)
            results.append(run if isinstance(run, PipelineResult) else (yield from run))
        return joined(results)

    def _one(self, text: LastText, before: Conversation, kwargs: Mapping[str, Any]) -> CheckRun | PipelineResult:
        if text.kind is TextKind.INPUT:
            return self._input(text.text, before, unread=text.unread, **kwargs)
        if text.kind is TextKind.OUTPUT:
            return self._output(text.text, before, unread=text.unread, **kwargs)
        session_id, here = kwargs.get("session_id"), kwargs.get("here", True)
        if text.kind is TextKind.TOOL_CALL:
            return self._tool_call(
                text.name, text.text, before, text.call_id, None, session_id, text.unread, here=here
            )
        return self._tool_result(
            text.text, before, text.call_id, text.name or None, None, session_id, text.unread, here=here
        )

    def _tool_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any],
        conversation: Conversation | None,
        call_id: str | None,
        turn_number: int | None,
        session_id: str | None,
        unread: str = "",
        *,
        here: bool = True,
    ) -> CheckRun:
        start = perf_counter()
        chat = Conversation() if conversation is None else conversation
        session = self._session(session_id, chat)
        turn, call = chat.take_tool_call(
            name,
            encodable(arguments) if isinstance(arguments, str) else arguments,
            call_id=call_id,
            turn_number=turn_number,
            checking=True,
            moved=_with_text_beside,
        )
        read = Arguments(call.arguments)
        tool = ToolText(TextKind.TOOL_CALL, call.name, call.call_id, read)
        return self._run(Check(read.text, Side.RESPONSE, turn, chat, session, tool=tool), unread, start, here=here)

    def _tool_result(
        self,
        content: str,
        conversation: Conversation | None,
        call_id: str | None,
        name: str | None,
        turn_number: int | None,
        session_id: str | None,
        unread: str = "",
        *,
        here: bool = True,
    ) -> CheckRun:
        start = perf_counter()
        content = checkable(content)
        chat = Conversation() if conversation is None else conversation
        session = self._session(session_id, chat)
        turn, result = chat.take_tool_result(
            content,
            call_id=call_id,
            name=name,
            turn_number=turn_number,
            checking=True,
            moved=_with_text_beside,
        )
        tool = ToolText(TextKind.TOOL_RESULT, result.name, result.call_id)
        return self._run(Check(content, Side.PROMPT, turn, chat, session, tool=tool), unread, start, here=here)

    def _input(
        self,
        content: str,
        conversation: Conversation | None,
        key: str | None = None,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        unread: str = "",
        *,
        here: bool = True,
    ) -> CheckRun | PipelineResult:
        start = perf_counter()
        if not (isinstance(content, str) and content.isascii()):
            content = checkable(content)
        chat = Conversation() if conversation is None else conversation
        session = self._session(session_id, chat)
        extra = _PROMPT_MARK if metadata is None else turn_metadata(metadata, Side.PROMPT)
        refusal = self._limits.refuse(key, role, self._clock()) if self._limits.active else None
        turn = None if refusal else chat.try_add_prompt(content, extra)
        if turn is None:
            return self._refused(content, chat, refusal, session, perf_counter() - start)
        return self._run(Check(content, Side.PROMPT, turn, chat, session), unread, start, here=here)

    def _output(
        self,
        content: str,
        conversation: Conversation | None,
        turn_number: int | None = None,
        turn: Turn | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        unread: str = "",
        *,
        here: bool = True,
    ) -> CheckRun:
        start = perf_counter()
        content = checkable(content)
        chat = Conversation() if conversation is None else conversation
        session = self._session(session_id, chat)
        extra = turn_metadata(metadata, Side.RESPONSE)
        answered = chat.answer(content, extra, turn_number=answered_turn(turn_number, turn, chat))
        return self._run(Check(content, Side.RESPONSE, answered, chat, session), unread, start, here=here)

    def _run(self, check: Check, unread: str, start: float, *, here: bool) -> CheckRun:
        """Run the guardrails of one side in order, here or where the steps go that are yielded."""
        tool = check.tool
        content, steps = check.text, self._by_side[check.side if tool is None else tool.kind]
        most = self.config.max_characters
        details: list[Detail] = []
        extra = {UNREAD: failure(self.config.on_unread, unread)} if unread else {}
        if len(content) > most:
            extra[TOO_LONG] = _refused_length(len(content), most)
            check.text = content[:most]
        blocker: Step | None = None
        acted = False
        try:
            for step in steps:
                if not step.enabled:
                    detail = NOT_ENABLED
                elif TOO_LONG in extra:
                    detail = NOT_READ
                elif blocker is not None and self._spares(step, blocker):
                    detail = Detail(Status.SKIPPED, reason=f"{blocker.name} blocked already")
                else:
                    detail = step.run(check) if here else (yield step, check)
                details.append(detail)
                if detail.action is not None:
                    acted = True
                if detail.blocked and blocker is None:
                    blocker = step
                if detail.redactions:
                    check.text = redacted(check.text, detail)
        except BaseException:
            # Nobody waits for the result any more, but the turn stays and must not pass for clean.
            details += [step.failed("the check was cancelled") for step in steps[len(details) :]]
            blocked = any(detail.blocked for detail in (*details, *extra.values()))
            self._record(check, content, details, extra, blocked=blocked)
            raise
        blocked = blocker is not None or (bool(extra) and any(detail.blocked for detail in extra.values()))
        record = self._record(check, content, details, extra, blocked=blocked)
        result = PipelineResult(
            blocked=blocked,
            warnings=record.told("warned") if acted or extra else [],
            reasons=record.told("blocked") if blocked else [],
            details=dict(zip(record.names, record.verdicts, strict=True)),
            pipeline_type=record.pipeline_type,
            conversation_id=check.conversation.conversation_id,
            turn_number=check.turn.number,
            stance=check.stance,
            text=check.text,
            seconds=perf_counter() - start,
            tool=None if tool is None else tool.name,
            call_id=None if tool is None else tool.call_id,
        )
        if self._audit is not None:
            self._tell(self._audit, result, check.session_id, check.conversation)
        return result

    def _spares(self, step: Step, blocker: Step) -> bool:
        """Tell whether a guardrail is spared a text that one before it has blocked."""
        if self.config.short_circuit == "costly":
            return step.cost > blocker.cost
        return self.config.short_circuit

    def _record(
        self, check: Check, content: str, details: list[Detail], extra: Mapping[str, Detail], *, blocked: bool
    ) -> SideRecord:
        """Keep what the guardrails said, and what none could read, with the turn that it was about."""
        turn, conversation, side, tool = check.turn, check.conversation, check.side, check.tool
        read = side if tool is None else tool.kind
        names = self._names[read]
        if extra:
            names, details = (*names, *extra), [*details, *extra.values()]
        record = SideRecord(
            pipeline_type=_KINDS[read],
            timestamp=self._clock(),
            blocked=blocked,
            names=names,
            verdicts=tuple(details),
            stance=_same_stance(check.stance, turn) if GUARD_KEY in turn.metadata else check.stance,
            tool=None if tool is None else tool.name,
            call_id=None if tool is None else tool.call_id,
        )
        if tool is not None:
            if check.text != content:
                _replace_tool_text(check, tool, () if TOO_LONG in extra else details)
            elif tool.arguments is not None:
                check.text = tool.arguments.raw
            part = _SECTIONS[tool.kind], tool.call_id
            change = partial(_with_part, turn.number, record, part)
            conversation.annotate(turn.number, GUARD_KEY, change, release=part)
            return record
        if check.text != content:
            conversation.replace_text(turn.number, side, check.text)
        if blocked and side is Side.PROMPT:
            conversation.withdraw(turn.number)
        conversation.annotate(turn.number, GUARD_KEY, partial(_with_check, turn.number, record), release=side)
        return record

    def _refused(
        self,
        content: str,
        conversation: Conversation,
        refusal: Refusal | None,
        session_id: str,
        seconds: float,
    ) -> PipelineResult:
        """Note a prompt that a rate limit refused, and return its result."""
        limits = conversation.rate_limit or {}
        own = ", ".join(f"{most} {window.replace('_', ' ')}" for window, most in limits.items())
        reason = refusal.reason if refusal else f"more than {own} in this conversation"
        scope = refusal.scope if refusal else CONVERSATION
        digest = sha256(content.encode()).hexdigest()
        note_refusal(conversation, scope=scope, reason=reason, text_sha256=digest, now=self._clock())
        result = PipelineResult(
            blocked=True,
            warnings=[],
            reasons=[f"{RATE_LIMIT}: {reason}"],
            details={
                RATE_LIMIT: Detail(Status.EVALUATED, blocked=True, found=True, confidence=1.0, reason=reason)
            },
            pipeline_type=TextKind.INPUT,
            conversation_id=conversation.conversation_id,
            turn_number=None,
            stance=None,
            text=content,
            rate_limited=True,
            seconds=seconds,
        )
        if self._audit is not None:
            self._tell(self._audit, result, session_id, conversation)
        return result

    def _session(self, session_id: str | None, conversation: Conversation) -> str:
        if session_id is None:
            # People without a name are not one person.
            by_person = self._by_person and conversation.initiator != UNKNOWN_NAME
            session_id = conversation.initiator if by_person else conversation.conversation_id
        if not isinstance(session_id, str) or not session_id:
            raise GuardError(f"session_id is {session_id!r}; use text that is not empty, or leave it out")
        return session_id if session_id.isascii() and len(session_id) <= ID_BYTES else short_id(session_id)

    def _tell(self, audit: AuditSink, result: PipelineResult, session_id: str, conversation: Conversation) -> None:
        audit.write(AuditEvent.of(result, session_id, conversation, self.config.name, self._clock()))


def _refused_length(length: int, most: int) -> Detail:
    """Return what is told of a text that is too long to be checked."""
    reason = f"{length:,} characters, at most {most:,} are checked; what is beyond is not kept"
    return Detail(Status.EVALUATED, blocked=True, found=True, action=Action.BLOCK, confidence=1.0, reason=reason)


def _with_check(number: int, record: SideRecord, before: object) -> TurnRecord:
    """Return the checks of a turn after one more; earlier ones that can't be read are left out."""
    if before is not None and not isinstance(before, TurnRecord):
        before = _readable(number, before)
    if before is None:
        on_input = record.pipeline_type is TextKind.INPUT
        return TurnRecord(record if on_input else None, None if on_input else record, record.pipeline_type)
    if record.pipeline_type is TextKind.INPUT:
        return replace(before, input=record, last=TextKind.INPUT)
    return replace(before, output=record, last=TextKind.OUTPUT)


def _readable(number: int, before: object) -> TurnRecord | None:
    try:
        return read_turn(before, number)
    except GuardMetadataError:
        return None


def _with_part(number: int, record: SideRecord, part: tuple[str, str], before: object) -> TurnRecord:
    """Return the checks of a turn after one of a call or a result."""
    known = _readable(number, before) or TurnRecord(None, None, record.pipeline_type)
    section, identity = part
    records: Records = getattr(known, section)
    changed: dict[str, Any] = {section: records.with_record(identity, record)}
    return replace(known, last=record.pipeline_type, **changed)


def _with_text_beside(before: object, identity: str) -> object:
    """Return the checks of a turn whose response turned out to be a text beside calls: the check moves there."""
    known = before if isinstance(before, TurnRecord) else _readable(1, before)
    if known is None or known.output is None:
        return before
    return replace(known, output=None, texts=known.texts.with_record(identity, known.output))


def _replace_tool_text(check: Check, tool: ToolText, details: Iterable[Detail]) -> None:
    """Let a call or result go on with what guardrails replaced in it, which the text of the check then is."""
    if tool.arguments is not None:
        redactions = [detail.redactions for detail in details if detail.redactions]
        check.text = tool.arguments.redacted(redactions) if redactions else check.text
    number, section = check.turn.number, _SECTIONS[tool.kind]
    check.conversation.replace_tool_text(number, section, tool.call_id, check.text)


def _same_stance(stance: Stance | None, turn: Turn) -> Stance | Mapping[str, Any] | None:
    """Return a stance; as the object that the turn keeps already where it is equal."""
    before = turn.metadata.get(GUARD_KEY)
    kept = before.input.stance if isinstance(before, TurnRecord) and before.input is not None else None
    return kept if kept == stance else stance
