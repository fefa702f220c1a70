"""From a tree to a list of steps, in which every part that occurs twice is worked out once."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from turnwise.conversation import Side
from turnwise.patterns.expression import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Expression,
    KOf,
    Named,
    Negative,
    Not,
    Number,
    Or,
)
from turnwise.patterns.function_table import FUNCTIONS, Cell, Update, bounded
from turnwise.patterns.series import Length, OtherRun, Series, TurnNumber
from turnwise.scoring import Score, TurnScores, balance, trust_strength

Values = list[Any]
Step = Callable[[Values], Any]
"""Reckons one value from those before it."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_RECKON: dict[str, Callable[[Any, Any], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Program:
    """Steps that are taken at every turn, in order: each reads earlier values, that of a function its cell too."""

    def __init__(self) -> None:
        self._values: Values = []
        self._reads: list[tuple[int, Callable[[TurnScores], Any]]] = []
        self._reads_of_others: list[tuple[int, str, Callable[[TurnScores], Any]]] = []
        self._steps: list[tuple[int, Callable[..., Any], int, int]] = []
        self._cells: list[Cell] = []
        self._places: dict[tuple[str, Expression], int] = {}

    def start(self) -> list[Cell]:
        return copy.deepcopy(self._cells)

    @property
    def other_runs(self) -> frozenset[str]:
        return frozenset(run for _, run, _ in self._reads_of_others)

    def run(self, cells: list[Cell], turn: TurnScores, others: Mapping[str, TurnScores] | None = None) -> Values:
        """Take every step of a turn and return all values; ``cells``, what the functions keep, are changed."""
        values, number = self._values.copy(), turn.turn
        for place, read in self._reads:
            values[place] = read(turn)
        for place, run, read in self._reads_of_others:
            values[place] = read(others[run]) if others and run in others else None
        for place, step, cell, argument in self._steps:
            values[place] = step(values) if cell < 0 else step(cells[cell], number, values[argument])
        return values

    def once(self, what: str, node: Expression, make: Callable[[], Step]) -> int:
        """The place of what is worked out of a node; its step is made when it is first asked for."""
        return self._placed(what, node, lambda place: self._steps.append((place, make(), -1, -1)))

    def folded(self, what: str, node: Expression, argument: int, start: Cell, step: Update) -> int:
        """The place of what a step makes of a value and of a cell of its own."""

        def add(place: int) -> None:
            self._cells.append(start)
            self._steps.append((place, step, len(self._cells) - 1, argument))

        return self._placed(what, node, add)

    def value(self, node: Expression) -> int:  # noqa: PLR0911 - a case for each node
        """The place of the value of an expression: None where it is undefined, or can't be told."""
        match node:
            case Named():
                return self.value(node.body)
            case Call(function, argument, parameters):
                return self.folded(
                    "value", node, self.value(argument), *FUNCTIONS[function].live(**dict(parameters))
                )
            case Number(value):
                return self._placed("value", node, lambda place: None, value)
            case Series():
                return self._read(node, read_series(node))
            case OtherRun(run, series):
                read = read_series(series)
                return self._placed("value", node, lambda place: self._reads_of_others.append((place, run, read)))
            case TurnNumber():
                return self._read(node, operator.attrgetter("turn"))
            case Length():
                return self._read(node, read_length(node))
            case Not() | And() | Or() | KOf():
                return self.once("value", node, lambda: self.joined(node, self.value))
            case _:
                return self.once("value", node, lambda: self._reckoned(node))

    def _placed(self, what: str, node: Expression, add: Callable[[int], None], value: float | None = None) -> int:
        """The place of something; where that is a new one, `add` adds what fills it, or `value` stays there."""
        key = (what, node)
        if key not in self._places:
            self._places[key] = len(self._values)
            self._values.append(value)
            add(self._places[key])
        return self._places[key]

    def _read(self, node: Expression, read: Callable[[TurnScores], Any]) -> int:
        return self._placed("value", node, lambda place: self._reads.append((place, read)))

    def joined(self, node: Expression, of: Callable[[Expression], int]) -> Step:
        """The step of a condition over conditions, of which `of` gives the place."""
        match node:
            case Not(operand):
                return _denied(of(operand))
            case And(operands):
                return _decided_by(False, list(map(of, operands)))
            case Or(operands):
                return _decided_by(True, list(map(of, operands)))
            case KOf(k, operands):
                return _k_of(k, list(map(of, operands)))
            case _:
                raise AssertionError(f"no condition over conditions: {node!r}")

    def _reckoned(self, node: Expression) -> Step:
        match node:
            case Negative(operand):
                return negative(self.value(operand))
            case Arithmetic("/", left, right):
                return _divided(self.value(left), self.value(right))
            case Arithmetic(sign, left, right):
                return _reckoned(_RECKON[sign], self.value(left), self.value(right))
            case Comparison(sign, left, right):
                return _compared(COMPARE[sign], self.value(left), self.value(right))
            case _:
                raise AssertionError(f"this expression can't be evaluated: {node!r}")


def negative(at: int) -> Step:
    return lambda values: None if values[at] is None else -values[at]


def _reckoned(reckon: Callable[[Any, Any], float], left: int, right: int) -> Step:
    def step(values: Values) -> float | None:
        x, y = values[left], values[right]
        # Numbers of turns and characters are ints; what is made of them is reckoned in floats, as SQL does.
        return None if x is None or y is None else bounded(reckon(x, y) + 0.0)

    return step


def _divided(left: int, right: int) -> Step:
    def step(values: Values) -> float | None:
        x, y = values[left], values[right]
        return None if x is None or not y else bounded(x / y)

    return step


def _compared(compare: Callable[[Any, Any], bool], left: int, right: int) -> Step:
    def step(values: Values) -> bool | None:
        x, y = values[left], values[right]
        return None if x is None or y is None else compare(x, y)

    return step


def _denied(at: int) -> Step:
    return lambda values: None if values[at] is None else not values[at]


def _decided_by(truth: bool, at: list[int]) -> Step:
    """One part of that truth decides all: False among those of ``and``, True among those of ``or``."""

    def step(values: Values) -> bool | None:
        parts = [values[place] for place in at]
        return truth if truth in parts else None if None in parts else not truth

    return step


def _k_of(k: int, at: list[int]) -> Step:
    def step(values: Values) -> bool | None:
        parts = [values[place] for place in at]
        true = parts.count(True)
        if true >= k:
            return True
        return None if true + parts.count(None) >= k else False

    return step


Read = Callable[[TurnScores], float | None]

_WITH_LENGTH: Mapping[str, Callable[[Score, int], float]] = {"balance": balance, "strength": trust_strength}
_WORST: Mapping[str, Callable[..., float]] = {"T": min, "I": max, "F": max, "balance": min, "strength": min}


def read_series(series: Series) -> Read:
    """Make a function from the scores of a turn to the value of a series; None at a gap.

    >>> read = read_series(Series("F"))
    >>> read(TurnScores(1, {"a": Score(0.5, 0.1, 0.3), "b": Score(0.5, 0.1, 0.8)}))
    0.8
    >>> read(TurnScores(2, {})) is None
    True
    """
    response = series.side is Side.RESPONSE
    scores_of: Callable[[TurnScores], Mapping[str, Score]]
    scores_of = attrgetter("response_scores" if response else "scores")
    length_at: Callable[[TurnScores], int] = attrgetter("response_length" if response else "length")
    if series.component in _WITH_LENGTH:
        return _with_length(series, scores_of, length_at, _WITH_LENGTH[series.component])
    component: Callable[[Score], float] = attrgetter(series.component)
    principle, worst = series.principle, _WORST[series.component]

    def over_principles(turn: TurnScores) -> float | None:
        scores = scores_of(turn)
        return worst(map(component, scores.values())) if scores else None

    def of_principle(turn: TurnScores) -> float | None:
        score = scores_of(turn).get(principle)
        return None if score is None else component(score)

    return over_principles if principle is None else of_principle


def _with_length(
    series: Series,
    scores_of: Callable[[TurnScores], Mapping[str, Score]],
    length_at: Callable[[TurnScores], int],
    component: Callable[[Score, int], float],
) -> Read:
    principle, worst = series.principle, _WORST[series.component]

    def over_principles(turn: TurnScores) -> float | None:
        length = length_at(turn)
        return worst((component(score, length) for score in scores_of(turn).values()), default=None)

    def of_principle(turn: TurnScores) -> float | None:
        score = scores_of(turn).get(principle)  # type: ignore[arg-type]
        return None if score is None else component(score, length_at(turn))

    return over_principles if principle is None else of_principle


def read_length(length: Length) -> Read:
    """Make a function from the scores of a turn to its characters; None where there is no response to judge."""
    if length.side is Side.PROMPT:
        return attrgetter("length")
    return lambda turn: turn.response_length if turn.response_scores else None
