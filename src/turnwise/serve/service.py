"""What the routes share: the pipeline, its conversations, and the threads in which texts are checked."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from turnwise.conversation import Conversation
from turnwise.errors import ConversationError, StateError, TurnwiseError, UsageError
from turnwise.guard import GuardrailPipeline, PipelineResult
from turnwise.guard.config import Config
from turnwise.guard.state.settings import WhenDown
from turnwise.serve.bodies import CheckRequest
from turnwise.serve.conversations import HeldConversations
from turnwise.serve.metrics import Metrics
from turnwise.serve.problems import Problem
from turnwise.serve.settings import ServeSettings
from turnwise.sessions import SESSION

Value = TypeVar("Value")

_PROBE = "readyz"
"""A key that no session has: to ask for it tells whether the state store answers."""

_log = logging.getLogger("turnwise.serve")


class Service:
    """A pipeline behind HTTP. Everything that may take time runs in threads of its own, off the event loop.

    Args:
        pipeline: checks the texts; closed by the caller.
        settings: the settings of the service.
    """

    def __init__(self, pipeline: GuardrailPipeline, settings: ServeSettings) -> None:
        self.pipeline = pipeline
        self.settings = settings
        self.metrics = Metrics(settings.metrics_folder)
        self.conversations = HeldConversations(pipeline, settings.conversations, self.metrics)
        self._threads = ThreadPoolExecutor(settings.threads, "turnwise-serve")
        self._reloading = Lock()

    async def run(self, call: Callable[..., Value], *args: Any, **kwargs: Any) -> Value:
        """Return what a call returns that runs in a thread.

        Raises:
            Problem: what it raises on purpose, told without text of the request.
        """
        loop = asyncio.get_running_loop()
        work = partial(call, *args, **kwargs) if kwargs else call
        try:
            return await loop.run_in_executor(self._threads, work, *(() if kwargs else args))
        except TurnwiseError as error:
            raise problem_of(error) from None

    def later(self, call: Callable[..., object], *args: Any) -> None:
        """Let a call run in a thread; nobody waits for it, but `close` does."""
        self._threads.submit(call, *args)

    def check(self, request: CheckRequest) -> PipelineResult:
        """Check a text, in the conversation that it continues, and return the verdict."""
        pipeline, session = self.pipeline, request.session_id
        if request.messages is not None:
            prompt = {"key": request.key, "role": request.role, "metadata": request.metadata}
            given: dict[str, Any] = {name: value for name, value in prompt.items() if value is not None}
            if request.conversation_id is not None:
                given["conversation"] = self._conversation(request)
            try:
                result = pipeline.check_messages(request.messages, session_id=session, **given)
            except ConversationError:
                raise Problem(422, "messages are not a list of OpenAI messages", "messages") from None
            if result.conversation_id != request.conversation_id and request.conversation_id is not None:
                self.conversations.hold_fork(pipeline.conversation_of(result))
            self.metrics.tell(result)
            return result
        text, number, chat = request.text or "", request.turn_number, self._conversation(request)
        if request.side == "input":
            result = pipeline.check_input(
                text, chat, key=request.key, role=request.role, session_id=session, metadata=request.metadata
            )
        elif request.side == "output":
            result = pipeline.check_output(
                text, chat, turn_number=number, session_id=session, metadata=request.metadata
            )
        elif request.side == "tool_call":
            result = pipeline.check_tool_call(
                request.tool or "",
                text,
                conversation=chat,
                call_id=request.call_id,
                turn_number=number,
                session_id=session,
            )
        else:
            result = pipeline.check_tool_result(
                text,
                conversation=chat,
                call_id=request.call_id,
                name=request.tool,
                turn_number=number,
                session_id=session,
            )
        self.metrics.tell(result)
        return result

    def _conversation(self, request: CheckRequest) -> Conversation | None:
        about = {} if request.participants is None else request.participants.about()
        if request.conversation_id is not None:
            return self.conversations.of(request.conversation_id, about)
        return self.conversations.begin(None, about) if about else None

    def reload(self) -> str:
        """Read the configuration anew and go on with it, from the next check on; return its digest.

        Raises:
            UsageError: there is nothing to read, or the configuration does not fit; then nothing has changed.
        """
        if self.settings.read_config is None:
            raise UsageError("this service was given a pipeline and has no configuration to read again")
        try:
            with self._reloading:
                self.pipeline.reload(self.settings.read_config())
        except Exception as error:
            self.metrics.reloads.labels("refused").inc()
            _log.error("the configuration is not reloaded, and the one before stays: %s", error)
            raise
        self.metrics.reloads.labels("done").inc()
        _log.warning("the configuration is reloaded: %s", self.config_digest)
        return self.config_digest

    @property
    def config_digest(self) -> str:
        """A digest of the configuration, by which workers with the same one are known."""
        return digest_of_config(self.pipeline.config)

    def ready(self) -> dict[str, Any]:
        """Return what this worker serves.

        Raises:
            StateError: the state store does not answer, and texts are blocked without it.
        """
        store, state = self.pipeline.state_store, "none"
        if store is not None:
            try:
                store.get(SESSION, _PROBE)
                state = "up"
            except StateError:
                settings = self.pipeline.config.state
                if settings is None or settings.when_down is WhenDown.CLOSED:
                    raise
                state = "down"
        return {
            "status": "ready",
            "config": self.config_digest,
            "pipeline": self.pipeline.config.name,
            "guardrails": [step.name for step in self.pipeline.steps if step.enabled],
            "state": state,
            "worker": os.getpid(),
        }

    def close(self) -> None:
        """End the threads, once what they have begun has ended."""
        self._threads.shutdown(wait=True)


def digest_of_config(config: Config) -> str:
    """Return a short digest of a configuration, by which two are told apart."""
    return sha256(repr(config).encode("utf-8", "backslashreplace")).hexdigest()[:12]


def problem_of(error: TurnwiseError) -> Problem:
    """Return what is told of an error; its message may quote the request, so it is not part of that."""
    if isinstance(error, StateError):
        return Problem(503, "the state store can't be used; its log says why", "state", retry_after=1)
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
