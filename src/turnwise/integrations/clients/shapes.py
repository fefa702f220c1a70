"""Items of OpenAI's Responses, Anthropic's messages, and events of both, as chat messages and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from turnwise.conversation.message_entries import SPEAKING_KEYS, arguments_text
from turnwise.conversation.message_formats import OPENAI
from turnwise.errors import GuardError
from turnwise.guard.messages.checking import last_texts
from turnwise.integrations.clients.texts import UnreadError, leaves

_CALLS: Final = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_ANTHROPIC: Final = ("message_start", "message_delta", "message_stop", "ping", "error", "content_block_start")
_STEPS: Final = (
    *(".created", ".queued", ".in_progress", ".added", ".delta", ".done", ".completed", ".incomplete", ".failed"),
    *(".searching", ".interpreting", ".generating", ".partial_image"),
)
"""How types of events of the Responses API end; only those that end in delta have pieces of texts."""

_FIELDS: Final = ("data:", "event:", "id:", "retry:", ":")


def as_message(item: Any) -> dict[str, Any] | None:
    """An item of the Responses API as a chat message that shares its parts; None where it is no such.

    >>> as_message({"type": "function_call_output", "call_id": "c1", "output": "3"})
    {'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}
    """
    kind = item.get("type") if isinstance(item, Mapping) else None
    if kind in _OUTPUTS:
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
    if kind in _CALLS:
        what, key = _CALLS[kind]
        call = {"id": item.get("call_id"), "type": what, what: {"name": item.get("name"), key: item.get(key)}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    said = isinstance(item, Mapping) and "role" in item and item.get("type", "message") == "message"
    return dict(item) if said else None


def as_messages(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Items of the Responses API as chat messages; what the assistant says in a row is one message."""
    return [message for message, _ in _grouped(items)]


def _grouped(items: Iterable[Any]) -> list[tuple[dict[str, Any], list[int]]]:
    """The messages that items come to, each with the places of its items."""
    groups: list[tuple[dict[str, Any], list[int]]] = []
    for place, message in enumerate(map(as_message, items)):
        if message is None:
            continue
        last, places = groups[-1] if groups else (message, [])
        if last is message or {last["role"], message["role"]} != {"assistant"}:
            groups.append((message, [place]))
            continue
        told = [one["content"] for one in (last, message) if one.get("content")]
        texts = [[{"type": "output_text", "text": one}] if isinstance(one, str) else one for one in told]
        calls = [*(last.get("tool_calls") or ()), *(message.get("tool_calls") or ())]
        content = told[0] if len(told) == 1 else [part for one in texts for part in one] or None
        merged = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
        groups[-1] = merged, [*places, place]
    return groups


def items_sent(items: Sequence[Any], sent: Sequence[dict[str, Any]]) -> list[Any]:
    """Items of the Responses API with what may be sent of them, as the chat messages ``sent`` say."""
    # Items of messages that are in `sent` stay as they are, and so do those before them that are no messages.
    groups, left = _grouped(items), [*sent]
    kept: dict[int, list[Any]] = {}
    for at, (message, places) in enumerate(groups):
        new = left[0] if left else None
        if new == message:
            left.pop(0)
            continue
        kept.update((place, []) for place in places)
        comes = new is None or any(new == later for later, _ in groups[at + 1 :])
        if new is not None and not comes and new["role"] == message["role"]:
            kept[places[0]] = _with(items[places[0]], new) if len(places) == 1 else _items(new)
            left.pop(0)
    found: list[Any] = []
    waiting: list[Any] = []
    known = {place for _, places in groups for place in places}
    for place, item in enumerate(items):
        if place not in known:
            waiting.append(item)
            continue
        told = kept.get(place, [item])
        found += [*waiting, *told] if told else []
        waiting = []
    return [*found, *waiting, *(item for message in left for item in _items(message))]


def _with(item: Mapping[str, Any], message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An item with what a message says in its place."""
    if item.get("type") in _OUTPUTS:
        return [{**item, "output": message["content"]}]
    if item.get("type") not in _CALLS:
        return [{**item, "content": message["content"]}]
    what, key = _CALLS[item["type"]]
    return [{**item, key: message["tool_calls"][0][what][key]}]


def _items(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        return [{"type": _OUTPUTS[0], "call_id": message.get("tool_call_id"), "output": message["content"]}]
    calls = message.get("tool_calls") or ()
    said = {key: value for key, value in message.items() if key != "tool_calls"}
    items = [said] if message["content"] or not calls else []
    for call in calls:
        kind = "custom_tool_call" if "custom" in call else "function_call"
        items.append({"type": kind, "call_id": call.get("id"), **call[_CALLS[kind][0]]})
    return items


def replies_in(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the model says in a reply, as messages of the assistant that share its parts."""
    said: list[dict[str, Any]] = []
    if isinstance(tree.get("choices"), list):
        said = [{**one["message"], "role": "assistant"} for one in tree["choices"] if one.get("message")]
    elif isinstance(tree.get("output"), list):
        said = as_messages(tree["output"])
    elif tree.get("type") == "message" and isinstance(tree.get("content"), list):
        said = [{"role": "assistant", "content": tree["content"]}]
    return [message for message in said if any(message.get(key) for key in ("content", *SPEAKING_KEYS))]


def texts_of(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts of messages that guardrails read, one by one."""
    texts: list[str] = []
    for message in messages:
        try:
            texts += [one.text for one in last_texts([message]).texts]
        except GuardError:  # of who runs the model, or nothing that is said
            texts += [OPENAI.read(message).text or ""]
    return texts


def put_texts(tree: Any, messages: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> None:
    """Replace texts of messages by others, wherever these stand by themselves in the tree."""
    replace_texts(tree, {old: text for old, text in zip(texts_of(messages), texts, strict=True) if old != text})
    for message in messages:
        content = message.get("content")
        put_inputs(content if isinstance(content, list) else (), dict(zip(texts_of(messages), texts, strict=True)))


def replace_texts(tree: Any, new: Mapping[str, str], skip: Collection[str] = ()) -> None:
    """Replace texts by others, wherever they stand by themselves in a tree."""
    for leaf in leaves(tree, skip=skip) if new else ():
        # Arguments that are an object are one text, which `put_inputs` puts back.
        if leaf.text is not None and leaf.text in new and leaf.holder is not None and ".input." not in leaf.path:
            leaf.put(new[leaf.text])


def put_inputs(parts: Iterable[Any], new: Mapping[str, str]) -> None:
    """Replace arguments of calls that are objects, in parts of a message in Anthropic's shape."""
    for part in parts:
        told = part if isinstance(part, dict) else vars(part)
        text = arguments_text(told["input"]) if told.get("type") == "tool_use" else ""
        if new.get(text, text) != text:
            told["input"] = json.loads(new[text])


def plain(given: Any, path: str) -> dict[str, Any]:
    """JSON values of an object of pydantic, a dict as it is; UnreadError for anything else."""
    if isinstance(given, dict):
        return given
    if not hasattr(given, "model_dump"):
        raise UnreadError(path, f"a {type(given).__name__} can't be read", "use an endpoint that has JSON objects")
    dumped: dict[str, Any] = given.model_dump(mode="json", exclude_none=True, warnings=False)
    return dumped


class ReplyEvents:
    """A reply in pieces (objects of pydantic, dicts, server-sent events): events, and each text as one."""

    def __init__(self, chunks: Sequence[Any]) -> None:
        self._chunks = chunks
        if all(isinstance(chunk, bytes | str) for chunk in chunks):
            raw = b"".join(chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks)
            self.events = _sent(raw.decode("utf-8", "replace"))
        else:
            self.events = [deepcopy(plain(chunk, "the reply in pieces")) for chunk in chunks]
        self.places: dict[Any, list[tuple[Any, str]]] = {}
        for event in self.events:
            for group, holder, key in _pieces(event):
                self.places.setdefault(group, []).append((holder, key))
        self.texts: list[str] = []
        for group, places in self.places.items():
            text = "".join(holder[key] for holder, key in places)
            arguments = group[-1] == "partial_json" and text
            self.texts.append(arguments_text(_object(text)) if arguments else text)
            for holder, key in places:
                holder[key] = ""

    def reply(self) -> dict[str, Any]:
        """The reply that the events come to; empty where they have none as a whole."""
        whole = [event["response"] for event in self.events if isinstance(event.get("response"), dict)]
        blocks = {
            event["index"]: deepcopy(event["content_block"])
            for event in self.events
            if event.get("type") == "content_block_start"
        }
        for (index, key), text in zip(self.places, self.texts, strict=True) if blocks else ():
            said = (
                {"input": _object(text) if text else {}}
                if key == "partial_json"
                else {key: blocks[index].get(key, "") + text}
            )
            blocks[index].update(said)
        return whole[-1] if whole else {"type": "message", "content": [*blocks.values()]} if blocks else {}

    def chunks(self) -> list[Any]:
        """The pieces with what was replaced: each text in the place of its first piece."""
        for places, text in zip(self.places.values(), self.texts, strict=True):
            holder, key = places[0]
            holder[key] = text
        if isinstance(self._chunks[0], bytes | str):
            return [f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n".encode() for one in self.events]
        pairs = zip(self._chunks, self.events, strict=True)
        return [one if isinstance(raw, dict) else type(raw).model_construct(**one) for raw, one in pairs]


def _object(text: str) -> dict[str, Any]:
    """Arguments of a call; those that broke off as one text."""
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"arguments": text}


def is_chat_chunk(chunk: Any) -> bool:
    choices = getattr(chunk, "choices", None)
    return choices is not None and all(hasattr(choice, "delta") for choice in choices)


def _sent(text: str) -> list[dict[str, Any]]:
    """Parse server-sent events."""
    lines = [line for line in text.splitlines() if line]
    data = [line[5:].strip() for line in lines if line.startswith("data:")]
    try:
        events = [json.loads(one) for one in data if one != "[DONE]"]
    except ValueError:
        events = [None]
    if not all(line.startswith(_FIELDS) for line in lines) or not all(isinstance(one, dict) for one in events):
        raise _unknown("what is no server-sent event with JSON")
    return events


def _pieces(event: Mapping[str, Any]) -> list[tuple[Any, Any, str]]:
    """The pieces of texts in an event: which text each belongs to, what holds it, and its key there."""
    delta, kind = event.get("delta"), str(event.get("type"))
    if kind.startswith("response.") and kind.endswith(_STEPS) and not isinstance(delta, dict | list):
        keys = ("item_id", "output_index", "content_index", "summary_index")
        return [((kind, *map(event.get, keys)), event, "delta")] if isinstance(delta, str) else []
    if kind == "content_block_delta" and isinstance(delta, dict):
        said = [key for key, value in delta.items() if key != "type" and isinstance(value, str)]
        return [((event.get("index"), key), delta, key) for key in said]
    choices = event.get("choices")
    if isinstance(choices, list) and not any("delta" in one for one in choices):
        return [((one.get("index"), "text"), one, "text") for one in choices if one.get("text")]
    if kind not in (*_ANTHROPIC, "content_block_stop"):
        raise _unknown(f"an event of the type {kind[:50]!r}")
    return []


def _unknown(what: str) -> UnreadError:
    return UnreadError("the reply in pieces", f"{what} can't be read", "ask without stream")
