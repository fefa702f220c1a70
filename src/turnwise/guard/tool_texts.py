"""Texts of tools and beside messages: arguments of calls, descriptions, documents and memory."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, Turn
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import CONTEXT_KEY
from turnwise.errors import GuardError
from turnwise.guard.finding import CONTEXT, Redaction, TextKind
from turnwise.guard.guardrail import ToolText

if TYPE_CHECKING:
    from turnwise.guard.results import Detail


def encodable(text: str) -> str:
    """A text as it is; halves of surrogate pairs, which UTF-8 does not have, become U+FFFD.

    >>> encodable("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# The arguments of a tool call: read as a text that guardrails can check, and written back with redactions

_NO_JSON: Final = object()

_CONSTANTS: Final = {True: "true", False: "false", None: "null"}


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key that comes twice is kept twice."""


class Arguments:
    """The arguments of a tool call, as the model gave them (`raw`) and as a text to check.

    The text of JSON has each key and value decoded: a value of one word behind its key, others on lines of their
    own. What is not JSON is its own text.

    >>> arguments = Arguments('{"to": "ann@example.com", "text": "See you \\\\u0061t 9"}')
    >>> print(arguments.text)
    to: ann@example.com
    text:
    See you at 9
    >>> arguments.redacted([(Redaction(4, 19, "email"),)])
    '{"to": "[EMAIL]", "text": "See you at 9"}'
    """

    __slots__ = ("_leaves", "_value", "raw", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._leaves: list[tuple[int, int]] = []
        try:
            self._value = read_json(raw, pairs=_Object)
        except ValueError:
            self._value = _NO_JSON
            self.text = encodable(raw)
            return
        parts: list[str] = []
        at = 0
        for text, is_leaf in _told(self._value):
            if is_leaf:
                self._leaves.append((at, at + len(text)))
            parts.append(text)
            at += len(text)
        self.text = "".join(parts)

    def redacted(self, redactions: Iterable[Sequence[Redaction]]) -> str:
        """The arguments with redactions; each guardrail's offsets count in what the one before left of it."""
        text, leaves = self.text, self._leaves
        for some in redactions:
            text, leaves = _replaced(text, leaves, some)
        if text == self.text:
            return self.raw
        if self._value is _NO_JSON:
            return text
        before = (self.text[start:end] for start, end in self._leaves)
        after = (text[start:end] for start, end in leaves)
        return _written(self._value, zip(before, after, strict=True))


def redacted_parts(parts: Sequence[str], details: Iterable[Detail]) -> list[str]:
    """Parts of a text, joined by line breaks when it was checked, with what guardrails replaced in each.

    >>> from turnwise.guard.results import Detail, GuardrailStatus
    >>> name = Redaction(3, 6, "name")
    >>> redacted_parts(["to ann", "bob"], [Detail(GuardrailStatus.EVALUATED, redactions=(name,))])
    ['to [NAME]', 'bob']
    """
    text = "\n".join(parts)
    ends = list(accumulate((len(part) + 1 for part in parts), initial=0))
    leaves = [(start, end - 1) for start, end in pairwise(ends)]
    for detail in details:
        if detail.redactions:
            text, leaves = _replaced(text, leaves, detail.redactions)
    return [text[start:end] for start, end in leaves]


def _told(value: Any) -> Iterator[tuple[str, bool]]:
    """Yield a value as text in pieces, each with whether it is a key or value."""
    if isinstance(value, _Object):
        for place, (key, item) in enumerate(value):
            yield ("\n" if place else ""), False
            yield encodable(key), True
            inner = isinstance(item, list) or _text(item).split() != [_text(item)]
            yield (":\n" if inner else ": "), False
            yield from _told(item)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ("\n" if place else ""), False
            yield from _told(item)
    else:
        yield _text(value), True


def _text(value: Any) -> str:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, bool) or value is None:
        return _CONSTANTS[value]
    return "" if isinstance(value, list) else str(value)


def _replaced(
    text: str, leaves: Sequence[tuple[int, int]], redactions: Sequence[Redaction]
) -> tuple[str, list[tuple[int, int]]]:
    """A text with stretches replaced, and where its keys and values then stand."""
    parts, end = [], 0
    for redaction in redactions:
        parts += [text[end : redaction.start], redaction.placeholder]
        end = redaction.end
    starts, ends = [one.start for one in redactions], [one.end for one in redactions]
    grown = [len(one.placeholder) - (one.end - one.start) for one in redactions]
    shifts = list(accumulate(grown, initial=0))

    def moved(at: int) -> int:
        """Where an offset moves to; one within a replaced stretch goes behind its placeholder."""
        whole = bisect_right(ends, at)
        within = bisect_left(starts, at)
        return (ends[whole] + shifts[whole + 1]) if within > whole else at + shifts[whole]

    return "".join([*parts, text[end:]]), [(moved(start), moved(end)) for start, end in leaves]


def _written(value: Any, leaves: Iterator[tuple[str, str]]) -> str:
    """A value as JSON, with each key and value as it is now; one that changed is written as a string."""
    if isinstance(value, _Object):
        pairs = [(_leaf(key, leaves), _written(item, leaves)) for key, item in value]
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(item, leaves) for item in value) + "]"
    return _leaf(value, leaves)


def _leaf(value: Any, leaves: Iterator[tuple[str, str]]) -> str:
    before, after = next(leaves)
    return json.dumps(value if after == before else after, ensure_ascii=False)


SEEN: Final = "tool_descriptions"
"""Key of a conversation's metadata: the digest of each tool's description as it was let through first."""

_MOST: Final = 1_000  # texts of a turn, and tools of a conversation, that are kept at most

_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters", "schema")
"""Where MCP, Anthropic and OpenAI have the schema of a tool."""


class ContextText(NamedTuple):
    """A description, document or memory of a turn; `name` is of its tool or source, `digest` of a description."""

    kind: TextKind
    name: str
    text: str
    digest: str


def _dict_at(metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = metadata.get(key)
    return value if isinstance(value, dict) else {}


def context_of(turn: Turn) -> Iterator[ContextText]:
    """The texts that stood beside the messages of a turn; what is not as the guard keeps it is left out."""
    for one in _dict_at(turn.own_metadata, CONTEXT_KEY).values():
        if isinstance(one, list) and [*map(type, one)] == [str] * 4 and one[0] in CONTEXT:
            yield ContextText(TextKind(one[0]), *one[1:])


def take_context(
    chat: Conversation, kind: TextKind, name: str, text: str, digest: str = ""
) -> tuple[Turn, ToolText]:
    """Add a text to the last turn of a conversation; without one, to a turn that waits for no response."""
    with chat.history.lock:
        turn = chat.history.last
        if turn is None:
            turn = chat.history.add("", metadata={CONTEXT_KEY: {}}, timestamp=chat.history.now())
        kept = dict(_dict_at(turn.own_metadata, CONTEXT_KEY))
        identity = f"{kind}_{len(kept) + 1}" if kind is not TextKind.TOOL_DESCRIPTION or not name else name
        kept[identity] = [str(kind), name, text, digest]
        if len(kept) > _MOST:
            del kept[next(iter(kept))]
        turn.own_metadata[CONTEXT_KEY] = kept
    return turn, ToolText(kind, name, identity, digest=digest)


def replace_context(turn: Turn, identity: str, text: str) -> None:
    """Put another text in the place of one that `take_context` added."""
    kept = _dict_at(turn.own_metadata, CONTEXT_KEY)
    if identity in kept:
        turn.own_metadata[CONTEXT_KEY] = {**kept, identity: [*kept[identity][:2], text, *kept[identity][3:]]}


# Descriptions of tools


def description_text(description: str, schema: Mapping[str, Any] | None) -> str:
    """What a description says, with keys and values of the schema of its parameters."""
    if not schema:
        return encodable(description)
    return f"{encodable(description)}\n\n{Arguments(json.dumps(json_object(schema, 'schema'))).text}"


def digest_of_tool(name: str, description: str, schema: Mapping[str, Any] | None) -> str:
    """The SHA-256 of all that describes a tool, in hexadecimal.

    >>> digest_of_tool("add", "Adds.", {"a": 1, "b": 2}) == digest_of_tool("add", "Adds.", {"b": 2, "a": 1})
    True
    """
    whole = [name, description, json_object(schema or {}, "schema")]
    return sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def note_seen(chat: Conversation, name: str, digest: str) -> None:
    """Remember the description of a tool that was let through, unless an earlier one is known."""
    with chat.history.lock:
        known = _dict_at(chat.metadata, SEEN)
        if name not in known and len(known) < _MOST:
            chat.metadata[SEEN] = {**known, name: digest}


def seen_digest(chat: Conversation, name: str) -> str | None:
    """The digest of a tool's description as it was let through first; None where there was none."""
    digest = _dict_at(chat.metadata, SEEN).get(name)
    return digest if isinstance(digest, str) else None


def approve_tools(tools: Iterable[Mapping[str, Any]], path: str | PathLike[str]) -> dict[str, str]:
    """Approve descriptions of tools as they are now, and return the digest of each by name.

    They are added to the file, which the setting ``approved`` of the guardrail ``sources`` names. It holds SHA-256
    digests alone.

    Args:
        tools: descriptions as MCP, OpenAI or Anthropic have them, with ``name``, ``description`` and a schema.
        path: the file, JSON; it is made where it is missing.

    Raises:
        GuardError: a tool without a name, or a file that can't be read or written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     approved = approve_tools([{"name": "add", "description": "Adds."}], f"{folder}/approved.json")
    ...     approved == read_approved(f"{folder}/approved.json")
    True
    """
    path, digests = Path(path), {}
    for place, tool in enumerate(tools, start=1):
        inner = tool.get("function") if isinstance(tool, Mapping) else None
        inner = inner if isinstance(inner, Mapping) else tool
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if not isinstance(name, str) or not name:
            raise GuardError(f"tool {place} has no name; give objects with name, description and a schema")
        schema = next((inner[key] for key in _SCHEMAS if isinstance(inner.get(key), Mapping)), None)
        digests[name] = digest_of_tool(name, str(inner.get("description") or ""), schema)
    approved = {**(read_approved(path) if path.exists() else {}), **digests}
    try:
        written = path.with_name(f"{path.name}.new")
        written.write_text(json.dumps({"tools": approved}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        written.replace(path)
    except OSError as error:
        raise GuardError(f"{path}: approved tools can't be written: {error}") from error
    return digests


def read_approved(path: str | PathLike[str]) -> dict[str, str]:
    """The digests of approved descriptions in a file of `approve_tools`, by name of the tool."""
    try:
        data = read_json(Path(path).read_text(encoding="utf-8"))
        tools = data["tools"]
        if all(isinstance(one, str) for pair in tools.items() for one in pair):
            return dict(tools)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GuardError(
            f"{path}: approved tools can't be read: {error}; approve them with approve_tools"
        ) from error
    raise GuardError(f'{path}: approved tools are {{"tools": {{name: digest}}}}; approve them with approve_tools')
