"""Two readings of conversations side by side: two runs or observers of one, or two conversations, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from turnwise.conversation import Label, Turn
from turnwise.scoring import Score, TurnScores

if TYPE_CHECKING:
    from turnwise.store import Store

PAIR_KEYS: Final = ("pair", "twin", "goal", "group", "intent")
"""Keys of metadata by which two conversations belong together, the closest first."""

_MOST_PARTNERS: Final = 50


@dataclass(frozen=True, slots=True)
class Half:
    """One of the two: a conversation with the scores of a run, turn by turn; without a run, texts alone.

    `label` is what the data set says, `observer` the run's observer with the context that it saw.
    """

    sequence_id: str
    label: Label
    source: str
    run: str | None
    observer: str
    turns: tuple[Turn, ...]
    scores: tuple[TurnScores | None, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One turn of both; texts and scores are None where that half is at its end.

    `same` is whether both say the same, prompt and response; `apart` the largest difference of F over the
    principles that both were scored on.
    """

    turn: int
    texts: tuple[Turn | None, Turn | None]
    scores: tuple[TurnScores | None, TurnScores | None]
    same: bool
    apart: float | None


@dataclass(frozen=True, slots=True)
class Beside:
    """Two readings beside each other, turn by turn.

    `parts_at` is the first turn at which their texts differ, `differs_at` the first at which F differs by
    `DIFFERS` or more for some principle.
    """

    halves: tuple[Half, Half]
    rows: tuple[Row, ...]
    parts_at: int | None
    differs_at: int | None

    @property
    def principles(self) -> tuple[str, ...]:
        """Names of the principles that either was scored on, in order."""
        found: dict[str, None] = {}
        for half in self.halves:
            for scores in half.scores:
                found |= dict.fromkeys(() if scores is None else scores.scores)
        return tuple(found)

    def curve(self, half: int, principle: str, component: str = "F") -> list[float | None]:
        """A component of a principle in the half 0 or 1, turn by turn; None where it was not scored."""
        scored = (row.scores[half] for row in self.rows)
        given = (None if one is None else one.scores.get(principle) for one in scored)
        return [None if score is None else getattr(score, component) for score in given]


DIFFERS: Final = 0.1
"""Difference of F from which two scores of a turn are said to differ."""


def lay_beside(store: Store, first: tuple[str, str | None], second: tuple[str, str | None]) -> Beside:
    """Two readings beside each other, each a conversation's id and the run of its scores (None: texts alone)."""
    halves = _half(store, *first), _half(store, *second)
    rows = tuple(_rows(*halves))
    return Beside(
        halves,
        rows,
        next((row.turn for row in rows if not row.same), None),
        next((row.turn for row in rows if row.apart is not None and row.apart >= DIFFERS), None),
    )


def _half(store: Store, sequence_id: str, run: str | None) -> Half:
    sequence = store.sequence(sequence_id)
    turns = tuple(sequence.conversation)
    scores: tuple[TurnScores | None, ...] = (None,) * len(turns)
    observer = ""
    if run is not None:
        known = store.run(run)
        observer = f"{known.observer}, {known.context}"
        by_turn = {one.turn: one for one in store.trajectory(run, sequence_id)}
        scores = tuple(by_turn.get(turn.number) for turn in turns)
    return Half(sequence_id, sequence.label, sequence.source, run, observer, turns, scores)


def _rows(first: Half, second: Half) -> Iterator[Row]:
    both = zip_longest(first.turns, second.turns), zip_longest(first.scores, second.scores)
    for number, (texts, scores) in enumerate(zip(*both, strict=True), start=1):
        one, other = texts
        same = one is not None and other is not None
        same = same and (one.prompt, one.response) == (other.prompt, other.response)
        yield Row(number, texts, scores, same, _apart(*scores))


def _apart(one: TurnScores | None, other: TurnScores | None) -> float | None:
    if one is None or other is None:
        return None
    pairs: Iterator[tuple[Mapping[str, Score], Mapping[str, Score]]] = iter(
        ((one.scores, other.scores), (one.response_scores, other.response_scores))
    )
    found = [abs(a[name].F - b[name].F) for a, b in pairs for name in a.keys() & b.keys()]
    return max(found, default=None)


def partners(store: Store, sequence_id: str) -> list[tuple[str, str]]:
    """The conversations that belong with one, such as its twin, each with why, the closest first."""
    metadata = store.sequence(sequence_id).metadata
    found: dict[str, str] = {}
    for key in PAIR_KEYS:
        value = metadata.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool):
            for name in store.ids_with(key, value, _MOST_PARTNERS):
                found.setdefault(name, key)
    found.pop(sequence_id, None)
    return list(found.items())[:_MOST_PARTNERS]
