"""Replies that are lists of parts and come in events: what may be shown of them is passed on as it comes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy
from typing import Any

from turnwise.conversation.message_entries import read_calls
from turnwise.conversation.message_formats import OPENAI
from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, PipelineResult
from turnwise.guard.results import joined
from turnwise.integrations.checking import Do, Steps
from turnwise.integrations.clients.calls import of_reply, stand_in, with_result
from turnwise.integrations.clients.client import Resource, Streamed
from turnwise.integrations.clients.part_replies import (
    SKIPPED,
    CheckedRequest,
    EventKind,
    PartsApi,
    ShownStream,
    placed,
    replaced_in,
    said_texts,
)
from turnwise.integrations.clients.shapes import ReplyEvents, replace_texts
from turnwise.integrations.clients.streams import END, PieceSteps, Show
from turnwise.integrations.clients.texts import leaves


class PartsResource(Resource):
    """A part of a client whose replies are lists of parts."""

    def __init__(self, unguarded: Any, api: PartsApi) -> None:
        super().__init__(unguarded, api.guarding)
        self._api, self._parsing = api, copy(api)
        self._parsing.parsed = True

    def _answered(
        self, create: Callable[..., Any], given: dict[str, Any], named: dict[str, Any], *, parsed: bool
    ) -> Steps[Any]:
        return (self._parsing if parsed else self._api).answered(create, given, named)

    def _streamed(self, given: dict[str, Any], named: dict[str, Any]) -> Steps[Streamed]:
        call = yield from self._api.opened(given, named)
        return EventSteps(self._api, call), None if call.asked.sent is None else call.given


class EventSteps(PieceSteps):
    """A reply in events: its first text is shown as it comes, thinking before that once whole, the rest last."""

    def __init__(self, api: PartsApi, call: CheckedRequest) -> None:
        super().__init__(api.guarding, call.asked, call.named)
        self._api, self._call = api, call
        self._fed = ""
        self._came: list[Any] = []
        self._shown = ShownStream()

    def steps(self, following: Callable[[], Any]) -> Generator[Do | Show, Any, None]:
        try:
            if self._asked.sent is None:
                assert self.result is not None
                yield from self._refused(self.result, self._asked.standing)
                return
            yield from self._taken(following)
        except GuardrailBlocked as blocked:
            self.result = blocked.result
            if self._api.keeps(self._call):
                while (event := (yield Do(following))) is not END:
                    self._came.append(event)
            items = [event.item for event in self._came if getattr(event, "item", None) is not None]
            yield from self._api.withdrawn(self._call, items)
            refusal = self._guarding.refusal
            if refusal is None:
                raise
            said, place = self._shown.text or refusal, placed(self.result, self._call)
            standing = yield from stand_in(self._guarding, self._asked.messages, said, self._named, place)
            yield from self._refused(self.result, standing)

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

    def _show(self, event: Any, kind: EventKind) -> Show:
        self._shown.note(event, kind)
        return Show(event)

    def _feed(self, text: str) -> Generator[Do, Any, str]:
        self._fed += text
        shown = yield from super()._feed(text)
        if self._stream is not None and self._stream.result is not None and self._stream.blocked:
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
            raise GuardError("the end of the stream has another text than its pieces; ask without stream")
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
            said = [*self._asked.messages, message]
            result = yield self._guarding.check(said, of_reply(self._named))
            results = [*(result.parts or (result,))]
        self.result = results[0] if len(results) == 1 else joined(results) if results else self._asked.result
        if any(one.blocked for one in results):
            assert self.result is not None
            raise GuardrailBlocked(self.result)
        new, seen = ({}, []) if message is None else replaced_in(message, results)
        if self._shown.last is not None and message is not None:
            texts = said_texts(message)
            behind = "\n".join(["", *(new.get(one, one) for one in texts[1:])])
            rest = late.removesuffix(behind)
            first = self._shown.text + rest
            if first != texts[0]:
                new[texts[0]] = first
            seen.append(first)
            if rest:
                yield self._show(
                    self._api.piece(self._shown.last, rest), EventKind("text", self._shown.open, rest)
                )
        events = yield from self._other_texts(held, new, seen)
        yield from self._api.kept(self._call, str(reply.get("id")), self.result)
        for event in events:
            yield Show(with_result(event, self.result) if event is events[-1] else event)

    def _other_texts(
        self, held: list[Any], new: Mapping[str, str], seen: Sequence[str]
    ) -> Generator[Do, Any, list[Any]]:
        """Events with texts replaced, once the texts in them that are not said to the user are checked."""
        events = ReplyEvents(held)
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
        changed = yield from self._api.others.check(found, "check_output", seen)
        if not (changed or new or texts != before):
            return held
        for at, text in texts.items():
            emptied = groups[at][-1] == "thinking" and text != before[at]
            events.texts[at] = "" if emptied else text
        return events.chunks()

    def _refused(self, result: PipelineResult, standing: PipelineResult | None) -> Generator[Do | Show, Any, None]:
        events = list(self._api.refused_events(self._call, self._shown, str(self._guarding.refusal)))
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
