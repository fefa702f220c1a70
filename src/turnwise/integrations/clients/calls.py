"""How a request and its reply go through the guard, alike for sync and async clients.

A call is a generator that yields what is to be called, and is sent what came of it; a driver does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, MemoryStateStore, PipelineResult, StateStore
from turnwise.guard.messages.sendable import goes_on
from turnwise.integrations.asking import Asking

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


RESULT: Final = "turnwise_result"
"""Attribute of a reply that has the verdict on it."""


_SMUGGLED: Final = frozenset(
    {"messages", "input", "prompt", "system", "instructions", "background", "previous_response_id", "conversation"}
    | {"stream", "n"}
)
"""Keys of a request that may not come in ``extra_body``, past the guard."""


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


def plain_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages as dicts, also those that are objects of the package."""
    return [
        dict(message)
        if isinstance(message, Mapping)
        else message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False)
        for message in messages
    ]


def with_result(reply: Any, result: PipelineResult | None) -> Any:
    """Put the verdict on a reply as an attribute, which is no part of its JSON."""
    object.__setattr__(reply, RESULT, result)
    return reply


def parse_again(holder: Any, key: str, text: str) -> None:
    """Parse text that changed into the type that it was parsed into before; None where it no longer fits."""
    parsed = getattr(holder, key, None)
    if parsed is None:
        return
    try:
        setattr(holder, key, type(parsed).model_validate_json(text))
    except (AttributeError, ValueError):
        setattr(holder, key, None)


def refuse_smuggled(given: Mapping[str, Any]) -> None:
    """Raise GuardError where ``extra_body`` would change what was checked."""
    beside = sorted(_SMUGGLED & (given.get("extra_body") or {}).keys())
    if beside:
        raise GuardError(f"extra_body has {', '.join(beside)}, which bypasses the guard; give it as an argument")


def not_guarded(what: str, instead: str) -> GuardError:
    """The error of a part of the surface that would go past the guard."""
    return GuardError(f"{what} is not guarded: use {instead}, or the client itself, as .unguarded")
