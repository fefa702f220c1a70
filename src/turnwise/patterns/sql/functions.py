"""The functions of the language as fields of a fold: what each keeps, and how a turn changes it.

docs/patterns.md says what each means; the arithmetic is that of live evaluation, step by step, so that both agree
to the last digits however long a conversation is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turnwise.patterns.functions import MAX_TURN, Function
from turnwise.patterns.sql.fold import Fold
from turnwise.patterns.sql.terms import UNDEFINED, Term, number
from turnwise.patterns.tree import Call

Build = Callable[[Fold, Call, Term, str], Term]
"""From the fold, the call, its argument and the present turn number to the value of the function."""


def build(fold: Fold, call: Call, argument: Term, turn: str) -> Term:
    """Add what a function keeps to a fold, and return its value.

    Args:
        fold: where its fields go.
        call: the function and its parameters.
        argument: what it is a function of, as it is read inside the fold; may stand several times in SQL.
        turn: the number of the present turn, as it is read inside the fold.
    """
    return _FUNCTIONS[call.function](fold, call, argument, turn)


def _set(fold: Fold, level: int, update: str, start: str = UNDEFINED.sql) -> str:
    """Return the placeholder of a field that needs its own old value, which stands as ``{o}`` in the update."""
    place = fold.field(level, start)
    fold.fields[place].update = update.replace("{o}", f"{{o{place}}}")
    return f"{{n{place}}}"


def _old(placeholder: str) -> str:
    """Return how the value before this turn is written, of a field's value after it."""
    return placeholder.replace("{n", "{o")


def _number(sql: str, level: int, low: float, high: float) -> Term:
    return Term(sql, level + 1, False, low, high)


def _kept(update: str) -> Build:
    """Return the function whose value is its only field."""

    def make(fold: Fold, call: Call, x: Term, turn: str) -> Term:
        return _number(_set(fold, x.level, update.replace("{x}", x.sql)), x.level, x.low, x.high)

    return make


def _at_turn(fold: Fold, x: Term, turn: str, k: float | None) -> Term:
    field = _set(fold, x.level, f"CASE WHEN {turn} = {k} THEN {x.sql} ELSE {{o}} END")
    return _number(field, x.level, x.low, x.high)


def _at(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    return _at_turn(fold, x, turn, call.parameter("k"))


def _rise(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    early, late = (_at_turn(fold, x, turn, call.parameter(name)).sql for name in "ij")
    return _number(f"({late} - {early})", x.level, x.low - x.high, x.high - x.low)


def _mean(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    n = _set(fold, x.level, f"CASE WHEN {x.sql} IS NULL THEN {{o}} ELSE {{o}} + 1 END", "0e0")
    before = "coalesce({o}, 0e0)"
    mean = f"{before} + ({x.sql} - {before}) / ({_old(n)} + 1)"
    return _number(
        _set(fold, x.level, f"CASE WHEN {x.sql} IS NULL THEN {{o}} ELSE {mean} END"), x.level, x.low, x.high
    )


def _delta(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    before = _set(fold, x.level, f"coalesce({x.sql}, {{o}})")
    change = fold.kept(x.level, f"{x.sql} - {_old(before)}")
    return _number(change, x.level, x.low - x.high, x.high - x.low)


def _drop(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    peak = _set(fold, x.level, f"greatest({{o}}, {x.sql})")
    last = _set(fold, x.level, f"coalesce({x.sql}, {{o}})")
    return _number(f"({peak} - {last})", x.level, 0.0, x.high - x.low)


def _slope(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    # Two turn numbers differ by at least 1, so no line is steeper than the values lie apart.
    low, high = x.low - x.high, x.high - x.low
    window = call.parameter("window")
    if window is not None:
        return _slope_of_last(fold, x, turn, int(window))._replace(low=low, high=high)

    def where_defined(update: str) -> str:
        return f"CASE WHEN {x.sql} IS NULL THEN {{o}} ELSE {update} END"

    n = _set(fold, x.level, where_defined("{o} + 1"), "0e0")
    was = _old(n)
    mean_t = _set(fold, x.level, where_defined(f"{{o}} + ({turn} - {{o}}) / ({was} + 1)"), "0e0")
    mean_x = _set(fold, x.level, where_defined(f"{{o}} + ({x.sql} - {{o}}) / ({was} + 1)"), "0e0")
    from_mean = f"({turn} - {_old(mean_t)})"
    # Welford's update (Technometrics 4, 1962), with the later mean written out.
    shrunk = f"{was} / ({was} + 1)"
    tt = _set(fold, x.level, where_defined(f"{{o}} + {from_mean} * {from_mean} * {shrunk}"), "0e0")
    tx = _set(fold, x.level, where_defined(f"{{o}} + {from_mean} * ({x.sql} - {_old(mean_x)}) * {shrunk}"), "0e0")
    return _number(f"CASE WHEN {n} > 1 THEN {tx} / {tt} END", x.level, low, high)


def _slope_of_last(fold: Fold, x: Term, turn: str, window: int) -> Term:
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


def _volatility(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    before = _set(fold, x.level, f"coalesce({x.sql}, {{o}})")
    distance = f"abs({x.sql} - {_old(before)})"
    n = _set(fold, x.level, f"CASE WHEN {distance} IS NULL THEN {{o}} ELSE {{o}} + 1 END", "0e0")
    was = "coalesce({o}, 0e0)"
    mean = f"{was} + ({distance} - {was}) / ({_old(n)} + 1)"
    field = _set(fold, x.level, f"CASE WHEN {distance} IS NULL THEN {{o}} ELSE {mean} END")
    return _number(field, x.level, 0.0, x.high - x.low)


def _ema(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    alpha, start = call.parameter("alpha"), call.parameter("start")
    assert alpha is not None  # the tree fills its default in
    new, rest = f"{number(alpha).sql} * {x.sql}", number(1.0 - alpha).sql
    if start is None:
        field = _set(fold, x.level, f"coalesce({new} + {rest} * {{o}}, {x.sql}, {{o}})")
        return _number(field, x.level, x.low, x.high)
    field = _set(fold, x.level, f"coalesce({new} + {rest} * coalesce({{o}}, {number(start).sql}), {{o}})")
    return _number(field, x.level, min(x.low, start), max(x.high, start))


def _cusum(fold: Fold, call: Call, x: Term, turn: str) -> Term:
    drift = call.parameter("drift")
    assert drift is not None  # the tree refuses a cusum without it
    total = f"greatest(0e0, coalesce({{o}}, 0e0) + {x.sql} - {number(drift).sql})"
    field = _set(fold, x.level, f"CASE WHEN {x.sql} IS NULL THEN {{o}} ELSE {total} END")
    return _number(field, x.level, 0.0, max(0.0, x.high - drift) * MAX_TURN)


def _run(fold: Fold, c: Term, turn: str) -> tuple[str, str]:
    """Return the present run of turns at which a condition held: its placeholder, and its update."""
    end = _set(fold, c.level, f"CASE WHEN {c.sql} THEN {turn} ELSE {{o}} END", "0e0")
    place = fold.field(c.level, "0e0")
    longer = f"CASE WHEN {_old(end)} = {turn} - 1 THEN {{o{place}}} + 1 ELSE 1e0 END"
    fold.fields[place].update = f"CASE WHEN {c.sql} THEN {longer} ELSE 0e0 END"
    return f"{{n{place}}}", fold.fields[place].update


def _current_streak(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    run, _ = _run(fold, c, turn)
    return _number(run, c.level, 0.0, MAX_TURN)


def _streak(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    _, update = _run(fold, c, turn)
    return _number(_set(fold, c.level, f"greatest({{o}}, {update})", "0e0"), c.level, 0.0, MAX_TURN)


def _times(fold: Fold, c: Term) -> str:
    return _set(fold, c.level, f"CASE WHEN {c.sql} THEN {{o}} + 1 ELSE {{o}} END", "0e0")


def _count(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    return _number(_times(fold, c), c.level, 0.0, MAX_TURN)


def _share(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    told = _set(fold, c.level, f"CASE WHEN {c.sql} IS NULL THEN {{o}} ELSE {{o}} + 1 END", "0e0")
    return _number(f"CASE WHEN {told} > 0 THEN {_times(fold, c)} / {told} END", c.level, 0.0, 1.0)


def _any(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    return Term(_set(fold, c.level, f"({{o}} OR coalesce({c.sql}, FALSE))", "FALSE"), c.level + 1, True)


def _all(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    held = f"CASE WHEN {c.sql} THEN coalesce({{o}}, TRUE) WHEN NOT {c.sql} THEN FALSE ELSE {{o}} END"
    return Term(f"coalesce({_set(fold, c.level, held, 'NULL::BOOLEAN')}, FALSE)", c.level + 1, True)


def _turns_since(fold: Fold, call: Call, c: Term, turn: str) -> Term:
    latest = _set(fold, c.level, f"CASE WHEN {c.sql} THEN {turn} ELSE {{o}} END")
    return _number(f"({turn} - {latest})", c.level, 0.0, MAX_TURN)


_FUNCTIONS: Mapping[Function, Build] = {
    Function.AT: _at,
    Function.FIRST: _kept("coalesce({o}, {x})"),
    Function.LAST: _kept("coalesce({x}, {o})"),
    Function.PEAK: _kept("greatest({o}, {x})"),
    Function.LOW: _kept("least({o}, {x})"),
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
