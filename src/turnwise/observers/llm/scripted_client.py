"""A client of a language model that answers by a script: for tests, demonstrations and rehearsals of failures."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable

from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.chat import ChatError, ChatReply, ChatRequest

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
