"""From a series to the list columns that it is read from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnwise.conversation import Side
from turnwise.errors import UnknownNameError
from turnwise.patterns.functions import MAX_TURN
from turnwise.patterns.sql.terms import UNDEFINED, Term, number
from turnwise.patterns.tree import Length, Series
from turnwise.scoring.score import HOSTILE_F, LONG_TEXT

_LONGEST = 1e12
"""More characters than a text can have."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The list columns of a table of trajectories: a row a sequence, an element an evaluated turn, NULL at gaps.

    The table has ``sequence``, ``turn``, ``prompt_chars``, ``response_chars`` and, of every scored principle and
    side, ``T``, ``I`` and ``F`` with its place in `scored` behind: ``F0`` is F of the first. All are DOUBLE[].

    Args:
        scored: (principle, side) of every triple of columns.
    """

    scored: tuple[tuple[str, Side], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of scores, in order.

        >>> Columns((("candour", Side.PROMPT),)).names
        ('T0', 'I0', 'F0')
        """
        return tuple(f"{component}{place}" for place in range(len(self.scored)) for component in "TIF")

    def series(self, series: Series) -> Term:
        """Return a series at the present turn.

        Raises:
            UnknownNameError: nothing was scored against its principle.
        """
        if series.principle is not None:
            principles = {principle for principle, _ in self.scored}
            if series.principle not in principles:
                raise UnknownNameError("principle", series.principle, principles)
        wanted = [
            place
            for place, (principle, side) in enumerate(self.scored)
            if side is series.side and series.principle in {None, principle}
        ]
        low, high = (-1.0, 1.0) if series.component == "balance" else (0.0, 1.0)
        if not wanted:
            return UNDEFINED
        worst = "greatest" if series.component in {"F", "I"} else "least"
        parts = [_of_score(series.component, place, series.side) for place in wanted]
        return Term(parts[0] if len(parts) == 1 else f"{worst}({', '.join(parts)})", 0, False, low, high)

    def length(self, length: Length) -> Term:
        """Return the characters of one side at the present turn."""
        sql = f"{{c:{length.side}_chars}}"
        if length.side is Side.RESPONSE:
            scored = self._evaluated(Side.RESPONSE)
            if not scored:
                return UNDEFINED
            sql = f"CASE WHEN {scored} THEN {sql} END"
        return Term(sql, 0, False, 0.0, _LONGEST)

    def turn(self) -> Term:
        """Return the number of the present turn."""
        return Term("{c:turn}", 0, False, 1.0, float(MAX_TURN))

    def _evaluated(self, side: Side) -> str:
        places: Iterable[int] = (place for place, (_, scored) in enumerate(self.scored) if scored is side)
        return " OR ".join(f"{{c:F{place}}} IS NOT NULL" for place in places)


def _of_score(component: str, place: int, side: Side) -> str:
    """Return a component of a score, or one of the two scalars of `turnwise.scoring.score`, which see."""
    T, I, F = (f"{{c:{name}{place}}}" for name in "TIF")  # noqa: E741 - the field's names
    hostile = f"{F} > {number(HOSTILE_F).sql}"
    saturated = f"({{c:{side}_chars}} > {LONG_TEXT} AND {F} > 0.5e0)"
    if component == "balance":
        penalty = f"CASE WHEN {F} > 0.6e0 THEN 0.8e0 ELSE 0.5e0 * {F} END"
        reckoned = f"greatest(-1e0, least(1e0, {T} - 0.5e0 * abs({I} - 0.3e0) - {penalty}))"
        return f"CASE WHEN {F} IS NULL THEN NULL WHEN {hostile} OR {saturated} THEN -1e0 ELSE {reckoned} END"
    if component == "strength":
        factors = f"CASE WHEN {hostile} THEN 0.3e0 ELSE 1e0 END * CASE WHEN {saturated} THEN 0.5e0 ELSE 1e0 END"
        return f"CASE WHEN {F} IS NOT NULL THEN {factors} END"
    return f"{{c:{component}{place}}}"
