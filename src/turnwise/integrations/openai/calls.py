"""How a chat completion goes through the guard, alike for both clients.

A call is a generator that yields what is to be called, and is sent what came of it; a driver does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, MemoryStateStore, PipelineResult, StateStore
from turnwise.guard.results import joined
from turnwise.guard.sendable import goes_on
from turnwise.integrations.asking import Asking
from turnwise.integrations.openai.replies import (
    plain_messages,
    redact_choice,
    refuse_choice,
    refuse_smuggled,
    refused,
    says_anything,
    with_result,
)

Value = TypeVar("Value")


class Do(NamedTuple):
    """Something to be called, or awaited."""

    call: Callable[..., Any]
    given: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}


Steps = Generator[Do, Any, Value]
"""Work under way: yields what is to be done, and is sent what came of it."""


def finish(steps: Steps[Value]) -> Value:
    """Call everything here, and return the end of it."""
    given: Any = None
    try:
        while True:
            call, arguments, named = steps.send(given)
            given = call(*arguments, **named)
    except StopIteration as end:
        value: Value = end.value
        return value


async def afinish(steps: Steps[Value]) -> Value:
    """Await everything, and return the end of it."""
    given: Any = None
    try:
        while True:
            call, arguments, named = steps.send(given)
            given = await call(*arguments, **named)
    except StopIteration as end:
        value: Value = end.value
        return value


@dataclass(frozen=True, slots=True)
class Guarding:
    """What a guarded client goes by.

    ``refusal`` is said in place of what was blocked; None for an exception. ``awaited``: calls are awaited.
    ``places`` are for a pipeline without a state store.
    """

    pipeline: GuardrailPipeline
    refusal: str | None
    awaited: bool
    places: StateStore = field(default_factory=MemoryStateStore)

    @property
    def store(self) -> StateStore:
        """Where it is kept how conversations go on that a server has."""
        return self.pipeline.state_store or self.places

    def check(self, messages: list[dict[str, Any]], named: Mapping[str, Any]) -> Do:
        """The check of what came last in a list."""
        call = self.pipeline.acheck_messages if self.awaited else self.pipeline.check_messages
        return Do(call, (messages,), {"recognised": True, **named})

    def sendable(self, messages: list[dict[str, Any]], result: PipelineResult) -> Do:
        """What makes a list into what the model may be sent."""
        return self.off_loop(self.pipeline.sendable, messages, result)

    def off_loop(self, call: Callable[..., Any], *given: Any) -> Do:
        """A call that may wait for a state store."""
        return Do(asyncio.to_thread, (call, *given)) if self.awaited else Do(call, given)

    def open_stream(self, messages: list[dict[str, Any]], named: Mapping[str, Any]) -> Do:
        """What opens the reply, in pieces, to a list."""
        call = self.pipeline.astream_messages if self.awaited else self.pipeline.stream_messages
        return Do(call, (messages,), {"recognised": True, **of_reply(named)})


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was let through, or not.

    ``messages`` are as they came. ``sent`` are those that the model may be sent, None where the last one was
    blocked; ``result`` is None where nobody checked them. ``standing`` is of the check of what is said in place of
    what was blocked.
    """

    messages: list[dict[str, Any]]
    sent: list[dict[str, Any]] | None
    result: PipelineResult | None
    standing: PipelineResult | None = None


def ask(guarding: Guarding, messages: Any, named: Mapping[str, Any], ends: Sequence[int] = ()) -> Steps[Asked]:
    """Check what came last in a list of messages, and before that in its beginnings up to ``ends``."""
    plain = plain_messages(messages)
    for end in (*ends, len(plain)):
        result: PipelineResult = yield guarding.check(plain[:end], named)
        if not goes_on(result):
            break
    if not goes_on(result):
        if guarding.refusal is None:
            raise GuardrailBlocked(result)
        standing = yield from stand_in(guarding, plain[:end], guarding.refusal, named, result)
        return Asked(plain, None, result, standing)
    sent = yield guarding.sendable(plain, result)
    return Asked(plain, sent, result)


def complete(
    guarding: Guarding, create: Callable[..., Any], given: Mapping[str, Any], named: Mapping[str, Any]
) -> Steps[Any]:
    """Check a request, ask the model with ``create``, and check its reply; ``named``: whose conversation it is."""
    refuse_smuggled(given)
    asked = yield from ask(guarding, given["messages"], named)
    if asked.sent is None:
        return with_result(refused(given.get("model"), str(guarding.refusal)), asked.result)
    reply = yield Do(create, (), {**given, "messages": asked.sent})
    if not hasattr(reply, "choices"):
        raise GuardError(
            f"the client gave {type(reply).__name__}, which can't be checked; don't use raw responses"
        )
    results = []
    for choice in reply.choices:
        message = choice.message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False)
        if not says_anything(message):
            continue
        said = [*asked.messages, {key: value for key, value in message.items() if not key.startswith("parsed")}]
        result: PipelineResult = yield guarding.check(said, of_reply(named))
        results.append(result)
        if result.blocked:
            if guarding.refusal is None:
                raise GuardrailBlocked(result)
            refuse_choice(choice, guarding.refusal)
            yield from stand_in(guarding, asked.messages, guarding.refusal, named, result)
        else:
            redact_choice(choice, result)
    verdict = asked.result if not results else results[0] if len(results) == 1 else joined(results)
    return with_result(reply, verdict)


def checks(guarding: Guarding, asking: Asking[Value]) -> Steps[Value]:
    """Make checks that are asked for one by one."""
    try:
        wanted = next(asking)
        while True:
            method = f"a{wanted.method}" if guarding.awaited else wanted.method
            wanted = asking.send((yield Do(getattr(guarding.pipeline, method), (), wanted.arguments)))
    except StopIteration as ended:
        value: Value = ended.value
        return value


def of_reply(named: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a request and also counts for its reply."""
    return {name: value for name, value in named.items() if name not in ("key", "role")}


def stand_in(
    guarding: Guarding, messages: list[dict[str, Any]], text: str, named: Mapping[str, Any], why: PipelineResult
) -> Steps[PipelineResult | None]:
    """Tell the guard what is said in place of what it blocked, so that it is no forged reply later."""
    if why.place is not None and not why.rate_limited:
        standing: PipelineResult = yield guarding.check(
            [*messages, {"role": "assistant", "content": text}], of_reply(named)
        )
        return standing
    return None


def whose(
    conversation_id: str | None, session_id: str | None, key: str | None, role: str | None
) -> dict[str, Any]:
    """What is said of whose conversation a request belongs to."""
    given = {"conversation_id": conversation_id, "session_id": session_id, "key": key, "role": role}
    return {name: value for name, value in given.items() if value is not None}
