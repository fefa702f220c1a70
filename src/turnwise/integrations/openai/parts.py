"""How replies that are lists of parts go through the guard: OpenAI's Responses and Anthropic's Messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from turnwise.conversation.message_entries import TEXT_PARTS, read_calls
from turnwise.conversation.message_formats import OPENAI
from turnwise.errors import GuardError
from turnwise.guard import AsyncOutputStream, GuardrailBlocked, OutputStream, PipelineResult, TextKind
from turnwise.guard.request import redacted_parts
from turnwise.guard.results import joined
from turnwise.integrations.openai.calls import (
    Asked,
    Do,
    Guarding,
    Steps,
    afinish,
    checks,
    finish,
    of_reply,
    stand_in,
    whose,
)
from turnwise.integrations.openai.replies import not_guarded, parse_again, refuse_smuggled, with_result
from turnwise.integrations.openai.streams import END, GuardedAsyncStream, GuardedStream, Show
from turnwise.integrations.other_texts import Leaf, OtherTexts, leaves
from turnwise.integrations.shapes import Events, plain, put_inputs, replace_texts, texts_of

SKIPPED: Final = frozenset(
    {"id", "call_id", "item_id", "type", "logprobs", "signature", "encrypted_content"}
    | {"parsed", "parsed_arguments", "parsed_output", "obfuscation"}
)
"""Keys of what is no text of its own."""


class Call(NamedTuple):
    """A request that was let through, or not: what was checked, what the client is given, and whose it is."""

    asked: Asked
    given: Mapping[str, Any]
    named: Mapping[str, Any]


class Kind(NamedTuple):
    """What an event of a stream is, and the index of the part that it is about.

    ``what`` is ``pass`` for one without text, ``error``, ``open`` where a text begins, ``text`` for a piece of it,
    ``thought`` where thinking begins, ``end`` for the end of a part, ``last`` for what ends the reply; else
    ``other``.
    """

    what: str
    at: int | None = None
    text: str = ""


class Api(ABC):
    """One of the two APIs: how its requests and replies are read, and how a refusal is told.

    ``parsed`` is set for what ``parse`` gives.
    """

    def __init__(self, guarding: Guarding) -> None:
        self.guarding, self.parsed = guarding, False
        self.others = OtherTexts(guarding.pipeline)

    @abstractmethod
    def asked(self, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[Call]:
        """Check a request, and say what the client is to be given."""

    @abstractmethod
    def parts(self, reply: Any) -> list[Any]:
        """The parts of a reply, an object of the package or JSON values."""

    @abstractmethod
    def said(self, reply: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a reply says as one message of the assistant; None where it says nothing."""

    @abstractmethod
    def refused(self, call: Call, refusal: str, reply: Any = None) -> Any:
        """A reply with a set text, in place of one that was blocked, or for a request that was not sent."""

    @abstractmethod
    def whole(self, events: Sequence[Any]) -> dict[str, Any]:
        """The reply that events come to, as JSON values."""

    @abstractmethod
    def is_open(self, group: tuple[Any, ...], at: int | None) -> bool:
        """Whether pieces of a text, as `Events` groups them, are of the first text of a part."""

    @abstractmethod
    def kind(self, event: Any) -> Kind:
        """What an event is."""

    @abstractmethod
    def piece(self, event: Any, text: str) -> Any:
        """An event like another piece of a text that says something else."""

    @abstractmethod
    def refused_events(self, call: Call, shown: Shown, refusal: str) -> Iterable[Any]:
        """The events that end a stream with a set text; with what was shown where something was."""

    def kept(
        self, call: Call, reply_id: str, result: PipelineResult | None, *, refused: bool = False
    ) -> Steps[None]:
        """Note by what the next request names this reply, or what was said in its place."""
        yield from ()

    def keeps(self, call: Call) -> bool:
        """Whether the server keeps a reply as part of a conversation that goes on with it."""
        return False

    def withdrawn(self, call: Call, parts: Sequence[Any]) -> Steps[None]:
        """Take a reply that was blocked from what the server keeps."""
        yield from ()

    def other(self, parts: Iterable[Any]) -> Iterable[Leaf]:
        """The texts of parts that are not said to the user, such as thinking, and what a hosted tool gave."""
        for part in parts:
            yield from leaves(part, skip=SKIPPED)


def answered(
    api: Api, create: Callable[..., Any], given: Mapping[str, Any], named: Mapping[str, Any]
) -> Steps[Any]:
    """Check a request, ask the model with ``create``, and check its reply."""
    call = yield from opened(api, given, named)
    refusal = str(api.guarding.refusal)
    if call.asked.sent is None:
        reply = with_result(api.refused(call, refusal), call.asked.result)
        yield from api.kept(call, reply.id, call.asked.standing or call.asked.result, refused=True)
        return reply
    reply = yield Do(create, (), call.given)
    if not hasattr(reply, "model_dump"):
        raise GuardError(
            f"the client gave {type(reply).__name__}, which can't be checked; ask for no raw response"
        )
    try:
        result = yield from _checked(api, call, reply)
        yield from api.kept(call, reply.id, result)
    except GuardrailBlocked as blocked:
        result = blocked.result
        yield from api.withdrawn(call, api.parts(reply))
        if api.guarding.refusal is None:
            raise
        standing = yield from stand_in(
            api.guarding, call.asked.messages, refusal, call.named, _placed(result, call)
        )
        reply = api.refused(call, refusal, reply)
        yield from api.kept(call, reply.id, standing or result, refused=True)
    return with_result(reply, result)


def opened(api: Api, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[Call]:
    """Check a request before the model is asked."""
    refuse_smuggled(given)
    return (yield from api.asked(given, named))


def _checked(api: Api, call: Call, reply: Any) -> Steps[PipelineResult | None]:
    """Check a reply, and put what may be shown into it."""
    message, parts = api.said(plain(reply, "the reply")), api.parts(reply)
    result, new = call.asked.result, dict[str, str]()
    yield from checks(api.guarding, api.others.check(api.other(parts), "check_output"))
    if message is not None:
        result = yield api.guarding.check([*call.asked.messages, message], of_reply(call.named))
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


def _placed(result: PipelineResult, call: Call) -> PipelineResult:
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
    texts = _texts(message)
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


class Shown:
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

    def note(self, event: Any, kind: Kind) -> None:
        """Take in an event that is shown."""
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


class EventSteps:
    """A reply that comes in events, under check.

    Its first text is passed on as it comes, and thinking that comes before it once that is whole; everything else
    once all is checked. ``PieceSteps`` says what it is for.
    """

    def __init__(self, api: Api, call: Call) -> None:
        self._api, self._call = api, call
        self._stream: OutputStream | AsyncOutputStream | None = None
        self._fed = ""
        self._came: list[Any] = []
        self._shown = Shown()
        self.result: PipelineResult | None = None if call.asked.sent is not None else call.asked.result

    def steps(self, following: Callable[[], Any]) -> Generator[Do | Show, Any, None]:
        """Take the model's events, and show what may be shown; ``following`` gives `END` after the last."""
        try:
            if self._call.asked.sent is None:
                assert self.result is not None
                yield from self._refused(self.result, self._call.asked.standing)
                return
            yield from self._taken(following)
        except GuardrailBlocked as blocked:
            self.result = blocked.result
            if self._api.keeps(self._call):
                while (event := (yield Do(following))) is not END:
                    self._came.append(event)
            items = [event.item for event in self._came if getattr(event, "item", None) is not None]
            yield from self._api.withdrawn(self._call, items)
            refusal = self._api.guarding.refusal
            if refusal is None:
                raise
            said, guarding = self._shown.text or refusal, self._api.guarding
            standing = yield from stand_in(
                guarding, self._call.asked.messages, said, self._call.named, _placed(self.result, self._call)
            )
            yield from self._refused(self.result, standing)

    def drop(self) -> None:
        """Record that the reply broke off, where it did not end."""
        if self._stream is not None and self._stream.result is None:
            self._stream.drop()
            self.result = self._stream.result

    def _taken(self, following: Callable[[], Any]) -> Generator[Do | Show, Any, None]:
        came = self._came
        held: list[Any] = []
        thought: list[Any] = []
        ended = False
        while (event := (yield Do(following))) is not END:
            came.append(event)
            kind = self._api.kind(event)
            ended = ended or kind.what == "last"
            if kind.what == "error":
                self.drop()
                yield self._show(event, kind)
                return
            if kind.what == "pass" and not (held or thought):
                yield self._show(event, kind)
            elif thought and kind.at == self._api.kind(thought[0]).at and not held:
                thought.append(event)
                if kind.what == "end":
                    yield from self._thought(thought)
                    thought = []
            elif held or thought:
                held += [*thought, event]
                thought = []
            elif kind.what == "thought":
                thought = [event]
            elif kind.what == "open" and self._shown.open in (None, kind.at):
                yield self._show(event, kind)
            elif kind.what == "text" and kind.at == self._shown.open:
                self._shown.last = event
                shown = yield from self._feed(kind.text)
                if shown:
                    yield self._show(self._api.piece(event, shown), kind._replace(text=shown))
            else:
                held.append(event)
        if not ended:
            self.drop()
            return
        yield from self._ended(came, [*held, *thought])

    def _show(self, event: Any, kind: Kind) -> Show:
        self._shown.note(event, kind)
        return Show(event)

    def _feed(self, text: str) -> Generator[Do, Any, str]:
        if self._stream is None:
            self._stream = yield self._api.guarding.open_stream(self._call.asked.messages, self._call.named)
        self._fed += text
        shown: str = yield Do(self._stream.feed, (text,))
        if self._stream.blocked:
            assert self._stream.result is not None
            raise GuardrailBlocked(self._stream.result)
        return shown

    def _thought(self, events: list[Any]) -> Generator[Do | Show, Any, None]:
        """Check thinking that is whole, and show it."""
        for event in (yield from self._other_texts(events, {}, [])):
            yield self._show(event, self._api.kind(event))

    def _ended(self, came: list[Any], held: list[Any]) -> Generator[Do | Show, Any, None]:
        """Check the whole of it, and show what was held back."""
        reply = self._api.whole(came)
        message = self._api.said(reply)
        if message is None and self._fed:
            message = {"role": "assistant", "content": self._fed}
        text = "" if message is None else OPENAI.read(message).text or ""
        if not text.startswith(self._fed):
            raise GuardError("the end of the stream tells another text than its pieces; ask without stream")
        late = ""
        if text:
            late = yield from self._feed(text[len(self._fed) :])
        results: list[PipelineResult] = []
        if self._stream is not None:
            results.append((yield Do(self._stream.end)))
            late += self._stream.rest
            for one in () if results[0].blocked else read_calls(message):
                named = {"call_id": one.call_id}
                results.append((yield Do(self._stream.check_tool_call, (one.name, one.text), named)))
        elif message is not None:
            said = [*self._call.asked.messages, message]
            result = yield self._api.guarding.check(said, of_reply(self._call.named))
            results = [*(result.parts or (result,))]
        self.result = results[0] if len(results) == 1 else joined(results) if results else self._call.asked.result
        if any(one.blocked for one in results):
            assert self.result is not None
            raise GuardrailBlocked(self.result)
        new, seen = ({}, []) if message is None else replaced_in(message, results)
        if self._shown.last is not None and message is not None:
            texts = _texts(message)
            behind = "\n".join(["", *(new.get(one, one) for one in texts[1:])])
            rest = late.removesuffix(behind)
            first = self._shown.text + rest
            if first != texts[0]:
                new[texts[0]] = first
            seen.append(first)
            if rest:
                yield self._show(self._api.piece(self._shown.last, rest), Kind("text", self._shown.open, rest))
        events = yield from self._other_texts(held, new, seen)
        yield from self._api.kept(self._call, str(reply.get("id")), self.result)
        for event in events:
            yield Show(with_result(event, self.result) if event is events[-1] else event)

    def _other_texts(
        self, held: list[Any], new: Mapping[str, str], seen: Sequence[str]
    ) -> Generator[Do, Any, list[Any]]:
        """Events with texts replaced, once the texts in them that are not said to the user are checked."""
        events = Events(held)
        groups = list(events.places)
        texts = {at: text for at, text in enumerate(events.texts) if groups[at][-1] != "signature"}
        before = dict(texts)
        for at in texts:
            if self._api.is_open(groups[at], self._shown.open):
                texts[at] = ""  # shown before
        # What a reply repeats of its request was checked there.
        bodies = [
            event["response"].get("output") if isinstance(event.get("response"), dict) else event
            for event in events.events
        ]
        replace_texts([texts, bodies], new, SKIPPED)
        if new:
            _unspell(bodies)
        found = leaves([texts, bodies], skip=SKIPPED)
        changed = yield from checks(self._api.guarding, self._api.others.check(found, "check_output", seen))
        if not (changed or new or texts != before):
            return held
        for at, text in texts.items():
            emptied = groups[at][-1] == "thinking" and text != before[at]
            events.texts[at] = "" if emptied else text
        return events.chunks()

    def _refused(self, result: PipelineResult, standing: PipelineResult | None) -> Generator[Do | Show, Any, None]:
        events = list(self._api.refused_events(self._call, self._shown, str(self._api.guarding.refusal)))
        reply_id = getattr(getattr(events[-1], "response", None), "id", "")
        yield from self._api.kept(self._call, reply_id, standing or result, refused=True)
        for event in events[:-1]:
            yield Show(event)
        yield Show(with_result(events[-1], result))


def _unspell(tree: Any) -> None:
    """Empty what spells texts token by token."""
    waiting = [tree]
    while waiting:
        told = waiting.pop()
        if isinstance(told, dict) and told.get("logprobs"):
            told["logprobs"] = []
        if isinstance(told, dict | list):
            waiting += told.values() if isinstance(told, dict) else told


def _texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    told = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    return [str(part[TEXT_PARTS[part["type"]]]) for part in told if part.get("type") in TEXT_PARTS]


class _Parts:
    """What both clients of such an API do.

    ``unguarded`` is the part of the client behind the guard; ``free`` names what of it needs no check.
    """

    def __init__(self, unguarded: Any, api: Api, instead: str, free: frozenset[str]) -> None:
        self.unguarded, self._api, self._parsing = unguarded, api, copy(api)
        self._parsing.parsed = True
        self._instead, self._free = instead, free

    def not_guarded(self, name: str) -> GuardError:
        """The error of what would go past the guard."""
        return not_guarded(name, self._instead)

    def __getattr__(self, name: str) -> Any:
        if name not in self._free:
            raise self.not_guarded(name)
        return getattr(self.unguarded, name)


class GuardedParts(_Parts):
    """An API whose replies are lists of parts, checked."""

    def create(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model, as ``create`` of the package does; return a reply, or a `GuardedStream`.

        Args:
            conversation_id: as for `GuardrailPipeline.check_messages`, and so are the next three.
            session_id: the session.
            key: whose rate limits count.
            role: role of that key.
            given: what the package takes.

        Raises:
            GuardrailBlocked: the request or the reply was blocked, and no refusal is set.
            GuardError: something would go past the guard.
        """
        named, given = whose(conversation_id, session_id, key, role), _given(given)
        if not given.get("stream"):
            return finish(answered(self._api, self.unguarded.create, given, named))
        call = finish(opened(self._api, given, named))
        raw = None if call.asked.sent is None else self.unguarded.create(**call.given)
        return GuardedStream(EventSteps(self._api, call), raw)

    def parse(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed, as ``parse`` of the package does; arguments as for `create`."""
        named = whose(conversation_id, session_id, key, role)
        return finish(answered(self._parsing, self.unguarded.parse, _given(given), named))

    def raw_stream(self, made: dict[str, Any], **given: Any) -> Any:
        """A stream as helpers of the package take it: they close its response."""
        made["stream"] = self.create(**given)
        return _Raw(made["stream"])


class GuardedAsyncParts(_Parts):
    """An API whose replies are lists of parts, checked, for async code."""

    async def create(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model; see `GuardedParts.create`. A stream is a `GuardedAsyncStream`."""
        named, given = whose(conversation_id, session_id, key, role), _given(given)
        if not given.get("stream"):
            return await afinish(answered(self._api, self.unguarded.create, given, named))
        call = await afinish(opened(self._api, given, named))
        raw = None if call.asked.sent is None else await self.unguarded.create(**call.given)
        return GuardedAsyncStream(EventSteps(self._api, call), raw)

    async def parse(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed; see `GuardedParts.parse`."""
        named = whose(conversation_id, session_id, key, role)
        return await afinish(answered(self._parsing, self.unguarded.parse, _given(given), named))

    async def raw_stream(self, made: dict[str, Any], **given: Any) -> Any:
        """A stream as helpers of the package take it; see `GuardedParts.raw_stream`."""
        made["stream"] = await self.create(**given)
        return _Raw(made["stream"])


class _Raw:
    """A guarded stream in the place of one of the package, which closes the response of it."""

    def __init__(self, stream: Any) -> None:
        self.response = stream
        self.close = stream.close

    def __iter__(self) -> Any:
        return iter(self.response)

    def __aiter__(self) -> Any:
        return aiter(self.response)


def _given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without those that stand for nothing given."""
    return {name: value for name, value in given.items() if type(value).__name__ not in ("Omit", "NotGiven")}
