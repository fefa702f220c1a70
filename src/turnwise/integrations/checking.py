"""What integrations share: checks for sync and async code alike, conversations by name, verdicts told."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

from turnwise.conversation import Conversation, Side, from_messages
from turnwise.errors import StateError
from turnwise.guard import GuardrailPipeline, PipelineResult

Value = TypeVar("Value")

WITHHELD: Final = "[message withheld]"
"""Stands in a framework's history for a prompt that was blocked, so that no model reads it later."""

REFUSAL: Final = "I can't help with that."
"""What is answered by default where something was blocked."""

_MOST_HELD: Final = 10_000


class Do(NamedTuple):
    """Something to be called; async code awaits `later` in its place, or the call itself where that is None."""

    call: Callable[..., Any]
    given: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}
    later: Callable[..., Any] | None = None

    def run(self) -> Any:
        return self.call(*self.given, **self.named)

    async def arun(self) -> Any:
        return await (self.later or self.call)(*self.given, **self.named)


Steps = Generator[Do, Any, Value]
"""Work under way: yields what is to be done, is sent what came of it, and returns its end."""


def finish(steps: Steps[Value]) -> Value:
    given: Any = None
    try:
        while True:
            given = steps.send(given).run()
    except StopIteration as end:
        value: Value = end.value
        return value


async def afinish(steps: Steps[Value]) -> Value:
    given: Any = None
    try:
        while True:
            given = await steps.send(given).arun()
    except StopIteration as end:
        value: Value = end.value
        return value


def pipeline_call(pipeline: GuardrailPipeline, method: str, *given: Any, **named: Any) -> Do:
    """A call of a pipeline's method; its async method is of the same name with an ``a`` before it."""
    return Do(getattr(pipeline, method), given, named, getattr(pipeline, f"a{method}"))


def open_turn(conversation: Conversation, number: int | None) -> int | None:
    """Return a turn number where the turn waits for a response or its response was blocked; else None."""
    last = conversation.history.last
    if number is None or last is None or not 1 <= number <= last.number:
        return None
    turn = conversation.turn(number)
    return None if turn.complete and not turn.blocked(Side.RESPONSE) else number


def was_blocked(conversation: Conversation, prompt: str) -> bool:
    """Whether a prompt of the conversation was blocked: a framework's own history may give it again."""
    return any(turn.prompt == prompt and turn.blocked(Side.PROMPT) for turn in conversation)


def told(result: PipelineResult, *, explain: bool = True) -> dict[str, Any]:
    """What a framework may keep of a verdict: nothing of the text; reasons and scores if `explain`.

    >>> pipeline = GuardrailPipeline.from_preset("basic")
    >>> told(pipeline.check_input("Hello!"))["blocked"]
    False
    """
    why = {name: list(getattr(result, name)) for name in ("reasons", "warnings", "failures", "unread")}
    return {
        "blocked": result.blocked,
        **(why if explain else {}),
        "pipeline_type": str(result.pipeline_type),
        "conversation_id": result.conversation_id,
        "turn_number": result.turn_number,
        "rate_limited": result.rate_limited,
        "retry_after": result.retry_after,
    }


def first_unanswered(messages: Sequence[Value], is_asked: Callable[[Value], bool]) -> int:
    """Where the messages at the end begin that ask something, and that nobody has answered."""
    first = len(messages)
    while first and is_asked(messages[first - 1]):
        first -= 1
    return first


def keep_latest(held: OrderedDict[str, Value], key: str, value: Value, most: int) -> int:
    """Put a value last among at most so many, and return how many of the first ones made room."""
    held[key] = value
    held.move_to_end(key)
    evicted = max(0, len(held) - most)
    for _ in range(evicted):
        held.popitem(last=False)
    return evicted


class HeldConversations:
    """At most ``most`` conversations of a process by their ids; the one least recently used makes room."""

    def __init__(self, pipeline: GuardrailPipeline, most: int) -> None:
        self._pipeline = pipeline
        self._most = most
        self._held: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = Lock()

    @property
    def _stored(self) -> bool:
        """Whether a state store has conversations too, and the last word on them."""
        state = self._pipeline.config.state
        return self._pipeline.state_store is not None and (state is None or state.conversations)

    def _holds(self, name: str) -> Conversation | None:
        with self._lock:
            return self._held.get(name)

    def _hold(self, found: Conversation, *, instead: Conversation | None = None) -> Conversation:
        """Hold a conversation, and return it; where another thread was faster, return the one of that thread."""
        name = found.conversation_id
        with self._lock:
            now = self._held.get(name)
            kept = found if now is None or now is instead else now
            self._note(keep_latest(self._held, name, kept, self._most))
        return kept

    def _note(self, evicted: int) -> None:
        """Take note that what is held has changed; called under the lock."""


Messages = Callable[[], Sequence[Mapping[str, Any]]]
"""Gives the messages before a check, in OpenAI's shape."""


class ConversationFinder(HeldConversations):
    """Finds conversations: in this process, in the pipeline's state store, or from the messages so far.

    A state store of the pipeline has the last word. At most ``most`` conversations are held; the one least
    recently used makes room.

    >>> found = ConversationFinder(GuardrailPipeline.from_preset("basic"))
    >>> one = found.of("chat-7", lambda: [{"role": "user", "content": "Hi"}])
    >>> found.of("chat-7", list) is one, one.turn(1).prompt
    (True, 'Hi')
    """

    def __init__(self, pipeline: GuardrailPipeline, most: int = _MOST_HELD) -> None:
        super().__init__(pipeline, most)

    def of(self, name: str | None, before: Messages) -> Conversation:
        """Return a conversation; an unknown one begins with the messages that ``before`` gives.

        While the state store can't be read, the conversation held here is used; its checks end as ``when_down``
        says. Without a name it begins here, under a made-up one.
        """
        if name is None:
            return self._hold(_begun(None, before))
        found = held = self._holds(name)
        if self._stored:
            with suppress(StateError):
                found = self._pipeline.find_conversation(name, held=held)
        return self._hold(found or _begun(name, before), instead=held)

    def held(self, name: str | None, before: Messages) -> Conversation:
        """Return a conversation as it is held, without asking the state store: each check does that anyway."""
        held = None if name is None else self._holds(name)
        return self.of(name, before) if held is None else held


def _begun(name: str | None, before: Messages) -> Conversation:
    messages = before()
    if not any(message["role"] == "user" for message in messages):
        return Conversation(conversation_id=name)
    return from_messages(messages, conversation_id=name)
