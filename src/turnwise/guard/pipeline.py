"""The pipeline: guardrails in front of and behind a live model, with the whole conversation in view."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from dataclasses import replace
from functools import partial
from hashlib import sha256
from os import PathLike
from time import perf_counter
from typing import Any, Self, cast

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.participants import UNKNOWN_NAME
from turnwise.conversation.turn import GUARD_KEY
from turnwise.errors import GuardError
from turnwise.guard.audit.record import AuditEvent, AuditSink
from turnwise.guard.audit.writer import AuditStatus
from turnwise.guard.config import Config, preset_names
from turnwise.guard.guardrail import Action, Check, Guardrail
from turnwise.guard.limits import CONVERSATION, KeyLimits, Refusal, note_refusal
from turnwise.guard.metadata import GuardMetadataError, read_turn
from turnwise.guard.records import Detail, Pipeline, PipelineResult, SideRecord, Status, TurnRecord
from turnwise.guard.request import (
    answered_turn,
    checkable,
    digest_of,
    last_message,
    short_id,
    turn_metadata,
)
from turnwise.guard.session import Forgotten, GuardSession, Memory
from turnwise.guard.state.conversations import STORED
from turnwise.guard.state.keeper import Begin, Begun, Keeper
from turnwise.guard.state.settings import StateSettings
from turnwise.guard.state.work import Work, key_of
from turnwise.guard.step import STATE, TOO_LONG, UNREAD, CheckRun, Step, afinish, failure, finish, redacted
from turnwise.sessions import SESSION, Stance, StateKind, StateStore
from turnwise.sessions.state import ID_BYTES

RATE_LIMIT = "rate_limit"
"""Name under which results tell of a rate limit."""

_UNNAMED = ("", UNKNOWN_NAME)
"""Names of an initiator that name nobody."""

_PROMPT_MARK = turn_metadata(None, Side.PROMPT)

NOT_ENABLED = Detail(Status.SKIPPED, reason="not enabled")
NOT_READ = Detail(Status.SKIPPED, reason="the text is too long")
NOT_KEPT = Detail(Status.SKIPPED, reason="the state store can't be used")


class GuardrailPipeline:
    """Checks what goes into a model and what comes out of it.

    Every check is kept with the turn that it was about. A pipeline serves many conversations at once, from several
    threads and event loops; two checks of one conversation may run at the same time.

    Args:
        config: a configuration as a mapping, the path of a YAML file with one, or a `Config`.
        clock: gives the present time, aware; for rate limits, sessions, audit, and the time stamps of checks and
            of conversations that go by no clock of their own.
        audit: is told of every check; by default what the configuration says.
        state_store: keeps sessions, conversations and counts, so that they survive this process and other workers
            know them; by default what the configuration says. The caller closes what it passes.

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
        state_store: StateStore | None = None,
    ) -> None:
        self.config = Config.read(config)
        self._clock = clock
        self._own_clock = clock is not utc_now
        self._limits = KeyLimits(self.config.rate_limits, clock)
        steps = tuple(
            replace(step, guardrail=step.guardrail.placed(step.name, clock)) for step in self.config.build()
        )
        # Cheap ones first: the sort keeps the order of the file among those that cost alike.
        self._steps = tuple(sorted(steps, key=lambda step: step.cost))
        self._by_side = {
            side: tuple(step for step in self._steps if step.looks_at(side))
            for side in (Side.PROMPT, Side.RESPONSE)
        }
        self._by_person = self.config.session_by == "initiator"
        self._names = {side: tuple(step.name for step in steps) for side, steps in self._by_side.items()}
        self._own_store = self.config.open_state(clock) if state_store is None else None
        store = self._own_store if state_store is None else state_store
        self._keeper = None if store is None else self._keeper_of(store)
        self._audit = self.config.open_audit(clock) if audit is None else audit

    @classmethod
    def from_preset(
        cls,
        name: str,
        *,
        clock: Clock = utc_now,
        audit: AuditSink | None = None,
        state_store: StateStore | None = None,
    ) -> Self:
        """Return the pipeline of a preset.

        Args:
            name: such as ``"customer_service"``; see `available_presets`.
            clock: as for the constructor.
            audit: as for the constructor.
            state_store: as for the constructor.

        Raises:
            UnknownNameError: no preset has that name.
        """
        return cls(Config.preset(name), clock=clock, audit=audit, state_store=state_store)

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

    @property
    def state_store(self) -> StateStore | None:
        """Where sessions, conversations and counts are kept; None for this process alone."""
        return None if self._keeper is None else self._keeper.store

    def close(self) -> None:
        """Write what the audit still holds, and close it; checks after that are not audited.

        A state store that the configuration names is closed as well; one that was passed is not.
        """
        if self._audit is not None:
            self._audit.close()
        if self._own_store is not None:
            self._own_store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What lasts

    def load_conversation(self, conversation_id: str) -> Conversation | None:
        """Return a conversation from the state store, in constant time; None for one that is not known.

        Any worker goes on with it where the last one stopped: nothing is scored again. Early turns are read when
        somebody asks for them, such as `Conversation.to_messages`.

        Args:
            conversation_id: its name.

        Raises:
            GuardError: there is no state store.
            StateError: the store can't be read, or what it has of the conversation is broken.
        """
        if self._keeper is None:
            raise GuardError("there is no state store to load from; pass state_store, or set state in the file")
        return self._keeper.conversations.load(conversation_id)

    def session(self, session_id: str) -> GuardSession:
        """Return a session: its stance, trust and circuit breaker, and how to reset or release it.

        Args:
            session_id: as checks name it: the one that was passed, else by ``session_by`` the initiator's name or
                the conversation_id.
        """
        store, name = self.state_store, _checked_session(session_id)
        digest = digest_of(name)
        memories: dict[str, Memory] = {}
        for step in self._steps:
            sessions = step.guardrail.sessions(store)
            if sessions is not None:
                given = short_id(name) if store is None else digest
                memories[step.name] = Memory(sessions, given, None if store is None else key_of(step.name, digest))
        return GuardSession(session_id, memories, store)

    def forget(self, session_id: str) -> Forgotten:
        """Forget all that is known of a session: its memory, its conversations, and prompts counted in its name.

        What callers hold themselves, such as a `Conversation`, stays with them; so does the audit.

        Args:
            session_id: as for `session`; rate limits are forgotten of the key of the same name.

        Raises:
            StateError: the state store can't be written.
        """
        limits = self._limits.forget(session_id)
        if self._keeper is None:
            return Forgotten(int(self.session(session_id).reset()), 0, limits)
        store, digest = self._keeper.store, digest_of(_checked_session(session_id))

        def removed(kind: StateKind[Any]) -> int:
            return sum(store.remove(kind, key) for key in store.keys(kind, owner=digest))

        limits = self._keeper.limits.forget(session_id) or limits
        return Forgotten(removed(SESSION), removed(STORED), limits)

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

    def check_messages(self, messages: Ordered[Mapping[str, Any]], **kwargs: Any) -> PipelineResult:
        """Check the last message of an OpenAI list, with those before it as the conversation so far.

        For callers who keep the list and no `Conversation`. Earlier messages are looked at again at every call,
        by the guardrails that look at the conversation, so the time of a call grows with the list.

        Text is read: of content parts those of text. What else the last message holds, such as images,
        documents, results of tools as parts, reasoning or tool calls, nobody reads: the result then has a failure
        ``unread`` that says what and where, and the configuration's ``on_unread`` says what becomes of it.

        Args:
            messages: objects with ``role`` and ``content``. The last one is checked as a response where it is the
                assistant's; as a prompt where it is the user's, or what a tool or function gave back.
            kwargs: as for `check_input` and `check_output`, save the conversation and the turn.

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
        last = last_message(messages)
        if last.side is Side.PROMPT:
            return self._input(last.text, last.before, unread=last.unread, kept=False, **kwargs)
        return self._output(last.text, last.before, unread=last.unread, kept=False, **kwargs)

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
        kept: bool = True,
    ) -> CheckRun | PipelineResult:
        start = perf_counter()
        if not (isinstance(content, str) and content.isascii()):
            content = checkable(content)
        chat = Conversation() if conversation is None else conversation
        if self._own_clock:
            chat.use_clock(self._clock)
        session = self._session(session_id, chat)
        extra = _PROMPT_MARK if metadata is None else turn_metadata(metadata, Side.PROMPT)
        if self._keeper is not None:
            begin = partial(self._begin_input, content, chat, session, extra, unread, start, here)
            counted = (key, role) if self._limits.active else None
            return self._kept(
                begin, chat, session, content, counted, here=here, kept=kept and chat is conversation
            )
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
        kept: bool = True,
    ) -> CheckRun:
        start = perf_counter()
        content = checkable(content)
        chat = Conversation() if conversation is None else conversation
        if self._own_clock:
            chat.use_clock(self._clock)
        session = self._session(session_id, chat)
        extra = turn_metadata(metadata, Side.RESPONSE)
        if self._keeper is not None:
            answers = (turn_number, turn)
            begin = partial(self._begin_output, content, chat, session, extra, answers, unread, start, here)
            return self._kept(begin, chat, session, content, None, here=here, kept=kept and chat is conversation)
        answered = chat.answer(content, extra, turn_number=answered_turn(turn_number, turn, chat))
        return self._run(Check(content, Side.RESPONSE, answered, chat, session), unread, start, here=here)

    def _kept(
        self,
        begin: Begin,
        chat: Conversation,
        session: str,
        content: str,
        counted: tuple[str | None, str | None] | None,
        *,
        here: bool,
        kept: bool,
    ) -> CheckRun:
        """Check a text with a state store: what comes of it is written in one step before the result is told."""
        keeper, start, trouble = cast(Keeper, self._keeper), perf_counter(), None
        if counted is not None:
            refusal, trouble = yield from keeper.refuse(*counted, here=here)
            if refusal is not None:
                return self._refused(content, chat, refusal, session, perf_counter() - start)
        owner = digest_of(session) if kept or session != chat.conversation_id else ""
        result, checked = yield from keeper.run(
            begin, self._amended, chat, owner, kept=kept, here=here, trouble=trouble
        )
        if checked and self._audit is not None:
            self._tell(self._audit, result, session, chat)
        return result

    def _begin_input(
        self,
        content: str,
        chat: Conversation,
        session: str,
        extra: Mapping[str, Any],
        unread: str,
        start: float,
        here: bool,
        work: Work,
        trouble: Detail | None,
    ) -> Begun | PipelineResult:
        turn = chat.try_add_prompt(content, extra)
        if turn is None:
            return self._refused(content, chat, None, session, perf_counter() - start)
        check = Check(content, Side.PROMPT, turn, chat, session, state=work)
        return Begun(check, self._run(check, unread, start, here=here, trouble=trouble))

    def _begin_output(
        self,
        content: str,
        chat: Conversation,
        session: str,
        extra: Mapping[str, Any],
        answers: tuple[int | None, Turn | None],
        unread: str,
        start: float,
        here: bool,
        work: Work,
        trouble: Detail | None,
    ) -> Begun:
        answered = chat.answer(content, extra, turn_number=answered_turn(*answers, chat))
        check = Check(content, Side.RESPONSE, answered, chat, session, state=work)
        return Begun(check, self._run(check, unread, start, here=here, trouble=trouble))

    def _amended(self, result: PipelineResult, check: Check, trouble: Detail) -> PipelineResult:
        """Return a result, and keep it with its turn, after its state could not be kept."""
        details = {**result.details, STATE: trouble}
        record = SideRecord(
            pipeline_type=result.pipeline_type,
            timestamp=self._clock(),
            blocked=result.blocked or trouble.blocked,
            names=tuple(details),
            verdicts=tuple(details.values()),
            stance=result.stance,
        )
        number = check.turn.number
        if record.blocked and check.side is Side.PROMPT:
            check.conversation.withdraw(number)
        check.conversation.annotate(number, GUARD_KEY, partial(_with_check, number, record))
        return replace(
            result,
            blocked=record.blocked,
            details=details,
            warnings=record.told("warned"),
            reasons=record.told("blocked"),
        )

    def _run(
        self, check: Check, unread: str, start: float, *, here: bool, trouble: Detail | None = None
    ) -> CheckRun:
        """Run the guardrails of one side in order, here or where the steps go that are yielded."""
        content, steps, most = check.text, self._by_side[check.side], self.config.max_characters
        details: list[Detail] = []
        extra = {UNREAD: failure(self.config.on_unread, unread)} if unread else {}
        if len(content) > most:
            extra[TOO_LONG] = _refused_length(len(content), most)
            check.text = content[:most]
        held = NOT_READ if TOO_LONG in extra else None
        if trouble is not None:
            extra[STATE] = trouble
            held = NOT_KEPT if trouble.blocked else held
        blocker: Step | None = None
        acted = False
        try:
            for step in steps:
                if not step.enabled:
                    detail = NOT_ENABLED
                elif held is not None:
                    detail = held
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
        )
        if self._audit is not None and check.state is None:
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
        turn, conversation, side = check.turn, check.conversation, check.side
        names = self._names[side]
        if extra:
            names, details = (*names, *extra), [*details, *extra.values()]
        record = SideRecord(
            pipeline_type=Pipeline.INPUT if side is Side.PROMPT else Pipeline.OUTPUT,
            timestamp=self._clock(),
            blocked=blocked,
            names=names,
            verdicts=tuple(details),
            stance=_same_stance(check.stance, turn) if GUARD_KEY in turn.metadata else check.stance,
        )
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
            pipeline_type=Pipeline.INPUT,
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
            by_person = self._by_person and conversation.initiator.strip().lower() not in _UNNAMED
            session_id = conversation.initiator if by_person else conversation.conversation_id
        if not isinstance(session_id, str) or not session_id:
            session_id = _checked_session(session_id)
        return session_id if session_id.isascii() and len(session_id) <= ID_BYTES else short_id(session_id)

    def _keeper_of(self, store: StateStore) -> Keeper:
        rails = {step.name: step.guardrail for step in self._steps}
        parking = {name: rail for name, rail in rails.items() if type(rail).park is not Guardrail.park}
        settings = self.config.state or StateSettings()
        return Keeper(store, settings, parking, self.config.rate_limits, self._clock)

    def _tell(self, audit: AuditSink, result: PipelineResult, session_id: str, conversation: Conversation) -> None:
        audit.write(AuditEvent.of(result, session_id, conversation, self.config.name, self._clock()))


def _checked_session(session_id: object) -> str:
    """Return the name of a session, as the session memory takes it.

    Raises:
        GuardError: it is no text, or empty.
    """
    if not isinstance(session_id, str) or not session_id:
        raise GuardError(f"session_id is {session_id!r}; use text that is not empty, or leave it out")
    return short_id(session_id)


def _refused_length(length: int, most: int) -> Detail:
    """Return what is told of a text that is too long to be checked."""
    reason = f"{length:,} characters, at most {most:,} are checked; what is beyond is not kept"
    return Detail(Status.EVALUATED, blocked=True, found=True, action=Action.BLOCK, confidence=1.0, reason=reason)


def _with_check(number: int, record: SideRecord, before: object) -> TurnRecord:
    """Return the checks of a turn after one more; earlier ones that can't be read are left out."""
    if before is not None and not isinstance(before, TurnRecord):
        try:
            before = read_turn(before, number)
        except GuardMetadataError:
            before = None
    if record.pipeline_type is Pipeline.INPUT:
        return TurnRecord(record, None if before is None else before.output, Pipeline.INPUT)
    return TurnRecord(None if before is None else before.input, record, Pipeline.OUTPUT)


def _same_stance(stance: Stance | None, turn: Turn) -> Stance | Mapping[str, Any] | None:
    """Return a stance; as the object that the turn keeps already where it is equal."""
    before = turn.metadata.get(GUARD_KEY)
    kept = before.input.stance if isinstance(before, TurnRecord) and before.input is not None else None
    return kept if kept == stance else stance
