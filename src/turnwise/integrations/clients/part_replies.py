"""How replies that are lists of parts are read and checked: OpenAI's Responses and Anthropic's Messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from turnwise.conversation.message_entries import TEXT_PARTS
from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, PipelineResult, TextKind
from turnwise.guard.tool_texts import redacted_parts
from turnwise.integrations.checking import Do, Steps
from turnwise.integrations.clients.calls import (
    AdmittedRequest,
    Guarding,
    of_reply,
    parse_again,
    refuse_smuggled,
    stand_in,
    with_result,
)
from turnwise.integrations.clients.shapes import plain, put_inputs, replace_texts, texts_of
from turnwise.integrations.clients.texts import Leaf, OtherTexts, leaves

SKIPPED: Final = frozenset(
    {"id", "call_id", "item_id", "type", "logprobs", "signature", "encrypted_content"}
    | {"parsed", "parsed_arguments", "parsed_output", "obfuscation"}
)
"""Keys of what is no text of its own."""


class CheckedRequest(NamedTuple):
    """A request that was let through, or not: what was checked, what the client is given, and whose it is."""

    asked: AdmittedRequest
    given: Mapping[str, Any]
    named: Mapping[str, Any]


class EventKind(NamedTuple):
    """What an event of a stream is, or begins or ends, and the index of the part that it is about."""

    what: str  # pass (it has no text), error, open (of a text), text, thought, end (of a part), last, or other
    at: int | None = None
    text: str = ""


class ShownStream:
    """What of a stream was shown: how it began, the text that is open, and how many parts are whole."""

    def __init__(self) -> None:
        self.first: Any = None
        self.open: int | None = None
        self.last: Any = None
        self.opened = 0
        self.whole = 0
        self.text = ""
        self.item: Any = None
        self.number = 0

    def note(self, event: Any, kind: EventKind) -> None:
        self.number = getattr(event, "sequence_number", 0)
        if kind.what == "pass" and self.first is None:
            self.first = event
        if kind.what == "open":
            self.opened += 1
            self.open, self.item = kind.at, self.item or event
        if kind.what == "text":
            self.last = event
            self.text += kind.text
        self.whole += kind.what == "end"


class PartsApi(ABC):
    """An API whose replies are lists of parts: how they and requests are read, and how a refusal is told."""

    def __init__(self, guarding: Guarding) -> None:
        self.guarding = guarding
        self.parsed = False  # True for what ``parse`` gives
        self.others = OtherTexts(guarding.pipeline)

    @abstractmethod
    def asked(self, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[CheckedRequest]:
        """Check a request, and say what the client is to be given."""

    @abstractmethod
    def parts(self, reply: Any) -> list[Any]:
        """The parts of a reply, an object of the package or JSON values."""

    @abstractmethod
    def said(self, reply: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a reply says as one message of the assistant; None where it says nothing."""

    @abstractmethod
    def refused(self, call: CheckedRequest, refusal: str, reply: Any = None) -> Any:
        """A reply with a set text, in place of one that was blocked, or for a request that was not sent."""

    @abstractmethod
    def whole(self, events: Sequence[Any]) -> dict[str, Any]:
        """The reply that events come to, as JSON values."""

    @abstractmethod
    def is_open(self, group: tuple[Any, ...], at: int | None) -> bool:
        """Whether pieces of a text, as `Events` groups them, are of the first text of a part."""

    @abstractmethod
    def kind(self, event: Any) -> EventKind:
        """What an event is."""

    @abstractmethod
    def piece(self, event: Any, text: str) -> Any:
        """An event like another piece of a text that says something else."""

    @abstractmethod
    def refused_events(self, call: CheckedRequest, shown: ShownStream, refusal: str) -> Iterable[Any]:
        """The events that end a stream with a set text; with what was shown where something was."""

    def kept(
        self, call: CheckedRequest, reply_id: str, result: PipelineResult | None, *, refused: bool = False
    ) -> Steps[None]:
        """Note by what the next request names this reply, or what was said in its place."""
        yield from ()

    def keeps(self, call: CheckedRequest) -> bool:
        """Whether the server keeps a reply as part of a conversation that goes on with it."""
        return False

    def withdrawn(self, call: CheckedRequest, parts: Sequence[Any]) -> Steps[None]:
        """Take a reply that was blocked from what the server keeps."""
        yield from ()

    def other(self, parts: Iterable[Any]) -> Iterable[Leaf]:
        """The texts of parts that are not said to the user, such as thinking, and what a hosted tool gave."""
        for part in parts:
            yield from leaves(part, skip=SKIPPED)

    def answered(
        self, create: Callable[..., Any], given: Mapping[str, Any], named: Mapping[str, Any]
    ) -> Steps[Any]:
        """Check a request, ask the model with ``create``, and check its reply."""
        call = yield from self.opened(given, named)
        refusal = str(self.guarding.refusal)
        if call.asked.sent is None:
            reply = with_result(self.refused(call, refusal), call.asked.result)
            yield from self.kept(call, reply.id, call.asked.standing or call.asked.result, refused=True)
            return reply
        reply = yield Do(create, (), call.given)
        if not hasattr(reply, "model_dump"):
            raise GuardError(
                f"the client gave {type(reply).__name__}, which can't be checked; ask for no raw response"
            )
        try:
            result = yield from self._checked(call, reply)
            yield from self.kept(call, reply.id, result)
        except GuardrailBlocked as blocked:
            result = blocked.result
            yield from self.withdrawn(call, self.parts(reply))
            if self.guarding.refusal is None:
                raise
            standing = yield from stand_in(
                self.guarding, call.asked.messages, refusal, call.named, placed(result, call)
            )
            reply = self.refused(call, refusal, reply)
            yield from self.kept(call, reply.id, standing or result, refused=True)
        return with_result(reply, result)

    def opened(self, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[CheckedRequest]:
        refuse_smuggled(given)
        return (yield from self.asked(given, named))

    def _checked(self, call: CheckedRequest, reply: Any) -> Steps[PipelineResult | None]:
        message, parts = self.said(plain(reply, "the reply")), self.parts(reply)
        result, new = call.asked.result, dict[str, str]()
        yield from self.others.check(self.other(parts), "check_output")
        if message is not None:
            result = yield self.guarding.check([*call.asked.messages, message], of_reply(call.named))
            if result.blocked:
                raise GuardrailBlocked(result)
            new, _ = replaced_in(message, result.parts or (result,))
        if new:
            replace_texts(parts, new, SKIPPED)
            put_inputs(parts, new)
            for part in parts:
                for holder in (part, *(getattr(part, "content", None) or ())):
                    _parsed_again(holder, new)
        return result


def placed(result: PipelineResult, call: CheckedRequest) -> PipelineResult:
    """A verdict on a reply, or that on its request where the first is about a text apart from the conversation."""
    return result if result.place is not None or call.asked.result is None else call.asked.result


def _parsed_again(holder: Any, new: Mapping[str, str]) -> None:
    """Parse again what was replaced, where the package parsed it, and leave out what spells it."""
    for key, parsed in (("text", "parsed"), ("text", "parsed_output"), ("arguments", "parsed_arguments")):
        text = getattr(holder, key, None)
        if isinstance(text, str) and text in new.values():
            parse_again(holder, parsed, text)
            if getattr(holder, "logprobs", None):
                holder.logprobs = []


def replaced_in(message: Mapping[str, Any], results: Sequence[PipelineResult]) -> tuple[dict[str, str], list[str]]:
    """What takes the place of which text of a message, by the checks of it; and all texts before and after."""
    texts = said_texts(message)
    new: dict[str, str] = {}
    for old, result in zip(texts_of([message]), results, strict=True):
        if result.pipeline_type is not TextKind.OUTPUT:
            new[old] = result.text
        elif result.text == old:
            new.update((text, text) for text in texts)
        else:
            left = redacted_parts(texts, result.details.values())
            if "\n".join(left) != result.text:
                left = [result.text, *("" for _ in texts[1:])]
            # What is replaced in one of two equal texts is replaced in both.
            new.update((old, text) for old, text in zip(texts, left, strict=True) if new.get(old, old) == old)
    return {old: text for old, text in new.items() if old != text}, [*new, *new.values()]


def said_texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    told = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    return [str(part[TEXT_PARTS[part["type"]]]) for part in told if part.get("type") in TEXT_PARTS]
