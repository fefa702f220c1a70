"""What a client of a language model is: one request, one reply; and a client that answers by a script."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.faults import ChatError


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


class ChatClient(Protocol):
    """Sends requests to language models, from several threads at once. Never retries by itself."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a request and wait for its reply; `ChatError` where there is none."""


_MARK = LinearRegex(r"(?m)^<<([0-9a-f]{16,})>> END MATERIAL$")

Answer = ChatReply | ChatError | str
"""A reply, a fault, or the text of a reply."""


def by_text(request: ChatRequest) -> str:
    """A score that depends on every character of the messages except the nonce; the same one each time."""
    text = "\n".join(message.content for message in request.messages)
    mark = _MARK.search(text)
    if mark:
        text = text.replace(mark[1], "")
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    numbers = {name: round(byte / 255, 3) for name, byte in zip("TIF", digest, strict=False)}
    return json.dumps({"reasoning": "scored by the hash of the text", **numbers})


class ScriptedClient:
    """Answers by a script, and remembers what it was asked; what the script raises is raised.

    >>> ScriptedClient(lambda request: "an answer").complete(ChatRequest("m", ())).text
    'an answer'
    """

    def __init__(self, script: Callable[[ChatRequest], Answer] = by_text) -> None:
        self.script = script
        self.requests: list[ChatRequest] = []
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest) -> ChatReply:
        """What the script says, with tokens counted as a quarter of the bytes."""
        with self._lock:
            self.requests.append(request)
        answer = self.script(request)
        if isinstance(answer, ChatError):
            raise answer
        if isinstance(answer, ChatReply):
            return answer
        sent = sum(len(message.content.encode("utf-8", "replace")) for message in request.messages)
        return ChatReply(answer, request.model, "stop", None, sent // 4, len(answer.encode()) // 4)
