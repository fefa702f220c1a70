"""Texts beside the messages of a conversation, from tool descriptions, documents and memory; approved tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, Turn
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import CONTEXT_KEY
from turnwise.errors import GuardError
from turnwise.guard.finding import CONTEXT, TextKind
from turnwise.guard.guardrail import ToolText
from turnwise.guard.request import Arguments, encodable

SEEN: Final = "tool_descriptions"
"""Key of a conversation's metadata: the digest of each tool's description as it was let through first."""

_MOST: Final = 1_000
"""Texts of a turn, and tools of a conversation, that are kept at most."""

_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters", "schema")
"""Where MCP, Anthropic and OpenAI have the schema of a tool."""


class ContextText(NamedTuple):
    """A description, document or memory of a turn; `name` is of its tool or source, `digest` of a description."""

    kind: TextKind
    name: str
    text: str
    digest: str


def context_of(turn: Turn) -> Iterator[ContextText]:
    """The texts that stood beside the messages of a turn; what is not as the guard keeps it is left out."""
    kept = turn.own_metadata.get(CONTEXT_KEY)
    for one in kept.values() if isinstance(kept, dict) else ():
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
        kept = turn.own_metadata.get(CONTEXT_KEY)
        kept = dict(kept) if isinstance(kept, dict) else {}
        identity = f"{kind}_{len(kept) + 1}" if kind is not TextKind.TOOL_DESCRIPTION or not name else name
        kept[identity] = [str(kind), name, text, digest]
        if len(kept) > _MOST:
            del kept[next(iter(kept))]
        turn.own_metadata[CONTEXT_KEY] = kept
    return turn, ToolText(kind, name, identity, digest=digest)


def replace_context(turn: Turn, identity: str, text: str) -> None:
    """Put another text in the place of one that `take_context` added."""
    kept = turn.own_metadata.get(CONTEXT_KEY)
    if isinstance(kept, dict) and identity in kept:
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
        known = chat.metadata.get(SEEN)
        known = known if isinstance(known, dict) else {}
        if name not in known and len(known) < _MOST:
            chat.metadata[SEEN] = {**known, name: digest}


def seen_digest(chat: Conversation, name: str) -> str | None:
    """The digest of a tool's description as it was let through first; None where there was none."""
    known = chat.metadata.get(SEEN)
    digest = known.get(name) if isinstance(known, dict) else None
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
