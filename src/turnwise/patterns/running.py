"""The functions of the language turn by turn: what each keeps, and how a turn changes it.

A cell is a list of JSON values. Every step takes the cell, the turn number and the value of the argument, which is
None where it is undefined; it changes the cell in place and returns the value of the function after the turn, None
where that is undefined. docs/patterns.md has the same as a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnwise.patterns.functions import LARGEST, Function
from turnwise.patterns.tree import Call

Cell = list[Any]
Fold = Callable[[Cell, int, Any], Any]


def bounded(value: float) -> float | None:
    """Return a number, or None where it is beyond what a pattern reckons with, or no number at all.

    >>> bounded(0.5), bounded(1e101), bounded(float("nan"))
    (0.5, None, None)
    """
    return value if -LARGEST <= value <= LARGEST else None


def prepare(call: Call) -> tuple[Cell, Fold]:
    """Return the cell of a function before the first turn, and its step."""
    start, step = _FUNCTIONS[call.function](**dict(call.parameters))
    return start, step


def _at(k: int) -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if turn == k:
            cell[0] = x
        value: float | None = cell[0]
        return value

    return [None], step


def _rise(i: int, j: int) -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if turn == i:
            cell[0] = x
        elif turn == j:
            cell[1] = x
        early, late = cell
        return None if early is None or late is None else bounded(late - early)

    return [None, None], step


def _first() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if cell[0] is None:
            cell[0] = x
        value: float | None = cell[0]
        return value

    return [None], step


def _last() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if x is not None:
            cell[0] = x
        value: float | None = cell[0]
        return value

    return [None], step


def _peak() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        value: float | None = cell[0]
        if x is not None and (value is None or x > value):
            cell[0] = value = x
        return value

    return [None], step


def _low() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        value: float | None = cell[0]
        if x is not None and (value is None or x < value):
            cell[0] = value = x
        return value

    return [None], step


def _mean() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if x is not None:
            cell[0] += 1
            cell[1] += (x - cell[1]) / cell[0]
        return bounded(cell[1]) if cell[0] else None

    return [0, 0.0], step


def _delta() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if x is None:
            return None
        before, cell[0] = cell[0], x
        return None if before is None else bounded(x - before)

    return [None], step


def _drop() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if x is not None:
            cell[1] = x
            if cell[0] is None or x > cell[0]:
                cell[0] = x
        peak, last = cell
        return None if peak is None else bounded(peak - last)

    return [None, None], step


def _slope(window: int | None = None) -> tuple[Cell, Fold]:
    if window is not None:
        return _slope_of_last(window)

    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        n, mean_t, mean_x, tt, tx = cell
        if x is not None:
            # Welford's update keeps the sums exact over long conversations and far from zero: B. P. Welford, "Note
            # on a method for calculating corrected sums of squares and products", Technometrics 4 (1962).
            n += 1
            from_mean = turn - mean_t
            mean_t += from_mean / n
            mean_x += (x - mean_x) / n
            tt += from_mean * (turn - mean_t)
            tx += from_mean * (x - mean_x)
            cell[:] = n, mean_t, mean_x, tt, tx
        return bounded(tx / tt) if n > 1 else None

    return [0, 0.0, 0.0, 0.0, 0.0], step


def _slope_of_last(window: int) -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        turns, values = cell[1], cell[2]
        if x is not None:
            turns.append(turn)
            values.append(x)
            if len(turns) > window:
                del turns[0], values[0]
            cell[0] = bounded(_least_squares(turns, values)) if len(turns) > 1 else None
        value: float | None = cell[0]
        return value

    return [None, [], []], step


def _least_squares(turns: list[int], values: list[float]) -> float:
    n = len(turns)
    mean_t, mean_x = sum(turns) / n, sum(values) / n
    tt = tx = 0.0
    for t, x in zip(turns, values, strict=True):
        from_mean = t - mean_t
        tt += from_mean * from_mean
        tx += from_mean * (x - mean_x)
    return tx / tt


def _volatility() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        n, mean, before = cell
        if x is not None:
            if before is not None:
                n += 1
                mean += (abs(x - before) - mean) / n
            cell[:] = n, mean, x
        return bounded(mean) if n else None

    return [0, 0.0, None], step


def _ema(alpha: float, start: float | None = None) -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if x is not None:
            before = cell[0] if cell[0] is not None else start
            cell[0] = x if before is None else alpha * x + (1.0 - alpha) * before
        return None if cell[0] is None else bounded(cell[0])

    return [None], step


def _cusum(drift: float) -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, x: float | None) -> float | None:
        if x is not None:
            cell[0] = max(0.0, (cell[0] or 0.0) + x - drift)
        return None if cell[0] is None else bounded(cell[0])

    return [None], step


def _streak() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> int:
        if held:
            longest, run, end = cell
            run = run + 1 if end == turn - 1 else 1
            cell[:] = max(longest, run), run, turn
        length: int = cell[0]
        return length

    return [0, 0, 0], step


def _current_streak() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> int:
        if not held:
            return 0
        run: int = cell[0] + 1 if cell[1] == turn - 1 else 1
        cell[:] = run, turn
        return run

    return [0, 0], step


def _count() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> int:
        if held:
            cell[0] += 1
        times: int = cell[0]
        return times

    return [0], step


def _share() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> float | None:
        if held is not None:
            cell[0] += held
            cell[1] += 1
        return cell[0] / cell[1] if cell[1] else None

    return [0, 0], step


def _any() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> bool:
        if held:
            cell[0] = True
        ever: bool = cell[0]
        return ever

    return [False], step


def _all() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> bool:
        if held is not None:
            cell[0] = held and cell[0] is not False
        return cell[0] is True

    return [None], step


def _turns_since() -> tuple[Cell, Fold]:
    def step(cell: Cell, turn: int, held: bool | None) -> int | None:
        if held:
            cell[0] = turn
        return None if cell[0] is None else turn - cell[0]

    return [None], step


_FUNCTIONS: dict[Function, Callable[..., tuple[Cell, Fold]]] = {
    Function.AT: _at,
    Function.FIRST: _first,
    Function.LAST: _last,
    Function.PEAK: _peak,
    Function.LOW: _low,
    Function.MEAN: _mean,
    Function.RISE: _rise,
    Function.DELTA: _delta,
    Function.DROP: _drop,
    Function.SLOPE: _slope,
    Function.VOLATILITY: _volatility,
    Function.EMA: _ema,
    Function.CUSUM: _cusum,
    Function.STREAK: _streak,
    Function.CURRENT_STREAK: _current_streak,
    Function.COUNT: _count,
    Function.SHARE: _share,
    Function.ANY: _any,
    Function.ALL: _all,
    Function.TURNS_SINCE: _turns_since,
}
