"""What the routes share: the tenants with their pipelines, and the threads in which texts are checked."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any, Final, TypeVar, cast

from turnwise.conversation import Conversation
from turnwise.conversation.turn import PARTICIPANT_KEY
from turnwise.errors import ConversationError, ForgottenError, StateError, TurnwiseError, UsageError
from turnwise.guard import (
    NO_CONVERSATION,
    GuardrailPipeline,
    Mode,
    NoConversation,
    OnError,
    Outcome,
    PipelineResult,
)
from turnwise.guard.finding import Cost
from turnwise.guard.names import UNNAMED, canonical_name
from turnwise.guard.results import Path
from turnwise.guard.state.settings import WhenDown
from turnwise.guard.threads import LONG
from turnwise.serve.bodies import CheckRequest, Problem, Side
from turnwise.serve.check_threads import Job, Lane
from turnwise.serve.clients import CLIENT, Clients, DisconnectedError
from turnwise.serve.metrics import Metrics
from turnwise.serve.settings import ServeSettings
from turnwise.serve.tenants import Tenant, Tenants
from turnwise.sessions import SESSION

Value = TypeVar("Value")

_PROBE = "readyz"
"""A key that no session has: to ask for it tells whether the state store answers."""

_FRESH: Final = 1.0
"""Seconds for which it is not asked again."""

_RATE: Final = 2.5e-4
"""Seconds a character that a check is expected to take before one was seen, where a guardrail asks a model."""

_log = logging.getLogger("turnwise.serve")


class Service:
    """A pipeline behind HTTP, closed by whoever made it; what takes time runs in threads, off the event loop."""

    def __init__(self, pipeline: GuardrailPipeline, settings: ServeSettings) -> None:
        self.pipeline = pipeline
        self.settings = settings
        self.metrics = Metrics(settings.metrics_folder)
        self.tenants = Tenants(pipeline, settings, self.metrics)
        self.clients = Clients(settings, self.metrics.body_bytes)
        pipelines = [tenant.pipeline for tenant in self.tenants.by_name.values()]
        steps = [step for each in pipelines for step in each.steps if step.enabled]
        rate = _RATE if any(step.cost >= Cost.MODEL for step in steps) else 0.0
        bounds = settings.queue_seconds, rate, settings.check_seconds, self.tenants.several
        waiting = settings.threads if any(step.guardrail.waits for step in steps) else 0
        self._lanes = {name: Lane(f"turnwise-{name}", 1) for name in ("readyz", "metrics", "reload")}
        self._lanes["short"] = Lane("turnwise-short", settings.threads, *bounds)
        self._lanes["long"] = Lane("turnwise-long", max(_cores(), waiting), *bounds)
        self._store_state, self._store_asked = "none", -_FRESH

    async def run(self, call: Callable[..., Value], *args: Any, characters: int = 0) -> Value:
        """What a call returns that runs in the lane for texts of so many characters; errors become a `Problem`."""
        lane = self._lanes["short" if characters < LONG else "long"]
        seconds, client = self.settings.check_seconds, CLIENT.get()
        tenant = None if client is None else client.tenant
        name = "" if tenant is None else tenant.name
        job = Job(partial(self._followed, tenant, call, *args), characters, name)
        waits = lane.enter(job)
        if waits:
            raise self.unchecked("too many texts wait to be checked; try again", "busy", waits, tenant)

        def late() -> None:
            job.deadline.cancel(Outcome.TIMED_OUT)
            told = f"the check was not done within {seconds:g} s"
            job.settle(None, self.unchecked(told, "check-timeout", 1, tenant))

        timer = asyncio.get_running_loop().call_later(seconds, late)
        try:
            # Where a problem ends it, what still waits begins all the same and ends at once: so the audit has it.
            with nullcontext() if client is None else client.awaiting(job):
                return cast("Value", await job.answer)
        except (DisconnectedError, asyncio.CancelledError):
            job.deadline.cancel(Outcome.DISCONNECTED)
            lane.leave(job)
            self.metrics.unchecked.labels("disconnected").inc()
            raise
        except TurnwiseError as error:
            raise problem_of(error) from None
        finally:
            timer.cancel()

    def _followed(self, tenant: Tenant | None, call: Callable[..., Value], *args: Any) -> Value:
        if tenant is not None:
            self.tenants.follow(tenant)
        return call(*args)

    async def apart(self, lane: str, call: Callable[..., Value], *args: Any) -> Value:
        """What a call returns that runs beside all checks, in a lane of its own."""
        job = Job(partial(call, *args))
        self._lanes[lane].enter(job)
        try:
            return cast("Value", await job.answer)
        except TurnwiseError as error:
            raise problem_of(error) from None

    def later(self, lane: str, call: Callable[..., object], *args: Any) -> None:
        """Let a call run in a lane, whatever waits there; nobody waits for it, but `close` does."""
        job = Job(partial(call, *args))
        job.answer.add_done_callback(_log_failure)
        self._lanes[lane].enter(job, always=True)

    def unchecked(self, detail: str, kind: str, retry_after: float, tenant: Tenant | None) -> Problem:
        """The problem of a text that was not checked, with the way that it goes; it is counted."""
        self.metrics.unchecked.labels(kind).inc()
        pipeline = self.pipeline if tenant is None else tenant.pipeline
        blocks = any(step.enabled and step.on_error is OnError.BLOCK for step in pipeline.steps)
        closed = blocks and pipeline.mode is Mode.ON
        return Problem(503, detail, kind, retry_after=retry_after, path=Path.CLOSED if closed else Path.OPEN)

    def stop(self) -> None:
        """End the requests under way: they are answered 503, and what was checked is told the audit."""
        self.clients.end(partial(self.unchecked, "the service stops", "stopping", 1))

    def check(self, tenant: Tenant, request: CheckRequest) -> PipelineResult:
        pipeline, chat = tenant.pipeline, _conversation(tenant, request)
        side, metadata, session = _spoken(pipeline, request, chat)
        if request.messages is not None:
            named: dict[str, Any] = {"key": request.key, "role": request.role, "metadata": metadata}
            named["conversation"] = None if request.conversation_id is None else chat
            given = {name: value for name, value in named.items() if value is not None}
            try:
                result = pipeline.check_messages(request.messages, session_id=session, **given)
            except ForgottenError:
                raise
            except ConversationError:
                raise Problem(422, "messages are not a list of OpenAI messages", "messages") from None
            if result.conversation_id != request.conversation_id and request.conversation_id is not None:
                tenant.conversations.hold_fork(pipeline.conversation_of(result))
            self.metrics.tell(result, tenant.name)
            return result
        text, tool = request.text or "", request.tool or ""
        where: dict[str, Any] = {"conversation": chat, "session_id": session}
        turn = where | {"turn_number": request.turn_number}
        call = turn | {"call_id": request.call_id}
        match side:
            case "input":
                result = pipeline.check_input(text, key=request.key, role=request.role, metadata=metadata, **where)
            case "output":
                result = pipeline.check_output(text, metadata=metadata, **turn)
            case "tool_call":
                result = pipeline.check_tool_call(tool, text, **call)
            case "tool_result":
                result = pipeline.check_tool_result(text, name=request.tool, **call)
            case "tool_description":
                result = pipeline.check_tool_description(tool, text, request.parameters, **where)
            case source:
                result = pipeline.check_context(text, source, name=tool, **where)
        self.metrics.tell(result, tenant.name)
        return result

    def reload(self) -> str:
        """Read the configuration anew and return its digest; where it does not fit, nothing has changed."""
        settings = self.settings
        if settings.read_config is None:
            raise UsageError("reload needs a configuration to read again, and this service was given a pipeline")
        try:
            config, keys = settings.read_config(), None if settings.read_keys is None else settings.read_keys()
            if keys is None:
                self.pipeline.reload(config)
            else:
                self.tenants.reload(keys, config)
        except Exception as error:
            self.metrics.reloads.labels("refused").inc()
            _log.error("the configuration is not reloaded, and the one before stays: %s", error)
            raise
        self.metrics.reloads.labels("done").inc()
        _log.warning("the configuration is reloaded: %s", self.config_digest)
        return self.config_digest

    @property
    def config_digest(self) -> str:
        """A digest of the configurations, by which workers with the same ones are known."""
        tenants = [(one.settings, one.pipeline.config) for one in self.tenants.by_name.values()]
        return sha256(repr((self.pipeline.config, tenants)).encode("utf-8", "backslashreplace")).hexdigest()[:12]

    async def ready(self) -> dict[str, Any]:
        """What this worker serves; a `Problem` while the state store is down and texts are blocked without it."""
        if self.pipeline.state_store is not None and monotonic() > self._store_asked + _FRESH:
            await self.apart("readyz", self._ask_store)
        if self._store_state == "closed":
            raise problem_of(StateError("the state store does not answer: check that its server runs"))
        return {
            "status": "ready",
            "config": self.config_digest,
            "pipeline": self.pipeline.config.name,
            "guardrails": [step.name for step in self.pipeline.steps if step.enabled],
            "state": self._store_state,
            "worker": os.getpid(),
        }

    def _ask_store(self) -> None:
        store, settings = self.pipeline.state_store, self.pipeline.config.state
        if store is None or monotonic() <= self._store_asked + _FRESH:
            return
        try:
            store.get(SESSION, _PROBE)
            self._store_state = "up"
        except StateError:
            closed = settings is None or settings.when_down is WhenDown.CLOSED
            self._store_state = "closed" if closed else "down"
        self._store_asked = monotonic()

    def close(self, seconds: float = 5.0) -> bool:
        """End the threads, once what they have begun has ended; return whether it did within so many seconds."""
        until = monotonic() + seconds
        ended = [lane.close(max(0.0, until - monotonic())) for lane in self._lanes.values()]
        self.tenants.close()
        return all(ended)


def _spoken(
    pipeline: GuardrailPipeline, request: CheckRequest, chat: Conversation | NoConversation
) -> tuple[Side, dict[str, Any] | None, str | None]:
    """As what a text is checked, the metadata of its turn, and its session: all three depend on who says it."""
    name, side, session = request.participant, request.side, request.session_id
    known = None if name is None else canonical_name(name)
    if (
        isinstance(chat, Conversation)
        and known == canonical_name(chat.responder)
        and "side" not in request.model_fields_set
    ):
        side = "output"
    if name is None or side != "input":
        return side, request.metadata, session
    if session is None and pipeline.config.session_by == "initiator" and known not in UNNAMED:
        session = name
    return side, {**(request.metadata or {}), PARTICIPANT_KEY: name}, session


def _conversation(tenant: Tenant, request: CheckRequest) -> Conversation | NoConversation:
    about = {} if request.participants is None else request.participants.about()
    if request.conversation_id is not None:
        return tenant.conversations.of(request.conversation_id, about)
    return tenant.conversations.begin(None, about) if about else NO_CONVERSATION


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _log_failure(answer: asyncio.Future[Any]) -> None:
    error = None if answer.cancelled() else answer.exception()
    if error is not None:
        _log.error("what nobody waits for failed: %s", type(error).__name__)


def problem_of(error: TurnwiseError) -> Problem:
    """What is told of an error; its message may quote the request, so it is not part of that."""
    if isinstance(error, StateError):
        return Problem(503, "the state store can't be used; its log says why", "state", retry_after=1)
    if isinstance(error, ForgottenError):
        return Problem(410, "the conversation was forgotten while its text was checked", "forgotten")
    if isinstance(error, ConversationError):
        told = (
            "the conversation does not allow it: there is no such turn, it has its response already, or messages, "
            "tool, metadata or names are not what a conversation can hold"
        )
        return Problem(409, told, "conversation")
    if isinstance(error, UsageError):
        told = "the guard can't check this: the last message has no text or no role that is checked, or metadata "
        return Problem(422, told + "have a key of the guard's own", "not-checkable")
    return Problem(500, "the service failed; its log says where", "failed")
