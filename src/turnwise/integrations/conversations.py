"""The conversations of a framework by their names, so that a check goes on where the last one stopped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from turnwise.conversation import Conversation, from_messages
from turnwise.errors import StateError
from turnwise.guard import GuardrailPipeline

MOST = 10_000
"""Conversations that are held at most; the one least recently used makes room."""


class Conversations:
    """Finds conversations: in this process, in the pipeline's state store, or from the messages so far.

    A state store of the pipeline has the last word. At most ``most`` conversations are held.

    >>> found = Conversations(GuardrailPipeline.from_preset("basic"))
    >>> one = found.of("chat-7", lambda: [{"role": "user", "content": "Hi"}])
    >>> found.of("chat-7", list) is one, one.turn(1).prompt
    (True, 'Hi')
    """

    def __init__(self, pipeline: GuardrailPipeline, most: int = MOST) -> None:
        self._pipeline = pipeline
        self._most = most
        self._held: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = Lock()

    def of(self, name: str | None, before: Callable[[], Sequence[Mapping[str, Any]]]) -> Conversation:
        """Return a conversation; an unknown one begins with the messages that ``before`` gives, in OpenAI's shape.

        While the state store can't be read, the conversation held here is used; its checks end as ``when_down``
        says. Without a name it begins here, under a made-up one.
        """
        if name is None:
            begun = self._begun(None, before)
            return self._hold(begun.conversation_id, begun, None)
        with self._lock:
            held = self._held.get(name)
        found = held
        if self._stored:
            try:
                found = self._pipeline.find_conversation(name, held=held)
            except StateError:
                found = held
        return self._hold(name, found or self._begun(name, before), held)

    def held(self, name: str | None, before: Callable[[], Sequence[Mapping[str, Any]]]) -> Conversation:
        """Return a conversation as it is held, without asking the state store: each check does that anyway."""
        with self._lock:
            held = None if name is None else self._held.get(name)
        return self.of(name, before) if held is None else held

    def _hold(self, name: str, found: Conversation, held: Conversation | None) -> Conversation:
        """Hold a conversation in the place of another; return it, or the one of a thread that was faster."""
        with self._lock:
            now = self._held.get(name)
            if now is not None and now is not held:  # another thread was faster
                found = now
            self._held[name] = found
            self._held.move_to_end(name)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return found

    @property
    def _stored(self) -> bool:
        state = self._pipeline.config.state
        return self._pipeline.state_store is not None and (state is None or state.conversations)

    @staticmethod
    def _begun(name: str | None, before: Callable[[], Sequence[Mapping[str, Any]]]) -> Conversation:
        messages = before()
        if not any(message["role"] == "user" for message in messages):
            return Conversation(conversation_id=name)
        return from_messages(messages, conversation_id=name)
