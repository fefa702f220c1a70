"""The Responses API of the `openai` package behind the guard."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from time import time
from typing import Any, Final, NamedTuple
from uuid import uuid4

from turnwise._support.bounded import read_json
from turnwise.errors import GuardError, StateError
from turnwise.guard import GuardrailBlocked, PipelineResult
from turnwise.guard.names import digest_of
from turnwise.integrations.checking import Do, Steps
from turnwise.integrations.clients.calls import AdmittedRequest, Guarding, ask, off_loop
from turnwise.integrations.clients.client import AsyncResource, HelperStream, SyncResource, named_in, not_guarded
from turnwise.integrations.clients.part_replies import SKIPPED, CheckedRequest, EventKind, PartsApi, ShownStream
from turnwise.integrations.clients.part_streams import PartsResource
from turnwise.integrations.clients.shapes import ReplyEvents, as_message, as_messages, items_sent, plain
from turnwise.integrations.clients.texts import Leaf, last_heard, leaves
from turnwise.integrations.openai.completions import FILTERED, INSTEAD
from turnwise.sessions import StateKind


class _Standing(NamedTuple):
    """Where a conversation stands after a response, and what the server calls that; empty for its beginning."""

    place: str
    server_id: str


def _dump(standing: _Standing) -> bytes:
    return json.dumps(standing).encode("ascii")


def _load(data: bytes, key: str, version: int) -> _Standing:
    place, server_id = read_json(data.decode("ascii"))
    return _Standing(str(place), str(server_id))


_STANDING: Final = StateKind("response", 1, _dump, _load)
"""Where conversations stand that the server keeps, by digests of the ids that requests name."""

_EVENTS: Final = {
    "response.created": "ResponseCreatedEvent",
    "response.output_item.added": "ResponseOutputItemAddedEvent",
    "response.content_part.added": "ResponseContentPartAddedEvent",
    "response.output_text.delta": "ResponseTextDeltaEvent",
    "response.output_text.done": "ResponseTextDoneEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.incomplete": "ResponseIncompleteEvent",
}
"""Classes of the events that a refusal is told by."""

_MODELS: Final = ("reasoning", "item_reference", "compaction")
"""Items of a request that repeat what the model gave, or name it."""


class _Responses(PartsResource):
    instead = INSTEAD
    free = frozenset({"delete", "input_tokens"})


class GuardedResponses(_Responses, SyncResource):
    """Responses, checked."""

    def stream(self, **given: Any) -> Any:
        """Ask the model by the package's helper; arguments as for `create`.

        The stream's ``guarded`` is a `GuardedStream`, which has the verdict.
        """
        return HelperStream(partial(_entered, *_helper(self, given)))

    def raw_stream(self, made: dict[str, Any], **given: Any) -> _ResponseStream:
        """A stream for the package's helper; it is left in ``made`` too."""
        made["stream"] = self.create(**given)
        return _ResponseStream(made["stream"])


class GuardedAsyncResponses(_Responses, AsyncResource):
    """Responses, checked, for async code."""

    def stream(self, **given: Any) -> Any:
        """Ask the model by the package's helper; see `GuardedResponses.stream`."""
        return HelperStream(partial(_aentered, *_helper(self, given)))

    async def raw_stream(self, made: dict[str, Any], **given: Any) -> _ResponseStream:
        made["stream"] = await self.create(**given)
        return _ResponseStream(made["stream"])


class _ResponseStream:
    """A guarded stream in the place of one of the package, whose helper closes its response."""

    def __init__(self, stream: Any) -> None:
        self.response = stream
        self.close = stream.close

    def __iter__(self) -> Any:
        return iter(self.response)

    def __aiter__(self) -> Any:
        return aiter(self.response)


def _entered(manager: Any, made: Mapping[str, Any]) -> tuple[Any, Any]:
    stream = manager.__enter__()
    stream.guarded = made["stream"]
    return manager, stream


async def _aentered(manager: Any, made: Mapping[str, Any]) -> tuple[Any, Any]:
    stream = await manager.__aenter__()
    stream.guarded = made["stream"]
    return manager, stream


def _helper(resource: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The package's helper around a guarded resource, and where the guarded stream comes to be."""
    made: dict[str, Any] = {}
    ours = named_in(given)

    class Resource:
        """What the helper asks for a stream."""

        create = staticmethod(partial(resource.raw_stream, made, **ours))

        def __getattr__(self, name: str) -> Any:
            raise not_guarded(name, INSTEAD)

    return type(resource.unguarded).stream(Resource(), **given), made


class ResponsesApi(PartsApi):
    """Requests and replies of the Responses API, and of a blocked reply its removal from what the server keeps."""

    def __init__(self, guarding: Guarding, conversations: Any) -> None:
        super().__init__(guarding)
        self._conversations = conversations

    def asked(self, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[CheckedRequest]:
        if given.get("background"):
            raise GuardError("background is set: its reply would bypass the guard; ask without it, or with stream")
        given, named = yield from self._placed(given, named)
        told = given.get("input")
        raws = [{"role": "user", "content": told}] if isinstance(told, str) else [*(told or ())]
        items = [plain(item, f"input[{at}]") for at, item in enumerate(raws)]
        messages = as_messages(items)
        heard = last_heard(messages)
        asked = AdmittedRequest(messages, messages, None)
        if heard:
            ends = _ends(messages[:heard]) if "after" in named else ()
            asked = yield from ask(self.guarding, messages[:heard], named, ends)
            if asked.sent is None:
                return CheckedRequest(asked, given, named)
        others = deepcopy(
            {"input": [item for item in items if _is_other(item)], "prompt": given.get("prompt") or {}}
        )
        try:
            changed = yield from self.others.check(leaves(others, skip=SKIPPED), "check_tool_result")
        except GuardrailBlocked as blocked:
            if self.guarding.refusal is None:
                raise
            return CheckedRequest(AdmittedRequest(asked.messages, None, blocked.result), given, named)
        sent = [*(asked.sent or ()), *messages[heard:]] if heard else messages
        if changed:
            left = iter(others["input"])
            raws = items = [next(left) if _is_other(item) else item for item in items]
            given = {**given, **({"prompt": others["prompt"]} if others["prompt"] else {})}
        if sent != messages:
            raws = items_sent(items, sent)
        elif not changed:
            return CheckedRequest(asked, given, named)
        alone = isinstance(told, str) and len(raws) == 1
        return CheckedRequest(asked, {**given, "input": raws[0]["content"] if alone else raws}, named)

    def _placed(self, given: Mapping[str, Any], named: Mapping[str, Any]) -> Steps[tuple[Any, Any]]:
        """Where a conversation that the server keeps stands, and the request with ids that the server knows."""
        before, kept = given.get("previous_response_id"), _id(given.get("conversation"))
        name = named.get("conversation_id")
        if before is None and kept is None:
            return given, named
        if kept is not None and name is None:
            named = {**named, "conversation_id": kept}
        places = [f"response {before}"] if before is not None else [f"conversation {kept}"]
        places += [f"named {name}"] if name is not None else []
        for place in places:
            found: _Standing | None = yield off_loop(self._standing, place)
            if found is not None:
                named = {**named, "after": found.place}
                break
        else:
            if kept is None and name is None:
                raise GuardError(
                    f"previous_response_id {str(before)[:80]!r} is not known here, so nothing of its "
                    "conversation was checked: give the pipelines of all workers one state store, send the "
                    "messages themselves, or give conversation_id to begin there"
                )
        if found is not None and before is not None and place == places[0]:
            given = {**given, "previous_response_id": found.server_id}
            given = given if found.server_id else _without(given, "previous_response_id")
        return given, named

    def _standing(self, name: str) -> _Standing | None:
        try:
            found: _Standing | None = self.guarding.store.get(_STANDING, digest_of(name))
        except StateError:
            return _Standing(
                name, name.partition(" ")[2]
            )  # the check can't read it either, and ends as configured
        return found

    def kept(
        self, call: CheckedRequest, reply_id: str, result: PipelineResult | None, *, refused: bool = False
    ) -> Steps[None]:
        kept, name = _id(call.given.get("conversation")), call.named.get("conversation_id")
        names = [f"response {reply_id}"]
        names += [f"conversation {kept}"] if kept is not None else []
        names += [f"named {name}"] if name is not None else []
        if result is not None and result.place is not None:
            server_id = str(call.given.get("previous_response_id") or "") if refused else reply_id
            yield off_loop(self._note, names, _Standing(result.place, server_id))

    def _note(self, names: Sequence[str], standing: _Standing) -> None:
        try:
            for name in names:
                self.guarding.store.change(_STANDING, digest_of(name), lambda _: (standing, None))
        except StateError:
            return  # a request that goes on from here is told that it is not known

    def keeps(self, call: CheckedRequest) -> bool:
        return call.given.get("conversation") is not None

    def withdrawn(self, call: CheckedRequest, parts: Sequence[Any]) -> Steps[None]:
        kept = _id(call.given.get("conversation"))
        for item in dict.fromkeys(getattr(part, "id", None) for part in parts) if kept is not None else ():
            if item is not None:
                yield Do(self._conversations.items.delete, (item,), {"conversation_id": kept})

    def parts(self, reply: Any) -> list[Any]:
        return list((reply.get("output") if isinstance(reply, dict) else reply.output) or ())

    def said(self, reply: Mapping[str, Any]) -> dict[str, Any] | None:
        """Messages and calls of a response as one message of the assistant."""
        items = [item for item in reply.get("output") or () if (as_message(item) or {}).get("role") == "assistant"]
        return next(iter(as_messages(items)), None)

    def other(self, parts: Iterable[Any]) -> Iterable[Leaf]:
        """The texts of items that are not said to the user, and sources of those that are."""
        for part in parts:
            if part.type == "message":
                for one in part.content or ():
                    yield from leaves(one, {"annotations"}, SKIPPED)
            elif part.type not in ("function_call", "custom_tool_call"):
                yield from leaves(part, skip=SKIPPED)

    def refused(self, call: CheckedRequest, refusal: str, reply: Any = None) -> Any:
        from openai.types.responses import ParsedResponse, Response

        told = {
            "status": "incomplete",
            "incomplete_details": {"reason": FILTERED},
            "output": [_message(refusal, f"msg_{uuid4().hex}")],
            "error": None,
        }
        bare = {"id": f"resp_{uuid4().hex}", "object": "response", "created_at": time()}
        bare["model"] = str(call.given.get("model"))
        bare |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        bare["previous_response_id"] = call.given.get("previous_response_id")
        kept = bare if reply is None else reply.model_dump(mode="json", warnings=False, exclude={"output"})
        made = ParsedResponse if self.parsed else Response
        return made.construct(**{**kept, **told})

    def whole(self, events: Sequence[Any]) -> dict[str, Any]:
        told = ReplyEvents(events)
        reply = told.reply()
        done = [event["item"] for event in told.events if event.get("type") == "response.output_item.done"]
        return reply if reply.get("output") or not done else {**reply, "output": done}

    def is_open(self, group: tuple[Any, ...], at: int | None) -> bool:
        said = group[0] in ("response.output_text.delta", "response.refusal.delta")
        return said and at is not None and group[2:4] == (at, 0)

    def kind(self, event: Any) -> EventKind:
        kind, at = event.type, getattr(event, "output_index", None)
        first = getattr(event, "content_index", 0) == 0
        what = "other"
        if kind in ("response.created", "response.in_progress", "response.queued"):
            what = "other" if getattr(event.response, "output", None) else "pass"
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            what = "last"
        elif kind == "error":
            what = "error"
        elif kind == "response.output_item.added":
            item = event.item
            what = "thought" if item.type == "reasoning" else what
            what = "open" if item.type == "message" and not item.content else what
        elif kind == "response.content_part.added":
            told = (getattr(event.part, key, None) for key in ("text", "refusal", "logprobs", "annotations"))
            what = "open" if first and not any(told) else what
        elif kind == "response.output_item.done":
            what = "end"
        elif kind in ("response.output_text.delta", "response.refusal.delta") and first:
            return EventKind("text", at, event.delta)
        return EventKind(what, at)

    def piece(self, event: Any, text: str) -> Any:
        spelled: dict[str, Any] = {"logprobs": []} if getattr(event, "logprobs", None) else {}
        return event.model_copy(update={"delta": text, **spelled})

    def refused_events(self, call: CheckedRequest, shown: ShownStream, refusal: str) -> Iterable[Any]:
        from openai.types import responses as types

        said = shown.text or refusal
        base = None if shown.first is None else shown.first.response
        reply = self.refused(call, said, base)
        at = shown.whole if shown.open is None else shown.open
        item = _message(said, reply.output[0].id)
        if shown.item is not None and hasattr(shown.item, "item"):
            item["id"] = shown.item.item.id
            reply.output[0].id = item["id"]
        part = item["content"][0]
        here = {"output_index": at, "item_id": item["id"], "content_index": 0}
        begun = {**item, "content": [], "status": "in_progress"}
        events: list[dict[str, Any]] = []
        if shown.first is None:
            raw = reply.model_dump(mode="json", warnings=False)
            opened = {**raw, "output": [], "status": "in_progress", "incomplete_details": None}
            events.append({"type": "response.created", "response": opened})
        if shown.open is None:
            events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        if not shown.text:
            if shown.opened < 2:  # the item, and the part in it
                events.append({"type": "response.content_part.added", **here, "part": {**part, "text": ""}})
            events.append({"type": "response.output_text.delta", **here, "delta": said, "logprobs": []})
        events.append({"type": "response.output_text.done", **here, "text": said, "logprobs": []})
        events.append({"type": "response.content_part.done", **here, "part": part})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        last = {"type": "response.incomplete", "response": reply.model_dump(mode="json", warnings=False)}
        for number, event in enumerate([*events, last], shown.number + (shown.first is not None)):
            made = getattr(types, _EVENTS[event["type"]])
            yield made.construct(**event, sequence_number=number)


def _message(text: str, identity: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": identity, "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def _id(conversation: Any) -> str | None:
    found = (
        conversation.get("id") if isinstance(conversation, Mapping) else getattr(conversation, "id", conversation)
    )
    return None if found is None else str(found)


def _without(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != key}


def _is_other(item: Mapping[str, Any]) -> bool:
    return as_message(item) is None and item.get("type") not in _MODELS


def _ends(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where beginnings of messages end that are checked before the whole: the server gets each message once."""
    heard = [at for at, message in enumerate(messages, 1) if message["role"] in ("user", "tool")]
    tools = {at for at in heard if messages[at - 1]["role"] == "tool"}
    return [at for at in heard[:-1] if not (at in tools and at + 1 in tools)]
