"""What the speaker of a text said before it, in the same conversation, and what was made of each text once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypedDict, TypeVar, cast
from weakref import WeakKeyDictionary

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.tool_log import CALLS, RESULTS
from turnwise.conversation.turn import MESSAGE_KEYS
from turnwise.errors import GuardError
from turnwise.guard.finding import TextKind
from turnwise.guard.guardrail import Check
from turnwise.guard.tool_texts import Arguments

Made = TypeVar("Made")

OVER_TURNS: Final = 12  # turns before a text that are looked at with it, unless set otherwise
_MOST_TURNS: Final = 50  # turns that may be set, at most
_MOST_STEPS: Final = 12  # calls, and results, of a turn that are looked at, the latest
_END: Final = 1_000  # characters at either end of a long text that are looked at


class OverTurns(TypedDict):
    """What was found over several turns: its kind, its turns, and which of their texts had gone on before."""

    kind: str
    turns: list[int]
    sent: list[int]


def check_over_turns(name: str, turns: int) -> None:
    """Refuse a number of turns that can't be."""
    if isinstance(turns, bool) or not isinstance(turns, int) or not 0 <= turns <= _MOST_TURNS:
        raise GuardError(f"{name}: over_turns is {turns!r}; use a number of turns from 0 (off) to {_MOST_TURNS}")


def ends_of(text: str) -> str:
    """A text; of a long one its two ends, with as many blanks between that offsets are the same."""
    if len(text) <= 2 * _END:
        return text
    return f"{text[:_END]}{' ' * (len(text) - 2 * _END)}{text[-_END:]}"


@dataclass(slots=True, eq=False)
class EarlierText:
    """One text: its turn, kind, the id of its tool call, and what the other side said right before it."""

    turn: Turn
    kind: TextKind
    call_id: str | None
    text: str
    before: str = ""
    made: dict[object, Any] = field(default_factory=dict)

    def once(self, compute: Callable[[str], Made], key: object = None) -> Made:
        """What `compute` makes of the text, made once; `key` names a function that is new each time."""
        key = compute if key is None else key
        if key not in self.made:
            self.made[key] = compute(ends_of(self.text))
        return cast(Made, self.made[key])

    @property
    def sent(self) -> bool:
        """Whether it was let through, so that the other side has it."""
        if self.kind in (TextKind.INPUT, TextKind.OUTPUT):
            return not self.turn.withheld(Side.PROMPT if self.kind is TextKind.INPUT else Side.RESPONSE)
        section = CALLS if self.kind is TextKind.TOOL_CALL else RESULTS
        return (section, self.call_id) not in self.turn.withheld_tools()


_Place = tuple[int, TextKind, str | None]
# Texts of live conversations within reach of the next check, so that each is read once and not at every check.
_KEPT: WeakKeyDictionary[Conversation, dict[_Place, EarlierText]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def drop_texts(conversation: Conversation) -> None:
    """Keep no text of a conversation any more, since one was replaced."""
    with _LOCK:
        _KEPT.pop(conversation, None)


def over_turns(kind: str, texts: Sequence[EarlierText], current: EarlierText) -> tuple[OverTurns, str]:
    """The turns over which something stands in texts with the current one, for results and in words."""
    turns = sorted({said.turn.number for said in texts} | {current.turn.number})
    sent = sorted({said.turn.number for said in texts if said is not current and said.sent})
    *first, last = map(str, turns)
    told = f"over turns {', '.join(first)} and {last}" if first else f"over texts of turn {last}"
    if sent:
        told += f" (already sent: turn{'s' if len(sent) > 1 else ''} {', '.join(map(str, sent))})"
    return OverTurns(kind=kind, turns=turns, sent=sent), told


def with_earlier(check: Check, most: int, *, both: bool = False) -> tuple[EarlierText, ...]:
    """Texts of a speaker, or `both`, in the last `most` turns up to that under check; none if it stands alone."""
    is_part = check.alone or check.more or check.before
    if not most or is_part or check.turn.number > len(check.conversation.history):
        return ()
    return check.once(("said", most, both, check.text), lambda: _with_earlier(check, most, both))


def _with_earlier(check: Check, most: int, both: bool) -> tuple[EarlierText, ...]:
    with _LOCK:
        kept = _KEPT.setdefault(check.conversation, {})

    def known_text(place: _Place, turn: Turn, text: str) -> EarlierText:
        known = kept.get(place)
        if known is None or known.text != text or known.turn is not turn:
            known = kept[place] = EarlierText(turn, place[1], place[2], text, before)
        return known

    number, prompting = check.turn.number, check.side is Side.PROMPT
    current = (number, check.kind, None if check.tool is None else check.tool.call_id)
    said: list[EarlierText] = []
    before = last = ""
    for turn in check.conversation.history.turns[max(0, number - 1 - most) : number]:
        before, last = (last, turn.response or "") if prompting else (turn.prompt, "")
        sides = tuple(Side) if both else (check.side,)
        for kind, call_id, text in chain.from_iterable(_texts(check.conversation, turn, side) for side in sides):
            place = (turn.number, kind, call_id)
            if place == current:
                break
            if text and (kind is not TextKind.INPUT or turn.speaker == check.turn.speaker):
                said.append(known_text(place, turn, text))
    if len(kept) > 8 * _MOST_TURNS:
        for place in [one for one in [*kept] if one[0] < number - most]:
            kept.pop(place, None)
    return (*said, known_text(current, check.turn, check.text)) if said else ()


def _texts(conversation: Conversation, turn: Turn, side: Side) -> Iterator[tuple[TextKind, str | None, str]]:
    """The texts of one side of a turn in order; of its calls and results the latest."""
    has_tools = any(key in turn.own_metadata for key in MESSAGE_KEYS)
    if side is Side.PROMPT:
        yield TextKind.INPUT, None, turn.prompt
        for result in reversed(conversation.tools.latest_results(turn, _MOST_STEPS) if has_tools else ()):
            yield TextKind.TOOL_RESULT, result.call_id, result.content
        return
    for call in reversed(conversation.tools.latest_calls(turn, _MOST_STEPS) if has_tools else ()):
        yield TextKind.TOOL_CALL, call.call_id, Arguments(call.arguments).text
    if turn.response is not None:
        yield TextKind.OUTPUT, None, turn.response
