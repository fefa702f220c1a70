"""LangChain: a middleware around the agents of ``create_agent``. Needs ``turnwise[langchain]``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, NotRequired, cast
from uuid import UUID

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
    from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage, convert_to_openai_messages
    from langchain_core.outputs import ChatGenerationChunk
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("langchain", error) from error

from turnwise.conversation import WITHHELD_RESULT, Conversation
from turnwise.errors import UsageError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, OnError, OutputStream, PipelineResult
from turnwise.integrations.checking import (
    REFUSAL,
    WITHHELD,
    ConversationFinder,
    Do,
    Steps,
    afinish,
    finish,
    first_unanswered,
    open_turn,
    pipeline_call,
    told,
    was_blocked,
)

RESULT: Final = "turnwise"
"""Key in a message's ``response_metadata`` under which the verdict stands."""

TEXT: Final = "turnwise.text"
"""``type`` of what is written to the stream."""


class ThreadState(AgentState[Any]):
    """What the middleware keeps with a thread."""

    turnwise: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]  # type: ignore[valid-type]


class GuardMiddleware(AgentMiddleware[ThreadState, Any, Any]):
    """Checks what goes into an agent's model, what comes out of it, and the calls and results of its tools.

    ``create_agent(model, tools, middleware=[GuardMiddleware(pipeline)])``. A thread is one conversation, under the
    name of its ``thread_id``. Without a checkpointer every call is a conversation of its own, which begins with
    the earlier messages.

    - A blocked prompt ends the run before the model is asked; ``[message withheld]`` takes its place in the
      messages, so that no later call of the model has it.
    - A blocked reply or tool call ends the run before any tool runs, and is no part of the messages.
    - A blocked tool result is ``[tool result withheld]`` for the model, and the run goes on.
    - What is redacted goes on redacted: to the model, to tools, and in the messages.

    The refusal, and a reply that was changed, have the verdict in ``response_metadata["turnwise"]``. The model's
    own tokens are kept from ``stream_mode="messages"``, which gets the reply as a whole when it has been checked.

    Args:
        pipeline: the guard.
        on_block: ``refuse`` answers with `refusal`; ``raise`` raises `turnwise.guard.GuardrailBlocked`.
        refusal: the answer in place of what was blocked.
        session: gives the session of a run from its runtime, such as a user's name out of ``runtime.context``; by
            default what the pipeline's configuration says.
        stream: whether to show replies while they come, as far as the guard lets them, as texts in
            ``stream_mode="custom"``: mappings ``{"type": "turnwise.text", "text": ...}``. See
            `GuardrailPipeline.stream_output`.
        explain: whether the verdict in messages, which frontends get, tells reasons and scores.

    Raises:
        UsageError: `on_block` is neither.
    """

    state_schema = ThreadState

    def __init__(
        self,
        pipeline: GuardrailPipeline,
        *,
        on_block: Literal["refuse", "raise"] = "refuse",
        refusal: str = REFUSAL,
        session: Callable[[Runtime[Any]], str | None] | None = None,
        stream: bool = False,
        explain: bool = False,
    ) -> None:
        super().__init__()
        if on_block not in ("refuse", "raise"):
            raise UsageError(f"on_block is {on_block!r}; use refuse or raise")
        self._pipeline = pipeline
        self._raises = on_block == "raise"
        self._refusal = refusal
        self._session = session
        self._stream = stream
        self._explain = explain
        self._conversations = ConversationFinder(pipeline)

    # Prompts

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: ThreadState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Check the messages of the user that nobody has answered."""
        return finish(self._prompts(state, runtime, self._begun(state, runtime)))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: ThreadState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        chat = await asyncio.to_thread(self._begun, state, runtime)  # a state store may be asked
        return await afinish(self._prompts(state, runtime, chat))

    def _begun(self, state: ThreadState, runtime: Runtime[Any]) -> Conversation:
        """The conversation that a run belongs to, as it was before the run."""
        messages, info = state["messages"], runtime.execution_info
        name = None if info is None else info.thread_id
        return self._conversations.of(name, lambda: _plain(messages[: _first_new(messages)]))

    def _prompts(self, state: ThreadState, runtime: Runtime[Any], chat: Conversation) -> Steps[dict[str, Any]]:
        messages = state["messages"]
        first = _first_new(messages)
        session = self._session(runtime) if self._session is not None else None
        changed: list[AnyMessage] = []
        blocked: list[PipelineResult] = []
        turn = None
        last = messages[-1] if messages else None
        for message in messages[first:]:
            if message is not last and was_blocked(chat, message.text):
                changed.append(message.model_copy(update={"content": WITHHELD}))
                continue
            result = yield self._check("input", message.text, conversation=chat, session_id=session)
            turn = result.turn_number
            if result.blocked or self._unread(message):
                blocked.append(result)
                changed.append(message.model_copy(update={"content": WITHHELD}))
            elif result.text != message.text:
                changed.append(message.model_copy(update={"content": _with_text(message, result.text)}))
        known = {"conversation": chat.conversation_id, "turn": turn, "session": session}
        if not blocked:
            return {"messages": changed, "turnwise": known}
        return {"messages": [*changed, self._refuse(blocked[0])], "turnwise": known, "jump_to": "end"}

    def _unread(self, message: BaseMessage) -> bool:
        """Whether a message has parts that nobody reads, and the configuration blocks these."""
        others = isinstance(message.content, list) and any(not _is_text(part) for part in message.content)
        return others and self._pipeline.config.on_unread is OnError.BLOCK

    # Replies and calls of tools

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Check the model's reply and the tool calls that it asks for, before they become messages."""
        show = self._show(request)
        try:
            response = handler(_quiet(request, show))
        except _StreamStopped:
            response = ModelResponse(result=[AIMessage("")])
        except BaseException:
            show.drop()
            raise
        return finish(self._reply(request, response, show.end()))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        show = self._show(request)
        try:
            response = await handler(_quiet(request, show))
        except _StreamStopped:
            response = ModelResponse(result=[AIMessage("")])
        except BaseException:
            show.drop()
            raise
        return await afinish(self._reply(request, response, await asyncio.to_thread(show.end)))

    def _show(self, request: ModelRequest[Any]) -> _ReplyStream:
        """What shows a reply while it comes, where that is wanted."""
        chat, known = self._chat(request.state)

        def opened() -> OutputStream:
            turn = open_turn(chat, known.get("turn"))
            return self._pipeline.stream_output(chat, turn_number=turn, session_id=known.get("session"))

        return _ReplyStream(opened if self._stream else None, request.runtime.stream_writer)

    def _reply(
        self, request: ModelRequest[Any], response: ModelResponse[Any], streamed: PipelineResult | None
    ) -> Steps[ModelResponse[Any]]:
        """Check a reply; ``streamed`` is the verdict on its text, where that was shown while it came."""
        chat, known = self._chat(request.state)
        session = known.get("session")
        result: list[BaseMessage] = []
        structured = response.structured_response
        for message in response.result:
            if not isinstance(message, AIMessage):
                result.append(message)
                continue
            checks: list[PipelineResult] = []
            if streamed is not None:
                checks.append(streamed)
            elif message.text or not (message.tool_calls or message.invalid_tool_calls):
                turn = open_turn(chat, known.get("turn"))
                checks.append(
                    (
                        yield self._check(
                            "output", message.text, conversation=chat, turn_number=turn, session_id=session
                        )
                    )
                )
            for call in (*message.tool_calls, *message.invalid_tool_calls):
                given = call["args"] or "" if call.get("type") == "invalid_tool_call" else json.dumps(call["args"])
                where = {"conversation": chat, "turn_number": known.get("turn"), "session_id": session}
                name = call["name"] or "unknown"
                checks.append((yield self._check("tool_call", name, given, call_id=call["id"], **where)))
            blocked = next((check for check in checks if check.blocked), None)
            if blocked is not None:
                return ModelResponse(result=[self._refuse(blocked, message.id)])
            changed = _changed(message, checks, explain=self._explain)
            if changed is not message and structured is not None:
                # The object was read from the text before something in it was replaced.
                return ModelResponse(result=[self._refuse(checks[-1], message.id)])
            result.append(changed)
        return ModelResponse(result=result, structured_response=structured)

    # What tools give back

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Check what a tool gave back before the model reads it."""
        return finish(self._given(request, handler(request)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        return await afinish(self._given(request, await handler(request)))

    def _given(
        self, request: ToolCallRequest, given: ToolMessage | Command[Any]
    ) -> Steps[ToolMessage | Command[Any]]:
        chat, known = self._chat(request.state)
        if isinstance(given, ToolMessage):
            return (yield from self._tool_message(given, chat, known))
        update = given.update
        if not (isinstance(update, dict) and isinstance(update.get("messages"), list)):
            return given
        messages = []
        for message in update["messages"]:
            checked = isinstance(message, ToolMessage)
            messages.append((yield from self._tool_message(message, chat, known)) if checked else message)
        return Command(
            graph=given.graph, update={**update, "messages": messages}, resume=given.resume, goto=given.goto
        )

    def _tool_message(self, message: ToolMessage, chat: Conversation, known: dict[str, Any]) -> Steps[ToolMessage]:
        about = {"call_id": message.tool_call_id, "name": message.name}
        where = {"turn_number": known.get("turn"), "session_id": known.get("session")}
        result = yield self._check("tool_result", message.text, conversation=chat, **about, **where)
        if result.blocked and self._raises:
            raise GuardrailBlocked(result)
        if result.blocked or self._unread(message):
            return message.model_copy(update={"content": WITHHELD_RESULT, "artifact": None, "status": "error"})
        if result.text == message.text:
            return message
        return message.model_copy(update={"content": _with_text(message, result.text), "artifact": None})

    # Shared

    def _check(self, what: str, *texts: Any, **about: Any) -> Do:
        return pipeline_call(self._pipeline, f"check_{what}", *texts, **about)

    def _chat(self, state: Any) -> tuple[Conversation, dict[str, Any]]:
        """The conversation of a run, and what is known of it."""
        known = cast("dict[str, Any]", state.get("turnwise") or {})
        return self._conversations.held(known.get("conversation"), partial(_plain, state["messages"])), known

    def _refuse(self, result: PipelineResult, message_id: str | None = None) -> AIMessage:
        if self._raises:
            raise GuardrailBlocked(result)
        return AIMessage(
            content=self._refusal, id=message_id, response_metadata={RESULT: told(result, explain=self._explain)}
        )


class _StreamStopped(Exception):  # noqa: N818 - it stops a model, and nobody sees it
    """The reply was blocked while it came, so the model is asked for no more of it."""


class _ReplyStream(BaseCallbackHandler):
    """A callback of a model that feeds its tokens to the guard, where wanted, and writes what may be shown."""

    # LangChain's models stream because this has the two methods ``tap_output...``.
    run_inline = True
    raise_error = True

    def __init__(self, opened: Callable[[], OutputStream] | None, write: Callable[[Any], None]) -> None:
        self._opened = opened
        self._write = write
        self._stream: OutputStream | None = None

    @property
    def wanted(self) -> bool:
        return self._opened is not None

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        return output

    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[Any], **kwargs: Any) -> None:
        """Begin anew; what another try of the same reply said is dropped."""
        self.drop()
        self._stream = None

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """Take a token; _StreamStopped where the reply is blocked."""
        text = chunk.message.text if isinstance(chunk, ChatGenerationChunk) else token
        if not text or self._opened is None:
            return
        if self._stream is None:
            self._stream = self._opened()
        self._show(self._stream.feed(text))
        if self._stream.blocked:
            raise _StreamStopped

    def end(self) -> PipelineResult | None:
        """Show what remains, and return the verdict; None where no text came while it was listened to."""
        if self._stream is None:
            return None
        result = self._stream.end()
        self._show(self._stream.rest)
        return result

    def drop(self) -> None:
        """Record that the reply broke off, where one was under way."""
        if self._stream is not None and self._stream.result is None:
            self._stream.drop()

    def _show(self, text: str) -> None:
        if text:
            self._write({"type": TEXT, "text": text})


def _quiet(request: ModelRequest[Any], show: _ReplyStream) -> ModelRequest[Any]:
    """A request whose model shows its tokens to nobody, but to the guard where replies are streamed."""
    changed: dict[str, Any] = {"tags": [*(request.model.tags or []), TAG_NOSTREAM]}
    if show.wanted:
        # A handler for this request alone, beside those that the model has.
        known = request.model.callbacks
        if isinstance(known, BaseCallbackManager):
            known = known.copy()
            known.add_handler(show, inherit=False)
        changed["callbacks"] = [*(known or []), show] if known is None or isinstance(known, list) else known
    return request.override(model=request.model.model_copy(update=changed))


def _first_new(messages: Sequence[AnyMessage]) -> int:
    """Where the user's messages begin that nobody has answered."""
    return first_unanswered(messages, lambda message: message.type == "human")


def _plain(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    return convert_to_openai_messages(list(messages))


def _is_text(part: str | dict[str, Any]) -> bool:
    return isinstance(part, str) or part.get("type") == "text"


def _with_text(message: BaseMessage, text: str) -> str | list[str | dict[str, Any]]:
    """The content of a message with another text; parts that are no text stay."""
    if isinstance(message.content, str):
        return text
    return [{"type": "text", "text": text}, *(part for part in message.content if not _is_text(part))]


def _changed(message: AIMessage, checks: Sequence[PipelineResult], *, explain: bool) -> AIMessage:
    """A message with what was redacted; the same object where nothing was."""
    # Checks are of its text where that was checked, then of its calls, then of those that can't be read.
    readable, others = message.tool_calls, message.invalid_tool_calls
    first = len(checks) - len(readable) - len(others)
    text = checks[0].text if first else message.text
    allowed = [check.text for check in checks[first:]]
    calls = [{**call, "args": json.loads(new)} for call, new in zip(readable, allowed, strict=False)]
    same = text == message.text and [call["args"] for call in calls] == [call["args"] for call in readable]
    if same and allowed[len(readable) :] == [call["args"] or "" for call in others]:
        return message
    # Made anew: providers keep the raw text and arguments in other fields as well.
    return AIMessage(
        content=text,
        tool_calls=calls,
        id=message.id,
        name=message.name,
        usage_metadata=message.usage_metadata,
        response_metadata={RESULT: told(checks[0], explain=explain)},
    )
