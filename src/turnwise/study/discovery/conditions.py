"""Comparisons of quantities with limits, and at which turns of which conversations each holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.patterns import Expression
from turnwise.patterns.expression import And
from turnwise.study.discovery.quantities import Quantity, TurnValues

Bits = NDArray[np.uint8]
IntArray = NDArray[np.int64]


Members = tuple[int, ...]
"""Places of conditions that are joined, in order."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison; `alone` says whether it may stand alone. Two on one quantity are never joined."""

    expression: Expression
    quantity: int
    family: str
    alone: bool


@dataclass(frozen=True, slots=True)
class Pool:
    """Conditions that may be joined, and where each holds: a row of bits a condition."""

    conditions: tuple[Condition, ...]
    bits: Bits
    layout: BitLayout

    def counts(self, places: NDArray[np.intp] | None = None, within: Members = ()) -> tuple[IntArray, IntArray]:
        """How many searched attacks and benign conversations match each condition joined with those within."""
        return self.layout.counts(self.bits if places is None else self.bits[places], self._joined(within))

    def matched(self, members: Members) -> NDArray[np.bool_]:
        """By conversation, whether it matches a conjunction at any turn."""
        row: NDArray[np.bool_] = self.layout.matched(self._joined(members)[None])[0]
        return row

    def expression(self, members: Members) -> Expression:
        """A conjunction as a pattern."""
        parts = tuple(self.conditions[member].expression for member in members)
        return parts[0] if len(parts) == 1 else And(parts)

    def _joined(self, members: Members) -> Bits:
        if not members:
            return np.full(self.layout.bytes, 255, dtype=np.uint8)
        joined: Bits = np.bitwise_and.reduce(self.bits[list(members)], axis=0)
        return joined


def conditions_of(looked_at: Sequence[Quantity], table: TurnValues, layout: BitLayout, max_fpr: float) -> Pool:
    """The comparisons of quantities; of several that hold at the same turns the simplest."""
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
    place: int,
    quantity: Quantity,
    values: NDArray[np.float64],
    table: TurnValues,
    layout: BitLayout,
    max_fpr: float,
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


def _peaks(values: NDArray[np.float64], table: TurnValues) -> NDArray[np.float64]:
    """The highest value of every conversation; NaN where all are."""
    peaks: NDArray[np.float64] = np.fmax.reduceat(values, table.starts)
    return peaks


USUAL = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles over benign turns that conditions within functions compare with."""

BENIGN = (0.5, 0.8, 0.9, 0.95)
"""Quantiles of the highest value of benign conversations; that of the false-positive rate comes beside them."""

ATTACK = (0.25, 0.5, 0.75)
"""Quantiles of the highest value of attacks."""

TURNS = (0.25, 0.5, 0.75)
"""Quantiles over all turns, for conditions that are the background of others."""

_STEPS = 20
"""Steps of the grid that limits are rounded to, at least, within the usual range of a quantity."""

_MOST_DECIMALS = 6


def decimals_of(values: NDArray[np.float64]) -> int | None:
    """The fewest decimals that divide the usual range of a quantity into 20 steps; None where it does not vary.

    >>> import numpy as np
    >>> decimals_of(np.linspace(0, 1, 11)), decimals_of(np.linspace(0, 0.01, 11)), decimals_of(np.ones(3))
    (2, 4, None)
    """
    known = values[~np.isnan(values)]
    if not known.size:
        return None
    low, high = np.quantile(known, (0.05, 0.95))
    spread = float(high - low) or float(known.max() - known.min())
    if spread <= 0:
        return None
    return min(max(math.ceil(-math.log10(spread / _STEPS)), 0), _MOST_DECIMALS)


def usual_values(values: NDArray[np.float64]) -> tuple[float, ...]:
    """The five quantiles `USUAL` of a series over benign turns, rounded."""
    decimals = decimals_of(values)
    known = values[~np.isnan(values)]
    if not known.size:
        return (0.05, 0.25, 0.5, 0.75, 0.95)
    return tuple(round(float(value), 2 if decimals is None else decimals) for value in np.quantile(known, USUAL))


def limits_above(
    values: NDArray[np.float64],
    benign_peaks: NDArray[np.float64],
    attack_peaks: NDArray[np.float64],
    max_fpr: float,
) -> tuple[float, ...]:
    """The limits of ``x > limit``, from x at every turn and its highest in each conversation; NaN where undefined.

    >>> import numpy as np
    >>> low, high = np.linspace(0, 0.5, 101), np.linspace(0.4, 1, 101)
    >>> limits_above(np.concatenate([low, high]), low, high, 0.01)
    (0.25, 0.4, 0.45, 0.48, 0.5, 0.54, 0.69, 0.7, 0.84)
    """
    # A quantile of benign conversations is rounded up, so that what it leaves out stays out; one of attacks goes
    # to the step below it, so that it stays in.
    decimals = decimals_of(values)
    if decimals is None:
        return ()
    step = 10.0**-decimals
    found = {_up(value, step) for value in _quantiles(benign_peaks, (*BENIGN, 1 - max_fpr))}
    found |= {_below(value, step) for value in _quantiles(attack_peaks, ATTACK)}
    found |= set(_quantiles(values, TURNS))
    highest = float(np.nanmax(values))
    return tuple(sorted({round(value, decimals) for value in found if round(value, decimals) < highest}))


def _quantiles(values: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    known = values[~np.isnan(values)]
    return [float(value) for value in np.quantile(known, shares)] if known.size else []


def _up(value: float, step: float) -> float:
    return math.ceil(value / step - 1e-9) * step


def _below(value: float, step: float) -> float:
    return (math.ceil(value / step - 1e-9) - 1) * step


_BLOCK = 512
"""Rows that are joined with another at a time, which bounds the memory."""


class BitLayout:
    """Where the turns of each conversation stand in a row of bits."""

    # The first eight turns of every conversation have a byte each, benign conversations first; later turns of the
    # longer ones have whole bytes behind them. Most conversations are short, and a byte is compared far faster
    # than a stretch of bytes is reduced.

    def __init__(
        self, lengths: NDArray[np.intp], benign: int, searched_benign: int, searched_attacks: int
    ) -> None:
        self.conversations = len(lengths)
        self.benign = benign
        self.searched_benign = slice(0, searched_benign)
        self.searched_attacks = slice(benign, benign + searched_attacks)
        further = np.maximum(0, -(-(lengths - 8) // 8))
        self._long = np.flatnonzero(further)
        self._starts = np.concatenate(([0], np.cumsum(further[self._long])[:-1])).astype(np.intp)
        self.bytes = self.conversations + int(further.sum())
        turn = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        conversation = np.repeat(np.arange(self.conversations), lengths)
        later = np.zeros(self.conversations, dtype=np.intp)
        later[self._long] = self.conversations + self._starts
        self._places = np.where(turn < 8, conversation * 8 + turn, later[conversation] * 8 + turn - 8)

    def pack(self, rows: NDArray[np.bool_]) -> Bits:
        """Truths as bits, a row a condition, a column a turn."""
        wide = np.zeros((len(rows), self.bytes * 8), dtype=np.bool_)
        wide[:, self._places] = rows
        return np.packbits(wide, axis=1)

    def matched(self, bits: Bits) -> NDArray[np.bool_]:
        """By conversation, whether a condition held at any turn; a row a condition."""
        held: NDArray[np.bool_] = bits[:, : self.conversations] != 0
        if self._long.size:
            held[:, self._long] |= np.bitwise_or.reduceat(bits[:, self.conversations :], self._starts, axis=1) != 0
        return held

    def counts(self, bits: Bits, within: Bits) -> tuple[IntArray, IntArray]:
        """How many searched attacks and benign conversations match each condition at turns within another's."""
        attacks = np.empty(len(bits), dtype=np.int64)
        benign = np.empty(len(bits), dtype=np.int64)
        for begin in range(0, len(bits), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            hits = self.matched(bits[block] & within)
            ones = hits.view(np.uint8)
            benign[block] = np.add.reduce(ones[:, self.searched_benign], axis=1, dtype=np.uint32)
            attacks[block] = np.add.reduce(ones[:, self.searched_attacks], axis=1, dtype=np.uint32)
        return attacks, benign
