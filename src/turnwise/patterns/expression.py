"""Expressions: what each can do, and those that operators, functions and names make of others.

A tree that can be built fits together: its nodes check it.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from turnwise.errors import PatternError
from turnwise.patterns.function_table import FUNCTIONS, LARGEST, Function, ValueKind

ArithmeticOperator = Literal["+", "-", "*", "/"]
ComparisonOperator = Literal["<", "<=", ">", ">=", "==", "!="]

COMPARISONS: tuple[str, ...] = get_args(ComparisonOperator)

MAX_SIZE = 1_000
"""Nodes of a tree, at most, with those that named patterns stand for."""

MAX_DEPTH = 60
"""Levels of a tree, at most; below what Python's recursion allows by far."""


RESERVED = frozenset({"and", "or", "not", "response"})
"""Words that are no name of a principle unless they stand in quotes."""

OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, ATOM = range(1, 9)
"""How tightly each kind of expression holds together, loosest first."""


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
    def kind(self) -> ValueKind:
        """Whether it is a number or a condition."""

    def children(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of, left to right."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """Yield the expression and everything that it is made of, the whole before its parts."""
        yield self
        for child in self.children():
            yield from child.walk()

    def equals(self, other: Expression | float) -> Expression:
        """Return the comparison ``self == other``."""
        return Comparison("==", self, lifted(other))

    def differs(self, other: Expression | float) -> Expression:
        """Return the comparison ``self != other``."""
        return Comparison("!=", self, lifted(other))

    @abstractmethod
    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""

    def within(self, tightness: int) -> str:
        """Return the text for a place that takes what holds so tightly, else in parentheses."""
        text, tight = self.written()
        return text if tight >= tightness else f"({text})"

    def __str__(self) -> str:
        return self.written()[0]

    def __bool__(self) -> bool:
        raise PatternError(
            "an expression is neither true nor false before it has seen turns: write & for and, | for or, ~ for "
            "not, and join two comparisons with & where you would chain them"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self), tuple(values)

    def __lt__(self, other: Expression | float) -> Expression:
        return Comparison("<", self, lifted(other))

    def __le__(self, other: Expression | float) -> Expression:
        return Comparison("<=", self, lifted(other))

    def __gt__(self, other: Expression | float) -> Expression:
        return Comparison(">", self, lifted(other))

    def __ge__(self, other: Expression | float) -> Expression:
        return Comparison(">=", self, lifted(other))

    def __add__(self, other: Expression | float) -> Expression:
        return Arithmetic("+", self, lifted(other))

    def __radd__(self, other: float) -> Expression:
        return Arithmetic("+", lifted(other), self)

    def __sub__(self, other: Expression | float) -> Expression:
        return Arithmetic("-", self, lifted(other))

    def __rsub__(self, other: float) -> Expression:
        return Arithmetic("-", lifted(other), self)

    def __mul__(self, other: Expression | float) -> Expression:
        return Arithmetic("*", self, lifted(other))

    def __rmul__(self, other: float) -> Expression:
        return Arithmetic("*", lifted(other), self)

    def __truediv__(self, other: Expression | float) -> Expression:
        return Arithmetic("/", self, lifted(other))

    def __rtruediv__(self, other: float) -> Expression:
        return Arithmetic("/", lifted(other), self)

    def __neg__(self) -> Expression:
        return Negative(self)

    def __abs__(self) -> Expression:
        """Return x of this turn without its sign; undefined where x is."""
        return call("abs", self)

    def __and__(self, other: Expression) -> Expression:
        return And((*_operands(And, self), other))

    def __or__(self, other: Expression) -> Expression:
        return Or((*_operands(Or, self), other))

    def __invert__(self) -> Expression:
        return Not(self)

    def _check(self) -> None:  # noqa: B027 - a part that stands alone has nothing to refuse
        """Refuse parts that don't fit."""

    def __post_init__(self) -> None:
        self._check()
        # Note size and depth, and refuse a tree that is too large to be evaluated at every turn.
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

    kind = ValueKind.NUMBER


class ConditionExpression(Expression):
    """Base of the expressions that are always conditions."""

    __slots__ = ()

    kind = ValueKind.CONDITION


def require(kind: ValueKind, operand: object, where: str) -> None:
    """Raise PatternError unless the operand is an expression of a kind; ``where`` goes into the message."""
    if not isinstance(operand, Expression):
        raise PatternError(f"{where} takes expressions, not {operand!r}")
    if operand.kind is not kind:
        raise PatternError(f"{where} takes a {kind}, but {mismatch(operand)}")


def mismatch(operand: Expression) -> str:
    """Say why an expression is not of the other kind, and how to mend it."""
    shown = shortened(str(operand))
    if operand.kind is ValueKind.NUMBER:
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
    return value if isinstance(value, Expression) else Number(value)


@dataclass(frozen=True, slots=True)
class Number(NumberExpression):
    """A number such as ``0.5``: finite, at most 1e100 in size."""

    value: float

    def _check(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise PatternError(f"{self.value!r} must be a number")
        if not -LARGEST <= self.value <= LARGEST:
            raise PatternError(f"a number must be finite and at most {LARGEST:g} in size, not {self.value!r}")
        object.__setattr__(self, "value", float(self.value))

    def written(self) -> tuple[str, int]:
        return number_text(self.value), SIGN if self.value < 0 else ATOM


@dataclass(frozen=True, slots=True)
class Negative(NumberExpression):
    """A number with its sign changed: ``-x``."""

    operand: Expression

    def _check(self) -> None:
        require(ValueKind.NUMBER, self.operand, "-")

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def written(self) -> tuple[str, int]:
        # -2 reads as a number of its own, so that the sign of a number stands outside parentheses.
        return f"-{self.operand.within(ATOM + 1 if isinstance(self.operand, Number) else SIGN)}", SIGN


@dataclass(frozen=True, slots=True)
class _OfTwoNumbers(Expression):
    """Two numbers with an operator between them."""

    operator: str
    left: Expression
    right: Expression

    def _check(self) -> None:
        require(ValueKind.NUMBER, self.left, self.operator)
        require(ValueKind.NUMBER, self.right, self.operator)

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Arithmetic(_OfTwoNumbers, NumberExpression):
    """Two numbers with ``+``, ``-``, ``*`` or ``/`` between them."""

    operator: ArithmeticOperator

    def written(self) -> tuple[str, int]:
        tight = SUM if self.operator in "+-" else PRODUCT
        return f"{self.left.within(tight)} {self.operator} {self.right.within(tight + 1)}", tight


@dataclass(frozen=True, slots=True)
class Comparison(_OfTwoNumbers, ConditionExpression):
    """Two numbers with ``<``, ``<=``, ``>``, ``>=``, ``==`` or ``!=`` between them."""

    operator: ComparisonOperator

    def written(self) -> tuple[str, int]:
        return f"{self.left.within(SUM)} {self.operator} {self.right.within(SUM)}", COMPARE


@dataclass(frozen=True, slots=True)
class Not(ConditionExpression):
    """A condition, denied: ``not c``."""

    operand: Expression

    def _check(self) -> None:
        require(ValueKind.CONDITION, self.operand, "not")

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def written(self) -> tuple[str, int]:
        return f"not {self.operand.within(NOT)}", NOT


@dataclass(frozen=True, slots=True)
class _Joint(ConditionExpression):
    """Conditions with the same word between them."""

    word: ClassVar[str]
    tightness: ClassVar[int]

    operands: tuple[Expression, ...]

    def _check(self) -> None:
        for operand in self.operands:
            require(ValueKind.CONDITION, operand, self.word)

    def children(self) -> tuple[Expression, ...]:
        return self.operands

    def written(self) -> tuple[str, int]:
        joined = f" {self.word} ".join(operand.within(self.tightness + 1) for operand in self.operands)
        return joined, self.tightness


@dataclass(frozen=True, slots=True)
class And(_Joint):
    """At least two conditions that hold together: ``c and d``."""

    word: ClassVar = "and"
    tightness: ClassVar = AND


@dataclass(frozen=True, slots=True)
class Or(_Joint):
    """At least two conditions of which one holds: ``c or d``."""

    word: ClassVar = "or"
    tightness: ClassVar = OR


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function with its argument and parameters, in the order of the definition: ``slope(x, window=5)``."""

    function: str
    argument: Expression
    parameters: tuple[tuple[str, float], ...] = ()

    def _check(self) -> None:
        definition = FUNCTIONS[self.function]
        object.__setattr__(self, "function", Function(self.function))
        require(definition.of, self.argument, self.function)
        given = dict(self.parameters)
        values: list[tuple[str, float]] = []
        for parameter in definition.parameters:
            value = given.get(parameter.name, parameter.default)
            if value is not None:
                values.append((parameter.name, parameter.read(self.function, value)))
            elif parameter.required:
                raise PatternError(f"{self.function} needs {parameter.name}")
        object.__setattr__(self, "parameters", tuple(values))
        if self.function == "rise" and values[0][1] >= values[1][1]:
            raise PatternError(
                f"rise goes from an earlier turn i to a later j, not {values[0][1]} to {values[1][1]}"
            )

    @property
    def kind(self) -> ValueKind:
        return FUNCTIONS[self.function].gives

    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)

    def written(self) -> tuple[str, int]:
        by_name = {parameter.name: parameter.by_name for parameter in FUNCTIONS[self.function].parameters}
        given = [
            f"{name}={number_text(value)}" if by_name[name] else number_text(value)
            for name, value in self.parameters
        ]
        return f"{self.function}({', '.join([str(self.argument), *given])})", ATOM


@dataclass(frozen=True, slots=True)
class KOf(ConditionExpression):
    """Conditions of which at least ``k`` hold: ``k_of(2, c, d, e)``."""

    k: int
    operands: tuple[Expression, ...]

    def _check(self) -> None:
        if not self.operands:
            raise PatternError("k_of takes at least 1 condition")
        for operand in self.operands:
            require(ValueKind.CONDITION, operand, "k_of")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= len(self.operands):
            raise PatternError(
                f"k of k_of must be a whole number from 1 to its {len(self.operands)} conditions, not {self.k!r}"
            )

    def children(self) -> tuple[Expression, ...]:
        return self.operands

    def written(self) -> tuple[str, int]:
        return f"k_of({', '.join([str(self.k), *map(str, self.operands)])})", ATOM


@dataclass(frozen=True, slots=True)
class Named(Expression):
    """A named pattern with the arguments that were given; ``body`` is what it stands for, with all put in."""

    name: str
    arguments: tuple[tuple[str, Expression], ...]
    body: Expression

    @property
    def kind(self) -> ValueKind:
        return self.body.kind

    def children(self) -> tuple[Expression, ...]:
        return (self.body,)

    def written(self) -> tuple[str, int]:
        given = ", ".join(f"{parameter}={value}" for parameter, value in self.arguments)
        return f"{self.name}({given})" if given else self.name, ATOM


def call(function: str, argument: Expression | float, /, **parameters: float | None) -> Expression:
    """Make the call of a function; parameters that are None are left out."""
    given = tuple((name, value) for name, value in parameters.items() if value is not None)
    return Call(function, lifted(argument), given)


def _operands(joint: Any, left: Expression) -> tuple[Expression, ...]:
    """What a chain such as ``a & b & c`` has joined so far, so that it makes one node."""
    joined: tuple[Expression, ...] = left.operands if isinstance(left, joint) else (left,)
    return joined


def number_text(value: float) -> str:
    """The shortest text of a number that reads back to the same float.

    >>> number_text(3.0), number_text(0.60), number_text(-1e-9)
    ('3', '0.6', '-1e-09')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def is_plain_name(name: str) -> bool:
    """Whether a name has letters of ASCII, digits and _ only, and needs no quotes."""
    return name.isascii() and name.isidentifier()


def principle_text(principle: str) -> str:
    """The name of a principle as it is written: in quotes where it is no plain word."""
    plain = is_plain_name(principle) and principle not in RESERVED
    return principle if plain else json.dumps(principle)
