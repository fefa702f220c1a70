"""Tool calls and results of a turn: read from its messages, added to them, and replaced in them.

A turn with tools keeps its messages in OpenAI's form: the prompt, then rounds of an assistant's message with calls
(and perhaps text beside them) and of results. The older ``function_call`` and ``function``, Anthropic's parts
``tool_use`` and ``tool_result``, and ShareGPT's calls and observations are read as well.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from turnwise.conversation.message_entries import UNKNOWN_TOOL, RawStep, is_text, read_calls, read_results

CALLS: Final = "tool_calls"
RESULTS: Final = "tool_results"
TEXTS: Final = "texts"
"""Where a guard keeps its checks of calls, of results, and of texts beside calls, each by its id."""

_JOINABLE: Final = frozenset({"role", "content", "tool_calls"})
"""Keys of an assistant's message that a further call may join."""


class MessagePlace(NamedTuple):
    """Where a call or result stands: index of its message in the turn, key there, and index in a list there."""

    message: int
    key: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool.

    Args:
        call_id: its id, unique in its turn: the one that came with it, or one made up, such as ``call_1``.
        name: name of the tool.
        arguments: the arguments as text, usually JSON.
        place: where it stands among the messages of its turn.
    """

    call_id: str
    name: str
    arguments: str
    place: MessagePlace


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back.

    Args:
        call_id: id of the call that it answers; one of its own where there is no such call.
        name: name of the tool; empty where it is not known.
        content: its text.
        place: where it stands among the messages of its turn.
        alone: whether its turn has no call that it answers.
    """

    call_id: str
    name: str
    content: str
    place: MessagePlace
    alone: bool = False


Step: TypeAlias = ToolCall | ToolResult


class ToolLog:
    """The calls and results among the messages of one turn, by id; adding a message takes constant time.

    The list of messages belongs to the turn; `add_call` and `add_result` add to it.

    >>> log = ToolLog([{"role": "user", "content": "Is it cold?"}])
    >>> call = log.add_call("weather", "{}")
    >>> log.add_result("3 degrees", call.call_id).name
    'weather'
    >>> [message["role"] for message in log.messages]
    ['user', 'assistant', 'tool']
    """

    __slots__ = ("_by_id", "_by_name", "_waiting", "calls", "messages", "read", "results")

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self.calls: dict[str, ToolCall] = {}
        self.results: dict[str, ToolResult] = {}
        self.read = 0
        # Calls without a result: all, by the id that came with them, and by name. Those of the last two that have
        # got theirs are passed over when they are met.
        self._waiting: OrderedDict[str, ToolCall] = OrderedDict()
        self._by_id: dict[str, list[ToolCall]] = {}
        self._by_name: dict[str, list[ToolCall]] = {}
        self.catch_up()

    def __bool__(self) -> bool:
        return bool(self.calls or self.results)

    def __reduce__(self) -> tuple[type[ToolLog], tuple[list[Any]]]:
        # It is read again: what waits for results may hold arguments as they were before a guard redacted them.
        return ToolLog, (self.messages,)

    @property
    def steps(self) -> list[Step]:
        """Calls and results in order."""
        return sorted([*self.calls.values(), *self.results.values()], key=lambda step: _order(step.place))

    @property
    def first_calls(self) -> dict[int, str]:
        """The id of the first call in each message that has one, by index; a text beside calls goes by it."""
        found: dict[int, str] = {}
        for call in self.calls.values():
            found.setdefault(call.place.message, call.call_id)
        return found

    def catch_up(self) -> None:
        """Read the messages that were added since."""
        for at in range(self.read, len(self.messages)):
            for call in read_calls(self.messages[at]):
                self._take_call(MessagePlace(at, call.key, call.at), call)
            for result in read_results(self.messages[at]):
                self._take_result(MessagePlace(at, result.key, result.at), result)
        self.read = len(self.messages)

    def add_call(self, name: str, arguments: str, call_id: str | None = None) -> ToolCall:
        """Add a call to the assistant's message that came last, or in a message of its own, and return it."""
        last = self.messages[-1] if self.messages else None
        identity = _free(call_id or f"call_{len(self.calls) + 1}", self.calls)
        raw = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        if not (isinstance(last, dict) and last.get("role") == "assistant" and _JOINABLE.issuperset(last)):
            last = {"role": "assistant", "content": None}
            self.messages.append(last)
        listed = last.get("tool_calls")
        last["tool_calls"] = [*listed, raw] if isinstance(listed, list) else [raw]
        self.read = len(self.messages)
        place = MessagePlace(self.read - 1, "tool_calls", len(last["tool_calls"]) - 1)
        return self._take_call(place, RawStep("tool_calls", place.at, identity, name, arguments))

    def add_result(self, content: str, call_id: str | None = None, name: str | None = None) -> ToolResult:
        """Add a result, and return it. Where no call waits for it, one is added: no result comes alone."""
        call = self.waiting(call_id, name)
        if call is None:
            call = self.add_call(name or UNKNOWN_TOOL, "{}", call_id)
        if call.place.key == "function_call":
            self.messages.append({"role": "function", "name": call.name, "content": content})
        else:
            self.messages.append({"role": "tool", "tool_call_id": self._raw_id(call), "content": content})
        self.read = len(self.messages)
        return self._answer(call, MessagePlace(self.read - 1, "content"), content)

    def waiting(self, call_id: str | None, name: str | None = None) -> ToolCall | None:
        """The call that waits for a result: the latest of an id, the first of a name, or the first of all."""
        if call_id:
            given = self._waiting.get(call_id)
            return given or self._first(self._by_id.get(call_id, []), last=True)
        if name:
            return self._first(self._by_name.get(name, []))
        return next(iter(self._waiting.values()), None)

    def replace(self, step: Step, text: str, *, whole: bool = False) -> None:
        """Replace a call's arguments or a result's content; pictures of it stay unless it is the `whole`."""
        raw = self.messages[step.place.message]
        if isinstance(step, ToolCall):
            self.calls[step.call_id] = replace(step, arguments=text)
            _set_arguments(raw, step.place, text)
        else:
            self.results[step.call_id] = replace(step, content=text)
            _set_content(raw, step.place, text, whole=whole)

    def _first(self, calls: list[ToolCall], *, last: bool = False) -> ToolCall | None:
        while calls:
            call = calls[-1 if last else 0]
            if call.call_id in self._waiting:
                return call
            calls.pop(-1 if last else 0)
        return None

    def _raw_id(self, call: ToolCall) -> str:
        """The id that a call has in its message; one without gets its own."""
        raw = _held(self.messages[call.place.message], call.place)
        if not isinstance(raw, dict):
            return call.call_id
        given = raw.get("id")
        if isinstance(given, str) and given:
            return given
        raw["id"] = call.call_id
        return call.call_id

    def _take_call(self, place: MessagePlace, raw: RawStep) -> ToolCall:
        call = ToolCall(_free(raw.call_id or f"call_{len(self.calls) + 1}", self.calls), raw.name, raw.text, place)
        self.calls[call.call_id] = self._waiting[call.call_id] = call
        if raw.call_id:
            self._by_id.setdefault(raw.call_id, []).append(call)
        self._by_name.setdefault(call.name, []).append(call)
        return call

    def _take_result(self, place: MessagePlace, raw: RawStep) -> None:
        call = self.waiting(raw.call_id, raw.name)
        if call is not None:
            self._answer(call, place, raw.text)
            return
        identity = _free(raw.call_id or f"result_{len(self.results) + 1}", self.results)
        self.results[identity] = ToolResult(identity, raw.name, raw.text, place, alone=True)

    def _answer(self, call: ToolCall, place: MessagePlace, content: str) -> ToolResult:
        self._waiting.pop(call.call_id, None)
        identity = _free(call.call_id, self.results)
        result = self.results[identity] = ToolResult(identity, call.name, content, place)
        return result


def _order(place: MessagePlace) -> tuple[int, int]:
    return place.message, -1 if place.at is None else place.at


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A name, with a number behind it where it is taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"


def _held(message: Mapping[str, Any], place: MessagePlace) -> Any:
    held = message[place.key]
    return held if place.at is None else held[place.at]


def _set_arguments(message: dict[str, Any], place: MessagePlace, text: str) -> None:
    held = _held(message, place)
    if not isinstance(held, dict):
        message[place.key] = text
        return
    if place.key == "content":
        held["input"] = _as_object(text)
    elif place.key == "function_call":
        held["arguments"] = text
    elif isinstance(held.get("function"), dict):
        told = held["function"]
        told["arguments"] = _as_object(text) if isinstance(told["arguments"], Mapping) else text
    else:
        held["custom"]["input"] = text


def _as_object(text: str) -> Any:
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"arguments": text}


def _set_content(message: dict[str, Any], place: MessagePlace, text: str, *, whole: bool) -> None:
    held, key = (message, place.key) if place.at is None else (_held(message, place), "content")
    content = held.get(key)
    if isinstance(content, list):
        rest = () if whole else (part for part in content if not is_text(part))
        held[key] = [_like(content, text), *rest]
    else:
        held[key] = text


def _like(parts: list[Any], text: str) -> dict[str, Any]:
    """A part with a text, in the shape of the first one that has any."""
    first = next((part for part in parts if is_text(part)), {"type": "text"})
    return {**first, "text": text}
