"""Clients of the `openai` package behind the guard: chat completions are checked, the rest is theirs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, overload

from turnwise.errors import GuardError
from turnwise.guard import GuardrailPipeline
from turnwise.integrations.openai.calls import Asked, Guarding, afinish, ask, complete, finish, whose
from turnwise.integrations.openai.replies import not_guarded, refuse_smuggled
from turnwise.integrations.openai.responses import GuardedAsyncResponses, GuardedResponses, ResponsesApi
from turnwise.integrations.openai.streams import GuardedAsyncStream, GuardedStream, ReplySteps

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_PAST_THE_GUARD: Final = frozenset(
    {
        *("completions", "beta", "realtime", "batches", "evals", "fine_tuning", "conversations"),
        *("chatkit", "decisions", "with_raw_response", "with_streaming_response"),
        *("get", "post", "put", "patch", "delete", "request", "get_api_list"),
    }
)
"""What of a client would ask a model for text, or anything by its address, and is not checked."""


@overload
def guard(client: OpenAI, pipeline: GuardrailPipeline, *, refusal: str | None = None) -> GuardedOpenAI: ...


@overload
def guard(
    client: AsyncOpenAI, pipeline: GuardrailPipeline, *, refusal: str | None = None
) -> GuardedAsyncOpenAI: ...


def guard(
    client: OpenAI | AsyncOpenAI, pipeline: GuardrailPipeline, *, refusal: str | None = None
) -> GuardedOpenAI | GuardedAsyncOpenAI:
    """Return a client whose chat completions and responses are checked on the way there and back.

    ``create`` and ``parse`` of ``chat.completions`` and ``responses``, and ``responses.stream``, take what they
    always take, also streams and tools, and beside that ``conversation_id``, ``session_id``, ``key`` and ``role``,
    as `GuardrailPipeline.check_messages` does. What may not be sent is replaced or left out, also in earlier
    messages; replies have ``turnwise_result``. What would go past the guard, such as ``batches``, is refused.

    Args:
        client: an `openai.OpenAI`, `openai.AsyncOpenAI`, or one for Azure.
        pipeline: checks what is said. Without a state store conversations are known to this process alone.
        refusal: what is said in place of what was blocked; None for `turnwise.guard.GuardrailBlocked`.

    Raises:
        UsageError: `openai` is not installed.
        GuardError: ``client`` is no client of it.
    """
    from turnwise.errors import UsageError

    try:
        import openai
    except ImportError as error:
        raise UsageError("openai is not installed: pip install 'turnwise[openai]'") from error
    if isinstance(client, openai.OpenAI):
        return GuardedOpenAI(client, Guarding(pipeline, refusal, awaited=False))
    if isinstance(client, openai.AsyncOpenAI):
        return GuardedAsyncOpenAI(client, Guarding(pipeline, refusal, awaited=True))
    raise GuardError(f"{type(client).__name__} is no client of openai; give openai.OpenAI or openai.AsyncOpenAI")


class GuardedClient:
    """What guarded clients do: pass on what asks no model for text, and refuse what is ``past_the_guard``."""

    past_the_guard: ClassVar[frozenset[str]] = _PAST_THE_GUARD
    instead: ClassVar[str] = "create or parse of chat.completions or responses"

    def __init__(self, client: Any, guarding: Guarding) -> None:
        self.unguarded = client
        """The client behind the guard."""
        self._guarding = guarding

    def __getattr__(self, name: str) -> Any:
        if name in self.past_the_guard:
            raise not_guarded(name, self.instead)
        return getattr(self.unguarded, name)

    def __repr__(self) -> str:
        return f"guard({type(self.unguarded).__name__})"

    def with_options(self, **options: Any) -> Self:
        """Return the same with other options of the client."""
        return type(self)(self.unguarded.with_options(**options), self._guarding)

    copy = with_options


class SyncClient(GuardedClient):
    """A guarded client as a context manager."""

    def __enter__(self) -> Self:
        self.unguarded.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.unguarded.__exit__(*error)


class AsyncClient(GuardedClient):
    """A guarded client as an async context manager."""

    async def __aenter__(self) -> Self:
        await self.unguarded.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.unguarded.__aexit__(*error)


class _OfOpenAI(GuardedClient):
    def _of_responses(self) -> tuple[Any, ...]:
        api = ResponsesApi(self._guarding, self.unguarded.conversations)
        return self.unguarded.responses, api, self.instead, frozenset({"delete", "input_tokens"})


class GuardedOpenAI(_OfOpenAI, SyncClient):
    """`openai.OpenAI` behind a guard; `guard` makes one."""

    @cached_property
    def responses(self) -> GuardedResponses:
        """Responses, checked."""
        return GuardedResponses(*self._of_responses())

    @property
    def chat(self) -> GuardedChat:
        """Chat completions, checked."""
        return GuardedChat(GuardedCompletions(self.unguarded.chat.completions, self._guarding))


class GuardedAsyncOpenAI(_OfOpenAI, AsyncClient):
    """`openai.AsyncOpenAI` behind a guard; `guard` makes one."""

    @cached_property
    def responses(self) -> GuardedAsyncResponses:
        """Responses, checked."""
        return GuardedAsyncResponses(*self._of_responses())

    @property
    def chat(self) -> GuardedChat:
        """Chat completions, checked."""
        return GuardedChat(GuardedAsyncCompletions(self.unguarded.chat.completions, self._guarding))


class GuardedChat:
    """The part ``chat`` of a client."""

    def __init__(self, completions: GuardedCompletions | GuardedAsyncCompletions) -> None:
        self.completions: Any = completions

    def __getattr__(self, name: str) -> Any:
        raise not_guarded(f"chat.{name}")


class _Completions:
    def __init__(self, completions: Any, guarding: Guarding) -> None:
        self._completions, self._guarding = completions, guarding

    def __getattr__(self, name: str) -> Any:
        if name in ("retrieve", "list", "delete", "update", "messages"):
            return getattr(self._completions, name)
        raise not_guarded(f"chat.completions.{name}")


class GuardedCompletions(_Completions):
    """Chat completions, checked."""

    def create(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model, as ``create`` of the package does; return a completion, or a `GuardedStream`.

        Args:
            messages: the messages.
            conversation_id: as for `GuardrailPipeline.check_messages`, and so are the next three.
            session_id: the session.
            key: whose rate limits count.
            role: role of that key.
            given: what else the package takes.

        Raises:
            GuardrailBlocked: prompt or reply was blocked, and no refusal is set.
            GuardError: several replies are asked for in pieces.
            openai.OpenAIError: as without the guard.
        """
        named = whose(conversation_id, session_id, key, role)
        if not given.get("stream"):
            run = complete(self._guarding, self._completions.create, {**given, "messages": messages}, named)
            return finish(run)
        asked = finish(ask(self._guarding, _streamed(given, messages), named))
        raw = None if asked.sent is None else self._completions.create(messages=asked.sent, **given)
        return GuardedStream(ReplySteps(self._guarding, asked, named, given.get("model")), raw)

    def parse(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed, as ``parse`` of the package does; arguments as for `create`."""
        named = whose(conversation_id, session_id, key, role)
        return finish(complete(self._guarding, self._completions.parse, {**given, "messages": messages}, named))


class GuardedAsyncCompletions(_Completions):
    """Chat completions, checked, for async code."""

    async def create(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model; see `GuardedCompletions.create`. A stream is a `GuardedAsyncStream`."""
        named = whose(conversation_id, session_id, key, role)
        if not given.get("stream"):
            run = complete(self._guarding, self._completions.create, {**given, "messages": messages}, named)
            return await afinish(run)
        asked: Asked = await afinish(ask(self._guarding, _streamed(given, messages), named))
        raw = None if asked.sent is None else await self._completions.create(messages=asked.sent, **given)
        return GuardedAsyncStream(ReplySteps(self._guarding, asked, named, given.get("model")), raw)

    async def parse(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed; see `GuardedCompletions.parse`."""
        named = whose(conversation_id, session_id, key, role)
        run = complete(self._guarding, self._completions.parse, {**given, "messages": messages}, named)
        return await afinish(run)


def _streamed(given: dict[str, Any], messages: Iterable[Any]) -> Iterable[Any]:
    refuse_smuggled(given)
    many = given.get("n")
    if isinstance(many, int) and many > 1:
        raise GuardError(
            f"n is {many}: several replies in pieces can't be checked; ask without stream, or for one"
        )
    return messages
