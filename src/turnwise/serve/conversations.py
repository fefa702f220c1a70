"""The conversations that a worker holds, so that a check goes on where the last one stopped."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from threading import Lock
from typing import Any

from turnwise.conversation import Conversation
from turnwise.errors import ConversationError, StateError
from turnwise.guard import Forgotten, GuardrailPipeline
from turnwise.guard.names import canonical_name
from turnwise.serve.metrics import Metrics


class HeldConversations:
    """Finds, begins and forgets conversations by their name.

    With a state store the store has the say: what another worker wrote is read, and what it forgot is forgotten. A
    conversation that is held as well keeps the observer's cache warm. At most `most` are held; the one least
    recently used makes room.
    """

    def __init__(self, pipeline: GuardrailPipeline, most: int, metrics: Metrics, tenant: str) -> None:
        self._pipeline = pipeline
        self._most = most
        self._count, self._evicted = metrics.conversations.labels(tenant), metrics.evicted.labels(tenant)
        self._held: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = Lock()

    def find(self, conversation_id: str) -> Conversation | None:
        """A conversation; None where it is not known. `StateError` where the state store can't be read."""
        with self._lock:
            held = self._held.get(conversation_id)
        if not self._stored:
            return held if held is None else self._hold(held)
        found = self._pipeline.find_conversation(conversation_id, held=held)
        if found is None:
            self._let_go(conversation_id, held)
            return None
        return self._hold(found, instead=held)

    def latest(self, most: int) -> list[Conversation]:
        """At most `most` conversations that this worker holds, the one used last first."""
        with self._lock:
            return list(islice(reversed(self._held.values()), most))

    def of(self, conversation_id: str, about: dict[str, Any]) -> Conversation:
        """A conversation, begun where it is not known.

        While the state store can't be read, what is held goes on, or a conversation that stands in: its checks end
        as the configuration's ``when_down`` says. It is given up once the store has one of that name.
        """
        try:
            found = self.find(conversation_id)
        except StateError:
            with self._lock:
                found = self._held.get(conversation_id)
        return found or self._hold(Conversation(conversation_id=conversation_id, **about))

    def begin(self, conversation_id: str | None, about: dict[str, Any]) -> Conversation:
        """Begin a conversation for all workers to find; a name that is taken is a `ConversationError`."""
        if conversation_id is not None and self.find(conversation_id) is not None:
            raise ConversationError(f"conversation {conversation_id!r} exists already; choose another id")
        begun = Conversation(conversation_id=conversation_id, **about)
        self._pipeline.keep_conversation(begun)
        if self._hold(begun) is not begun:
            raise ConversationError(f"conversation {conversation_id!r} exists already; choose another id")
        return begun

    def hold_fork(self, conversation: Conversation | None) -> None:
        """Hold a conversation that was begun by a list of messages with an edited history."""
        if conversation is not None:
            self._hold(conversation)

    def forget(self, conversation_id: str) -> Forgotten | None:
        """Forget a conversation, and return the receipt; None where it is not known."""
        with self._lock:
            held = self._held.get(conversation_id)
        receipt = self._pipeline.forget_conversation(conversation_id)
        self._let_go(conversation_id, held)
        return receipt if receipt or held is not None else None

    def forget_person(self, name: str) -> Forgotten | None:
        """Forget a person, likewise; see `GuardrailPipeline.forget`."""
        receipt = self._pipeline.forget(name)
        person = canonical_name(name)
        with self._lock:
            held = [
                chat
                for chat in self._held.values()
                if person in map(canonical_name, (chat.initiator, chat.responder))
            ]
        for chat in held:
            self._let_go(chat.conversation_id, chat)
        return receipt if receipt or held else None

    @property
    def _stored(self) -> bool:
        state = self._pipeline.config.state
        return self._pipeline.state_store is not None and (state is None or state.conversations)

    def _hold(self, conversation: Conversation, *, instead: Conversation | None = None) -> Conversation:
        """Hold a conversation, and return it; where another thread was faster, return the one of that thread."""
        name = conversation.conversation_id
        with self._lock:
            held = self._held.get(name)
            if held is None or held is instead:
                self._held[name] = held = conversation
            self._held.move_to_end(name)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
                self._evicted.inc()
            self._count.set(len(self._held))
            return held

    def _let_go(self, name: str, held: Conversation | None) -> None:
        with self._lock:
            if held is not None and self._held.get(name) is held:
                del self._held[name]
            self._count.set(len(self._held))
