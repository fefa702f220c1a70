"""The expression tree of the pattern language. A tree that can be built fits together: its nodes check it.

    Expression
    ├── Number          0.5
    ├── Series          reciprocity.F, F, response.F, response.reciprocity.F, balance
    ├── OtherRun        run("second").reciprocity.F: a series of another run
    ├── TurnNumber      turn
    ├── Length          chars, response.chars
    ├── Negative        -x
    ├── Arithmetic      x + y, x - y, x * y, x / y
    ├── Comparison      x < y, x <= y, x > y, x >= y, x == y, x != y
    ├── Not, And, Or    not c, c and d, c or d
    ├── KOf             k_of(2, c, d, e)
    ├── Call            a function, with one argument and parameters: slope(x, window=5)
    └── Named           a named pattern with its arguments, and the expression that it stands for

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
    """A number.

    Args:
        value: finite, at most 1e100 in size.

    Raises:
        PatternError: not such a number.
    """

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
    """One component of the scores, turn by turn.

    Args:
        component: what is read of a score.
        principle: whose score; None for the worst over the principles evaluated at the turn: the highest F and I,
            the lowest T, balance and strength.
        side: prompt or response.
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
    """A series of another run over the same conversations; a gap where that run has no score of the turn.

    Args:
        run: name of the run.
        series: what is read of it.
    """

    run: str
    series: Series

    def __post_init__(self) -> None:
        if not self.run:
            raise PatternError("a run needs a name")
        self._measure()


@dataclass(frozen=True, slots=True)
class TurnNumber(NumberExpression):
    """The number of the turn, from 1."""

    def __post_init__(self) -> None:
        self._measure()


@dataclass(frozen=True, slots=True)
class Length(NumberExpression):
    """The characters of one side of the turn.

    Args:
        side: prompt or response.
    """

    side: Side = Side.PROMPT

    def __post_init__(self) -> None:
        self._measure()


@dataclass(frozen=True, slots=True)
class Negative(NumberExpression):
    """A number with its sign changed.

    Args:
        operand: a number.
    """

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
        """Return both sides."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Arithmetic(_OfTwoNumbers, NumberExpression):
    """Two numbers, reckoned together.

    Args:
        operator: ``+``, ``-``, ``*`` or ``/``.
        left: a number.
        right: a number.
    """

    operators: ClassVar = ARITHMETIC
    noun: ClassVar = "operator"

    operator: ArithmeticOperator


@dataclass(frozen=True, slots=True)
class Comparison(_OfTwoNumbers, ConditionExpression):
    """Two numbers, compared.

    Args:
        operator: ``<``, ``<=``, ``>``, ``>=``, ``==`` or ``!=``.
        left: a number.
        right: a number.
    """

    operators: ClassVar = COMPARISONS
    noun: ClassVar = "comparison"

    operator: ComparisonOperator


@dataclass(frozen=True, slots=True)
class Not(ConditionExpression):
    """A condition, denied.

    Args:
        operand: a condition.
    """

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
        """Return the conditions."""
        return self.operands


@dataclass(frozen=True, slots=True)
class And(_Joint):
    """Conditions that hold together.

    Args:
        operands: at least two conditions.
    """

    word: ClassVar = "and"


@dataclass(frozen=True, slots=True)
class Or(_Joint):
    """Conditions of which at least one holds.

    Args:
        operands: at least two conditions.
    """

    word: ClassVar = "or"


@dataclass(frozen=True, slots=True)
class KOf(ConditionExpression):
    """Conditions of which at least `k` hold.

    Args:
        k: how many, from 1 to the number of conditions.
        operands: at least one condition.
    """

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
    """A function with its argument.

    Args:
        function: its name, one of `turnwise.patterns.functions.FUNCTIONS`.
        argument: what it is a function of.
        parameters: (name, value) in the order of the definition, every one that has a value: defaults are filled
            in here, and one that may be left out is absent. Whole numbers are ints, others floats.
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
    """Return a function of an argument; parameters that are None are left out.

    Raises:
        PatternError: they don't fit the function.
    """
    given = tuple((name, value) for name, value in parameters.items() if value is not None)
    return Call(function, lifted(argument), given)


@dataclass(frozen=True, slots=True)
class Named(Expression):
    """A named pattern.

    Args:
        name: its name.
        arguments: (parameter, expression) of those that were given, in the order of the pattern's parameters.
        body: the expression that it stands for, arguments and defaults put in; what is evaluated.
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
