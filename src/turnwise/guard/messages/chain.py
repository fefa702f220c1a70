"""Messages as links of a chain: each digest stands for a message and all messages before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation.message_entries import (
    TEXT_PARTS,
    MessageEntry,
    Role,
    is_thinking,
    read_calls,
    read_results,
)
from turnwise.guard.names import short_id
from turnwise.sessions.state_store import StateKind

_DIGITS: Final = 32  # hexadecimal digits of a digest that are kept

_OURS: Final = frozenset({Role.SYSTEM, Role.DEVELOPER})
"""Roles of who runs the model. They say other things from call to call, such as the date: no part of the chain."""

_NOTED: Final = 5  # messages that were never seen as output of which the places are kept; of more the number alone


class CallerView(NamedTuple):
    """Whether a caller keeps texts `sent` to the model, and texts `said` by it, as they were before redaction."""

    sent: bool
    said: bool


VIEWS: Final = (CallerView(True, True), CallerView(False, False), CallerView(True, False), CallerView(False, True))
"""All ways to keep it; a message has a digest in each, and most often all four are one."""


@dataclass(frozen=True, slots=True)
class ChainedMessage:
    """What one message says, as far as it counts for the chain."""

    role: str
    texts: tuple[str, ...]  # in the order of their checks: results of tools, text, arguments of calls
    rest: tuple[str, ...]  # names of tools, its own, ``text`` where it has one, a digest of what nobody reads
    place: int  # index in the list

    @property
    def by_model(self) -> bool:
        """Whether the model said it."""
        return self.role == Role.ASSISTANT

    @property
    def opens(self) -> bool:
        """Whether it is a prompt, which begins a turn."""
        return self.role == Role.USER and "text" in self.rest

    def steps(self) -> int:
        """How many calls and results of tools it holds."""
        return len(self.texts) - ("text" in self.rest)

    def after(self, before: str, texts: Iterable[str] | None = None) -> str:
        """Its digest after the digest `before`; `texts` stand in for its own, such as redacted ones."""
        told = self.texts if texts is None else tuple(texts)
        plain = [plain_text(text) if self.by_model else text for text in told]
        raw = json.dumps([before, self.role, plain, self.rest], ensure_ascii=True).encode("ascii")
        return sha256(raw).hexdigest()[:_DIGITS]


def root_of(*scope: str) -> str:
    """The digest that a chain begins with; `scope` keeps chains apart, such as by the id of a conversation.

    >>> root_of("id", "chat-7") == root_of("id", "chat-8")
    False
    """
    return sha256(json.dumps(["turnwise", *scope]).encode("ascii")).hexdigest()[:_DIGITS]


def chain_of(entries: Iterable[MessageEntry]) -> list[ChainedMessage]:
    """What the messages of a list say, without those of who runs the model."""
    return [_said(entry, place) for place, entry in enumerate(entries) if entry.role not in _OURS]


def _said(entry: MessageEntry, place: int) -> ChainedMessage:
    results, calls = [one.text for one in read_results(entry.raw)], list(read_calls(entry.raw))
    spoken = entry.text is not None and entry.role in (Role.USER, Role.ASSISTANT)
    role = str(Role.TOOL if entry.role is Role.FUNCTION else entry.role)
    texts = (*results, *((entry.text or "",) if spoken else ()), *(call.text for call in calls))
    told = [*(("text",) if spoken else ()), *(f"call:{call.name}" for call in calls)]
    told += [f"name:{entry.raw['name']}"] if entry.raw.get("name") else []
    unread = _unread(entry.raw)
    return ChainedMessage(role, texts, (*told, unread) if unread else tuple(told), place)


def _unread(raw: Any) -> str:
    """A digest of the parts of a message that hold no text; empty where there are none."""
    content = raw.get("content")
    parts = content if isinstance(content, list) else ()
    read = (*TEXT_PARTS, "tool_use", "tool_result")
    left = [part for part in parts if part.get("type") not in read and not is_thinking(part)]
    if not left:
        return ""
    return sha256(json.dumps(left, sort_keys=True).encode("ascii")).hexdigest()[:_DIGITS]


def plain_text(text: str) -> str:
    """A text of the model in one form, however a client keeps it: no white space around it, or in its JSON."""
    if text[:1] == "{":
        try:
            return json.dumps(read_json(text), sort_keys=True)
        except (ValueError, RecursionError):
            pass
    return text.strip()


class MessageCheck(NamedTuple):
    """One check of a message, as its turn keeps it."""

    kind: str
    call_id: str  # empty where there is none; a text has that of the first call beside it
    time: str  # when the check ended


@dataclass(frozen=True, slots=True)
class ChainLink:
    """Where a conversation stood after a message."""

    conversation_id: str  # empty before the first message of a chain
    turn: int  # 0 before the first turn
    steps: int  # calls and results of tools in the turn so far
    spoken: bool  # the response of the turn was given
    views: tuple[str, ...]  # its digests, one for each of `VIEWS`
    checked: tuple[MessageCheck, ...] = ()  # of the message, and of results right before it
    depth: int = 0  # messages so far
    forged: int = 0  # those of the model's that were never seen as output
    noted: tuple[int, ...] = ()  # the first of these, by index in the chain
    before: str = ""  # name of the conversation that forks are named after
    clean: bool = True  # everything so far went on as it was sent

    @classmethod
    def root(cls, digest: str, conversation_id: str = "") -> ChainLink:
        """Where a chain begins."""
        return cls(conversation_id, 0, 0, False, (digest,) * len(VIEWS))

    @property
    def place(self) -> str:
        """The digest that names it."""
        return self.views[0]

    def then(self, said: ChainedMessage, texts: Sequence[str] | None = None, *, seen: bool = True) -> ChainLink:
        """Where it stands after one more message; `texts` may go on of it, `seen` is that a check has read it."""
        on = said.texts if texts is None else tuple(texts)
        views = tuple(
            said.after(before, said.texts if (view.said if said.by_model else view.sent) else on)
            for view, before in zip(VIEWS, self.views, strict=True)
        )
        opens = said.opens
        steps = said.steps()
        forged = not seen and said.by_model
        return replace(
            self,
            turn=self.turn + opens if self.turn or opens else 1,
            steps=0 if opens else self.steps + steps,
            spoken=False if opens or steps else self.spoken or said.by_model,
            views=views,
            checked=(),
            clean=self.clean and on == said.texts,
            depth=self.depth + 1,
            forged=self.forged + forged,
            noted=(*self.noted, self.depth) if forged and len(self.noted) < _NOTED else self.noted,
        )


def _dump(link: ChainLink) -> bytes:
    values = [
        *(link.conversation_id, link.turn, link.steps, link.spoken, list(dict.fromkeys(link.views))),
        [link.views.index(view) for view in link.views],
        *(link.checked, link.depth, link.forged, link.noted, link.before, link.clean),
    ]
    return json.dumps(values, separators=(",", ":")).encode("ascii")


def _load(data: bytes, key: str, version: int) -> ChainLink:
    values = read_json(data.decode("ascii"))
    name, turn, steps, spoken, digests, at, checked, depth, forged, noted, before, clean = values
    if len(at) != len(VIEWS) or turn < 0 or depth < 0:
        raise ValueError(f"{len(at)} views of turn {turn}")
    known = dict(zip(dict.fromkeys(at), digests, strict=True))
    return ChainLink(
        name,
        turn,
        steps,
        spoken,
        tuple(known[index] for index in at),
        checked=tuple(MessageCheck(*one) for one in checked),
        depth=depth,
        forged=forged,
        noted=tuple(noted),
        before=before,
        clean=bool(clean),
    )


def owner_of(conversation_id: str) -> str:
    """What the links of a conversation are forgotten by."""
    return sha256(conversation_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


LINK: Final = StateKind("link", 1, _dump, _load, owner=lambda link: owner_of(short_id(link.conversation_id)))
"""Places of conversations in a state store, by digest."""
