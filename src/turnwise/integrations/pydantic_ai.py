"""Pydantic AI: a capability that guards an agent. Needs ``turnwise[pydantic-ai]``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Final, Literal

try:
    from pydantic_ai import ModelRetry, RunContext, ToolReturn
    from pydantic_ai import messages as m
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.models import (
        CompletedStreamedResponse,
        Model,
        ModelRequestContext,
        ModelRequestParameters,
        StreamedResponse,
    )
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_core import to_json
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("pydantic-ai", error) from error

from turnwise.conversation import WITHHELD_RESULT, Conversation
from turnwise.errors import UsageError
from turnwise.guard import AsyncOutputStream, GuardrailBlocked, GuardrailPipeline, OnError, PipelineResult
from turnwise.integrations.checking import REFUSAL, WITHHELD, ConversationFinder, first_unanswered, open_turn, told

RESULT: Final = "turnwise"
"""Key in a response's ``metadata`` under which the verdict stands."""


class Guard(AbstractCapability[Any]):
    """Checks what goes into an agent's model, what comes out of it, and the calls and results of its tools.

    ``Agent(model, capabilities=[Guard(pipeline)])``. A conversation of the agent (its ``conversation_id``, which
    the message history carries on) is one of the guard, and a run is a turn.

    - A blocked prompt ends the run before the model is asked; ``[message withheld]`` takes its place in the
      messages, so that no later call of the model has it.
    - A blocked reply or tool call ends the run before any tool runs, and is no part of the messages.
    - A blocked tool result is ``[tool result withheld]`` for the model, and the run goes on.
    - What is redacted goes on redacted: to the model, to tools, and in the messages.

    Streams show text as far as the guard lets it, thinking and calls of tools once they are checked. An agent
    whose output is no text has no place for a refusal: there, a block raises.

    Args:
        pipeline: the guard.
        on_block: ``refuse`` answers with `refusal`; ``raise`` raises `turnwise.guard.GuardrailBlocked`.
        refusal: the answer in place of what was blocked.
        session: gives the session of a run from its context, such as ``lambda context: context.deps.user``; by
            default what the pipeline's configuration says.
        explain: whether the verdict in ``metadata`` of the refusal, which frontends may get, tells reasons.

    Raises:
        UsageError: `on_block` is neither.
    """

    def __init__(
        self,
        pipeline: GuardrailPipeline,
        *,
        on_block: Literal["refuse", "raise"] = "refuse",
        refusal: str = REFUSAL,
        session: Callable[[RunContext[Any]], str | None] | None = None,
        explain: bool = False,
    ) -> None:
        super().__init__()
        if on_block not in ("refuse", "raise"):
            raise UsageError(f"on_block is {on_block!r}; use refuse or raise")
        self._pipeline = pipeline
        self._raises = on_block == "raise"
        self._refusal = refusal
        self._session = session
        self._explain = explain
        self._conversations = ConversationFinder(pipeline)
        # What is known of a run; `for_run` makes a copy for each.
        self._chat: Conversation | None = None
        self._where: dict[str, Any] = {}
        self._seen: set[tuple[str | None, str]] = set()

    def get_ordering(self) -> CapabilityOrdering:
        """Stand outside of the other capabilities."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: RunContext[Any]) -> Guard:
        """Return the guard of one run."""
        made = copy(self)
        made._chat, made._where, made._seen = None, {}, set()
        return made

    # Prompts, and results of tools that other programs ran

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[m.ModelResponse]],
    ) -> m.ModelResponse:
        """Check what nobody has answered yet, and ask the model where nothing was blocked."""
        messages = ctx.messages
        first = first_unanswered(messages, lambda message: isinstance(message, m.ModelRequest))
        if self._chat is None:
            earlier = messages[:first]
            self._chat = await asyncio.to_thread(
                self._conversations.of, ctx.conversation_id, lambda: _plain(earlier)
            )
            self._where = {"session_id": None if self._session is None else self._session(ctx)}
        blocked: PipelineResult | None = None
        for place in range(first, len(messages)):
            message = messages[place]
            if not isinstance(message, m.ModelRequest):
                continue
            parts: list[Any] = list(message.parts)
            for at, part in enumerate(message.parts):
                if isinstance(part, m.UserPromptPart):
                    parts[at], result = await self._prompt(part)
                    blocked = blocked or result
                elif isinstance(part, m.ToolReturnPart):
                    text = part.model_response_str()
                    shown = await self._given(text, part.tool_name, part.tool_call_id)
                    parts[at] = (
                        part if shown == text else m.ToolReturnPart(part.tool_name, shown, part.tool_call_id)
                    )
            changed = replace(message, parts=parts)
            request_context.messages = [changed if one is message else one for one in request_context.messages]
            messages[place] = changed
        if blocked is None:
            return await handler(request_context)
        return self._refuse(blocked, request_context.model_request_parameters)

    async def _prompt(self, part: m.UserPromptPart) -> tuple[m.UserPromptPart, PipelineResult | None]:
        """A prompt as the model may read it, and the verdict where it was blocked."""
        text, others = _read(part.content)
        if (None, text) in self._seen:
            return part, None
        result = await self._pipeline.acheck_input(text, self._conversation, session_id=self._where["session_id"])
        self._where["turn_number"] = result.turn_number
        if result.blocked or (others and self._pipeline.config.on_unread is OnError.BLOCK):
            return replace(part, content=WITHHELD), result
        if result.text != text:
            part = replace(part, content=[result.text, *others] if others else result.text)
        self._seen.add((None, result.text))
        return part, None

    async def _given(self, text: str, name: str | None, call_id: str | None) -> str:
        """What a tool gave back, as the model may read it."""
        if (call_id, text) in self._seen:
            return text
        result = await self._pipeline.acheck_tool_result(
            text, conversation=self._conversation, call_id=call_id, name=name, **self._where
        )
        if result.blocked and self._raises:
            raise GuardrailBlocked(result)
        shown = WITHHELD_RESULT if result.blocked else result.text
        self._seen.add((call_id, shown))
        return shown

    @property
    def _conversation(self) -> Conversation:
        if self._chat is None:
            raise UsageError("the guard checks only within a run of an agent, and durable execution has none")
        return self._chat

    # What tools give back

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: m.ToolCallPart,
        tool_def: Any,
        args: Any,
        handler: Callable[[Any], Any],
    ) -> Any:
        """Check what a tool gave back, or asked to have tried again, before anyone reads it."""
        about = (call.tool_name, call.tool_call_id)
        try:
            given = await handler(args)
        except ModelRetry as retry:
            raise ModelRetry(await self._given(retry.message, *about)) from None
        if isinstance(given, ToolReturn) and given.content is not None:
            said, _ = _read(given.content)
            if await self._given(said, *about) != said:
                return WITHHELD_RESULT
            self._seen.add((None, said))
        value = given.return_value if isinstance(given, ToolReturn) else given
        text = value if isinstance(value, str) else to_json(value, serialize_unknown=True).decode()
        shown = await self._given(text, *about)
        if shown == text:
            # Under the text that the model will read, so that it is not checked again.
            self._seen.add((call.tool_call_id, m.ToolReturnPart(call.tool_name, value).model_response_str()))
            return given
        return shown

    # Replies and calls of tools

    def get_wrapper_model(self, model: Model) -> Model:
        """Return a model whose replies are checked before anyone reads them."""
        return _GuardedModel(model, self)

    def _refuse(self, result: PipelineResult, parameters: ModelRequestParameters) -> m.ModelResponse:
        if self._raises or not parameters.allow_text_output or parameters.output_object is not None:
            raise GuardrailBlocked(result)
        return m.ModelResponse(
            parts=[m.TextPart(self._refusal)], metadata={RESULT: told(result, explain=self._explain)}
        )

    def _open(self) -> AsyncOutputStream:
        turn = open_turn(self._conversation, self._where.get("turn_number"))
        return self._pipeline.astream_output(
            self._conversation, turn_number=turn, session_id=self._where["session_id"]
        )

    async def _beside(self, part: m.ModelResponsePart) -> tuple[m.ModelResponsePart, PipelineResult | None]:
        """Check thinking, or what the provider's own tools were asked and gave back."""
        if isinstance(part, m.ThinkingPart) and part.content:
            result = await self._pipeline.acheck_output(part.content)
            if result.text != part.content:
                part = m.ThinkingPart(result.text)  # no signature fits it any more
            return part, result if result.blocked else None
        if isinstance(part, m.NativeToolReturnPart):
            text = part.model_response_str()
            result = await self._pipeline.acheck_tool_result(
                text,
                conversation=self._conversation,
                name=part.tool_name,
                call_id=part.tool_call_id,
                **self._where,
            )
            # The provider holds it, so it can't be replaced.
            return part, result if result.blocked or result.text != text else None
        if isinstance(part, m.NativeToolCallPart):
            return await self._call(part)
        return part, None

    async def _call(self, part: m.BaseToolCallPart) -> tuple[Any, PipelineResult | None]:
        given = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)
        result = await self._pipeline.acheck_tool_call(
            part.tool_name, given, conversation=self._conversation, call_id=part.tool_call_id, **self._where
        )
        if result.blocked:
            return part, result
        return part if result.text == given else replace(part, args=result.text), None


class _GuardedModel(WrapperModel):
    """A model whose replies are those that the guard of a run lets through."""

    def __init__(self, wrapped: Model, guard: Guard) -> None:
        super().__init__(wrapped)
        self._guard = guard

    async def request(
        self, messages: list[m.ModelMessage], model_settings: Any, model_request_parameters: ModelRequestParameters
    ) -> m.ModelResponse:
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        whole = CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )
        checked = _GuardedReply(whole, self._guard)
        async for _ in checked:
            pass
        return checked.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[m.ModelMessage],
        model_settings: Any,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        opened = self.wrapped.request_stream(messages, model_settings, model_request_parameters, run_context)
        async with opened as response:
            yield _GuardedReply(response, self._guard)


def _of_reply(name: str) -> Any:
    return property(lambda stream: getattr(stream._reply, name))


class _GuardedReply(StreamedResponse):
    """A reply as it comes: text as far as the guard lets it, other parts in their order once they are checked."""

    def __init__(self, reply: StreamedResponse, guard: Guard) -> None:
        super().__init__(reply.model_request_parameters)
        self._reply = reply
        self._guard = guard
        self._text: AsyncOutputStream | None = None
        self._fed = False
        self._before_text = 0
        self._parts: list[m.ModelResponsePart] = []
        self._blocked: PipelineResult | None = None
        self._made: m.ModelResponse | None = None

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        events = aiter(self._reply)
        try:
            async for event in events:
                async for shown in self._take(event):
                    yield shown
                if self._blocked is not None:
                    break
            calls = await self._end()
        finally:
            if self._text is not None and self._text.result is None:
                self._text.drop()
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        made = self._reply.get()
        if self._blocked is not None:
            refused = self._guard._refuse(self._blocked, self.model_request_parameters)
            self._parts, last = list(refused.parts), refused.parts
            made = replace(made, metadata=refused.metadata, state="complete")
        else:
            last = calls
            if self._fed and self._text is not None and self._text.result is not None:
                self._parts.insert(self._before_text, m.TextPart(self._text.result.text))
                for shown in self._parts_manager.handle_text_delta(vendor_part_id="text", content=self._text.rest):
                    yield shown
            self._parts += calls
        for part in last:
            yield self._parts_manager.handle_part(vendor_part_id=None, part=part)
        if _said(self._parts) != _said(made.parts):
            # Made anew: nothing that the provider keeps of the reply goes on.
            made = replace(made, parts=self._parts, provider_response_id=None, provider_details=None)
        self._made, self.state, self.finish_reason = made, made.state, made.finish_reason

    async def _take(self, event: Any) -> AsyncIterator[Any]:
        """Take an event, and yield those that may be shown for it."""
        if piece := _piece(event):
            if self._text is None:
                self._text, self._before_text = self._guard._open(), len(self._parts)
            self._fed = True
            content = await self._text.feed(piece)
            for shown in self._parts_manager.handle_text_delta(vendor_part_id="text", content=content):
                yield shown
            self._blocked = self._text.result
        elif (part := _whole(event)) is not None:
            part, self._blocked = await self._guard._beside(part)
            if self._blocked is None:
                self._parts.append(part)
                yield self._parts_manager.handle_part(vendor_part_id=None, part=part)

    async def _end(self) -> list[Any]:
        """Check the end of the text, and the calls; an output that is a call is the text where there is none."""
        if self._blocked is not None:
            return []
        calls: list[Any] = [part for part in self._reply.get().parts if isinstance(part, m.ToolCallPart)]
        outputs = {tool.name for tool in self.model_request_parameters.output_tools}
        said = None
        if self._text is None:
            said = next((place for place, call in enumerate(calls) if call.tool_name in outputs), None)
            if said is not None or not calls:
                self._text = self._guard._open()
        if self._text is not None:
            given = "" if said is None else calls[said].args_as_json_str()
            await self._text.feed(given)
            result = await self._text.end()
            self._blocked = result if result.blocked else None
            if said is not None and result.text != given:
                calls[said] = replace(calls[said], args=result.text)
        for place, call in enumerate(calls):
            if self._blocked is None and place != said:
                calls[place], self._blocked = await self._guard._call(call)
        return calls

    def get(self) -> m.ModelResponse:
        return super().get() if self._made is None else self._made

    async def close_stream(self) -> None:
        await self._reply.cancel()

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        return self._reply.get_stream_cancel_errors()

    usage, model_name, provider_name, provider_url, timestamp = map(  # type: ignore[assignment]
        _of_reply, ("usage", "model_name", "provider_name", "provider_url", "timestamp")
    )


def _piece(event: Any) -> str:
    if isinstance(event, m.PartStartEvent) and isinstance(event.part, m.TextPart):
        return event.part.content
    if isinstance(event, m.PartDeltaEvent) and isinstance(event.delta, m.TextPartDelta):
        return event.delta.content_delta
    return ""


def _whole(event: Any) -> m.ModelResponsePart | None:
    """A part that is neither text nor a call of a function, when it is complete."""
    if isinstance(event, m.PartEndEvent):
        return event.part if isinstance(event.part, m.ThinkingPart | m.NativeToolCallPart) else None
    if isinstance(event, m.PartStartEvent):
        return None if isinstance(event.part, m.TextPart | m.ThinkingPart | m.BaseToolCallPart) else event.part
    return None


def _said(parts: Sequence[m.ModelResponsePart]) -> list[Any]:
    """Parts as they compare: texts as one, the others as they are."""
    text = "".join(part.content for part in parts if isinstance(part, m.TextPart))
    return [text, *(part for part in parts if not isinstance(part, m.TextPart))]


def _is_text(one: Any) -> bool:
    return isinstance(one, str | m.TextContent)


def _read(content: Any) -> tuple[str, list[Any]]:
    """The text of a prompt, and what else is in it."""
    contents = [content] if isinstance(content, str) else list(content)
    texts = [one if isinstance(one, str) else one.content for one in contents if _is_text(one)]
    return "\n".join(texts), [one for one in contents if not _is_text(one)]


def _plain(messages: Sequence[m.ModelMessage]) -> list[dict[str, Any]]:
    """Messages in OpenAI's shape."""
    plain: list[dict[str, Any]] = []
    for message in messages:
        calls = []
        for part in message.parts:
            if isinstance(part, m.UserPromptPart):
                plain.append({"role": "user", "content": _read(part.content)[0]})
            elif isinstance(part, m.ToolReturnPart):
                text = part.model_response_str()
                plain.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": text})
            elif isinstance(part, m.ToolCallPart):
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                calls.append({"id": part.tool_call_id, "type": "function", "function": function})
        if isinstance(message, m.ModelResponse) and (calls or message.text):
            said = {"role": "assistant", "content": message.text}
            plain.append({**said, "tool_calls": calls} if calls else said)
    return plain
