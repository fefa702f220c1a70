"""Comparisons of quantities with limits, and at which turns of which conversations each holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.patterns import Expression
from turnwise.patterns.tree import And
from turnwise.study.discovery.layout import Layout
from turnwise.study.discovery.limits import limits_above
from turnwise.study.discovery.quantities import Quantity
from turnwise.study.discovery.table import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.study.discovery.layout import Bits, Counts

Members = tuple[int, ...]
"""Places of conditions that are joined, in order."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison.

    Args:
        expression: the comparison.
        quantity: place of what is compared; two conditions on one quantity are never joined.
        family: of the quantity, with the direction.
        alone: whether it may stand alone.
    """

    expression: Expression
    quantity: int
    family: str
    alone: bool


@dataclass(frozen=True, slots=True)
class Pool:
    """Conditions that may be joined, and where each holds.

    Args:
        conditions: the comparisons.
        bits: a row a condition.
        layout: of the rows.
    """

    conditions: tuple[Condition, ...]
    bits: Bits
    layout: Layout

    def counts(self, places: NDArray[np.intp] | None = None, within: Members = ()) -> tuple[Counts, Counts]:
        """Return how many searched attacks and benign conversations match each condition joined with others.

        Args:
            places: of the conditions; all by default.
            within: the others.
        """
        return self.layout.counts(self.bits if places is None else self.bits[places], self._joined(within))

    def matched(self, members: Members) -> NDArray[np.bool_]:
        """Return by conversation whether it matches a conjunction at any turn."""
        row: NDArray[np.bool_] = self.layout.matched(self._joined(members)[None])[0]
        return row

    def expression(self, members: Members) -> Expression:
        """Return a conjunction as a pattern."""
        parts = tuple(self.conditions[member].expression for member in members)
        return parts[0] if len(parts) == 1 else And(parts)

    def _joined(self, members: Members) -> Bits:
        import numpy as np

        if not members:
            return np.full(self.layout.bytes, 255, dtype=np.uint8)
        joined: Bits = np.bitwise_and.reduce(self.bits[list(members)], axis=0)
        return joined


def conditions_of(looked_at: Sequence[Quantity], table: Table, layout: Layout, max_fpr: float) -> Pool:
    """Return the comparisons of quantities that differ on these data.

    Of several that hold at the same turns the simplest stays. One that holds nowhere or everywhere is left out.

    Args:
        looked_at: the quantities.
        table: their values, in the same order.
        layout: of the conversations of the table.
        max_fpr: false-positive rate that a pattern may have.
    """
    import numpy as np

    seen: dict[bytes, tuple[Condition, Bits]] = {}
    for place, quantity in enumerate(looked_at):
        values = table.columns[place]
        made = list(_comparisons(place, quantity, values, table, layout, max_fpr))
        if not made:
            continue
        rows = np.array([truths for _, truths in made])
        held = rows.sum(axis=1)
        for (condition, _), bits, often in zip(made, layout.pack(rows), held, strict=True):
            if not 0 < often < rows.shape[1]:
                continue
            key = bits.tobytes()
            other = seen.get(key)
            if other is None or _simplicity(condition) < _simplicity(other[0]):
                seen[key] = condition, bits
    kept = tuple(condition for condition, _ in seen.values())
    packed = np.array([bits for _, bits in seen.values()], dtype=np.uint8).reshape(len(kept), layout.bytes)
    return Pool(kept, packed, layout)


def _simplicity(condition: Condition) -> tuple[bool, int, int]:
    text = str(condition.expression)
    return not condition.alone, condition.expression.size, len(text)


def _comparisons(
    place: int, quantity: Quantity, values: NDArray[np.float64], table: Table, layout: Layout, max_fpr: float
) -> Iterator[tuple[Condition, NDArray[np.bool_]]]:
    x, alone = quantity.expression, quantity.alone
    up, down = f"{quantity.family} up", f"{quantity.family} down"
    if quantity.limits:
        for limit in quantity.limits:
            if quantity.above:
                yield Condition(x >= limit, place, up, alone), values >= limit
            if quantity.below:
                yield Condition(x <= limit, place, down, alone), values <= limit
        return
    if quantity.above:
        peaks = _peaks(values, table)
        for limit in limits_above(values, peaks[layout.searched_benign], peaks[layout.searched_attacks], max_fpr):
            yield Condition(x > limit, place, up, alone), values > limit
    if quantity.below:
        peaks = _peaks(-values, table)
        for limit in limits_above(-values, peaks[layout.searched_benign], peaks[layout.searched_attacks], max_fpr):
            yield Condition(x < 0.0 - limit, place, down, alone), values < -limit


def _peaks(values: NDArray[np.float64], table: Table) -> NDArray[np.float64]:
    """Return the highest value of every conversation; NaN where all are."""
    import numpy as np

    peaks: NDArray[np.float64] = np.fmax.reduceat(values, table.starts)
    return peaks
