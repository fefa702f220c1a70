"""Files that a guard wrote, read as conversations: its audit, and what `Conversation.to_dict` gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, Label, Sequence
from turnwise.conversation.participants import FIELDS
from turnwise.datasets import BadRecord
from turnwise.errors import ConversationError
from turnwise.guard.audit.chain import ERASURE, TORN
from turnwise.guard.audit.query import problem_of
from turnwise.guard.audit.record import CHECK, GAP
from turnwise.guard.guardrail import TextKind

_MOST: Final = 64 * 1024**2
"""Bytes of a line, or of a conversation that is written over several lines."""


def recorded(file: str | Path) -> Iterator[Sequence | BadRecord] | None:
    """Return the conversations of an audit, or of a file of conversations as JSON; None for another file.

    What can't be read comes as a `BadRecord`.

    Args:
        file: JSON Lines as an audit writes them, or conversations as `Conversation.to_dict` gives them: a single
            one, or one a line. Unknown keys of an audit are passed over.
    """
    path = Path(file)
    if not path.is_file():
        return None
    with path.open("rb") as lines:
        first, second = lines.readline(_MOST), lines.readline(_MOST)
    head = _json(first)
    # Behind a line that a crash cut off stands an event that says so.
    if _is_event(head) or (head is None and _is_event(_json(second))):
        return _audited(_lines(path))
    if head is None and first.lstrip().startswith(b"{") and path.stat().st_size <= _MOST:
        whole = path.read_bytes()
        return _conversations([(1, whole)]) if _is_conversation(_json(whole)) else None
    return _conversations(_lines(path)) if _is_conversation(head) else None


def _json(text: bytes) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as lines:
        yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _is_event(data: Any) -> bool:
    return isinstance(data, dict) and data.get("kind") in (CHECK, GAP, ERASURE, TORN) and "time" in data


def _is_conversation(data: Any) -> bool:
    return isinstance(data, dict) and {"conversation_id", "participants", "turns"} <= data.keys()


def _conversations(lines: Iterable[tuple[int, bytes]]) -> Iterator[Sequence | BadRecord]:
    for number, line in lines:
        try:
            yield _sequence(Conversation.from_dict(read_json(line)), "conversations", number)
        except ValueError as error:
            yield BadRecord(number, str(error))


def _audited(lines: Iterable[tuple[int, bytes]]) -> Iterator[Sequence | BadRecord]:
    """The conversations of an audit in the order in which they began, after the lines that can't be read."""
    found: dict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = {}
    for number, line in lines:
        event = _json(line)
        problem = problem_of(event)
        if problem is not None:
            yield BadRecord(number, f"not an event of an audit: {problem}")
        elif event["kind"] == GAP:
            missing = (event.get("dropped") or 0) + (event.get("unwritten") or 0)
            yield BadRecord(number, f"the audit misses {missing} checks here")
        elif event["kind"] == CHECK and not event.get("rate_limited"):
            whose = str(event.get("tenant") or ""), str(event.get("conversation_id") or "")
            found.setdefault(whose, []).append((number, event))
    for (_, name), events in found.items():
        yield _spoken(name, events)


def _spoken(name: str, events: list[tuple[int, Mapping[str, Any]]]) -> Sequence | BadRecord:
    """The conversation that was checked; turns are counted anew, since an audit may begin in the middle of one."""
    sides = events[0][1].get("participants") or {}
    chat = Conversation(
        conversation_id=name or None, participants={key: sides[key] for key in FIELDS if key in sides}
    )
    turns: dict[int, int] = {}
    line = first = events[0][0]
    try:
        for line, event in events:  # noqa: B007 - the line is told where its event can't be read
            turns[event["turn"]] = _said(chat, event, turns.get(event["turn"]))
        return _sequence(chat, "audit", first)
    except (KeyError, ValueError, TypeError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        return BadRecord(line, f"the conversation can't be put together: {missing}")


def _said(chat: Conversation, event: Mapping[str, Any], turn: int | None) -> int:
    """Add a text of an audit to a conversation; returns the number of its turn."""
    text, side, time = event.get("text"), event["side"], datetime.fromisoformat(event["time"])
    if text is None:
        raise ConversationError("the audit holds no text of it; replay needs one with text: redacted, or raw")
    if side == TextKind.INPUT:
        return chat.add_prompt(text, timestamp=time).number
    if side == TextKind.TOOL_CALL:
        return chat.tools.take_call(event["tool"], text, call_id=event["call_id"], turn_number=turn)[0].number
    if side == TextKind.TOOL_RESULT:
        return chat.tools.take_result(
            text, call_id=event["call_id"], name=event["tool"] or None, turn_number=turn
        )[0].number
    if turn is None:
        return chat.add_turn("", text, timestamp=time, response_timestamp=time).number
    if chat.turn(turn).complete:  # it was blocked, and this one came in its place
        return chat.history.rephrase(turn, text).number
    return chat.add_response(text, turn_number=turn, timestamp=time).number


def _sequence(chat: Conversation, source: str, line: int) -> Sequence:
    return Sequence(chat.conversation_id, Label.UNLABELLED, source, chat, line=line)
