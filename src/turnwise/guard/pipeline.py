"""The pipeline: guardrails in front of and behind a live model, with the whole conversation in view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Ordered
from os import PathLike, fspath
from threading import Lock
from typing import Any, Self

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Conversation
from turnwise.errors import GuardError
from turnwise.guard.audit.record import AuditSink, pseudonym
from turnwise.guard.audit.settings import AuditSettings
from turnwise.guard.audit.writer import AuditStatus
from turnwise.guard.checks import Checks
from turnwise.guard.config import Config, preset_names
from turnwise.guard.forgetting import Forgotten, forget_conversation, forget_person
from turnwise.guard.guard_session import GuardSession, session_in
from turnwise.guard.guardrail import Guardrail
from turnwise.guard.messages.sendable import sendable
from turnwise.guard.names import digest_of
from turnwise.guard.results import Correction, PipelineResult
from turnwise.guard.setup import Mode, Overrides, Setup
from turnwise.guard.state.settings import StateStatus
from turnwise.guard.step import Step
from turnwise.guard.texts import session_of
from turnwise.sessions import StateStore


class GuardrailPipeline(Checks):
    """Checks what goes into a model and what comes out of it.

    Every check is kept with the turn that it was about. A pipeline serves many conversations at once, from several
    threads and event loops; two checks of one conversation may run at the same time.

    Args:
        config: a configuration as a mapping, the path of a YAML file with one, or a `Config`.
        clock: gives the present time, aware; for rate limits, sessions, audit, and the time stamps of checks and
            of conversations that go by no clock of their own.
        audit: is told of every check, or the path of a file of JSON lines to write them to; by default what the
            configuration says.
        state_store: keeps sessions, conversations and counts, so that they survive this process and other workers
            know them; by default what the configuration says. The caller closes what it passes.
        on_correction: is called, in a thread of its own, with what a second look of ``drift`` says after its check
            has ended (``second_look_when: afterwards``).

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
        state_store: StateStore | None = None,
        on_correction: Callable[[Correction], None] | None = None,
        _given: Overrides | None = None,
    ) -> None:
        self._clock = clock
        self._given = _given or Overrides(_opened(audit, clock), state_store, on_correction=on_correction)
        self._setup = Setup.of(Config.read(config), clock, self._given)
        self._retired: list[AuditSink | StateStore] = []
        self._changing = Lock()

    @classmethod
    def from_preset(
        cls,
        name: str,
        *,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        clock: Clock = utc_now,
        audit: AuditSink | str | PathLike[str] | None = None,
        state_store: StateStore | None = None,
        on_correction: Callable[[Correction], None] | None = None,
    ) -> Self:
        """Return the pipeline of a preset; the other arguments are as for the constructor.

        Args:
            name: such as ``"customer_service"``; see `available_presets`.
            overrides: settings by guardrail of the preset, in place of those that it has or beside them, such as
                ``{"pii": {"action": "block"}}``.

        Raises:
            UnknownNameError: no preset has that name, or it has no guardrail of a name in `overrides`.
            GuardError: a setting that does not fit, or the audit can't be written.

        >>> pipeline = GuardrailPipeline.from_preset("basic", overrides={"pii": {"action": "block"}})
        >>> pipeline.check_input("I am jane@example.com").blocked
        True
        """
        config = Config.preset(name, overrides)
        return cls(config, clock=clock, audit=audit, state_store=state_store, on_correction=on_correction)

    def for_tenant(
        self,
        tenant: str,
        config: Config | Mapping[str, Any] | str | PathLike[str] | None = None,
        *,
        one_person: bool = False,
    ) -> GuardrailPipeline:
        """Return the pipeline of a tenant, for which conversations, sessions and counts of others don't exist.

        It has the audit and the state store of this one, where its own configuration names none; the caller closes
        this one last.

        Args:
            tenant: its name: letters, digits, ``-`` and ``_``. The audit and the keys of its states carry it.
            config: its configuration, as for the constructor; None for that of this pipeline.
            one_person: whether initiators without a name are all the tenant, so that `drift` remembers what speaks
                against them over conversations; else nothing is remembered of them.

        Raises:
            GuardError: as for the constructor, a name with other characters, or a guardrail that was given as an
                object and remembers sessions, which tenants would share.

        >>> pipeline = GuardrailPipeline.from_preset("basic")
        >>> web, desk = pipeline.for_tenant("web"), pipeline.for_tenant("desk", {"guardrails": ["secrets"]})
        >>> web.config.name, [step.name for step in desk.steps]
        ('basic', ['secrets'])
        """
        if not (tenant.isascii() and tenant.replace("-", "").replace("_", "").isalnum()):
            raise GuardError(f"the tenant's name is {tenant!r}; make it of letters, digits, - and _")
        own = self.config if config is None else Config.read(config)
        for entry in own.entries:
            kept = isinstance(entry.kind, Guardrail) and type(entry.kind).forget is not Guardrail.forget
            if kept or (isinstance(entry.kind, Guardrail) and entry.kind.sessions() is not None):
                raise GuardError(f"{entry.name} is an object, whose sessions tenants would share; give its name")
        heard = self._given.on_correction
        person = tenant if one_person else ""
        given = Overrides(tenant=tenant, shared=lambda: self._setup, on_correction=heard, person=person)
        return GuardrailPipeline(own, clock=self._clock, _given=given)

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
        """Counts of audit events written, waiting, dropped and failed; None without an audit that counts."""
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
        """Stop running a guardrail: results list it as skipped. Arguments and errors as for `enable`."""
        self._switch(name, enabled=False)

    def _switch(self, name: str, *, enabled: bool) -> None:
        with self._changing:
            self._setup = self._setup.switched(name, enabled=enabled)

    @property
    def mode(self) -> Mode:
        """The mode: ``on``, ``off`` or ``log``; see `set_mode`."""
        return self._setup.mode

    def set_mode(self, mode: Mode | str) -> None:
        """Change the mode from the next check on; what `enable`, `disable` and `reload` set is kept.

        Args:
            mode: ``on``: as the configuration says. ``log``: guardrails run, and nothing is blocked or redacted;
                ``details`` tell what would have been (``"would block: ..."``). ``off``: no guardrail runs, and
                ``details`` tell each as skipped, not enabled. But for ``on`` rate limits of keys don't count.

        Raises:
            GuardError: another mode.

        >>> pipeline = GuardrailPipeline.from_preset("basic", overrides={"pii": {"action": "redact"}})
        >>> pipeline.set_mode("log")
        >>> result = pipeline.check_input("I am jane@example.com")
        >>> result.text, result.details["pii"].reason
        ('I am jane@example.com', 'would redact: 1 e-mail address')
        """
        if mode not in tuple(Mode):
            raise GuardError(f"mode is {mode!r}; use {', '.join(Mode)}")
        with self._changing:
            self._setup = self._setup.in_mode(Mode(mode))

    def reload(self, config: Config | Mapping[str, Any] | str | PathLike[str]) -> None:
        """Use another configuration from the next check on.

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
            after = Setup.of(Config.read(config), self._clock, self._given, before)
            self._retired += [one for one in before.opened if one not in after.opened]
            self._setup = after

    @property
    def state_store(self) -> StateStore | None:
        """Where sessions, conversations and counts are kept; None for this process alone."""
        state = self._setup.state
        return None if state is None else state.store

    def state_status(self, *, ask: bool = False) -> StateStatus | None:
        """Return the status of the state store, for metrics and health checks; None without one.

        Args:
            ask: whether the store is asked now, which may take as long as it waits for; else what checks met.
        """
        state = self._setup.state
        return None if state is None else state.status(ask=ask)

    def close(self) -> None:
        """Write what the audit still holds, and close it; checks after that are not audited.

        Second looks that are under way are told as unanswered.

        A state store that the configuration names is closed as well; one that was passed is not.
        """
        with self._changing:
            for step in self._setup.steps:
                step.guardrail.close()
            for one in (*self._retired, *self._setup.opened):
                one.close()
            self._retired.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What lasts

    def load_conversation(self, conversation_id: str) -> Conversation:
        """Return a conversation from the state store, in constant time; see `find_conversation`.

        Raises:
            GuardError: the store has no conversation of that name, which the message has as a hash; or there is no
                state store.
            StateError: the store can't be read, or what it has of the conversation is broken.
        """
        found = self.find_conversation(conversation_id)
        if found is None:
            raise GuardError(
                f"the state store has no conversation {pseudonym(conversation_id)}: none was begun, or it was "
                "forgotten or has expired; use find_conversation, which gives None for one that is not there, "
                "or begin "
                "it with Conversation(conversation_id=...)"
            )
        return found

    def find_conversation(self, conversation_id: str, *, held: Conversation | None = None) -> Conversation | None:
        """Return a conversation from the state store, in constant time; None for one that is not known.

        Any worker goes on with it where the last one stopped. Early turns are read when somebody asks for them.

        Args:
            held: the conversation as this process still has it. It is returned, and its next check brings it up to
                date, unless another worker forgot it or began one of that name.

        Raises:
            GuardError: there is no state store.
            StateError: the store can't be read, or what it has of the conversation is broken.
        """
        state = self._setup.state
        if state is None:
            raise GuardError("there is no state store to load from; pass state_store, or set state in the file")
        return state.conversations.load(conversation_id, held)

    def sendable(self, messages: Ordered[Mapping[str, Any]], result: PipelineResult) -> list[dict[str, Any]]:
        """Return a list of messages as a model may be sent it, once `check_messages` let it through.

        Messages keep their shape, OpenAI's or Anthropic's. What guardrails redacted is replaced, in earlier
        messages as well, and what was blocked earlier is left out, where the list was recognised; else the last
        messages alone are as the check has them. A blocked result of a tool becomes ``[tool result withheld]``.

        Args:
            messages: the list that was checked.
            result: what the check said.

        Raises:
            GuardError: something other than what a tool gave back was blocked.
            StateError: the state store can't be read.
        """
        return sendable(self._setup, messages, result)

    def conversation_of(self, result: PipelineResult) -> Conversation | None:
        """Return the conversation that a result of `check_messages` is about, as this process holds it.

        Args:
            result: the result; None is returned for one of a list that stood by itself, and in time for one
                that made room.
        """
        lists = self._setup.lists
        return None if lists is None else lists.held(result.conversation_id)

    def keep_conversation(self, conversation: Conversation) -> None:
        """Write a conversation to the state store before its first check, so that every worker finds it.

        Without a state store, or where it keeps no conversations, nothing happens.

        Args:
            conversation: the conversation; what it was before is part of it.

        Raises:
            StateError: the store can't be written.
            ConversationError: the store has another conversation of that name.
        """
        setup = self._setup
        if setup.state is not None:
            setup.state.keep(conversation, digest_of(session_of(None, conversation, setup)))

    def forget_conversation(self, conversation_id: str) -> Forgotten:
        """Forget a conversation and its forks, its session where that is its own, and its texts in the audit.

        Sessions of people and rate limits stay; see `forget`. Whoever holds its `Conversation` still, here or in
        another process with the same state store, is refused at the next check: a `ForgottenError`. One that is
        begun anew under its name is another one.

        Args:
            conversation_id: its name.

        Returns:
            The receipt: what was erased, and what could not be reached.

        Raises:
            StateError: the state store can't be written.
            GuardError: the audit can't be written; forget again.
        """
        return forget_conversation(self._setup, conversation_id)

    def session(self, session_id: str) -> GuardSession:
        """Return a session: its stance, trust and circuit breaker, and how to reset or release it.

        Args:
            session_id: as checks name it: the one that was passed, else by ``session_by`` the initiator's name or
                the conversation_id.
        """
        return session_in(self._setup, session_id)

    def forget(self, name: str) -> Forgotten:
        """Forget a person, by any spelling of the name.

        That is the session of the name, the prompts counted under it, all conversations of that session and those
        in which a participant other than a model, bot or agent is called so, and what the audit has of them, whose
        chain still holds. Whoever holds such a `Conversation` is refused, as by `forget_conversation`.

        Args:
            name: as for `session`, or as a conversation names its participant.

        Returns:
            The receipt: what was erased, and what could not be reached.

        Raises:
            StateError: the state store can't be written.
            GuardError: the audit can't be written; forget again. Or a name that shows nothing.

        >>> pipeline = GuardrailPipeline.from_preset("basic")
        >>> chat = Conversation.human_ai("ann", "some-model")
        >>> _ = pipeline.check_input("Hello!", chat)
        >>> receipt = pipeline.forget(" Ann")
        >>> pipeline.check_input("Hello again!", chat)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        turnwise.errors.ForgottenError: conversation ... was forgotten
        """
        return forget_person(self._setup, name)


def _opened(audit: AuditSink | str | PathLike[str] | None, clock: Clock) -> AuditSink | None:
    if isinstance(audit, str | PathLike):
        return AuditSettings(fspath(audit)).open(clock)
    return audit
