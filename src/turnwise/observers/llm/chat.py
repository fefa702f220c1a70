"""What a client of a language model is: one request, one reply, one kind of error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from turnwise.errors import TurnwiseError


class Message(NamedTuple):
    """One message of a request; its role is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is sent to a language model; `parameters` are all other fields of the body, JSON values."""

    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)

    def body(self) -> dict[str, object]:
        """The body of the request, as JSON values."""
        messages = [message._asdict() for message in self.messages]
        return {"model": self.model, "messages": messages, **self.parameters}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a language model answered, in the provider's words.

    `text` is empty where there is no answer; `refusal` is set where the provider marks one apart from the text.
    Counts of tokens are None where the provider does not count. `logprobs` is as in `turnwise.scoring.Reply`.
    """

    text: str
    model: str
    finish_reason: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    logprobs: str | None = None


class FaultKind(StrEnum):
    """Ways in which a request gets no reply."""

    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CONNECTION = "connection"
    TRUNCATED = "truncated"
    THROTTLED = "throttled"
    SERVER = "server"
    REJECTED = "rejected"
    FATAL = "fatal"


PASSING = frozenset(FaultKind) - {FaultKind.REJECTED, FaultKind.FATAL}
"""Faults that may pass when the request is sent again."""

MAYBE_PAID = frozenset({FaultKind.TIMEOUT, FaultKind.CONNECTION, FaultKind.TRUNCATED})
"""Faults after which the provider may bill a reply that nobody has read."""


class ChatError(TurnwiseError):
    """A request that got no reply. The message is for a person, and holds no key.

    After `FaultKind.FATAL` no other request would fare better. `retry_after` is the seconds that the provider asks
    to wait, `status` that of HTTP, None where there was no answer; `names_structure` tells whether the provider
    says that it does not take the way in which JSON was asked for.
    """

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        retry_after: float | None = None,
        *,
        status: int | None = None,
        names_structure: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status
        self.names_structure = names_structure


class ChatClient(Protocol):
    """Sends requests to language models, from several threads at once. Never retries by itself."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a request and wait for its reply; `ChatError` where there is none."""
