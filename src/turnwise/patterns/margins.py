"""What a pattern says at a turn: whether it holds, and by how much.

Outside of functions a condition is true or false: a comparison with an undefined number is false, with a margin of
minus infinity, as no threshold would have been reached. Within functions over conditions such a comparison can't
be told, and has no margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from turnwise.patterns.expression import (
    And,
    Call,
    Comparison,
    ComparisonOperator,
    Expression,
    KOf,
    Named,
    Not,
    Or,
)
from turnwise.patterns.function_table import Cell
from turnwise.patterns.program import Program, Step, Values, negative

_STRICT = frozenset({">", "<", "!="})
"""Comparisons that do not hold at a margin of 0."""


def holds(program: Program, node: Expression) -> int:
    """Place of whether a condition outside of functions holds: always true or false."""
    match node:
        case Named():
            return holds(program, node.body)
        case Call():
            return program.value(node)
    strict = _strictness(node)
    if strict is None:
        return program.once("holds", node, lambda: program.joined(node, partial(holds, program)))
    at = margin(program, node)
    if strict:
        return program.once("holds", node, lambda: lambda values: values[at] > 0.0)
    return program.once("holds", node, lambda: lambda values: values[at] >= 0.0)


def margin(program: Program, node: Expression) -> int:
    """Place of the margin of a condition outside of functions; infinite where nothing was compared."""
    match node:
        case Named():
            return margin(program, node.body)
        case Call():
            return program.once("margin", node, lambda: _or_infinite(_of_call(program, node)))
        case _:
            return program.once("margin", node, lambda: _margin(program, node, -math.inf, margin, _ranked))


def _margin_within(program: Program, node: Expression) -> int:
    """Place of the margin of a condition within a function; None where it can't be told."""

    def ranked(places: list[int], k: int) -> Step:
        return _ranked_where_told(places, k, program.value(node))

    match node:
        case Named():
            return _margin_within(program, node.body)
        case Call():
            return _of_call(program, node)
        case _:
            return program.once("within", node, lambda: _margin(program, node, None, _margin_within, ranked))


def _of_call(program: Program, call: Call) -> int:
    """Place of the margin of ``any``, the greatest so far, or ``all``, the least; None before there is one."""
    best = max if call.function == "any" else min

    def step(cell: Cell, turn: int, now: float | None) -> float | None:
        if now is not None:
            cell[0] = now if cell[0] is None else best(cell[0], now)
        value: float | None = cell[0]
        return value

    return program.folded("extreme", call, _margin_within(program, call.argument), [None], step)


def _or_infinite(at: int) -> Step:
    return lambda values: -math.inf if values[at] is None else values[at]


def _strictness(node: Expression) -> bool | None:
    """Whether a condition holds at margins above 0 (True), or also at 0 (False); None where parts differ."""
    # In floating point x - y is 0 only where x equals y, so the margin decides wherever all comparisons are alike.
    match node:
        case Comparison(sign):
            return sign in _STRICT
        case Not(operand):
            inner = _strictness(operand)
            return None if inner is None else not inner
        case And(operands) | Or(operands) | KOf(_, operands):
            kinds = {_strictness(operand) for operand in operands}
            return kinds.pop() if len(kinds) == 1 else None
        case Named(_, _, body):
            return _strictness(body)
        case _:
            return None


def _margin(
    program: Program,
    node: Expression,
    untold: float | None,
    of: Callable[[Program, Expression], int],
    ranked: Callable[[list[int], int], Step],
) -> Step:
    """The step of a margin; that of a joint condition is the margin of the part that decides it."""
    match node:
        case Comparison(sign, left, right):
            return _distance(sign, program.value(left), program.value(right), untold)
        case Not(operand):
            return negative(of(program, operand))
        case And(operands):
            return ranked([of(program, operand) for operand in operands], len(operands))
        case Or(operands):
            return ranked([of(program, operand) for operand in operands], 1)
        case KOf(k, operands):
            return ranked([of(program, operand) for operand in operands], k)
        case _:
            raise AssertionError(f"no condition: {node!r}")


def _distance(sign: ComparisonOperator, left: int, right: int, untold: float | None) -> Step:
    if sign in ("<", "<="):
        left, right = right, left

    def apart(values: Values) -> float | None:
        x, y = values[left], values[right]
        return untold if x is None or y is None else x - y

    def equality(values: Values) -> float | None:
        x, y = values[left], values[right]
        return untold if x is None or y is None else -abs(x - y) if sign == "==" else abs(x - y)

    return equality if sign in ("==", "!=") else apart


def _ranked(places: list[int], k: int) -> Step:
    """The step of the k-th largest margin: k of the conditions hold where that one is large enough."""
    return lambda values: _largest([values[place] for place in places], k)


def _ranked_where_told(places: list[int], k: int, told: int) -> Step:
    def step(values: Values) -> float | None:
        truth: bool | None = values[told]
        if truth is None:
            return None
        # The parts that can't be told have not decided it: they count as if against it.
        untold = -math.inf if truth else math.inf
        value = _largest([untold if values[place] is None else values[place] for place in places], k)
        return value if math.isfinite(value) else None

    return step


def _largest(margins: list[float], k: int) -> float:
    if k == 1:
        return max(margins)
    return min(margins) if k == len(margins) else sorted(margins, reverse=True)[k - 1]
