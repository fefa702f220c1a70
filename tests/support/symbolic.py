"""Runs a function of ours on unknown numbers, along each way that its conditions can turn out, for z3 to prove of.

The function itself is run, not a copy of it: `Number` stands for a real number, and each condition on one forks.
Source: J. C. King, "Symbolic execution and program testing", Communications of the ACM 19 (1976).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import z3


class Number:
    """A real number that is not known, with the arithmetic of one."""

    def __init__(self, of: Any, run: Run) -> None:
        self.of, self._run = of, run

    def _with(self, other: object, operation: Callable[[Any, Any], Any]) -> Any:
        result = operation(self.of, term(int(other) if isinstance(other, bool) else other))
        return Condition(result, self._run) if z3.is_bool(result) else Number(result, self._run)

    def __add__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: object) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a * b)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a / b)

    def __rpow__(self, base: float) -> Any:
        """Return a share of one to a power of at least 0: of this the proofs need only that it is in (0, 1]."""
        assert 0 < base < 1
        return self._run.unknown(above=0, most=1)

    def __float__(self) -> Any:
        raise TypeError("a number that is not known")

    def __abs__(self) -> Any:
        return Number(z3.If(self.of >= 0, self.of, -self.of), self._run)

    def __lt__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a < b)

    def __le__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a <= b)

    def __gt__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a > b)

    def __ge__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a >= b)


class Condition:
    """A condition on unknown numbers; to ask whether it holds decides for one way of the run."""

    def __init__(self, of: Any, run: Run) -> None:
        self.of, self._run = of, run

    def __bool__(self) -> bool:
        return self._run.decide(self.of)


def term(value: object) -> Any:
    """Return a value as z3 has it; a float as the fraction that it is."""
    if isinstance(value, Number | Condition):
        return value.of
    if isinstance(value, z3.ExprRef):
        return value
    if isinstance(value, bool):
        return z3.BoolVal(value)
    return z3.RealVal(Fraction(value))  # type: ignore[arg-type]


class Run:
    """One way through a function: the conditions that were decided, the first ones as `forced`, and how."""

    def __init__(self, forced: list[bool]) -> None:
        self.assumed: list[Any] = []
        self.decided: list[bool] = []
        self.forks: list[int] = []
        """Conditions that could have been decided otherwise."""
        self._forced = forced
        self._names = 0

    def unknown(
        self, *, least: float | None = None, most: float | None = None, above: float | None = None
    ) -> Number:
        """Return a number that is not known, in a range."""
        self._names += 1
        number = z3.Real(f"x{self._names}")
        for bound, holds in ((least, number >= term(least or 0)), (above, number > term(above or 0))):
            if bound is not None:
                self.assumed.append(holds)
        if most is not None:
            self.assumed.append(number <= term(most))
        return Number(number, self)

    def truth(self) -> Condition:
        """Return a truth value that is not known."""
        self._names += 1
        return Condition(z3.Bool(f"x{self._names}"), self)

    def assume(self, condition: object) -> None:
        """Look only at inputs of which a condition holds."""
        self.assumed.append(term(condition))

    def decide(self, condition: Any) -> bool:
        """Decide a condition: as forced, else as it can be."""
        place = len(self.decided)
        if place < len(self._forced):
            holds = self._forced[place]
        else:
            holds = self._can_be(condition)
            if holds and self._can_be(z3.Not(condition)):
                self.forks.append(place)
        self.decided.append(holds)
        self.assumed.append(condition if holds else z3.Not(condition))
        return holds

    def _can_be(self, condition: Any) -> bool:
        solver = z3.Solver()
        solver.add(*self.assumed, condition)
        found = solver.check()
        assert found != z3.unknown, f"z3 can't tell whether {condition} can be"
        return bool(found == z3.sat)


def ways(function: Callable[[Run], Any]) -> Iterator[tuple[Run, Any]]:
    """Yield each way through a function, which takes its unknown inputs from a `Run`, and what it returns."""
    left: list[list[bool]] = [[]]
    while left:
        run = Run(left.pop())
        result = function(run)
        left += [[*run.decided[:place], False] for place in run.forks]
        yield run, result


def counterexample(function: Callable[[Run], Any]) -> str | None:
    """Return inputs for which not all holds that a function, as for `ways`, returns; None if there are none."""
    seen = 0
    for run, result in ways(function):
        seen += 1
        claims = result if isinstance(result, list) else [result]
        solver = z3.Solver()
        solver.add(*run.assumed, z3.Not(z3.And(*map(term, claims))))
        found = solver.check()
        if found != z3.unsat:
            return (
                f"z3: {found}; way {run.decided}; {solver.model() if found == z3.sat else solver.reason_unknown()}"
            )
    assert seen, "no input is left by what was assumed"
    return None
