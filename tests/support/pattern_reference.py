"""What a pattern means, said again slowly and plainly: every value from the whole list of turns so far."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from turnwise.conversation import Side
from turnwise.patterns import Expression
from turnwise.patterns.expression import (
    And,
    Arithmetic,
    Call,
    Comparison,
    KOf,
    Named,
    Negative,
    Not,
    Number,
    Or,
)
from turnwise.patterns.series import Length, Series, TurnNumber
from turnwise.scoring import TurnScores, balance, trust_strength

NEAR = 1e-7
"""Numbers nearer than this may be compared either way: two ways to reckon need not round alike."""


ROUNDED = {"mean", "slope", "volatility", "ema", "cusum"}
"""Functions that two ways to reckon round differently."""


class TooCloseError(Exception):
    """A comparison or division that rounding decides."""


def evaluated(turns: Sequence[TurnScores]) -> list[TurnScores]:
    """Return the turns that have a score."""
    return [turn for turn in turns if turn.scores or turn.response_scores]


def value(node: Expression, turns: Sequence[TurnScores]) -> Any:  # noqa: PLR0911, PLR0912 - a case a node
    """Return the value of an expression at the last of some evaluated turns; None where undefined or untold."""
    match node:
        case Named(_, _, body):
            return value(body, turns)
        case Number(number):
            return number
        case TurnNumber():
            return turns[-1].turn
        case Length(side):
            if side is Side.PROMPT:
                return turns[-1].length
            return turns[-1].response_length if turns[-1].response_scores else None
        case Series():
            return _series(node, turns[-1])
        case Negative(operand):
            x = value(operand, turns)
            return None if x is None else -x
        case Arithmetic(operator, left, right):
            return _arithmetic(operator, value(left, turns), value(right, turns), _rounds(right))
        case Comparison(operator, left, right):
            return _compare(operator, value(left, turns), value(right, turns), _rounds(node))
        case Not(operand):
            told = value(operand, turns)
            return None if told is None else not told
        case And(operands):
            return _at_least(len(operands), [value(operand, turns) for operand in operands])
        case Or(operands):
            return _at_least(1, [value(operand, turns) for operand in operands])
        case KOf(k, operands):
            return _at_least(k, [value(operand, turns) for operand in operands])
        case Call(function, argument):
            past = [(turns[k].turn, value(argument, turns[: k + 1])) for k in range(len(turns))]
            result = _call(function, dict(node.parameters), past)
            return None if result is None or abs(result) > 1e100 else result
    raise AssertionError(node)


def holds(node: Expression, turns: Sequence[TurnScores]) -> bool:
    """Return whether a condition holds at the last of some evaluated turns: an undefined comparison is false."""
    match node:
        case Named(_, _, body):
            return holds(body, turns)
        case Not(operand):
            return not holds(operand, turns)
        case And(operands):
            return all(holds(operand, turns) for operand in operands)
        case Or(operands):
            return any(holds(operand, turns) for operand in operands)
        case KOf(k, operands):
            return sum(holds(operand, turns) for operand in operands) >= k
    return value(node, turns) is True


def _series(node: Series, turn: TurnScores) -> float | None:
    scores = turn.scores if node.side is Side.PROMPT else turn.response_scores
    length = turn.length if node.side is Side.PROMPT else turn.response_length
    chosen = [score for name, score in scores.items() if node.principle in (None, name)]
    if not chosen:
        return None
    if node.component == "balance":
        return min(balance(score, length) for score in chosen)
    if node.component == "strength":
        return min(trust_strength(score, length) for score in chosen)
    values = [score.to_dict()[node.component] for score in chosen]
    return min(values) if node.component == "T" else max(values)


def _rounds(node: Expression) -> bool:
    """Return whether an expression may come out a little different when it is reckoned another way."""
    return any(isinstance(part, Call) and part.function in ROUNDED for part in node.walk())


def _arithmetic(operator: str, x: float | None, y: float | None, rounds: bool) -> float | None:
    if operator == "/" and y is not None and abs(y) < NEAR and (y != 0 or rounds):
        raise TooCloseError
    if x is None or y is None or (operator == "/" and y == 0):
        return None
    result = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[operator]()
    return None if abs(result) > 1e100 else result


def _compare(operator: str, x: float | None, y: float | None, rounds: bool) -> bool | None:
    if x is None or y is None:
        return None
    if (x != y or rounds) and math.isclose(x, y, rel_tol=NEAR, abs_tol=NEAR):
        raise TooCloseError
    return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[operator]


def _at_least(k: int, told: list[bool | None]) -> bool | None:
    if told.count(True) >= k:
        return True
    return False if told.count(True) + told.count(None) < k else None


def _call(function: str, parameters: dict[str, Any], past: list[tuple[int, Any]]) -> Any:  # noqa: PLR0911, PLR0912
    known = [(turn, x) for turn, x in past if x is not None]
    if function in ("at", "rise"):
        at = dict(known)
        if function == "at":
            return at.get(parameters["k"])
        early, late = at.get(parameters["i"]), at.get(parameters["j"])
        return None if early is None or late is None else late - early
    held = [turn for turn, x in known if x is True]
    values = [x for _, x in known]
    differences = [late - early for early, late in itertools.pairwise(values)]
    match str(function):
        case "abs":
            return None if past[-1][1] is None else abs(past[-1][1])
        case "delta":
            return differences[-1] if differences and past[-1][1] is not None else None
        case "volatility":
            return statistics.fmean(map(abs, differences)) if differences else None
        case "slope":
            return _slope(known[-parameters.get("window", len(known)) :])
        case "count":
            return len(held)
        case "streak":
            return max(map(len, _runs(held)), default=0)
        case "current_streak":
            return next((len(run) for run in _runs(held) if run[-1] == past[-1][0]), 0)
        case "any":
            return bool(held)
        case "all":
            return bool(values) and all(values)
        case "share":
            return len(held) / len(values) if values else None
        case "turns_since":
            return past[-1][0] - held[-1] if held else None
    if not values:
        return None
    match function:
        case "first":
            return values[0]
        case "last":
            return values[-1]
        case "peak":
            return max(values)
        case "low":
            return min(values)
        case "drop":
            return max(values) - values[-1]
        case "mean":
            return statistics.fmean(values)
        case "ema":
            average = parameters.get("start", values[0])
            for x in values:
                average = parameters["alpha"] * x + (1 - parameters["alpha"]) * average
            return average
        case "cusum":
            total = 0.0
            for x in values:
                total = max(0.0, total + x - parameters["drift"])
            return total
    raise AssertionError(function)


def _slope(points: list[tuple[int, float]]) -> float | None:
    if len(points) < 2:
        return None
    return statistics.linear_regression([turn for turn, _ in points], [x for _, x in points]).slope


def _runs(turns: list[int]) -> list[list[int]]:
    """Return the runs of consecutive numbers."""
    runs: list[list[int]] = []
    for turn in turns:
        if runs and runs[-1][-1] == turn - 1:
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return runs
