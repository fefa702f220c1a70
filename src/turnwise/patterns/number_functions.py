"""The functions over numbers, each with its live form, its SQL and its Python form."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from turnwise.patterns.expression import Expression, call
from turnwise.patterns.function_table import (
    MAX_TURN,
    MAX_WINDOW,
    Cell,
    Parameter,
    Update,
    bounded,
    define,
    without_parameters,
)
from turnwise.patterns.sql_fold import SqlFold, Term, before_of, number, number_term, set_field


def _turn(name: str) -> Parameter:
    return Parameter(name, 1, MAX_TURN, whole=True, required=True, by_name=False)


def _kept(update: str) -> Callable[[SqlFold, Term, str], Term]:
    """SQL of a function whose value is its only field."""

    def make(fold: SqlFold, x: Term, turn: str) -> Term:
        return number_term(set_field(fold, x.level, update.replace("{x}", x.sql)), x.level, x.low, x.high)

    return make


def _where_known(x: str, update: str) -> str:
    """The update of a field that changes only where a number is defined."""
    return f"CASE WHEN {x} IS NULL THEN {{o}} ELSE {update} END"


def _at_sql(fold: SqlFold, x: Term, turn: str, k: int) -> Term:
    field = set_field(fold, x.level, f"CASE WHEN {turn} = {k} THEN {x.sql} ELSE {{o}} END")
    return number_term(field, x.level, x.low, x.high)


def _at(k: int) -> tuple[Cell, Update]:
    def update(cell: Cell, turn: int, x: float | None) -> Any:
        if turn == k:
            cell[0] = x
        return cell[0]

    return [None], update


@define(_at, _at_sql, _turn("k"))
def at(x: Expression | float, k: int) -> Expression:
    """Return x at turn number k; undefined before it, and for ever if k is a gap or was not evaluated."""
    return call("at", x, k=k)


@without_parameters(None)
def _first(cell: Cell, turn: int, x: float | None) -> Any:
    if cell[0] is None:
        cell[0] = x
    return cell[0]


@define(_first, _kept("coalesce({o}, {x})"))
def first(x: Expression | float) -> Expression:
    """Return the first value of x."""
    return call("first", x)


@without_parameters(None)
def _last(cell: Cell, turn: int, x: float | None) -> Any:
    if x is not None:
        cell[0] = x
    return cell[0]


@define(_last, _kept("coalesce({x}, {o})"))
def last(x: Expression | float) -> Expression:
    """Return the latest value of x."""
    return call("last", x)


def _extreme(is_beyond: Callable[[float, float], bool]) -> Callable[[], tuple[Cell, Update]]:
    @without_parameters(None)
    def update(cell: Cell, turn: int, x: float | None) -> Any:
        if x is not None and (cell[0] is None or is_beyond(x, cell[0])):
            cell[0] = x
        return cell[0]

    return update


@define(_extreme(operator.gt), _kept("greatest({o}, {x})"))
def peak(x: Expression | float) -> Expression:
    """Return the highest value of x so far."""
    return call("peak", x)


@define(_extreme(operator.lt), _kept("least({o}, {x})"))
def low(x: Expression | float) -> Expression:
    """Return the lowest value of x so far."""
    return call("low", x)


@without_parameters(0, 0.0)
def _mean(cell: Cell, turn: int, x: float | None) -> Any:
    if x is not None:
        cell[0] += 1
        cell[1] += (x - cell[1]) / cell[0]
    return bounded(cell[1]) if cell[0] else None


def _mean_of(fold: SqlFold, level: int, x: str) -> str:
    n = set_field(fold, level, _where_known(x, "{o} + 1"), "0e0")
    before = "coalesce({o}, 0e0)"
    return set_field(fold, level, _where_known(x, f"{before} + ({x} - {before}) / ({before_of(n)} + 1)"))


def _mean_sql(fold: SqlFold, x: Term, turn: str) -> Term:
    return number_term(_mean_of(fold, x.level, x.sql), x.level, x.low, x.high)


@define(_mean, _mean_sql)
def mean(x: Expression | float) -> Expression:
    """Return the mean of x so far."""
    return call("mean", x)


def _rise(i: int, j: int) -> tuple[Cell, Update]:
    def update(cell: Cell, turn: int, x: float | None) -> Any:
        if turn == i:
            cell[0] = x
        elif turn == j:
            cell[1] = x
        early, late = cell
        return None if early is None or late is None else bounded(late - early)

    return [None, None], update


def _rise_sql(fold: SqlFold, x: Term, turn: str, i: int, j: int) -> Term:
    early, late = (_at_sql(fold, x, turn, at).sql for at in (i, j))
    return number_term(f"({late} - {early})", x.level, x.low - x.high, x.high - x.low)


@define(_rise, _rise_sql, _turn("i"), _turn("j"))
def rise(x: Expression | float, i: int, j: int) -> Expression:
    """Return ``at(x, j) - at(x, i)``, with i < j.

    Undefined before turn j, and for ever if i or j is a gap or was not evaluated.
    """
    return call("rise", x, i=i, j=j)


@without_parameters(None)
def _delta(cell: Cell, turn: int, x: float | None) -> Any:
    if x is None:
        return None
    before, cell[0] = cell[0], x
    return None if before is None else bounded(x - before)


def _delta_sql(fold: SqlFold, x: Term, turn: str) -> Term:
    before = set_field(fold, x.level, f"coalesce({x.sql}, {{o}})")
    change = fold.kept(x.level, f"{x.sql} - {before_of(before)}")
    return number_term(change, x.level, x.low - x.high, x.high - x.low)


@define(_delta, _delta_sql)
def delta(x: Expression | float) -> Expression:
    """Return x less the value before it, across gaps; undefined at gaps and at the first value."""
    return call("delta", x)


@without_parameters(None, None)
def _drop(cell: Cell, turn: int, x: float | None) -> Any:
    if x is not None:
        cell[1] = x
        if cell[0] is None or x > cell[0]:
            cell[0] = x
    peak, last = cell
    return None if peak is None else bounded(peak - last)


def _drop_sql(fold: SqlFold, x: Term, turn: str) -> Term:
    peak = set_field(fold, x.level, f"greatest({{o}}, {x.sql})")
    last = set_field(fold, x.level, f"coalesce({x.sql}, {{o}})")
    return number_term(f"({peak} - {last})", x.level, 0.0, x.high - x.low)


@define(_drop, _drop_sql)
def drop(x: Expression | float) -> Expression:
    """Return how far the latest value of x is below its peak so far: ``peak(x) - last(x)``."""
    return call("drop", x)


def _slope_of_last(window: int) -> tuple[Cell, Update]:
    def update(cell: Cell, turn: int, x: float | None) -> Any:
        turns, values = cell[1], cell[2]
        if x is not None:
            turns.append(turn)
            values.append(x)
            if len(turns) > window:
                del turns[0], values[0]
            cell[0] = bounded(_least_squares(turns, values)) if len(turns) > 1 else None
        return cell[0]

    return [None, [], []], update


def _least_squares(turns: list[int], values: list[float]) -> float:
    total = tt = tx = 0.0
    for x in values:  # one by one, as SQL does: from Python 3.12 on, `sum` of floats rounds otherwise
        total += x
    n = len(turns)
    mean_t, mean_x = sum(turns) / n, total / n
    for t, x in zip(turns, values, strict=True):
        from_mean = t - mean_t
        tt += from_mean * from_mean
        tx += from_mean * (x - mean_x)
    return tx / tt


def _slope_of_last_sql(fold: SqlFold, x: Term, turn: str, window: int) -> Term:
    def last(what: str) -> str:
        place = fold.field(x.level, "[]::DOUBLE[]")
        old = f"{{o{place}}}"
        longer = f"list_append({old}, {what})[-{window}:]"
        fold.fields[place].update = f"CASE WHEN {x.sql} IS NULL THEN {old} ELSE {longer} END"
        return f"{{n{place}}}"

    turns, values = last(turn), last(x.sql)
    level = x.level + 1
    mean_t, mean_x = (fold.kept(level, f"list_avg({of})") for of in (turns, values))
    level += 1
    from_mean = f"list_transform({turns}, lambda t: t - {mean_t})"
    tt = fold.kept(level, f"list_sum(list_transform({turns}, lambda t: (t - {mean_t}) * (t - {mean_t})))")
    products = f"list_transform(list_zip({from_mean}, {values}), lambda z: z[1] * (z[2] - {mean_x}))"
    tx = fold.kept(level, f"list_sum({products})")
    return Term(f"CASE WHEN {tt} > 0 THEN {tx} / {tt} END", level + 1)


@without_parameters(0, 0.0, 0.0, 0.0, 0.0)
def _slope_of_all(cell: Cell, turn: int, x: float | None) -> Any:
    n, mean_t, mean_x, tt, tx = cell
    if x is not None:
        # Welford's update keeps the sums exact over long conversations and far from zero: B. P. Welford, "Note on
        # a method for calculating corrected sums of squares and products", Technometrics 4 (1962).
        n += 1
        from_mean = turn - mean_t
        mean_t += from_mean / n
        mean_x += (x - mean_x) / n
        tt += from_mean * (turn - mean_t)
        tx += from_mean * (x - mean_x)
        cell[:] = n, mean_t, mean_x, tt, tx
    return bounded(tx / tt) if n > 1 else None


def _slope(window: int | None = None) -> tuple[Cell, Update]:
    return _slope_of_all() if window is None else _slope_of_last(window)


def _slope_sql(fold: SqlFold, x: Term, turn: str, window: int | None = None) -> Term:
    # Two turn numbers differ by at least 1, so no line is steeper than the values lie apart.
    low, high = x.low - x.high, x.high - x.low
    if window is not None:
        return _slope_of_last_sql(fold, x, turn, window)._replace(low=low, high=high)

    def where_defined(update: str) -> str:
        return _where_known(x.sql, update)

    def mean(value: str) -> tuple[str, str]:
        """The mean before this turn, and with it."""
        with_it = f"{{o}} + ({value} - {{o}}) / ({was} + 1)"
        before = before_of(set_field(fold, x.level, where_defined(with_it), "0e0"))
        return before, with_it.replace("{o}", before)

    # Step by step as the live form, each rounding too: comparisons of slopes that are equal must not differ.
    n = set_field(fold, x.level, where_defined("{o} + 1"), "0e0")
    was = before_of(n)
    (mean_t, new_mean_t), (_, new_mean_x) = mean(turn), mean(x.sql)
    from_mean = f"({turn} - {mean_t})"
    tt = set_field(fold, x.level, where_defined(f"{{o}} + {from_mean} * ({turn} - ({new_mean_t}))"), "0e0")
    tx = set_field(fold, x.level, where_defined(f"{{o}} + {from_mean} * ({x.sql} - ({new_mean_x}))"), "0e0")
    return number_term(f"CASE WHEN {n} > 1 THEN {tx} / {tt} END", x.level, low, high)


@define(_slope, _slope_sql, Parameter("window", 2, MAX_WINDOW, whole=True))
def slope(x: Expression | float, window: int | None = None) -> Expression:
    """Return the least-squares slope of x over (turn number, value), of all values or the last `window`.

    A window counts values (2 to 100), not turn numbers. Undefined before the second value.
    """
    return call("slope", x, window=window)


@without_parameters(0, 0.0, None)
def _volatility(cell: Cell, turn: int, x: float | None) -> Any:
    n, mean, before = cell
    if x is not None:
        if before is not None:
            n += 1
            mean += (abs(x - before) - mean) / n
        cell[:] = n, mean, x
    return bounded(mean) if n else None


def _volatility_sql(fold: SqlFold, x: Term, turn: str) -> Term:
    before = set_field(fold, x.level, f"coalesce({x.sql}, {{o}})")
    distance = f"abs({x.sql} - {before_of(before)})"
    return number_term(_mean_of(fold, x.level, distance), x.level, 0.0, x.high - x.low)


@define(_volatility, _volatility_sql)
def volatility(x: Expression | float) -> Expression:
    """Return the mean absolute difference of successive values of x, across gaps; undefined before the second."""
    return call("volatility", x)


def _ema(alpha: float, start: float | None = None) -> tuple[Cell, Update]:
    def update(cell: Cell, turn: int, x: float | None) -> Any:
        if x is not None:
            before = cell[0] if cell[0] is not None else start
            cell[0] = x if before is None else alpha * x + (1.0 - alpha) * before
        return None if cell[0] is None else bounded(cell[0])

    return [None], update


def _ema_sql(fold: SqlFold, x: Term, turn: str, alpha: float, start: float | None = None) -> Term:
    new, rest = f"{number(alpha).sql} * {x.sql}", number(1.0 - alpha).sql
    if start is None:
        field = set_field(fold, x.level, f"coalesce({new} + {rest} * {{o}}, {x.sql}, {{o}})")
        return number_term(field, x.level, x.low, x.high)
    field = set_field(fold, x.level, f"coalesce({new} + {rest} * coalesce({{o}}, {number(start).sql}), {{o}})")
    return number_term(field, x.level, min(x.low, start), max(x.high, start))


@define(_ema, _ema_sql, Parameter("alpha", 0.0, 1.0, above=True, default=0.3), Parameter("start"))
def ema(x: Expression | float, alpha: float = 0.3, start: float | None = None) -> Expression:
    """Return the exponential moving average of x, from `start` or from its first value.

    s_k = alpha·x + (1-alpha)·s_(k-1).
    """
    return call("ema", x, alpha=alpha, start=start)


def _cusum(drift: float) -> tuple[Cell, Update]:
    def update(cell: Cell, turn: int, x: float | None) -> Any:
        if x is not None:
            cell[0] = max(0.0, (cell[0] or 0.0) + x - drift)
        return None if cell[0] is None else bounded(cell[0])

    return [None], update


def _cusum_sql(fold: SqlFold, x: Term, turn: str, drift: float) -> Term:
    total = f"greatest(0e0, coalesce({{o}}, 0e0) + {x.sql} - {number(drift).sql})"
    field = set_field(fold, x.level, _where_known(x.sql, total))
    return number_term(field, x.level, 0.0, max(0.0, x.high - drift) * MAX_TURN)


@define(_cusum, _cusum_sql, Parameter("drift", required=True))
def cusum(x: Expression | float, drift: float) -> Expression:
    """Return the cumulative sum S = max(0, S + x - drift), from 0."""
    return call("cusum", x, drift=drift)


@without_parameters()
def _abs(cell: Cell, turn: int, x: float | None) -> Any:
    return None if x is None else abs(x)


def _abs_sql(fold: SqlFold, x: Term, turn: str) -> Term:
    highest = max(abs(x.low), abs(x.high))
    return x._replace(sql=f"abs({x.sql})", low=0.0, high=highest)


@define(_abs, _abs_sql, pointwise=True)
def abs_(x: Expression | float) -> Expression:
    """Return the size of x without its sign; Python's ``abs(x)`` is the same."""
    return call("abs", x)
