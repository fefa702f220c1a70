"""What the Python form of the language begins with: ``slope(series("reciprocity").F, window=5) > 0.1``."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.conversation import Side
from turnwise.errors import PatternError
from turnwise.patterns.expression import Expression, call
from turnwise.patterns.tree import Component, KOf, Length, OtherRun, Series, TurnNumber

TRUST = {"alpha": 0.3, "start": 0.5}
"""Parameters of the average that ``trust`` is short for. Source: the specification's session memory."""


@dataclass(frozen=True, slots=True)
class SeriesOf:
    """The series of one principle, or of the worst over the principles evaluated at each turn.

    The worst are the highest F and I, and the lowest T, balance and strength. ``run`` is another run whose scores
    are meant; None for the run that is asked.
    """

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


def k_of(k: int, *conditions: Expression) -> Expression:
    """Return whether at least k of the conditions hold at a turn; unknown until enough do, or too few could."""
    return KOf(k, conditions)
