"""The expression tree of the pattern language. A tree that can be built fits together: its nodes check it.

``trust`` is read as ``ema(strength, alpha=0.3, start=0.5)`` and has no node of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from turnwise.conversation import Side
from turnwise.errors import PatternError
from turnwise.patterns.expression import ConditionExpression, Expression, NumberExpression, lifted, require
from turnwise.patterns.functions import FUNCTIONS, LARGEST, Function, Kind

Component = Literal["T", "I", "F", "balance", "strength"]
"""What a series reads of a score; balance and strength are those of `turnwise.scoring`."""

ArithmeticOperator = Literal["+", "-", "*", "/"]
ComparisonOperator = Literal["<", "<=", ">", ">=", "==", "!="]

COMPONENTS: tuple[str, ...] = get_args(Component)
COMPARISONS: tuple[str, ...] = get_args(ComparisonOperator)
ARITHMETIC: tuple[str, ...] = get_args(ArithmeticOperator)


@dataclass(frozen=True, slots=True)
class Number(NumberExpression):
    """A number such as ``0.5``: finite, at most 1e100 in size."""

    value: float

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise PatternError(f"{self.value!r} is not a number")
        if not -LARGEST <= self.value <= LARGEST:
            raise PatternError(f"a number must be finite and at most {LARGEST:g} in size, not {self.value!r}")
        object.__setattr__(self, "value", float(self.value))
        self._measure()


@dataclass(frozen=True, slots=True)
class Series(NumberExpression):
    """One component of the scores, turn by turn: ``reciprocity.F``, ``response.F``, ``balance``.

    Without a principle it is the worst over those evaluated at the turn: the highest F and I, the lowest T,
    balance and strength.
    """

    component: Component
    principle: str | None = None
    side: Side = Side.PROMPT

    def __post_init__(self) -> None:
        if self.component not in COMPONENTS:
            raise PatternError(f"unknown series {self.component!r}: a score has {', '.join(COMPONENTS)}")
        if self.principle == "":
            raise PatternError("a principle needs a name")
        self._measure()


@dataclass(frozen=True, slots=True)
class OtherRun(NumberExpression):
    """A series of another run over the same conversations: ``run("second").F``; a gap where it has no score."""

    run: str
    series: Series

    def __post_init__(self) -> None:
        if not self.run:
            raise PatternError("a run needs a name")
        self._measure()


@dataclass(frozen=True, slots=True)
class TurnNumber(NumberExpression):
    """The number of the turn, from 1: ``turn``."""

    def __post_init__(self) -> None:
        self._measure()


@dataclass(frozen=True, slots=True)
class Length(NumberExpression):
    """The characters of one side of the turn: ``chars``, ``response.chars``."""

    side: Side = Side.PROMPT

    def __post_init__(self) -> None:
        self._measure()


@dataclass(frozen=True, slots=True)
class Negative(NumberExpression):
    """A number with its sign changed: ``-x``."""

    operand: Expression

    def __post_init__(self) -> None:
        require(Kind.NUMBER, self.operand, "-")
        self._measure()

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class _OfTwoNumbers(Expression):
    """Two numbers with an operator between them."""

    operators: ClassVar[tuple[str, ...]]
    noun: ClassVar[str]
    """What an operator of the node is called in messages."""

    operator: str
    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        if self.operator not in self.operators:
            raise PatternError(f"unknown {self.noun} {self.operator!r}: use {' '.join(self.operators)}")
        require(Kind.NUMBER, self.left, self.operator)
        require(Kind.NUMBER, self.right, self.operator)
        self._measure()

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Arithmetic(_OfTwoNumbers, NumberExpression):
    """Two numbers with ``+``, ``-``, ``*`` or ``/`` between them."""

    operators: ClassVar = ARITHMETIC
    noun: ClassVar = "operator"

    operator: ArithmeticOperator


@dataclass(frozen=True, slots=True)
class Comparison(_OfTwoNumbers, ConditionExpression):
    """Two numbers with ``<``, ``<=``, ``>``, ``>=``, ``==`` or ``!=`` between them."""

    operators: ClassVar = COMPARISONS
    noun: ClassVar = "comparison"

    operator: ComparisonOperator


@dataclass(frozen=True, slots=True)
class Not(ConditionExpression):
    """A condition, denied: ``not c``."""

    operand: Expression

    def __post_init__(self) -> None:
        require(Kind.CONDITION, self.operand, "not")
        self._measure()

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class _Joint(ConditionExpression):
    """Conditions with the same word between them."""

    word: ClassVar[str]

    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _require_conditions(self.word, self.operands, 2)
        self._measure()

    def children(self) -> tuple[Expression, ...]:
        return self.operands


@dataclass(frozen=True, slots=True)
class And(_Joint):
    """At least two conditions that hold together: ``c and d``."""

    word: ClassVar = "and"


@dataclass(frozen=True, slots=True)
class Or(_Joint):
    """At least two conditions of which one holds: ``c or d``."""

    word: ClassVar = "or"


@dataclass(frozen=True, slots=True)
class KOf(ConditionExpression):
    """Conditions of which at least ``k`` hold: ``k_of(2, c, d, e)``."""

    k: int
    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _require_conditions("k_of", self.operands, 1)
        self._measure()
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= len(self.operands):
            raise PatternError(
                f"k of k_of must be a whole number from 1 to its {len(self.operands)} conditions, not {self.k!r}"
            )

    def children(self) -> tuple[Expression, ...]:
        """Return the conditions."""
        return self.operands


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function with its argument and parameters: ``slope(x, window=5)``.

    ``parameters`` are (name, value) in the order of the definition. Defaults are filled in here, and one that may
    be left out is absent. Whole numbers are ints, others floats.
    """

    function: str
    argument: Expression
    parameters: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        definition = FUNCTIONS[self.function]
        object.__setattr__(self, "function", Function(self.function))
        require(definition.of, self.argument, self.function)
        given = dict(self.parameters)
        values: list[tuple[str, float]] = []
        for parameter in definition.parameters:
            value = given.pop(parameter.name, parameter.default)
            if value is not None:
                values.append((parameter.name, parameter.read(self.function, value)))
            elif parameter.required:
                raise PatternError(f"{self.function} needs {parameter.name}")
        if given:
            raise PatternError(f"{self.function} has no parameter {next(iter(given))!r}")
        object.__setattr__(self, "parameters", tuple(values))
        if self.function == "rise" and values[0][1] >= values[1][1]:
            raise PatternError(
                f"rise goes from an earlier turn i to a later j, not {values[0][1]} to {values[1][1]}"
            )
        self._measure()

    @property
    def kind(self) -> Kind:
        """Whether it gives a number or a condition."""
        return FUNCTIONS[self.function].gives

    def children(self) -> tuple[Expression, ...]:
        """Return the argument."""
        return (self.argument,)


def call(function: str, argument: Expression | float, /, **parameters: float | None) -> Expression:
    """Make the call of a function; parameters that are None are left out."""
    given = tuple((name, value) for name, value in parameters.items() if value is not None)
    return Call(function, lifted(argument), given)


@dataclass(frozen=True, slots=True)
class Named(Expression):
    """A named pattern.

    ``arguments`` are (parameter, expression) of those that were given, in the order of the pattern's parameters.
    ``body`` is what it stands for and what is evaluated, with arguments and defaults put in.
    """

    name: str
    arguments: tuple[tuple[str, Expression], ...]
    body: Expression

    def __post_init__(self) -> None:
        self._measure()

    @property
    def kind(self) -> Kind:
        """Whether it is a number or a condition."""
        return self.body.kind

    def children(self) -> tuple[Expression, ...]:
        """Return the expression that it stands for."""
        return (self.body,)


def _require_conditions(where: str, operands: tuple[Expression, ...], least: int) -> None:
    if len(operands) < least:
        raise PatternError(f"{where} takes at least {least} condition{'s' if least > 1 else ''}")
    for operand in operands:
        require(Kind.CONDITION, operand, where)
