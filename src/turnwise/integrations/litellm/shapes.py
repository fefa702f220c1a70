"""Items of OpenAI's Responses, Anthropic's messages and events of both, as chat messages and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from turnwise.conversation.tool_reading import arguments_text
from turnwise.guard import PipelineResult
from turnwise.guard.request import last_texts
from turnwise.integrations.other_texts import UnreadError

_CALLS: Final = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_ANTHROPIC: Final = frozenset(
    {
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop", "ping", "error"),
    }
)
_STEPS: Final = (
    *(".created", ".queued", ".in_progress", ".added", ".delta", ".done", ".completed", ".incomplete", ".failed"),
    *(".searching", ".interpreting", ".generating", ".partial_image"),
)
"""How types of events of the Responses API end; only those that end in delta have pieces of texts."""

_FIELDS: Final = ("data:", "event:", "id:", "retry:", ":")


def as_messages(given: str | list[Any]) -> list[dict[str, Any]]:
    """Return the input of the Responses API as chat messages that share its parts; other items are left out.

    >>> as_messages([{"type": "function_call_output", "call_id": "c1", "output": "3"}])
    [{'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}]
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[dict[str, Any]] = []
    for item in given:
        message = _as_message(item)
        if message and message["role"] == "assistant" and messages and messages[-1]["role"] == "assistant":
            messages[-1] = _joined(messages[-1], message)
        elif message:
            messages.append(message)
    return messages


def _as_message(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, Mapping):
        return None
    kind = item.get("type")
    if "role" in item:
        return dict(item)
    if kind in _OUTPUTS:
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
    if kind not in _CALLS:
        return None
    what, key = _CALLS[kind]
    call = {"id": item.get("call_id"), "type": what, what: {"name": item.get("name"), key: item.get(key)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return one message of two that the assistant said one after the other."""
    contents = [one["content"] for one in (first, second) if one.get("content")]
    texts = [{"type": "output_text", "text": one} if isinstance(one, str) else one for one in contents]
    parts = [part for one in texts for part in (one if isinstance(one, list) else [one])]
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    content = contents[0] if len(contents) == 1 else parts or None
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def as_items(messages: Iterable[Mapping[str, Any]], given: str | list[Any]) -> str | list[dict[str, Any]]:
    """Return chat messages as an input of the Responses API, of the kind that was given."""
    items: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            told = message["content"]
            items.append({"type": _OUTPUTS[0], "call_id": message.get("tool_call_id"), "output": told})
            continue
        calls = message.get("tool_calls") or ()
        if message["content"] or not calls:
            items.append({key: value for key, value in message.items() if key != "tool_calls"})
        for call in calls:
            kind = "custom_tool_call" if "custom" in call else "function_call"
            items.append({"type": kind, "call_id": call.get("id"), **call[_CALLS[kind][0]]})
    return items[0]["content"] if isinstance(given, str) and len(items) == 1 else items


def replies_in(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model says in a reply, as messages of the assistant that share its parts."""
    if isinstance(tree.get("choices"), list):
        said = [choice["message"] for choice in tree["choices"] if choice.get("message")]
        return [{**message, "role": "assistant"} for message in said]
    if isinstance(tree.get("output"), list):
        return as_messages(tree["output"])
    if tree.get("type") == "message" and isinstance(tree.get("content"), list):
        return [{"role": "assistant", "content": tree["content"]}]
    return []


def plain(reply: Any, path: str) -> dict[str, Any]:
    """Return a reply as JSON values; a dict as it is.

    Raises:
        UnreadError: it is neither a dict nor an object of pydantic.
    """
    if isinstance(reply, dict):
        return reply
    if not hasattr(reply, "model_dump"):
        raise UnreadError(
            path, f"a {type(reply).__name__} can't be read", "use an endpoint that replies with JSON"
        )
    dumped: dict[str, Any] = reply.model_dump(mode="json", exclude_none=True, warnings=False)
    return dumped


def put_back(reply: Any, tree: Mapping[str, Any]) -> None:
    """Let a reply be as its JSON values are."""
    if not isinstance(reply, dict):
        changed = type(reply)(**tree)
        for key in tree:
            setattr(reply, key, getattr(changed, key))


def put_changes(tree: Any, message: Mapping[str, Any], result: PipelineResult) -> None:
    """Put what guardrails replaced in a message in the place of what a reply says."""
    texts, parts = last_texts([message]).texts, result.parts or (result,)
    new = {one.text: part.text for one, part in zip(texts, parts, strict=True) if one.text != part.text}
    stack = [tree] if new else []
    while stack:
        holder = stack.pop()
        for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(value, str):
                holder[key] = new.get(value, value)
            elif key == "input" and isinstance(value, dict) and arguments_text(value) in new:
                holder[key] = json.loads(new[arguments_text(value)])
            elif isinstance(value, dict | list):
                stack.append(value)


class Events:
    """A reply in pieces, whole: its events, and what they come to.

    Args:
        chunks: the pieces: objects of pydantic, dicts, or bytes of server-sent events.

    Raises:
        UnreadError: pieces of another kind.
    """

    def __init__(self, chunks: Sequence[Any]) -> None:
        self._chunks = chunks
        if all(isinstance(chunk, bytes | str) for chunk in chunks):
            raw = b"".join(chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks)
            lines = [line for line in raw.decode("utf-8", "replace").splitlines() if line]
            data = [line[5:].strip() for line in lines if line.startswith("data:")]
            try:
                events = [json.loads(one) for one in data if one != "[DONE]"]
            except ValueError:
                raise _unknown("an event that is no JSON") from None
            if not all(line.startswith(_FIELDS) for line in lines):
                raise _unknown("what is no server-sent event")
        else:
            events = [deepcopy(plain(chunk, "the reply in pieces")) for chunk in chunks]
        self._deltas: dict[Any, list[tuple[Any, str]]] = {}
        for event in events:
            kind = event.get("type") if isinstance(event, dict) else None
            known = isinstance(kind, str) and (
                kind in _ANTHROPIC or (kind.startswith("response.") and kind.endswith(_STEPS))
            )
            if not known and not (isinstance(event, dict) and isinstance(event.get("choices"), list)):
                raise _unknown(f"an event of the type {kind if isinstance(kind, str) else type(event).__name__}")
            for group, holder, key in _deltas(event):
                self._deltas.setdefault(group, []).append((holder, key))
        self.pieces = {str(at): "".join(h[k] for h, k in some) for at, some in enumerate(self._deltas.values())}
        for some in self._deltas.values():
            for holder, key in some:
                holder[key] = ""
        self.events = events

    def reply(self) -> dict[str, Any]:
        """Return the reply that the events come to; empty where they have none as a whole."""
        for event in reversed(self.events):
            if isinstance(event.get("response"), dict):
                return dict(event["response"])
        blocks = []
        joined = dict(zip(self._deltas, self.pieces.values(), strict=True))
        for event in self.events:
            if event.get("type") == "content_block_start":
                block = deepcopy(event["content_block"])
                for (index, key), text in joined.items():
                    if index == event["index"] and key == "partial_json":
                        block["input"] = json.loads(text)
                    elif index == event["index"]:
                        block[key] = block.get(key, "") + text
                blocks.append(block)
        return {"type": "message", "content": blocks} if blocks else {}

    def chunks(self, *, changed: bool) -> Sequence[Any]:
        """Return the pieces again, with what was replaced: each text in the place of its first piece."""
        if not changed:
            return self._chunks
        for some, text in zip(self._deltas.values(), self.pieces.values(), strict=True):
            holder, key = some[0]
            holder[key] = text
        if isinstance(self._chunks[0], bytes | str):
            return [f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n".encode() for one in self.events]
        return [
            event if isinstance(chunk, dict) else type(chunk).model_construct(**event)
            for chunk, event in zip(self._chunks, self.events, strict=True)
        ]


def is_chat_chunk(chunk: Any) -> bool:
    """Return whether a piece of a reply is one of a chat."""
    choices = getattr(chunk, "choices", None)
    return choices is not None and all(hasattr(choice, "delta") for choice in choices)


def _deltas(event: Mapping[str, Any]) -> list[tuple[Any, Any, str]]:
    """Return the pieces of texts in an event: which text each is of, and where it stands."""
    delta, kind = event.get("delta"), event.get("type")
    if isinstance(delta, str):
        keys = ("item_id", "output_index", "content_index", "summary_index")
        return [((kind, *map(event.get, keys)), event, "delta")]
    if kind == "content_block_delta" and isinstance(delta, dict):
        return [
            ((event.get("index"), key), delta, key)
            for key in delta
            if key != "type" and isinstance(delta[key], str)
        ]
    return [
        ((choice.get("index"), "text"), choice, "text")
        for choice in event.get("choices") or ()
        if "text" in choice
    ]


def _unknown(what: str) -> UnreadError:
    return UnreadError("the reply in pieces", f"{what} can't be read", "ask without stream")
