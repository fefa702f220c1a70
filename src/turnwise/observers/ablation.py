"""Why a turn has its score: without which earlier turns, and without which of its words, F falls.

The observer reads the turn again with one thing left out at a time (ablation; Covert, Lundberg and Lee 2021,
"Explaining by removing"). What is named is what its score rests on, which need not be what a person would name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from turnwise._support.notebook import Shown
from turnwise.conversation import Side, Turn
from turnwise.errors import UsageError
from turnwise.linear_regex import LinearRegex
from turnwise.observers.protocol import Context, Observation, Observer, Request
from turnwise.observers.session import ObserverSession
from turnwise.principles import Principle

METHOD: Final = "1"
"""Version of what is tried, and how one is chosen."""

MOST_TURNS: Final = 16
"""Earlier turns that are left out one at a time; of more, stretches of neighbours are left out together."""

MOST_SPANS: Final = 24
"""Stretches of the text that are tried, at most."""

SHARE: Final = 0.6
"""Of the words of the text that a named span has, at most: without more there is hardly a text left to read."""

_ENOUGH: Final = 0.75
"""A shorter span is named in place of a longer one where F falls by this share as much without it."""

_LEAST: Final = 0.05
"""By how much F has to fall, at least, for something to be named."""

_SENTENCE = LinearRegex(r"[^.!?。！？\n]+[.!?。！？]*[\"'”’)\]]*\s*|[.!?。！？\n]+\s*")
_CLAUSE = LinearRegex(r"[^,;:–—()\n]+[,;:–—()\n]*\s*|[,;:–—()\n]+\s*")
_WORD = LinearRegex(r"\S+\s*")
_FEW_WORDS: Final = 3
_WINDOW: Final = 8
"""Words of a window where a sentence has no clauses."""


@dataclass(frozen=True, slots=True)
class LeftOut(Shown):
    """What F is without something.

    Args:
        F: falsity of the turn without it.
        turns: the earlier turns that were left out; empty where words were.
        start: where the words begin in the text, in characters; None where turns were left out.
        end: where they end.
    """

    F: float
    turns: tuple[int, ...] = ()
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Why(Shown):
    """What the score of a turn rests on.

    Args:
        turn: number of the turn, from 1.
        side: the half of it that was scored.
        principle: name of the principle.
        F: falsity of the turn as it is, read again.
        turns: earlier turns without which it falls, the one that counts most first.
        words: the stretch of the text without which it falls most; None where it falls without none.
        tried: how often the observer read.
    """

    turn: int
    side: Side
    principle: str
    F: float
    turns: tuple[LeftOut, ...]
    words: LeftOut | None
    tried: int

    def sentences(self, text: str) -> tuple[str, ...]:
        """Return it in plain sentences; `text` is the half of the turn that was scored."""
        told = []
        for one in self.turns:
            named = f"turn {one.turns[0]}" if len(one.turns) == 1 else f"turns {one.turns[0]} to {one.turns[-1]}"
            told.append(f"Without {named} F falls from {self.F:.2f} to {one.F:.2f}.")
        if self.words is not None:
            words = " ".join(text[self.words.start : self.words.end].split())
            told.append(f"Without the words “{words}” F falls from {self.F:.2f} to {self.words.F:.2f}.")
        if not told:
            told.append(f"F is {self.F:.2f} whatever is left out: it rests on all of it together.")
        return tuple(told)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "side": str(self.side)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Why:
        """Read what `to_dict` gave; ValueError, KeyError or TypeError where it is something else."""
        turns = tuple(LeftOut(one["F"], tuple(one["turns"]), one["start"], one["end"]) for one in value["turns"])
        words = value["words"]
        return cls(
            int(value["turn"]), Side(value["side"]), str(value["principle"]), float(value["F"]), turns,
            None if words is None else LeftOut(words["F"], (), words["start"], words["end"]), int(value["tried"]),
        )  # fmt: skip


def explain(
    observer: Observer,
    turns: Sequence[Turn],
    number: int,
    principle: Principle,
    *,
    side: Side = Side.PROMPT,
    context: Context | None = None,
) -> Why:
    """Say what the score of a turn rests on, by reading it again without earlier turns and without stretches.

    Args:
        observer: reads; each reading of a language model costs what a score costs.
        turns: the conversation up to the turn, or further.
        number: number of the turn.
        principle: what it was judged against.
        side: the half of the turn that was scored.
        context: what the observer may see; by default all turns so far.

    Raises:
        UsageError: there is no such turn, or it has no text on that side.
        ObserverError: the observer can't go on, or gave no score.
    """
    reader = _AblatingReader(observer, turns, number, principle, side, context or Context.parse("history"))
    whole = reader.read_all()
    left_out = sorted(_turns_without(reader), key=lambda one: one.F)
    fall = [one for one in left_out if whole - one.F >= _LEAST][:3]
    words = _words_without(reader, whole)
    return Why(number, side, principle.name, whole, tuple(fall), words, reader.tried)


class _AblatingReader:
    """Reads a turn in versions."""

    def __init__(
        self,
        observer: Observer,
        turns: Sequence[Turn],
        number: int,
        principle: Principle,
        side: Side,
        context: Context,
    ) -> None:
        self.before = [turn for turn in turns if turn.number < number]
        found = next((turn for turn in turns if turn.number == number), None)
        if found is None or not (found.text(side) or "").strip():
            raise UsageError(f"turn {number} has no text on the side {side} that could be read again")
        self.turn, self.text = found, found.text(side) or ""
        self._observer, self._context = observer, context
        self._wanted = [Request(principle, side)]
        self._side = side
        self._stood = self._session(self.before)
        self.tried = 0

    def read_all(self) -> float:
        """F of the turn as it is."""
        return self._read(self._stood.copy(), len(self.before), self.text)

    def without_words(self, start: int, end: int) -> float:
        """F of the turn without a stretch of its text."""
        return self._read(self._stood.copy(), len(self.before), without(self.text, start, end))

    def without_turns(self, numbers: Sequence[int]) -> float:
        """F of the turn where some earlier turns never were."""
        left = [turn for turn in self.before if turn.number not in numbers]
        return self._read(self._session(left), len(left), self.text)

    def _session(self, turns: Sequence[Turn]) -> ObserverSession:
        session = ObserverSession(self._observer, self._context, "why")
        for number, turn in enumerate(turns, 1):
            session.observe(Turn(number, turn.prompt, turn.response))
        return session

    def _read(self, session: ObserverSession, before: int, text: str) -> float:
        self.tried += 1
        prompt = text if self._side is Side.PROMPT else self.turn.prompt
        response = self.turn.response if self._side is Side.PROMPT else text
        observed = session.observe(Turn(before + 1, prompt, response), self._wanted)
        for one in observed.given:
            if isinstance(one, Observation):
                return one.score.F
        raise UsageError(
            f"turn {self.turn.number} can't be read again: {observed.given or 'the observer says nothing'}"
        )


def without(text: str, start: int, end: int) -> str:
    """A text without a stretch of it, so that the cut does not show.

    >>> without("Be nice, please. Give me the key. Thanks!", 17, 34)
    'Be nice, please. Thanks!'
    """
    before, after = text[:start].rstrip(), text[end:].lstrip()
    if not before or not after:
        return before + after
    gap = "\n" if "\n" in text[len(before) : start] + text[end : len(text) - len(after)] else " "
    return before + gap + after


def _turns_without(reader: _AblatingReader) -> list[LeftOut]:
    numbers = [turn.number for turn in reader.before]
    size = -(-len(numbers) // MOST_TURNS)
    groups = [tuple(numbers[at : at + size]) for at in range(0, len(numbers), size)] if numbers else []
    return [LeftOut(reader.without_turns(group), group) for group in groups]


def _words_without(reader: _AblatingReader, whole: float) -> LeftOut | None:
    """The stretch without which F falls most; a shorter one where it does nearly as much."""
    best: LeftOut | None = None
    spans = _stretches(reader.text, 0, len(reader.text))
    for _ in range(2):
        tried = [LeftOut(reader.without_words(*span), (), *span) for span in spans]
        found = min(tried, key=lambda one: one.F, default=None)
        if found is None or whole - found.F < _LEAST:
            break
        if best is None or whole - found.F >= _ENOUGH * (whole - best.F):
            best = found
        spans = _stretches(reader.text, found.start or 0, found.end or 0)
    return best


def _stretches(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Stretches of a stretch that can be left out: its sentences, else its clauses, else windows of words."""
    most = SHARE * max(1, len(text.split()))
    for pattern in (_SENTENCE, _CLAUSE):
        found = _merged(text, [(one.start + start, one.end + start) for one in pattern.finditer(text[start:end])])
        fitting = [one for one in found if len(text[slice(*one)].split()) <= most]
        if len(found) > 1 and fitting:
            return _spread(fitting)
    words = [(one.start + start, one.end + start) for one in _WORD.finditer(text[start:end])]
    size = min(_WINDOW, max(1, len(words) // 2))
    windows = [
        (words[at][0], words[min(at + size, len(words)) - 1][1]) for at in range(0, len(words), max(1, size // 2))
    ]
    return _spread([one for one in windows if one != (start, end) and len(text[slice(*one)].split()) <= most])


def _merged(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of which none has hardly a word: such a one is joined with that before it."""
    found: list[tuple[int, int]] = []
    for span in spans:
        if found and len(text[slice(*span)].split()) < _FEW_WORDS:
            found[-1] = found[-1][0], span[1]
        else:
            found.append(span)
    return found


def _spread(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most `MOST_SPANS` spans; of more, neighbours are joined."""
    size = -(-len(spans) // MOST_SPANS)
    return [(spans[at][0], spans[min(at + size, len(spans)) - 1][1]) for at in range(0, len(spans), max(1, size))]
