"""How a request and its reply go through the guard, alike for sync and async clients; see `checking.Steps`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, MemoryStateStore, PipelineResult, StateStore
from turnwise.guard.messages.sendable import goes_on
from turnwise.guard.names import canonical_name
from turnwise.integrations.checking import Do, Steps, pipeline_call

RESULT: Final = "turnwise_result"
"""Attribute of a reply that has the verdict on it."""

_SMUGGLED: Final = frozenset(
    {"messages", "input", "prompt", "system", "instructions", "background", "previous_response_id", "conversation"}
    | {"stream", "n"}
)
"""Keys of a request that may not come in ``extra_body``, past the guard."""


@dataclass(frozen=True, slots=True)
class Guarding:
    """What a guarded client goes by."""

    pipeline: GuardrailPipeline
    refusal: str | None  # said in place of what was blocked; None for an exception
    places: StateStore = field(default_factory=MemoryStateStore)  # for a pipeline without a state store

    @property
    def store(self) -> StateStore:
        """Where it is kept how conversations go on that a server has."""
        return self.pipeline.state_store or self.places

    def check(self, messages: list[dict[str, Any]], named: Mapping[str, Any]) -> Do:
        return pipeline_call(self.pipeline, "check_messages", messages, recognised=True, **named)

    def open_stream(self, messages: list[dict[str, Any]], named: Mapping[str, Any]) -> Do:
        """What opens the reply, in pieces, to a list."""
        return pipeline_call(self.pipeline, "stream_messages", messages, recognised=True, **of_reply(named))


def off_loop(call: Callable[..., Any], *given: Any) -> Do:
    """A call that may wait for a state store."""
    return Do(call, given, later=partial(asyncio.to_thread, call))


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """A request that was let through, or not: its messages as they came, and as the model may be sent them."""

    messages: list[dict[str, Any]]
    sent: list[dict[str, Any]] | None  # None where the last one was blocked
    result: PipelineResult | None  # None where nobody checked them
    standing: PipelineResult | None = None  # on what is said in place of what was blocked


def ask(
    guarding: Guarding, messages: Any, named: Mapping[str, Any], ends: Sequence[int] = ()
) -> Steps[AdmittedRequest]:
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
        return AdmittedRequest(plain, None, result, standing)
    sent = yield off_loop(guarding.pipeline.sendable, plain, result)
    return AdmittedRequest(plain, sent, result)


def of_reply(named: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a request and also counts for its reply."""
    return {name: value for name, value in named.items() if name not in ("key", "role")}


def caller_of_proxy(api_key: object, end_user: object, session: object) -> dict[str, Any]:
    """Whose conversation a request to LiteLLM's proxy belongs to, as arguments of `check_messages`."""
    key, person = str(api_key or ""), canonical_name(str(end_user or ""))
    scope = f"{key}|{person}"
    named: dict[str, Any] = {"scope": scope}
    if person or key:
        named["key"] = person or key
    if session:
        # Hashed with whose it is, so that names of two API keys never meet.
        digest = sha256(f"{scope}|{session}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        named["conversation_id"] = f"litellm-{digest}"
    return named


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
