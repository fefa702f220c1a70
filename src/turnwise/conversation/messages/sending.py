"""The messages of a turn with tools as a model may be sent them, without what a guard withholds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Sequence as Items
from typing import Any, Final

from turnwise.conversation.tool_log import CALLS, RESULTS, Place, ToolLog

WITHHELD_RESULT: Final = "[tool result withheld]"
"""What a model is sent in place of a result that a guard blocked or still checks: providers ask for one to each
call."""


def sendable(
    messages: Items[dict[str, Any]],
    *,
    withheld: Collection[tuple[str, str]],
    silent: Collection[int],
    gone: set[str],
) -> list[dict[str, Any]]:
    """The messages of a turn as a model may be sent them; the messages themselves are changed.

    A withheld call is left out with its result. A withheld result becomes `WITHHELD_RESULT`, since a call must
    have one. A message of which nothing is left is left out.

    `withheld` has pairs of `CALLS` or `RESULTS` and an id, `silent` the indices of the assistant's messages whose
    text must not go on, and `gone` the ids of calls that were left out so far, to which those of this turn are
    added.
    """
    log = ToolLog(list(messages))
    emptied: dict[int, set[Place]] = {}
    dropped = {call.call_id for call in log.calls.values() if (CALLS, call.call_id) in withheld}
    for identity in dropped:
        place = log.calls[identity].place
        emptied.setdefault(place.message, set()).add(place)
    gone |= dropped
    for result in log.results.values():
        if result.call_id in (gone if result.alone else dropped):
            emptied.setdefault(result.place.message, set()).add(result.place)
        elif (RESULTS, result.call_id) in withheld:
            log.replace(result, WITHHELD_RESULT)
    kept = []
    for at, message in enumerate(log.messages):
        places = emptied.get(at, ())
        left = _without(message, places) if places else message
        if at in silent:
            left = without_text(left)
        if left is message or says_anything(left):
            kept.append(left)
    return kept


def _without(message: dict[str, Any], places: Iterable[Place]) -> dict[str, Any]:
    left = dict(message)
    for key in {place.key for place in places}:
        indices = {place.at for place in places if place.key == key}
        if None in indices:
            left.pop(key)
            continue
        rest = [one for index, one in enumerate(message[key]) if index not in indices]
        if rest:
            left[key] = rest
        else:
            left.pop(key)
    return left


def without_text(message: dict[str, Any]) -> dict[str, Any]:
    """A message without its words; calls stay."""
    content = message.get("content")
    if isinstance(content, list):
        calls = [part for part in content if isinstance(part, Mapping) and part.get("type") == "tool_use"]
        return {**message, "content": calls or None, "refusal": None} if calls else {**message, "content": None}
    return {**{key: value for key, value in message.items() if key != "refusal"}, "content": None}


def says_anything(message: Mapping[str, Any]) -> bool:
    """Whether a message holds words, parts or calls."""
    keys = ("content", "tool_calls", "function_call", "call", "value")
    return any(message.get(key) for key in keys)
