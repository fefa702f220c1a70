"""The functions over conditions, each with its live form, its SQL and its Python form."""

from __future__ import annotations

from typing import Any

from turnwise.patterns.expression import Expression, KOf, call
from turnwise.patterns.function_table import MAX_TURN, Cell, ValueKind, define, without_parameters
from turnwise.patterns.sql_fold import SqlFold, Term, before_of, number_term, set_field


def _run(fold: SqlFold, c: Term, turn: str) -> tuple[str, str]:
    """The current run of turns at which a condition held: its placeholder, and its update."""
    end = set_field(fold, c.level, f"CASE WHEN {c.sql} THEN {turn} ELSE {{o}} END", "0e0")
    place = fold.field(c.level, "0e0")
    longer = f"CASE WHEN {before_of(end)} = {turn} - 1 THEN {{o{place}}} + 1 ELSE 1e0 END"
    fold.fields[place].update = f"CASE WHEN {c.sql} THEN {longer} ELSE 0e0 END"
    return f"{{n{place}}}", fold.fields[place].update


def _times(fold: SqlFold, c: Term) -> str:
    return set_field(fold, c.level, f"CASE WHEN {c.sql} THEN {{o}} + 1 ELSE {{o}} END", "0e0")


@without_parameters(0, 0, 0)
def _streak(cell: Cell, turn: int, held: bool | None) -> Any:
    if held:
        longest, run, end = cell
        run = run + 1 if end == turn - 1 else 1
        cell[:] = max(longest, run), run, turn
    return cell[0]


def _streak_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    _, update = _run(fold, c, turn)
    return number_term(set_field(fold, c.level, f"greatest({{o}}, {update})", "0e0"), c.level, 0.0, MAX_TURN)


@define(_streak, _streak_sql, of=ValueKind.CONDITION)
def streak(condition: Expression) -> Expression:
    """Return the longest run so far of consecutive turn numbers at which a condition held; 0 at first.

    A turn at which it is unknown ends the run, as does a number that was not evaluated.
    """
    return call("streak", condition)


@without_parameters(0, 0)
def _current_streak(cell: Cell, turn: int, held: bool | None) -> Any:
    if not held:
        return 0
    run: int = cell[0] + 1 if cell[1] == turn - 1 else 1
    cell[:] = run, turn
    return run


def _current_streak_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    run, _ = _run(fold, c, turn)
    return number_term(run, c.level, 0.0, MAX_TURN)


@define(_current_streak, _current_streak_sql, of=ValueKind.CONDITION)
def current_streak(condition: Expression) -> Expression:
    """Return the run of consecutive turn numbers up to this one at which a condition held; 0 if unknown."""
    return call("current_streak", condition)


@without_parameters(0)
def _count(cell: Cell, turn: int, held: bool | None) -> Any:
    if held:
        cell[0] += 1
    return cell[0]


def _count_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    return number_term(_times(fold, c), c.level, 0.0, MAX_TURN)


@define(_count, _count_sql, of=ValueKind.CONDITION)
def count(condition: Expression) -> Expression:
    """Return the number of turns so far at which a condition held; 0 at first. Unknown is not counted."""
    return call("count", condition)


@without_parameters(0, 0)
def _share(cell: Cell, turn: int, held: bool | None) -> Any:
    if held is not None:
        cell[0] += held
        cell[1] += 1
    return cell[0] / cell[1] if cell[1] else None


def _share_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    told = set_field(fold, c.level, f"CASE WHEN {c.sql} IS NULL THEN {{o}} ELSE {{o}} + 1 END", "0e0")
    return number_term(f"CASE WHEN {told} > 0 THEN {_times(fold, c)} / {told} END", c.level, 0.0, 1.0)


@define(_share, _share_sql, of=ValueKind.CONDITION)
def share(condition: Expression) -> Expression:
    """Return ``count(condition)`` divided by the number of turns at which it was known.

    Undefined before there was one.
    """
    return call("share", condition)


@without_parameters(False)
def _any(cell: Cell, turn: int, held: bool | None) -> Any:
    if held:
        cell[0] = True
    return cell[0]


def _any_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    return Term(set_field(fold, c.level, f"({{o}} OR coalesce({c.sql}, FALSE))", "FALSE"), c.level + 1, True)


@define(_any, _any_sql, of=ValueKind.CONDITION, gives=ValueKind.CONDITION)
def any_(condition: Expression) -> Expression:
    """Return whether a condition held at some turn so far; false at first. Unknown is skipped."""
    return call("any", condition)


@without_parameters(None)
def _all(cell: Cell, turn: int, held: bool | None) -> Any:
    if held is not None:
        cell[0] = held and cell[0] is not False
    return cell[0] is True


def _all_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    held = f"CASE WHEN {c.sql} THEN coalesce({{o}}, TRUE) WHEN NOT {c.sql} THEN FALSE ELSE {{o}} END"
    return Term(f"coalesce({set_field(fold, c.level, held, 'NULL::BOOLEAN')}, FALSE)", c.level + 1, True)


@define(_all, _all_sql, of=ValueKind.CONDITION, gives=ValueKind.CONDITION)
def all_(condition: Expression) -> Expression:
    """Return whether a condition held at every turn at which it was known, and there was one."""
    return call("all", condition)


@without_parameters(None)
def _turns_since(cell: Cell, turn: int, held: bool | None) -> Any:
    if held:
        cell[0] = turn
    return None if cell[0] is None else turn - cell[0]


def _turns_since_sql(fold: SqlFold, c: Term, turn: str) -> Term:
    latest = set_field(fold, c.level, f"CASE WHEN {c.sql} THEN {turn} ELSE {{o}} END")
    return number_term(f"({turn} - {latest})", c.level, 0.0, MAX_TURN)


@define(_turns_since, _turns_since_sql, of=ValueKind.CONDITION)
def turns_since(condition: Expression) -> Expression:
    """Return how many turn numbers ago a condition last held; 0 where it holds, undefined before.

    It goes on counting where the condition is unknown.
    """
    return call("turns_since", condition)


def k_of(k: int, *conditions: Expression) -> Expression:
    """Return whether at least k of the conditions hold at a turn; unknown until enough do, or too few could."""
    return KOf(k, conditions)
