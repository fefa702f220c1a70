"""The pattern language in Python: ``slope(series("reciprocity").F, window=5) > 0.1``.

Each function has the name and the meaning that it has in the text form; ``any`` and ``all`` have an underscore
more, so that they don't hide Python's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.conversation import Side
from turnwise.errors import PatternError
from turnwise.patterns.expression import Expression, lifted
from turnwise.patterns.functions import Function
from turnwise.patterns.tree import Call, Component, KOf, Length, Series, TurnNumber

TRUST = {"alpha": 0.3, "start": 0.5}
"""Parameters of the average that ``trust`` is short for. Source: the specification's session memory."""


@dataclass(frozen=True, slots=True)
class SeriesOf:
    """The series of one principle, or of the worst over the principles evaluated at each turn.

    Args:
        principle: its name; None for the worst: the highest F and I, the lowest T, balance and strength.
        side: prompt or response.
    """

    principle: str | None = None
    side: Side = Side.PROMPT

    @property
    def T(self) -> Expression:  # noqa: N802 - the field's name
        """Truth."""
        return self._read("T")

    @property
    def I(self) -> Expression:  # noqa: N802, E743 - the field's name
        """Indeterminacy."""
        return self._read("I")

    @property
    def F(self) -> Expression:  # noqa: N802 - the field's name
        """Falsity."""
        return self._read("F")

    @property
    def balance(self) -> Expression:
        """Reciprocity balance, `turnwise.scoring.balance`."""
        return self._read("balance")

    @property
    def strength(self) -> Expression:
        """Trust strength, `turnwise.scoring.trust_strength`."""
        return self._read("strength")

    @property
    def trust(self) -> Expression:
        """Trust: ``ema(strength, alpha=0.3, start=0.5)``."""
        return Call(Function.EMA, self.strength, tuple(TRUST.items()))

    def _read(self, component: Component) -> Expression:
        return Series(component, self.principle, self.side)


def series(principle: str | None = None, side: Side | str = Side.PROMPT) -> SeriesOf:
    """Return the series of a principle: its T, I, F, balance, strength and trust.

    Args:
        principle: its name; None for the worst over the principles evaluated at each turn.
        side: ``"prompt"`` or ``"response"``.

    Raises:
        PatternError: no such side.

    >>> print(series("reciprocity").F - series(side="response").F > 0.5)
    reciprocity.F - response.F > 0.5
    """
    if side not in tuple(Side):
        raise PatternError(f"the side of a turn is {' or '.join(Side)}, not {side!r}")
    return SeriesOf(principle, Side(side))


def turn() -> Expression:
    """Return the number of the turn, from 1."""
    return TurnNumber()


def chars(side: Side | str = Side.PROMPT) -> Expression:
    """Return the characters of one side of the turn."""
    return Length(series(side=side).side)


def k_of(k: int, *conditions: Expression) -> Expression:
    """Return whether at least k of the conditions hold at a turn."""
    return KOf(k, conditions)


def at(x: Expression | float, k: int) -> Expression:
    """Return x at turn k."""
    return Call(Function.AT, lifted(x), (("k", k),))


def first(x: Expression | float) -> Expression:
    """Return the first value of x."""
    return Call(Function.FIRST, lifted(x))


def last(x: Expression | float) -> Expression:
    """Return the latest value of x."""
    return Call(Function.LAST, lifted(x))


def peak(x: Expression | float) -> Expression:
    """Return the highest value of x so far."""
    return Call(Function.PEAK, lifted(x))


def low(x: Expression | float) -> Expression:
    """Return the lowest value of x so far."""
    return Call(Function.LOW, lifted(x))


def mean(x: Expression | float) -> Expression:
    """Return the mean of x so far."""
    return Call(Function.MEAN, lifted(x))


def rise(x: Expression | float, i: int, j: int) -> Expression:
    """Return x at turn j minus x at turn i, with i < j."""
    return Call(Function.RISE, lifted(x), (("i", i), ("j", j)))


def delta(x: Expression | float) -> Expression:
    """Return x at this turn minus the value before it."""
    return Call(Function.DELTA, lifted(x))


def drop(x: Expression | float) -> Expression:
    """Return how far x is below its peak so far."""
    return Call(Function.DROP, lifted(x))


def slope(x: Expression | float, window: int | None = None) -> Expression:
    """Return the least-squares slope of x over turn numbers, of all values or the last `window`."""
    return _call(Function.SLOPE, lifted(x), window=window)


def volatility(x: Expression | float) -> Expression:
    """Return the mean absolute difference between one value of x and the next."""
    return Call(Function.VOLATILITY, lifted(x))


def ema(x: Expression | float, alpha: float = 0.3, start: float | None = None) -> Expression:
    """Return the exponential moving average of x, from `start` or from its first value."""
    return _call(Function.EMA, lifted(x), alpha=alpha, start=start)


def cusum(x: Expression | float, drift: float) -> Expression:
    """Return the cumulative sum max(0, before + x - drift), from 0."""
    return Call(Function.CUSUM, lifted(x), (("drift", drift),))


def streak(condition: Expression) -> Expression:
    """Return the longest run so far of consecutive turn numbers at which a condition held."""
    return Call(Function.STREAK, condition)


def current_streak(condition: Expression) -> Expression:
    """Return the run of consecutive turn numbers up to this one at which a condition held."""
    return Call(Function.CURRENT_STREAK, condition)


def count(condition: Expression) -> Expression:
    """Return how many turns a condition held at so far."""
    return Call(Function.COUNT, condition)


def share(condition: Expression) -> Expression:
    """Return the share of turns at which a condition held, of those at which it could be told."""
    return Call(Function.SHARE, condition)


def any_(condition: Expression) -> Expression:
    """Return whether a condition held at some turn so far."""
    return Call(Function.ANY, condition)


def all_(condition: Expression) -> Expression:
    """Return whether a condition held at every turn so far at which it could be told, at least one."""
    return Call(Function.ALL, condition)


def turns_since(condition: Expression) -> Expression:
    """Return this turn number minus that of the latest turn at which a condition held."""
    return Call(Function.TURNS_SINCE, condition)


def _call(function: Function, argument: Expression, **parameters: float | None) -> Expression:
    given = tuple((name, value) for name, value in parameters.items() if value is not None)
    return Call(function, argument, given)
