"""What an expression reads of a turn, and how Python asks for it: ``slope(series("reciprocity").F) > 0.1``.

``trust`` is read as ``ema(strength, alpha=0.3, start=0.5)`` and has no node of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, get_args

from turnwise.conversation import Side
from turnwise.errors import PatternError
from turnwise.patterns.expression import ATOM, Expression, NumberExpression, call, principle_text

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

    def _check(self) -> None:
        if self.principle == "":
            raise PatternError("a principle needs a name")

    def written(self) -> tuple[str, int]:
        side = ["response"] if self.side is Side.RESPONSE else []
        principle = [] if self.principle is None else [principle_text(self.principle)]
        return ".".join([*side, *principle, self.component]), ATOM


@dataclass(frozen=True, slots=True)
class OtherRun(NumberExpression):
    """A series of another run over the same conversations: ``run("second").F``; a gap where it has no score."""

    run: str
    series: Series

    def _check(self) -> None:
        if not self.run:
            raise PatternError("a run needs a name")

    def written(self) -> tuple[str, int]:
        return f"run({json.dumps(self.run)}).{self.series}", ATOM


@dataclass(frozen=True, slots=True)
class TurnNumber(NumberExpression):
    """The number of the turn, from 1: ``turn``."""

    def written(self) -> tuple[str, int]:
        return "turn", ATOM


@dataclass(frozen=True, slots=True)
class Length(NumberExpression):
    """The characters of one side of the turn: ``chars``, ``response.chars``."""

    side: Side = Side.PROMPT

    def written(self) -> tuple[str, int]:
        return "response.chars" if self.side is Side.RESPONSE else "chars", ATOM


TRUST = {"alpha": 0.3, "start": 0.5}
"""Parameters of the average that ``trust`` is short for. Source: the specification's session memory."""


@dataclass(frozen=True, slots=True)
class SeriesOf:
    """The series of one principle, or of the worst over the principles evaluated at each turn; see `Series`."""

    principle: str | None = None
    side: Side = Side.PROMPT
    run: str | None = None

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
        return call("ema", self.strength, **TRUST)

    def _read(self, component: Component) -> Expression:
        series = Series(component, self.principle, self.side)
        return series if self.run is None else OtherRun(self.run, series)


def series(principle: str | None = None, side: Side | str = Side.PROMPT, run: str | None = None) -> SeriesOf:
    """Return the series of a principle: its T, I, F, balance, strength and trust.

    Args:
        principle: its name; None for the worst over the principles evaluated at each turn.
        side: ``"prompt"`` or ``"response"``.
        run: name of another run whose scores are meant, in a question over stored runs; None for the run itself.

    Raises:
        PatternError: no such side.

    >>> print(series("reciprocity").F - series(side="response").F > 0.5)
    reciprocity.F - response.F > 0.5
    """
    if side not in tuple(Side):
        raise PatternError(f"the side of a turn must be {' or '.join(Side)}, not {side!r}")
    return SeriesOf(principle, Side(side), run)


def turn() -> Expression:
    """Return the number of the turn, from 1."""
    return TurnNumber()


def chars(side: Side | str = Side.PROMPT) -> Expression:
    """Return the characters of one side of the turn."""
    return Length(series(side=side).side)
