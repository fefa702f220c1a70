"""What an expression reads of a turn, and what is made of expressions beside operators and functions.

``trust`` is read as ``ema(strength, alpha=0.3, start=0.5)`` and has no node of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, get_args

from turnwise.conversation import Side
from turnwise.errors import PatternError
from turnwise.patterns.expression import ConditionExpression, Expression, NumberExpression, require_conditions
from turnwise.patterns.functions import Kind
from turnwise.patterns.notation import ATOM, principle_text

Component = Literal["T", "I", "F", "balance", "strength"]
"""What a series reads of a score; balance and strength are those of `turnwise.scoring`."""

COMPONENTS: tuple[str, ...] = get_args(Component)


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
            raise PatternError(f"unknown series {self.component!r}; known: {', '.join(COMPONENTS)}")
        if self.principle == "":
            raise PatternError("a principle needs a name")
        self._measure()

    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""
        side = ["response"] if self.side is Side.RESPONSE else []
        principle = [] if self.principle is None else [principle_text(self.principle)]
        return ".".join([*side, *principle, self.component]), ATOM


@dataclass(frozen=True, slots=True)
class OtherRun(NumberExpression):
    """A series of another run over the same conversations: ``run("second").F``; a gap where it has no score."""

    run: str
    series: Series

    def __post_init__(self) -> None:
        if not self.run:
            raise PatternError("a run needs a name")
        self._measure()

    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""
        return f"run({json.dumps(self.run)}).{self.series}", ATOM


@dataclass(frozen=True, slots=True)
class TurnNumber(NumberExpression):
    """The number of the turn, from 1: ``turn``."""

    def __post_init__(self) -> None:
        self._measure()

    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""
        return "turn", ATOM


@dataclass(frozen=True, slots=True)
class Length(NumberExpression):
    """The characters of one side of the turn: ``chars``, ``response.chars``."""

    side: Side = Side.PROMPT

    def __post_init__(self) -> None:
        self._measure()

    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""
        return "response.chars" if self.side is Side.RESPONSE else "chars", ATOM


@dataclass(frozen=True, slots=True)
class KOf(ConditionExpression):
    """Conditions of which at least ``k`` hold: ``k_of(2, c, d, e)``."""

    k: int
    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        require_conditions("k_of", self.operands, 1)
        self._measure()
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= len(self.operands):
            raise PatternError(
                f"k of k_of must be a whole number from 1 to its {len(self.operands)} conditions, not {self.k!r}"
            )

    def children(self) -> tuple[Expression, ...]:
        """Return the conditions."""
        return self.operands

    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""
        return f"k_of({', '.join([str(self.k), *map(str, self.operands)])})", ATOM


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

    def written(self) -> tuple[str, int]:
        """Return the text and how tightly it holds together."""
        given = ", ".join(f"{parameter}={value}" for parameter, value in self.arguments)
        return f"{self.name}({given})" if given else self.name, ATOM
