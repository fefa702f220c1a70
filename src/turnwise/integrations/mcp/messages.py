"""Messages of the Model Context Protocol under guard: what goes on of each, and what is answered in its place."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal

from turnwise._support.bounded import read_json
from turnwise.conversation import WITHHELD_RESULT, Conversation
from turnwise.guard import GuardrailPipeline
from turnwise.guard.names import is_ordinary
from turnwise.guard.tool_texts import Arguments
from turnwise.integrations.checking import keep_latest

MAX_MESSAGE: Final = 64 << 20
"""Bytes that a message may have."""

CALL_WITHHELD: Final = "[tool call withheld]"

_MOST = 10_000
"""Requests without an answer, and descriptions that were let through, that are remembered."""

_LISTS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_ABOUT: Final = frozenset(
    {"description", "title", "examples", "default", "$comment", "annotations", "_meta", "icons"}
)
"""Keys that only describe, which a withheld description loses."""

_log = logging.getLogger("turnwise.mcp")

Message = dict[str, Any]
OnError = Literal["block", "allow"]
Descriptions = Literal["leave_out", "withhold"]


@dataclass(slots=True)
class Passed:
    """What becomes of a message: what goes on (None for nothing), and what its sender is answered instead."""

    forward: bytes | None = None
    answers: list[bytes] = field(default_factory=list)


class McpScreen:
    """Checks the messages of one MCP session, which is one conversation.

    Methods may be called from several threads.

    Args:
        pipeline: what checks.
        descriptions: what becomes of a tool, prompt or resource whose description is blocked: ``leave_out`` takes
            it from the list, ``withhold`` leaves its name and parameters.
        on_error: whether a message that can't be checked is held back (``block``) or goes on (``allow``).
        elicits: whether a call that needs the user's approval is put to the user, where the client can.

    >>> screen = McpScreen(GuardrailPipeline({"guardrails": ["actions"]}))
    >>> params = {"name": "bash", "arguments": {"command": "rm -rf /"}}
    >>> call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    >>> passed = screen.to_server(json.dumps(call).encode())
    >>> passed.forward, json.loads(passed.answers[0])["result"]["isError"]
    (None, True)
    """

    def __init__(
        self,
        pipeline: GuardrailPipeline,
        *,
        descriptions: Descriptions = "leave_out",
        on_error: OnError = "block",
        elicits: bool = False,
    ) -> None:
        self.on_error = on_error
        self._pipeline = pipeline
        self._descriptions = descriptions
        self._elicits = elicits
        self._conversation = Conversation()
        self._pending: OrderedDict[str, tuple[str, str, Any]] = OrderedDict()
        self._fine: OrderedDict[str, None] = OrderedDict()
        self._left_out: set[str] = set()
        self._held: dict[str, Message] = {}
        self._can_ask = [False]

    def for_request(self) -> McpScreen:
        """The same session with requests of its own, since clients over HTTP may use the same ids."""
        one = copy(self)
        one._pending = OrderedDict()
        return one

    def to_server(self, raw: bytes) -> Passed:
        """Check a message from the client, without the line end."""
        return self._screened(raw, self._from_client)

    def to_client(self, raw: bytes) -> Passed:
        """Check a message from the server, without the line end."""
        return self._screened(raw, self._from_server)

    def give_up(self, why: str) -> list[bytes]:
        """Answers, with an error, to all requests that wait for one."""
        waiting = [request for _, _, request in self._pending.values()]
        self._pending.clear()
        return [_line(_error(identity, why)) for identity in waiting]

    def _screened(self, raw: bytes, check: Any) -> Passed:
        if len(raw) > MAX_MESSAGE:
            return self._unreadable(raw, f"more than {MAX_MESSAGE >> 20} MiB", check)
        twice = False

        def as_dict(pairs: list[tuple[str, Any]]) -> Message:
            nonlocal twice
            value = dict(pairs)
            twice = twice or len(value) != len(pairs)
            return value

        try:
            whole = read_json(raw, pairs=as_dict)
        except (ValueError, RecursionError) as error:
            return self._unreadable(raw, str(error), check)
        passed = Passed()
        kept: list[Message] = []
        several = whole if isinstance(whole, list) else [whole]
        changed = twice  # a reader may take the other value of a key that stands twice
        for message in several:
            if not isinstance(message, dict):
                return self._unreadable(raw, "no object", check)
            try:
                before = len(passed.answers)
                touched = check(message, passed.answers)
                if touched is None:
                    changed = True
                    continue
                changed = changed or touched or len(passed.answers) > before
                if touched:
                    _line(message)  # a number that JSON does not have is found here
                kept.append(message)
            except Exception as error:  # whatever fails in the guard, a message is answered  # noqa: BLE001
                _log.warning("a message could not be checked: %s", type(error).__name__)
                if self.on_error == "allow":
                    kept.append(message)
                    continue
                changed = True
                identity = message.get("id")
                failed = _error(identity, f"turnwise could not check this: {type(error).__name__}")
                if "method" in message and check == self._from_client:
                    self._pending.pop(_key(identity), None)
                    passed.answers += [_line(failed)] if identity is not None else []
                elif identity is not None:
                    kept.append(failed)
        if kept:
            passed.forward = raw if not changed else _line(kept if isinstance(whole, list) else kept[0])
        return passed

    def _unreadable(self, raw: bytes, why: str, check: Any) -> Passed:
        """What becomes of a message that is no JSON within bounds."""
        if not raw.strip():
            return Passed(raw)
        _log.warning("a message can't be read: %s", why[:200])
        if self.on_error == "allow":
            return Passed(raw)
        if check == self._from_client:
            return Passed(None, [_line(_error(None, f"turnwise can't read this: {why[:200]}", -32700))])
        if raw.lstrip()[:1] not in (b"{", b"["):
            return Passed()  # a line of a log: no client reads it
        failed = self.give_up("turnwise withheld an answer of the server that it can't read")
        return Passed(b"\n".join(failed) if failed else None)

    # From the client; None holds the message back, else whether it was changed

    def _from_client(self, message: Message, answers: list[bytes]) -> bool | None:
        method, identity = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            asked = isinstance(identity, str) and identity in self._held
            return self._approved(message, answers) if asked else False
        name = params.get("name", params.get("uri", ""))
        name = name if isinstance(name, str) else ""
        if "id" in message:
            keep_latest(self._pending, _key(identity), (method, name, identity), _MOST)
        if method == "initialize":
            able = params.get("capabilities")
            self._can_ask[0] = self._elicits and isinstance(able, dict) and "elicitation" in able
        if method != "tools/call":
            return False
        if name in self._left_out:
            return self._refuse(message, "its description was withheld", answers)
        given = params.get("arguments")
        result = self._pipeline.check_tool_call(
            name,
            given if isinstance(given, dict) else json.dumps({} if given is None else given),
            conversation=self._conversation,
            call_id=_key(identity),
            # Guardrails look some turns back, and read all calls of each: one of its own keeps that short.
            turn_number=self._conversation.add_prompt("").number,
        )
        if not result.blocked:
            redacts = any(detail.redactions for detail in result.details.values())
            if redacts:
                params["arguments"] = read_json(result.text)
            return redacts
        reason = "; ".join(result.reasons) or "no reason was given"
        if result.asks and self._can_ask[0] and identity is not None:
            question = f"turnwise-{sha256(_line(message)).hexdigest()[:16]}"
            self._held[question] = message
            answers.append(_line(_request(question, f"Allow the call of {name}? {reason}")))
            return None
        return self._refuse(message, reason, answers)

    def _approved(self, message: Message, answers: list[bytes]) -> bool | None:
        """Go on with a call that the user was asked about, in place of the answer."""
        held = self._held.pop(message["id"])
        result = message.get("result")
        if isinstance(result, dict) and result.get("action") == "accept":
            message.clear()
            message.update(held)
            return True
        return self._refuse(held, "the user did not approve", answers)

    def _refuse(self, call: Message, reason: str, answers: list[bytes]) -> bool | None:
        """Answer a call that is held back, so that the agent can go on; None."""
        identity, params = call.get("id"), call.get("params", {})
        self._pending.pop(_key(identity), None)
        text = f"{CALL_WITHHELD} turnwise: {reason}"
        result: Message = {"content": [{"type": "text", "text": text}], "isError": True}
        meta = params.get("_meta")
        if isinstance(meta, dict) and _VERSION in meta:
            result["resultType"] = "complete"
        if "task" in params:  # whose answer would be a task
            answers.append(_line(_error(identity, text)))
        elif "id" in call:
            answers.append(_line({"jsonrpc": "2.0", "id": identity, "result": result}))
        return None

    # From the server

    def _from_server(self, message: Message, _: list[bytes]) -> bool | None:
        if "result" not in message and "error" not in message:
            return False
        forged = message.pop("method", None) is not None  # some clients would take it for an answer
        method, name, identity = self._pending.pop(_key(message.get("id")), ("", "", message.get("id")))
        result = message.get("result")
        if "error" not in message and isinstance(result, dict):
            if (key := _LISTS.get(method)) is not None:
                return self._listed(result, key, method == "tools/list") or forged
            if method in ("initialize", "server/discover"):
                return self._instructions(result) or forged
        if method and method not in _CHECKED:
            return forged
        parts = [] if "result" not in message else _texts_of(message, "result")
        if "error" in message:
            parts += _parts_of(message, "error", ("message", "data"))
        return self._checked(message, parts, method, name, identity) or forged

    def _checked(
        self, message: Message, parts: list[tuple[Any, Any]], method: str, name: str, identity: Any
    ) -> bool:
        """Check texts of an answer together, and write back what is redacted."""
        parts = [
            (holder, key) for holder, key in parts if key != "uri" or holder[key] != name
        ]  # as it was asked for
        if not parts:
            return False
        values = {json.dumps(holder[key]): None for holder, key in parts}  # many servers say a text twice
        arguments = Arguments(f"[{', '.join(values)}]")
        here = self._conversation
        if method in ("prompts/get", "resources/read"):
            result = self._pipeline.check_context(arguments.text, name=name, conversation=here)
        else:
            result = self._pipeline.check_tool_result(
                arguments.text, conversation=here, call_id=_key(identity), name=name or method
            )
        if result.blocked:
            _withhold(message, parts, tool=method == "tools/call")
            return True
        redactions = [detail.redactions for detail in result.details.values() if detail.redactions]
        if redactions:
            after = dict(zip(values, json.loads(arguments.redacted(redactions)), strict=True))
            for holder, key in parts:
                holder[key] = after[json.dumps(holder[key])]
        return bool(redactions)

    def _instructions(self, result: Message) -> bool:
        if "instructions" not in result or self._is_fine("instructions of the server", result["instructions"]):
            return False
        del result["instructions"]
        return True

    def _listed(self, result: Message, key: str, tools: bool) -> bool:
        """Check the descriptions of a list, and leave out or bare those that are blocked."""
        items = result.get(key)
        if not isinstance(items, list):
            return False
        kept = []
        for item in items:
            if not isinstance(item, dict):
                continue
            name = str(item.get("name", ""))
            if self._is_described(name, item):
                self._left_out.discard(name)
                kept.append(item)
                continue
            bare = _bare(item)
            if self._descriptions == "withhold" and self._is_described(name, bare):
                kept.append({**bare, "description": "[description withheld]"})
            elif tools and len(self._left_out) < _MOST:
                self._left_out.add(name)
        result[key] = kept
        return kept != items

    def _is_described(self, name: str, item: Message) -> bool:
        """Whether all that is said of a tool, prompt or resource is let through."""
        digest = sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()
        if digest in self._fine:
            return True
        schema = item.get("inputSchema")
        rest = {key: value for key, value in item.items() if key not in ("name", "description", "inputSchema")}
        description = item.get("description", "")
        description = description if isinstance(description, str) else json.dumps(description)
        result = self._pipeline.check_tool_description(
            name, description, schema if isinstance(schema, dict) else None, conversation=self._conversation
        )
        fine = not result.blocked and (not rest or self._is_fine(name, rest))
        if fine:
            keep_latest(self._fine, digest, None, _MOST)
        return fine

    def _is_fine(self, name: str, value: Any) -> bool:
        """Whether what else a server says of something is let through as it is."""
        text = Arguments(json.dumps(value)).text
        result = self._pipeline.check_context(text, name=name, conversation=self._conversation)
        return not result.blocked and result.text == text


_TYPES: Final = frozenset({"type", "mimeType", "role", "lastModified"})

_CHECKED: Final = frozenset({"tools/call", "tasks/result", "prompts/get", "resources/read"})
"""Methods whose answers are texts for the model."""


def _texts_of(message: Message, place: str) -> list[tuple[Any, Any]]:
    """Where an answer holds what a model reads: texts, and values that are read as a whole."""
    result = message[place]
    if not isinstance(result, dict):
        return [(message, place)]
    parts: list[tuple[Any, Any]] = []
    known = {"_meta", "isError", "resultType", "content", "contents", "messages", "ttlMs", "cacheScope"}
    for key in ("content", "contents", "messages"):
        held = result.get(key)
        for at, block in enumerate(held) if isinstance(held, list) else ():
            inner = block.get("content") if isinstance(block, dict) and key == "messages" else None
            if inner is None:
                parts += _of_block(held, at)
            elif isinstance(inner, list):
                parts += [part for place in range(len(inner)) for part in _of_block(inner, place)]
            else:
                parts += _of_block(block, "content")
        if held is not None and not isinstance(held, list):
            parts.append((result, key))
    wrapped = result.get("structuredContent")
    if isinstance(wrapped, dict) and wrapped.keys() == {"result"} and isinstance(wrapped["result"], str):
        parts.append((wrapped, "result"))
        known.add("structuredContent")
    return parts + [(result, key) for key in result if key not in known and _says(key, result[key])]


def _of_block(holder: Any, key: Any) -> list[tuple[Any, Any]]:
    """The texts of a block of content; of pictures and sound, which nobody reads, what else it says."""
    block = holder[key]
    if not isinstance(block, dict):
        return [(holder, key)] if block else []
    silent = {"blob", "_meta"} | ({"data"} if block.get("type") in ("image", "audio") else set())
    parts: list[tuple[Any, Any]] = []
    for at, value in block.items():
        if at == "resource" and isinstance(value, dict):
            parts += _of_block(block, at)
        elif at not in silent and _says(at, value):
            parts.append((block, at))
    return parts


def _says(key: object, value: Any) -> bool:
    """Whether a value may say something: all but numbers, nothing, and plain names of types."""
    if isinstance(value, str):
        return bool(value) and not (key in _TYPES and is_ordinary(value))
    return isinstance(value, dict | list) and bool(value)


def _parts_of(message: Message, key: str, keys: tuple[str, ...]) -> list[tuple[Any, Any]]:
    holder = message[key]
    return [(holder, one) for one in keys if one in holder] if isinstance(holder, dict) else [(message, key)]


def _withhold(message: Message, parts: list[tuple[Any, Any]], *, tool: bool) -> None:
    if tool and "result" in message:
        kept = {key: message["result"][key] for key in ("resultType",) if key in message["result"]}
        message["result"] = {**kept, "content": [{"type": "text", "text": WITHHELD_RESULT}], "isError": True}
        return
    for holder, key in parts:
        holder[key] = "withheld:" if key in ("uri", "uriTemplate") else WITHHELD_RESULT


def _bare(value: Any) -> Any:
    """What is left of a description without what only describes."""
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key not in _ABOUT or isinstance(item, bool)}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _key(identity: Any) -> str:
    """An id as it is compared: some clients take 1, 1.0 and "1" for the same."""
    if isinstance(identity, float) and identity.is_integer():
        identity = int(identity)
    return str(identity)[:200]


def _request(identity: str, text: str) -> Message:
    schema = {"type": "object", "properties": {}}
    params = {"mode": "form", "message": text, "requestedSchema": schema}
    return {"jsonrpc": "2.0", "id": identity, "method": "elicitation/create", "params": params}


def _error(identity: Any, text: str, code: int = -32603) -> Message:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": text}}


def _line(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
