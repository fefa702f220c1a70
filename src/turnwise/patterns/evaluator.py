"""Live evaluation: constant time and memory per turn, and a state of JSON values."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from turnwise.errors import PatternError
from turnwise.patterns.expression import Expression, require
from turnwise.patterns.function_table import ValueKind
from turnwise.patterns.margins import holds, margin
from turnwise.patterns.program import Program
from turnwise.scoring import TurnScores

State = dict[str, Any]
"""What is kept of a conversation: JSON values only."""


class PatternValue(NamedTuple):
    """The value of an expression after a turn.

    Args:
        holds: whether it holds at this turn; always False for a number.
        margin: by how much it holds, above 0, or fails to, below 0. For ``x > c`` and ``x >= c`` it is x - c, for
            ``x < c`` and ``x <= c`` c - x, for ``x == c`` -abs(x - c), for ``x != c`` abs(x - c), for ``not`` the
            negative; the least of the parts of ``and``, the greatest of ``or``, the k-th greatest of ``k_of``; for
            ``any`` the greatest so far, for ``all`` the least. At exactly 0 the comparison itself decides. None
            where nothing could be compared, and for a number.
        value: the number, for an expression that is one; None where it is undefined, and for a condition.
    """

    holds: bool
    margin: float | None = None
    value: float | None = None


_NOT_EVALUATED = PatternValue(False)


class Evaluator:
    """An expression made ready for evaluation. It keeps nothing of a conversation, so one serves many at once.

    A step costs the same at turn 10,000 as at turn 10, and the state stays as small.

    Args:
        expression: a condition or a number.

    >>> from turnwise.patterns import parse
    >>> from turnwise.scoring import Score
    >>> evaluator = Evaluator(parse("delta(reciprocity.F) > 0.25"))
    >>> state = evaluator.start()
    >>> for turn, F in enumerate((0.25, 0.5, 1.0), start=1):
    ...     print(evaluator.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)})))
    PatternValue(holds=False, margin=None, value=None)
    PatternValue(holds=False, margin=0.0, value=None)
    PatternValue(holds=True, margin=0.25, value=None)
    """

    __slots__ = ("_fresh", "_holds", "_margin", "_number", "_program", "digest", "expression", "other_runs")

    def __init__(self, expression: Expression) -> None:
        program = Program()
        if expression.kind is ValueKind.NUMBER:
            self._number = True
            self._holds = self._margin = program.value(expression)
        else:
            self._number = False
            self._holds, self._margin = holds(program, expression), margin(program, expression)
        self._program, self._fresh = program, program.start()
        self.expression = expression
        self.other_runs = program.other_runs
        self.digest = hashlib.sha256(repr(expression).encode()).hexdigest()[:12]

    def start(self) -> State:
        """Return the state before the first turn."""
        return {"pattern": self.digest, "turn": 0, "cells": self._program.start()}

    def update(
        self, state: State, scores: TurnScores, others: Mapping[str, TurnScores] | None = None
    ) -> PatternValue:
        """Add the scores of the next turn to the state and return what the expression says after it.

        At a turn without any score nothing holds, and only the turn number of the state changes.

        Args:
            state: state of the conversation; changed in place.
            scores: scores of the turn.
            others: scores of the same turn by the name of another run, for an expression with ``run("name")``.

        Raises:
            PatternError: the turn is not after the one before it, the state belongs to another pattern, or the
                expression compares runs and `others` is not given.
        """
        if self.other_runs and others is None:
            raise PatternError(
                f"{self.expression} compares runs, and here is only one: ask it with turnwise query, or in Python "
                "give the scores of the others"
            )
        if scores.turn <= state["turn"] or state["pattern"] != self.digest:
            raise self._misused(state, scores.turn)
        state["turn"] = scores.turn
        if not scores.scores and not scores.response_scores:
            return _NOT_EVALUATED
        values = self._program.run(state["cells"], scores, others)
        result = values[self._margin]
        if self._number:
            return PatternValue(False, None, None if result is None else float(result))
        return PatternValue(values[self._holds], float(result) if math.isfinite(result) else None)

    def run(
        self, turns: Iterable[TurnScores], others: Mapping[str, Iterable[TurnScores]] | None = None
    ) -> tuple[PatternValue, ...]:
        """Return what the expression says after each turn of a conversation, from its first.

        Args:
            turns: the scores turn by turn, such as a `Trajectory`.
            others: the same of other runs by name, for an expression with ``run("name")``.
        """
        state = self.start()
        return tuple(self.update(state, scores, beside) for scores, beside in _side_by_side(turns, others))

    def check_state(self, state: object) -> State:
        """Return a state that was read from outside, or refuse it.

        Raises:
            PatternError: it is no state, is damaged, or belongs to another pattern.
        """
        if not isinstance(state, dict) or set(state) != {"pattern", "turn", "cells"}:
            raise PatternError("not a saved pattern state: expected an object with pattern, turn and cells")
        if state["pattern"] != self.digest:
            raise self._misused(state, None)
        cells, start = state["cells"], self._fresh
        if (
            type(state["turn"]) is not int
            or not isinstance(cells, list)
            or len(cells) != len(start)
            or any(
                not isinstance(cell, list) or len(cell) != len(fresh)
                for cell, fresh in zip(cells, start, strict=True)
            )
        ):
            raise PatternError("the state of the pattern is damaged; start the conversation again")
        return state

    def __reduce__(self) -> tuple[type[Evaluator], tuple[Expression]]:
        return Evaluator, (self.expression,)

    def _misused(self, state: State, turn: int | None) -> PatternError:
        if state["pattern"] != self.digest:
            return PatternError(
                f"the state is of another pattern: give one of {self.expression}, or start the conversation again"
            )
        return PatternError(f"turn {turn} came after turn {state['turn']}; turns come in order, each once")


def _side_by_side(
    turns: Iterable[TurnScores], others: Mapping[str, Iterable[TurnScores]] | None
) -> Iterator[tuple[TurnScores, Mapping[str, TurnScores] | None]]:
    """Yield each turn with the scores of other runs at it."""
    if others is None:
        yield from ((scores, None) for scores in turns)
        return
    by_turn = {run: {scores.turn: scores for scores in theirs} for run, theirs in others.items()}
    for scores in turns:
        yield scores, {run: theirs[scores.turn] for run, theirs in by_turn.items() if scores.turn in theirs}


class Stream:
    """A pattern in one live conversation.

    Args:
        expression: a condition or a number.

    >>> from turnwise.patterns import series
    >>> from turnwise.scoring import Score
    >>> stream = Stream(series("reciprocity").F > 0.5)
    >>> stream.update(TurnScores(1, {"reciprocity": Score(0.1, 0.2, 0.75)})).holds
    True
    """

    __slots__ = ("_evaluator", "_state")

    def __init__(self, expression: Expression) -> None:
        self._evaluator = Evaluator(expression)
        self._state = self._evaluator.start()

    @property
    def expression(self) -> Expression:
        """What is evaluated."""
        return self._evaluator.expression

    def update(self, scores: TurnScores) -> PatternValue:
        """Take the scores of the next turn and return what the pattern says after it.

        Raises:
            PatternError: the turn is not after the one before it, or the expression compares runs.
        """
        return self._evaluator.update(self._state, scores)

    def to_json(self) -> str:
        """Return the state as JSON; at most 1 KB for a pattern of five functions without long windows."""
        return json.dumps(self._state, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, expression: Expression, text: str) -> Self:
        """Return a stream that continues where another stopped.

        Args:
            expression: the same expression.
            text: what `to_json` gave.

        Raises:
            PatternError: it is no state, or that of another pattern.
        """
        stream = cls(expression)
        try:
            state = json.loads(text)
        except ValueError as error:
            raise PatternError(f"the state of a pattern must be JSON: {error}") from error
        stream._state = stream._evaluator.check_state(state)
        return stream


class PatternMatch(NamedTuple):
    """Whether a trajectory matches a pattern.

    Args:
        turn: the first turn at which it holds; None where there is none.
        final: whether it holds at the last evaluated turn.
    """

    turn: int | None
    final: bool

    @property
    def ever(self) -> bool:
        """Whether it holds at some turn: what a live guard would have seen."""
        return self.turn is not None


def match(
    pattern: Expression, turns: Iterable[TurnScores], others: Mapping[str, Iterable[TurnScores]] | None = None
) -> PatternMatch:
    """Return whether the turns of a conversation match a pattern, ever and finally.

    Args:
        pattern: a condition.
        turns: the scores turn by turn, such as a `Trajectory`.
        others: the same of other runs by name, for a pattern with ``run("name")``.

    Raises:
        PatternError: the expression is a number, or compares runs that are not given.

    >>> from turnwise.patterns import parse
    >>> from turnwise.scoring import Score
    >>> turns = [TurnScores(turn, {"a": Score(0.5, 0.2, F)}) for turn, F in enumerate((0.2, 0.9, 0.1), start=1)]
    >>> match(parse("F > 0.5"), turns)
    PatternMatch(turn=2, final=False)
    """
    require(ValueKind.CONDITION, pattern, "match")
    evaluator = Evaluator(pattern)
    state = evaluator.start()
    first: int | None = None
    final = False
    for scores, beside in _side_by_side(turns, others):
        value = evaluator.update(state, scores, beside)
        if value.holds and first is None:
            first = scores.turn
        if scores.scores or scores.response_scores:
            final = value.holds
    return PatternMatch(first, final)
