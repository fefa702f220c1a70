"""A guard around clients of the `openai` package: the same surface, with what asks a model for text checked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload

from turnwise.guard import GuardrailPipeline
from turnwise.integrations.clients.client import AsyncClient, GuardedClient, SyncClient, guarded
from turnwise.integrations.clients.streams import GuardedAsyncStream, GuardedStream
from turnwise.integrations.openai.completions import (
    INSTEAD,
    GuardedAsyncCompletions,
    GuardedChat,
    GuardedCompletions,
)
from turnwise.integrations.openai.responses import GuardedAsyncResponses, GuardedResponses, ResponsesApi

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

__all__ = ["GuardedAsyncOpenAI", "GuardedAsyncStream", "GuardedOpenAI", "GuardedStream", "guard"]

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
    kinds = {"OpenAI": GuardedOpenAI, "AsyncOpenAI": GuardedAsyncOpenAI}
    made: GuardedOpenAI | GuardedAsyncOpenAI = guarded("openai", kinds, client, pipeline, refusal)
    return made


class _OfOpenAI(GuardedClient):
    past_the_guard: ClassVar[frozenset[str]] = _PAST_THE_GUARD
    instead: ClassVar[str] = INSTEAD

    def _of_responses(self) -> tuple[Any, ResponsesApi]:
        return self.unguarded.responses, ResponsesApi(self._guarding, self.unguarded.conversations)


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
