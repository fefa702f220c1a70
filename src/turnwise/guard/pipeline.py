"""The pipeline: guardrails in front of and behind a live model, with the whole conversation in view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Ordered
from functools import partial
from hashlib import sha256
from os import PathLike, fspath
from threading import Lock
from time import perf_counter
from typing import Any, Final, Self

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.participants import UNKNOWN_NAME
from turnwise.conversation.tools import CALLS, RESULTS
from turnwise.conversation.turn import ATTEMPTS_KEY, GUARD_KEY
from turnwise.errors import GuardError
from turnwise.guard.arguments import Arguments
from turnwise.guard.audit.record import AuditEvent, AuditSink
from turnwise.guard.audit.settings import AuditSettings
from turnwise.guard.audit.writer import AuditStatus
from turnwise.guard.config import Config, preset_names
from turnwise.guard.guardrail import Action, Check, OnError, TextKind, ToolText
from turnwise.guard.limits import CONVERSATION, Refusal, note_refusal
from turnwise.guard.log import log_check
from turnwise.guard.metadata import GuardMetadataError, read_turn
from turnwise.guard.records import (
    Detail,
    PipelineResult,
    Records,
    SideRecord,
    Status,
    TurnRecord,
    joined,
    with_attempt,
)
from turnwise.guard.request import (
    LastText,
    answered_turn,
    checkable,
    encodable,
    last_texts,
    short_id,
    turn_metadata,
)
from turnwise.guard.setup import KINDS, Setup
from turnwise.guard.step import DROPPED, TOO_LONG, UNREAD, CheckRun, Step, afinish, failure, finish, redacted
from turnwise.guard.stream import AsyncOutputStream, EndStream, OutputStream, StreamEnd
from turnwise.sessions import Stance
from turnwise.sessions.state import ID_BYTES

RATE_LIMIT = "rate_limit"
"""Name under which results tell of a rate limit."""

_SECTIONS: Final = {TextKind.TOOL_CALL: CALLS, TextKind.TOOL_RESULT: RESULTS}
"""Where the checks of calls and results stand in what is kept of a turn."""

_PROMPT_MARK = turn_metadata(None, Side.PROMPT)

NOT_ENABLED = Detail(Status.SKIPPED, reason="not enabled")
NOT_READ = Detail(Status.SKIPPED, reason="the text is too long")
BROKEN_OFF = Detail(Status.SKIPPED, reason="the response broke off")


class GuardrailPipeline:
    """Checks what goes into a model and what comes out of it.

    Every check is kept with the turn that it was about. A pipeline serves many conversations at once, from several
    threads and event loops; two checks of one conversation may run at the same time.

    Args:
        config: a configuration as a mapping, the path of a YAML file with one, or a `Config`.
        clock: gives the present time, aware; for rate limits over keys and for the times of checks.
        audit: is told of every check, or the path of a file of JSON lines to write them to; by default what the
            configuration says.

    Raises:
        GuardError: a configuration that can't be read or does not fit, or a guardrail that can't be built; it
            names file, line and key. Or the audit can't be written.

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
        audit: AuditSink | str | PathLike[str] | None = None,
    ) -> None:
        self._clock = clock
        self._given = _opened(audit, clock)
        self._setup = Setup.of(Config.read(config), clock, audit=self._given)
        self._retired: list[AuditSink] = []
        self._changing = Lock()

    @classmethod
    def from_preset(
        cls,
        name: str,
        *,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        clock: Clock = utc_now,
        audit: AuditSink | str | PathLike[str] | None = None,
    ) -> Self:
        """Return the pipeline of a preset.

        Args:
            name: such as ``"customer_service"``; see `available_presets`.
            overrides: settings by guardrail of the preset, in place of those that it has or beside them, such as
                ``{"pii": {"action": "block"}}``.
            clock: as for the constructor.
            audit: as for the constructor.

        Raises:
            UnknownNameError: no preset has that name, or it has no guardrail of a name in `overrides`.
            GuardError: a setting that does not fit, or the audit can't be written.

        >>> pipeline = GuardrailPipeline.from_preset("basic", overrides={"pii": {"action": "block"}})
        >>> pipeline.check_input("I am jane@example.com").blocked
        True
        """
        return cls(Config.preset(name, overrides), clock=clock, audit=audit)

    @staticmethod
    def available_presets() -> tuple[str, ...]:
        """Return the names of the presets, sorted.

        >>> "customer_service" in GuardrailPipeline.available_presets()
        True
        """
        return preset_names()

    @property
    def config(self) -> Config:
        """The configuration; what `enable` and `disable` changed is in `steps`."""
        return self._setup.config

    @property
    def steps(self) -> tuple[Step, ...]:
        """The guardrails in the order in which they run."""
        return self._setup.steps

    @property
    def audit_status(self) -> AuditStatus | None:
        """How the audit fares: what is written, waits, was dropped or failed. None without one that tells."""
        return getattr(self._setup.audit, "status", None)

    # Changes at run time: checks and streams under way end with what they began with

    def enable(self, name: str) -> None:
        """Let a guardrail run from the next check on.

        Args:
            name: the guardrail, as results name it.

        Raises:
            UnknownNameError: no guardrail has that name.
        """
        self._switch(name, enabled=True)

    def disable(self, name: str) -> None:
        """Let a guardrail run no longer: results tell it as skipped. Arguments and errors as for `enable`."""
        self._switch(name, enabled=False)

    def _switch(self, name: str, *, enabled: bool) -> None:
        with self._changing:
            self._setup = self._setup.switched(name, enabled=enabled)

    def reload(self, config: Config | Mapping[str, Any] | str | PathLike[str]) -> None:
        """Go on with another configuration from the next check on.

        Sessions, and what the rate limits counted, live on. Guardrails begin anew: word lists and patterns are
        read again, and what `enable` and `disable` changed is as the configuration says. An audit that was given
        to the constructor stays; one of another configuration is closed with the pipeline.

        Args:
            config: as for the constructor.

        Raises:
            GuardError: as for the constructor; then nothing has changed.
        """
        with self._changing:
            before = self._setup
            after = Setup.of(Config.read(config), self._clock, before, self._given)
            if before.audit is not None and before.audit is not after.audit:
                self._retired.append(before.audit)
            self._setup = after

    def close(self) -> None:
        """Write what the audit still holds, and close it; checks after that are not audited."""
        with self._changing:
            for audit in (*self._retired, self._setup.audit):
                if audit is not None:
                    audit.close()
            self._retired.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Checks

    def check_input(
        self,
        content: str,
        conversation: Conversation | None = None,
        *,
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
        conversation: Conversation | None = None,
        *,
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
        conversation: Conversation | None = None,
        *,
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
                blocked prompt left out. Where none waits, a turn with an empty prompt is made. A turn that is
                named here and whose response was blocked gets this one in its place; the turn's metadata keep
                the other under ``guardrail_attempts``.
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
        conversation: Conversation | None = None,
        *,
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

    def stream_output(
        self,
        conversation: Conversation | None = None,
        *,
        turn_number: int | None = None,
        turn: Turn | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> OutputStream:
        """Open a response that comes in pieces: it says what may be shown now, and gives the verdict at its end.

        The response completes its turn at once, and `Conversation.to_messages` leaves it out until its end. The
        verdict is that of `check_output` for the whole text. A response that is blocked on the way ends there.

        Args:
            conversation: as for `check_output`, and so are the other arguments.
            turn_number: the turn that it answers.
            turn: the same as a turn of the conversation.
            session_id: the session.
            metadata: joins the metadata of the turn.

        Raises:
            GuardError, ConversationError: as for `check_output`.

        >>> pipeline = GuardrailPipeline({"guardrails": [{"pii": {"action": "redact"}}]})
        >>> with pipeline.stream_output() as stream:
        ...     "".join(stream.guard(["Write to ann@exam", "ple.org, please."]))
        'Write to [EMAIL], please.'
        """
        return OutputStream(*self._stream(conversation, turn_number, turn, session_id, metadata))

    def astream_output(
        self,
        conversation: Conversation | None = None,
        *,
        turn_number: int | None = None,
        turn: Turn | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AsyncOutputStream:
        """Open a response that comes in pieces, for async code; see `stream_output`. It is not awaited itself."""
        return AsyncOutputStream(*self._stream(conversation, turn_number, turn, session_id, metadata))

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
        setup = self._setup
        session = _session(session_id, chat, setup)
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
        check = Check(read.text, Side.RESPONSE, turn, chat, session, tool=tool)
        return self._run(setup, check, unread, start, here=here)

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
        setup = self._setup
        session = _session(session_id, chat, setup)
        turn, result = chat.take_tool_result(
            content,
            call_id=call_id,
            name=name,
            turn_number=turn_number,
            checking=True,
            moved=_with_text_beside,
        )
        tool = ToolText(TextKind.TOOL_RESULT, result.name, result.call_id)
        check = Check(content, Side.PROMPT, turn, chat, session, tool=tool)
        return self._run(setup, check, unread, start, here=here)

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
        setup = self._setup
        session = _session(session_id, chat, setup)
        extra = _PROMPT_MARK if metadata is None else turn_metadata(metadata, Side.PROMPT)
        refusal = setup.limits.refuse(key, role, self._clock()) if setup.limits.active else None
        turn = None if refusal else chat.try_add_prompt(content, extra)
        if turn is None:
            return self._refused(setup, content, chat, refusal, session, perf_counter() - start)
        return self._run(setup, Check(content, Side.PROMPT, turn, chat, session), unread, start, here=here)

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
        setup = self._setup
        session = _session(session_id, chat, setup)
        answered = _answer(content, chat, turn_number, turn, metadata)
        return self._run(setup, Check(content, Side.RESPONSE, answered, chat, session), unread, start, here=here)

    def _stream(
        self,
        conversation: Conversation | None,
        turn_number: int | None,
        turn: Turn | None,
        session_id: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> tuple[EndStream, Setup, Conversation, Turn, str]:
        """Complete the turn that a response answers with nothing yet, and return what a stream is made of."""
        start = perf_counter()
        chat = Conversation() if conversation is None else conversation
        setup = self._setup
        session = _session(session_id, chat, setup)
        answered = _answer("", chat, turn_number, turn, metadata)
        return partial(self._end_stream, setup, start), setup, chat, answered, session

    def _end_stream(
        self, setup: Setup, start: float, check: Check, how: StreamEnd, *, here: bool
    ) -> CheckRun | PipelineResult:
        """Check a response that came in pieces, or record that it broke off."""
        check.text = checkable(check.text)
        check.conversation.rephrase(check.turn.number, check.text)
        if not how.dropped:
            return self._run(setup, check, "", start, here=here, known=how.known)
        details = [BROKEN_OFF if step.enabled else NOT_ENABLED for step in setup.by_side[Side.RESPONSE]]
        extra = {DROPPED: failure(OnError.BLOCK, "the response broke off before its end")}
        return self._conclude(setup, check, check.text, details, extra, start, blocked=True)

    def _run(
        self,
        setup: Setup,
        check: Check,
        unread: str,
        start: float,
        *,
        here: bool,
        known: tuple[str, Detail] | None = None,
    ) -> CheckRun:
        """Run the guardrails of one side in order, here or where the steps go that are yielded."""
        tool = check.tool
        content, steps = check.text, setup.by_side[check.side if tool is None else tool.kind]
        most = setup.config.max_characters
        details: list[Detail] = []
        extra = {UNREAD: failure(setup.config.on_unread, unread)} if unread else {}
        if len(content) > most:
            extra[TOO_LONG] = _refused_length(len(content), most)
            check.text = content[:most]
        blocker: Step | None = None
        try:
            for step in steps:
                if not step.enabled:
                    detail = NOT_ENABLED
                elif TOO_LONG in extra:
                    detail = NOT_READ
                elif known is not None and known[0] == step.name:
                    detail = known[1]
                elif blocker is not None and setup.spares(step, blocker):
                    detail = Detail(Status.SKIPPED, reason=f"{blocker.name} blocked already")
                else:
                    detail = step.run(check) if here else (yield step, check)
                details.append(detail)
                if detail.blocked and blocker is None:
                    blocker = step
                if detail.redactions:
                    check.text = redacted(check.text, detail)
        except BaseException:
            # Nobody waits for the result any more, but the turn stays and must not pass for clean.
            details += [step.failed("the check was cancelled") for step in steps[len(details) :]]
            blocked = any(detail.blocked for detail in (*details, *extra.values()))
            self._conclude(setup, check, content, details, extra, start, blocked=blocked)
            raise
        blocked = blocker is not None or (bool(extra) and any(detail.blocked for detail in extra.values()))
        return self._conclude(setup, check, content, details, extra, start, blocked=blocked)

    def _conclude(
        self,
        setup: Setup,
        check: Check,
        content: str,
        details: list[Detail],
        extra: Mapping[str, Detail],
        start: float,
        *,
        blocked: bool,
    ) -> PipelineResult:
        """Keep with its turn what the guardrails said, and what none could read; return the result and tell it."""
        turn, conversation, side, tool = check.turn, check.conversation, check.side, check.tool
        read = side if tool is None else tool.kind
        names = setup.names[read]
        if extra:
            names, details = (*names, *extra), [*details, *extra.values()]
        record = SideRecord(
            pipeline_type=KINDS[read],
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
        else:
            if check.text != content:
                conversation.replace_text(turn.number, side, check.text)
            if blocked and side is Side.PROMPT:
                conversation.withdraw(turn.number)
            conversation.annotate(turn.number, GUARD_KEY, partial(_with_check, turn.number, record), release=side)
        acted = failed = False
        for detail in details:
            if detail.action is not None:
                acted = True
            if detail.path is not None:
                failed = True
        result = PipelineResult(
            blocked=blocked,
            warnings=record.told("warned") if acted else [],
            reasons=record.told("blocked") if blocked else [],
            details=dict(zip(names, record.verdicts, strict=True)),
            pipeline_type=record.pipeline_type,
            conversation_id=conversation.conversation_id,
            turn_number=turn.number,
            stance=check.stance,
            text=check.text,
            seconds=perf_counter() - start,
            tool=None if tool is None else tool.name,
            call_id=None if tool is None else tool.call_id,
        )
        if blocked or failed:
            log_check(result.conversation_id, turn.number, record.pipeline_type, result.details.items())
        if setup.audit is not None:
            self._tell(setup, result, check.session_id, conversation)
        return result

    def _refused(
        self,
        setup: Setup,
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
        wait = refusal.retry_after if refusal else conversation.rate_limit_wait()
        note_refusal(
            conversation,
            scope=scope,
            reason=reason,
            text_sha256=sha256(content.encode()).hexdigest(),
            now=self._clock(),
            retry_after=wait,
        )
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
            retry_after=wait,
        )
        log_check(result.conversation_id, None, TextKind.INPUT, result.details.items())
        if setup.audit is not None:
            self._tell(setup, result, session_id, conversation)
        return result

    def _tell(self, setup: Setup, result: PipelineResult, session_id: str, conversation: Conversation) -> None:
        if setup.audit is not None:
            event = AuditEvent.of(result, session_id, conversation, setup.config.name, self._clock())
            setup.audit.write(event)


def _opened(audit: AuditSink | str | PathLike[str] | None, clock: Clock) -> AuditSink | None:
    """Return an audit; the path of one opened."""
    if isinstance(audit, str | PathLike):
        return AuditSettings(fspath(audit)).open(clock)
    return audit


def _session(session_id: str | None, conversation: Conversation, setup: Setup) -> str:
    if session_id is None:
        # People without a name are not one person.
        by_person = setup.by_person and conversation.initiator != UNKNOWN_NAME
        session_id = conversation.initiator if by_person else conversation.conversation_id
    if not isinstance(session_id, str) or not session_id:
        raise GuardError(f"session_id is {session_id!r}; use text that is not empty, or leave it out")
    return session_id if session_id.isascii() and len(session_id) <= ID_BYTES else short_id(session_id)


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
            conversation.annotate(number, ATTEMPTS_KEY, partial(with_attempt, answered))
            # With the messages that the turn came from, which hold the blocked text.
            conversation.replace_text(number, Side.RESPONSE, "")
            return conversation.rephrase(number, content, extra)
    return conversation.answer(content, extra, turn_number=number)


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
        return before.replaced(input=record, last=TextKind.INPUT)
    return before.replaced(output=record, last=TextKind.OUTPUT)


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
    return known.replaced(last=record.pipeline_type, **changed)


def _with_text_beside(before: object, identity: str) -> object:
    """Return the checks of a turn whose response turned out to be a text beside calls: the check moves there."""
    known = before if isinstance(before, TurnRecord) else _readable(1, before)
    if known is None or known.output is None:
        return before
    return known.replaced(output=None, texts=known.texts.with_record(identity, known.output))


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
