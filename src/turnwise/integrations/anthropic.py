"""A guard around clients of the `anthropic` package: the same surface, with every message checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload
from uuid import uuid4

from turnwise.conversation.message_entries import is_thinking
from turnwise.guard import GuardrailPipeline
from turnwise.integrations.checking import Steps, afinish, finish
from turnwise.integrations.clients.calls import AdmittedRequest, ask
from turnwise.integrations.clients.client import (
    AsyncClient,
    AsyncResource,
    GuardedClient,
    HelperStream,
    SyncClient,
    SyncResource,
    guarded,
    named_in,
)
from turnwise.integrations.clients.part_replies import SKIPPED, CheckedRequest, EventKind, PartsApi, ShownStream
from turnwise.integrations.clients.part_streams import PartsResource
from turnwise.integrations.clients.shapes import ReplyEvents, plain
from turnwise.integrations.clients.streams import GuardedAsyncStream, GuardedStream
from turnwise.integrations.clients.texts import Leaf, last_heard, leaves

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

_INSTEAD: Final = "create, parse or stream of messages"
_RAW: Final = frozenset({"message_start", "message_delta", "content_block_start", "content_block_delta"})
"""Events of the package's helper that are as the server sent them."""


@overload
def guard(client: Anthropic, pipeline: GuardrailPipeline, *, refusal: str | None = None) -> GuardedAnthropic: ...


@overload
def guard(
    client: AsyncAnthropic, pipeline: GuardrailPipeline, *, refusal: str | None = None
) -> GuardedAsyncAnthropic: ...


def guard(
    client: Anthropic | AsyncAnthropic, pipeline: GuardrailPipeline, *, refusal: str | None = None
) -> GuardedAnthropic | GuardedAsyncAnthropic:
    """Return a client whose messages are checked on the way there and back.

    ``messages.create``, ``parse`` and ``stream`` take what they always take, and beside that ``conversation_id``,
    ``session_id``, ``key`` and ``role``, as `GuardrailPipeline.check_messages` does. What may not be sent is
    replaced or left out, in earlier messages as well; replies have ``turnwise_result``. ``system`` is yours, and
    goes on as it is. What would go past the guard, such as ``beta``, is refused.

    Args:
        client: an `anthropic.Anthropic` or `anthropic.AsyncAnthropic`.
        pipeline: checks what is said. Without a state store conversations are known to this process alone.
        refusal: what is said in place of what was blocked; None for `turnwise.guard.GuardrailBlocked`.

    Raises:
        UsageError: `anthropic` is not installed.
        GuardError: ``client`` is no client of it.
    """
    kinds = {"Anthropic": GuardedAnthropic, "AsyncAnthropic": GuardedAsyncAnthropic}
    made: GuardedAnthropic | GuardedAsyncAnthropic = guarded("anthropic", kinds, client, pipeline, refusal)
    return made


class _OfAnthropic(GuardedClient):
    past_the_guard: ClassVar[frozenset[str]] = frozenset(
        {"beta", "completions", "with_raw_response", "with_streaming_response", "with_middleware"}
        | {"get", "post", "put", "patch", "delete", "request", "get_api_list"}
    )
    instead: ClassVar[str] = _INSTEAD

    def _of_messages(self) -> tuple[Any, MessagesApi]:
        return self.unguarded.messages, MessagesApi(self._guarding)


class GuardedAnthropic(_OfAnthropic, SyncClient):
    """`anthropic.Anthropic` behind a guard; `guard` makes one."""

    @cached_property
    def messages(self) -> GuardedMessages:
        return GuardedMessages(*self._of_messages())


class GuardedAsyncAnthropic(_OfAnthropic, AsyncClient):
    """`anthropic.AsyncAnthropic` behind a guard; `guard` makes one."""

    @cached_property
    def messages(self) -> GuardedAsyncMessages:
        return GuardedAsyncMessages(*self._of_messages())


class _Messages(PartsResource):
    instead = _INSTEAD
    free = frozenset({"count_tokens"})
    enter: Callable[..., Any]

    def stream(self, **given: Any) -> Any:
        """Ask the model by the package's helper; arguments as for `create`.

        The stream's ``guarded`` is a `GuardedStream`, or in async code a `GuardedAsyncStream`: it has the verdict.
        """
        return HelperStream(partial(self.enter, given, named_in(given)))


class GuardedMessages(_Messages, SyncResource):
    """Messages, checked."""

    def enter(self, given: dict[str, Any], named: dict[str, Any]) -> tuple[Any, Any]:
        """The package's manager of a stream, None where nothing is asked, and the stream behind the guard."""
        from anthropic import MessageStream

        reply, sent = finish(self._streamed(given, named))
        manager = None if sent is None else self.unguarded.stream(**sent)
        raw = None if manager is None else _RawEvents(manager.__enter__())
        return manager, _helper(MessageStream, GuardedStream(reply, raw), given)


class GuardedAsyncMessages(_Messages, AsyncResource):
    """Messages, checked, for async code."""

    async def enter(self, given: dict[str, Any], named: dict[str, Any]) -> tuple[Any, Any]:
        from anthropic import AsyncMessageStream

        reply, sent = await afinish(self._streamed(given, named))
        manager = None if sent is None else self.unguarded.stream(**sent)
        raw = None if manager is None else _RawEvents(await manager.__aenter__())
        return manager, _helper(AsyncMessageStream, GuardedAsyncStream(reply, raw), given)


class _RawEvents:
    """What a stream of the package's helper got from the server, event by event."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.response, self.close = stream, stream.response, stream.close

    def __iter__(self) -> Iterator[Any]:
        return (raw for event in self._stream if (raw := _raw(event)) is not None)

    async def __aiter__(self) -> Any:
        async for event in self._stream:
            if (raw := _raw(event)) is not None:
                yield raw


def _raw(event: Any) -> Any:
    from anthropic.types import RawContentBlockStopEvent, RawMessageStopEvent

    if event.type == "content_block_stop":
        return RawContentBlockStopEvent(type="content_block_stop", index=event.index)
    if event.type == "message_stop":
        return RawMessageStopEvent(type="message_stop")
    return event if event.type in _RAW else None


def _helper(kind: Any, guarded: Any, given: Mapping[str, Any]) -> Any:
    from anthropic import omit

    stream = kind(guarded, output_format=given.get("output_format") or omit)
    stream.guarded = guarded
    return stream


class MessagesApi(PartsApi):
    """Requests and replies of Anthropic's Messages."""

    def asked(self, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[CheckedRequest]:
        raws = [*(given.get("messages") or ())]
        messages = [_plain(message, at) for at, message in enumerate(raws)]
        heard = last_heard(messages)
        if not heard:
            return CheckedRequest(AdmittedRequest(messages, messages, None), given, named)
        asked = yield from ask(self.guarding, messages[:heard], named)
        if asked.sent is None:
            return CheckedRequest(asked, given, named)
        sent: list[Any] = []
        pairs = list(zip(messages, raws, strict=True))
        for message in [*asked.sent, *messages[heard:]]:
            same = next((at for at, (told, _) in enumerate(pairs) if told == message), None)
            whole = same is not None and isinstance(pairs[same][1], Mapping)
            sent.append(pairs[same][1] if same is not None and whole else message)
            pairs = pairs if same is None else pairs[same + 1 :]
        return CheckedRequest(asked, {**given, "messages": sent}, named)

    def parts(self, reply: Any) -> list[Any]:
        return list((reply.get("content") if isinstance(reply, dict) else reply.content) or ())

    def said(self, reply: Mapping[str, Any]) -> dict[str, Any] | None:
        blocks: list[dict[str, Any]] = []
        for block in reply.get("content") or ():
            if block.get("type") == "text":
                blocks.append({"type": "text", "text": block.get("text") or ""})
            elif block.get("type") == "tool_use":
                blocks.append({key: block.get(key) for key in ("type", "id", "name", "input")})
        if not blocks:
            return None
        alone = len(blocks) == 1 and blocks[0]["type"] == "text"
        return {"role": "assistant", "content": blocks[0]["text"] if alone else blocks}

    def other(self, parts: Iterable[Any]) -> Iterable[Leaf]:
        for part in parts:
            if part.type == "text":
                yield from leaves(part, {"citations"}, SKIPPED)
            elif part.type not in ("tool_use", "redacted_thinking"):
                yield from leaves(part, skip=SKIPPED)

    def refused(self, call: CheckedRequest, refusal: str, reply: Any = None) -> Any:
        from anthropic.types import Message, ParsedMessage

        told = {"content": [{"type": "text", "text": refusal}], "stop_reason": "refusal", "stop_sequence": None}
        bare: dict[str, Any] = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant"}
        bare |= {"model": str(call.given.get("model")), "usage": {"input_tokens": 0, "output_tokens": 0}}
        kept = bare if reply is None else reply.model_dump(mode="json", warnings=False, exclude={"content"})
        made: Any = ParsedMessage if self.parsed else Message
        return made.construct(**{**kept, **told})

    def whole(self, events: Sequence[Any]) -> dict[str, Any]:
        return ReplyEvents(events).reply()

    def is_open(self, group: tuple[Any, ...], at: int | None) -> bool:
        return at is not None and group == (at, "text")

    def kind(self, event: Any) -> EventKind:
        kind, at = event.type, getattr(event, "index", None)
        if kind == "message_start":
            return EventKind("other" if event.message.content else "pass")
        if kind == "content_block_start":
            block = event.content_block
            if block.type == "text" and not block.text:
                return EventKind("open", at)
            return EventKind("thought" if is_thinking({"type": block.type}) else "other", at)
        if kind == "content_block_delta" and event.delta.type == "text_delta":
            return EventKind("text", at, event.delta.text)
        return EventKind({"content_block_stop": "end", "message_stop": "last"}.get(kind, "other"), at)

    def piece(self, event: Any, text: str) -> Any:
        return event.model_copy(update={"delta": event.delta.model_copy(update={"text": text})})

    def refused_events(self, call: CheckedRequest, shown: ShownStream, refusal: str) -> Iterable[Any]:
        from anthropic import types

        reply = self.refused(call, refusal)
        at = shown.whole if shown.open is None else shown.open
        if shown.first is None:
            begun = reply.model_copy(update={"content": [], "stop_reason": None})
            yield types.RawMessageStartEvent(type="message_start", message=begun)
        if shown.open is None:
            block = types.TextBlock(type="text", text="")
            yield types.RawContentBlockStartEvent(type="content_block_start", index=at, content_block=block)
        if not shown.text:
            delta = types.TextDelta(type="text_delta", text=refusal)
            yield types.RawContentBlockDeltaEvent(type="content_block_delta", index=at, delta=delta)
        yield types.RawContentBlockStopEvent(type="content_block_stop", index=at)
        told: dict[str, Any] = {
            "delta": {"stop_reason": "refusal", "stop_sequence": None},
            "usage": {"output_tokens": 0},
        }
        yield types.RawMessageDeltaEvent.construct(type="message_delta", **told)
        yield types.RawMessageStopEvent(type="message_stop")


def _plain(message: Any, at: int) -> dict[str, Any]:
    """A message as JSON values, also one with blocks that are objects of the package."""
    told = dict(message) if isinstance(message, Mapping) else plain(message, f"messages[{at}]")
    content = told.get("content")
    if content is None or isinstance(content, str):
        return told
    return {**told, "content": [plain(block, f"messages[{at}].content") for block in content]}
