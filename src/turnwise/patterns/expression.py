"""What every expression can do: Python's operators, its text, live evaluation."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turnwise.errors import PatternError
from turnwise.patterns.functions import Kind

if TYPE_CHECKING:
    from turnwise.patterns.evaluator import Stream

MAX_SIZE = 1_000
"""Nodes of a tree, at most, with those that named patterns stand for."""

MAX_DEPTH = 60
"""Levels of a tree, at most; below what Python's recursion allows by far."""


class Expression(ABC):
    """A number or a condition over the turns so far: the base of all nodes of the tree.

    Python's operators build trees: ``+ - * /``, ``abs`` and ``< <= > >=`` on numbers, ``& | ~`` on conditions.
    ``==`` compares trees, so that the comparison of values has its own name, `equals`. ``str`` gives the text that
    parses back to the same tree.

    >>> from turnwise.patterns import series, streak
    >>> print((streak(series("reciprocity").I > 0.6) >= 3) & ~(series().F > 0.7))
    streak(reciprocity.I > 0.6) >= 3 and not F > 0.7
    """

    __slots__ = ("depth", "size")

    size: int
    """Nodes of the tree, with those that named patterns stand for."""

    depth: int
    """Levels of the tree, from 1."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """Whether it is a number or a condition."""

    def children(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of, left to right."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """Yield the expression and everything that it is made of, the whole before its parts."""
        yield self
        for child in self.children():
            yield from child.walk()

    def stream(self) -> Stream:
        """Return a live evaluation of this expression, before the first turn of a conversation."""
        from turnwise.patterns.evaluator import Stream

        return Stream(self)

    def equals(self, other: Expression | float) -> Expression:
        """Return the comparison ``self == other``."""
        return _comparison("==", self, other)

    def differs(self, other: Expression | float) -> Expression:
        """Return the comparison ``self != other``."""
        return _comparison("!=", self, other)

    def __str__(self) -> str:
        from turnwise.patterns.printer import to_text

        return to_text(self)

    def __bool__(self) -> bool:
        raise PatternError(
            "an expression is neither true nor false before it has seen turns: write & for and, | for or, ~ for "
            "not, and join two comparisons with & where you would chain them"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self), tuple(values)

    def __lt__(self, other: Expression | float) -> Expression:
        return _comparison("<", self, other)

    def __le__(self, other: Expression | float) -> Expression:
        return _comparison("<=", self, other)

    def __gt__(self, other: Expression | float) -> Expression:
        return _comparison(">", self, other)

    def __ge__(self, other: Expression | float) -> Expression:
        return _comparison(">=", self, other)

    def __add__(self, other: Expression | float) -> Expression:
        return _arithmetic("+", self, other)

    def __radd__(self, other: float) -> Expression:
        return _arithmetic("+", other, self)

    def __sub__(self, other: Expression | float) -> Expression:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: float) -> Expression:
        return _arithmetic("-", other, self)

    def __mul__(self, other: Expression | float) -> Expression:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: float) -> Expression:
        return _arithmetic("*", other, self)

    def __truediv__(self, other: Expression | float) -> Expression:
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: float) -> Expression:
        return _arithmetic("/", other, self)

    def __neg__(self) -> Expression:
        from turnwise.patterns.tree import Negative

        return Negative(self)

    def __abs__(self) -> Expression:
        from turnwise.patterns.tree import call

        return call("abs", self)

    def __and__(self, other: Expression) -> Expression:
        from turnwise.patterns.tree import And

        return And((*_operands(And, self), other))

    def __or__(self, other: Expression) -> Expression:
        from turnwise.patterns.tree import Or

        return Or((*_operands(Or, self), other))

    def __invert__(self) -> Expression:
        from turnwise.patterns.tree import Not

        return Not(self)

    def _measure(self) -> None:
        """Note size and depth, and refuse a tree that is too large to be evaluated at every turn."""
        children = self.children()
        size = 1 + sum(child.size for child in children)
        depth = 1 + max((child.depth for child in children), default=0)
        if size > MAX_SIZE:
            raise PatternError(f"the pattern has more than {MAX_SIZE} parts; split it into several patterns")
        if depth > MAX_DEPTH:
            raise PatternError(f"the pattern is nested more than {MAX_DEPTH} levels deep; split it into several")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", depth)


class NumberExpression(Expression):
    """Base of the expressions that are always numbers."""

    __slots__ = ()

    @property
    def kind(self) -> Kind:
        """Always a number."""
        return Kind.NUMBER


class ConditionExpression(Expression):
    """Base of the expressions that are always conditions."""

    __slots__ = ()

    @property
    def kind(self) -> Kind:
        """Always a condition."""
        return Kind.CONDITION


def require(kind: Kind, operand: object, where: str) -> None:
    """Raise PatternError unless the operand is an expression of a kind; ``where`` goes into the message."""
    if not isinstance(operand, Expression):
        raise PatternError(f"{where} takes expressions, not {operand!r}")
    if operand.kind is not kind:
        raise PatternError(f"{where} takes a {kind}, but {mismatch(operand)}")


def mismatch(operand: Expression) -> str:
    """Say why an expression is not of the other kind, and how to mend it."""
    shown = shortened(str(operand))
    if operand.kind is Kind.NUMBER:
        return f"{shown} is a number; compare it, as in {shown} > 0.5"
    return f"{shown} is a condition; count(...) and share(...) make numbers of conditions"


def shortened(text: str, limit: int = 60) -> str:
    """Shorten a text to fit in a message.

    >>> shortened("reciprocity.F", 9)
    'reciproc…'
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def lifted(value: Expression | float) -> Expression:
    """Return a number as an expression, and an expression as it is."""
    from turnwise.patterns.tree import Number

    return value if isinstance(value, Expression) else Number(value)


def _comparison(operator: Any, left: Expression | float, right: Expression | float) -> Expression:
    from turnwise.patterns.tree import Comparison

    return Comparison(operator, lifted(left), lifted(right))


def _arithmetic(operator: Any, left: Expression | float, right: Expression | float) -> Expression:
    from turnwise.patterns.tree import Arithmetic

    return Arithmetic(operator, lifted(left), lifted(right))


def _operands(joint: Any, left: Expression) -> tuple[Expression, ...]:
    """What a chain such as ``a & b & c`` has joined so far, so that it makes one node."""
    joined: tuple[Expression, ...] = left.operands if isinstance(left, joint) else (left,)
    return joined
