"""From the tree of a pattern to one DuckDB query over a table of trajectories.

What is read of a turn alone becomes list columns; functions over the turns so far become the state of one pass
over each sequence (`turnwise.patterns.sql_fold`). The cost grows with the number of turns, not with its square,
and the arithmetic is that of live evaluation in the same order. docs/decisions/0007-queries.md says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnwise.conversation import Side
from turnwise.errors import UnknownNameError
from turnwise.patterns.expression import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Expression,
    KOf,
    Named,
    Negative,
    Not,
    Number,
    Or,
    require,
)
from turnwise.patterns.function_table import FUNCTIONS, MAX_TURN, ValueKind
from turnwise.patterns.series import Length, OtherRun, Series, TurnNumber
from turnwise.patterns.sql_fold import (
    SHORT,
    UNDEFINED,
    SqlFold,
    Term,
    checked,
    elementwise,
    interval,
    needs_check,
    number,
    placeholders,
)
from turnwise.scoring.score import HOSTILE_F, LONG_TEXT

_LONGEST = 1e12
"""More characters than a text can have."""

_TURN = Term("{c:turn}", 0, False, 1.0, float(MAX_TURN))
"""The number of the present turn."""


@dataclass(frozen=True, slots=True)
class Columns:
    """List columns of a table of trajectories: one row per sequence, one element per evaluated turn, NULL at gaps.

    The table has ``sequence``, ``turn``, ``prompt_chars``, ``response_chars`` and, for every (principle, side) in
    ``scored``, ``T``, ``I`` and ``F`` followed by its place there: ``F0`` is F of the first. All but ``sequence``
    are DOUBLE[].
    """

    scored: tuple[tuple[str, Side], ...]
    others: Mapping[str, Columns] = field(default_factory=dict)
    prefix: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of scores, in order.

        >>> Columns((("candour", Side.PROMPT),)).names
        ('T0', 'I0', 'F0')
        """
        return tuple(
            f"{self.prefix}{component}{place}" for place in range(len(self.scored)) for component in "TIF"
        )

    def with_others(self, others: Mapping[str, Columns]) -> Columns:
        """Add the columns of other runs, each under names of their own."""
        named = {run: replace(other, prefix=f"r{at}_") for at, (run, other) in enumerate(others.items())}
        return replace(self, others=named)

    def joined_sql(self, table: str, others: Sequence[str]) -> str:
        """SQL of a table joined with other runs at the same turns; ``others`` in the order of ``self.others``."""
        if not others:
            return table
        lists = [
            f"list_transform(t.turn, lambda n: o{at}.{name.removeprefix(other.prefix)}"
            f"[list_position(o{at}.turn, n)]) AS {name}"
            for at, other in enumerate(self.others.values())
            for name in other.names
        ]
        joins = [f"LEFT JOIN {name} o{at} ON o{at}.sequence = t.sequence" for at, name in enumerate(others)]
        return f"(SELECT {', '.join(['t.*', *lists])} FROM {table} t {' '.join(joins)})"

    def has(self, node: Series | Length | OtherRun) -> bool:
        """Whether anything was scored that a node reads."""
        return bool(self._sources(node))

    def scored_sql(self, nodes: Iterable[Series | Length | OtherRun]) -> str:
        """SQL, over a row of the table, of whether a sequence has a value at some turn for each node."""
        each = [
            " OR ".join(f"list_count({column}) > 0" for column in self._sources(node))
            for node in dict.fromkeys(nodes)
        ]
        return " AND ".join(f"({one})" for one in each) or "TRUE"

    def _sources(self, node: Series | Length | OtherRun) -> list[str]:
        """The columns of which one has to have a value for the node to have one."""
        if isinstance(node, OtherRun):
            return self.others[node.run]._sources(node.series) if node.run in self.others else []
        if isinstance(node, Length) and node.side is Side.PROMPT:
            return ["turn"]
        principle = node.principle if isinstance(node, Series) else None
        return [f"{self.prefix}F{place}" for place in self._places(node.side, principle)]

    def _places(self, side: Side, principle: str | None = None) -> list[int]:
        return [
            place
            for place, (scored, its_side) in enumerate(self.scored)
            if its_side is side and principle in {None, scored}
        ]

    def other(self, node: OtherRun) -> Term:
        if node.run not in self.others:
            raise UnknownNameError("run", node.run, self.others)
        return self.others[node.run].series(node.series)

    def series(self, series: Series) -> Term:
        """A series at the present turn; UnknownNameError where nothing was scored against its principle."""
        if series.principle is not None:
            principles = {principle for principle, _ in self.scored}
            if series.principle not in principles:
                raise UnknownNameError("principle", series.principle, principles)
        places = self._places(series.side, series.principle)
        if not places:
            return UNDEFINED
        low, high = (-1.0, 1.0) if series.component == "balance" else (0.0, 1.0)
        worst = "greatest" if series.component in {"F", "I"} else "least"
        parts = [_of_score(series.component, self.prefix, place, series.side) for place in places]
        return Term(parts[0] if len(parts) == 1 else f"{worst}({', '.join(parts)})", 0, False, low, high)

    def length(self, length: Length) -> Term:
        sql = f"{{c:{length.side}_chars}}"
        if length.side is Side.RESPONSE:
            scored = [f"{{c:{column}}} IS NOT NULL" for column in self._sources(length)]
            if not scored:
                return UNDEFINED
            sql = f"CASE WHEN {' OR '.join(scored)} THEN {sql} END"
        return Term(sql, 0, False, 0.0, _LONGEST)


def _of_score(component: str, prefix: str, place: int, side: Side) -> str:
    """A component of a score, or the balance or strength that `turnwise.scoring.score` defines."""
    T, I, F = (f"{{c:{prefix}{name}{place}}}" for name in "TIF")  # noqa: E741 - the field's names
    hostile = f"{F} > {number(HOSTILE_F).sql}"
    saturated = f"({{c:{side}_chars}} > {LONG_TEXT} AND {F} > 0.5e0)"
    if component == "balance":
        penalty = f"CASE WHEN {F} > 0.6e0 THEN 0.8e0 ELSE 0.5e0 * {F} END"
        reckoned = f"greatest(-1e0, least(1e0, {T} - 0.5e0 * abs({I} - 0.3e0) - {penalty}))"
        return f"CASE WHEN {F} IS NULL THEN NULL WHEN {hostile} OR {saturated} THEN -1e0 ELSE {reckoned} END"
    if component == "strength":
        factors = f"CASE WHEN {hostile} THEN 0.3e0 ELSE 1e0 END * CASE WHEN {saturated} THEN 0.5e0 ELSE 1e0 END"
        return f"CASE WHEN {F} IS NOT NULL THEN {factors} END"
    return f"{{c:{prefix}{component}{place}}}"


def matches_sql(pattern: Expression, columns: Columns, table: str) -> str:
    """The query for ``sequence``, the ``turn`` at which a pattern first holds, and whether it holds at the end."""
    require(ValueKind.CONDITION, pattern, "a query")
    compiler = _Compiler(columns)
    root = compiler.holds(pattern)
    if root.level < 1:
        held = f"SELECT sequence, turn, {elementwise(root.sql)} AS held FROM {compiler.fold.columns_sql(table)}"
        return (
            f"SELECT sequence, turn[list_position(held, TRUE)]::INTEGER AS turn, held[-1] AS final FROM ({held})"
        )
    fold = compiler.fold
    after = compiler.of_the_state(root)
    first = fold.field(1)
    # The pattern is read of the state after a turn, which is the state before the next one.
    now = fold.after(after, "a")
    fold.fields[first].update = f"coalesce({{o{first}}}, CASE WHEN i > 1 AND {now} THEN (i - 1)::DOUBLE END)"
    last, found = fold.after(after, "s"), fold.after(f"{{n{first}}}", "s")
    return (
        f"SELECT sequence, turn[coalesce({found}, CASE WHEN {last} THEN len(turn) END)::BIGINT]::INTEGER AS turn, "
        f"{last} AS final FROM (SELECT sequence, turn, {fold.sql()} AS s FROM {fold.columns_sql(table)})"
    )


def values_sql(expression: Expression, columns: Columns, table: str) -> str:
    """The query for ``sequence``, the list of its evaluated ``turn`` numbers, and a list of ``value``."""
    compiler = _Compiler(columns)
    number_wanted = expression.kind is ValueKind.NUMBER
    root = compiler.value(expression) if number_wanted else compiler.holds(expression)
    fold = compiler.fold
    if root.level < 1:
        values = elementwise(f"({root.sql})::DOUBLE")
        return f"SELECT sequence, turn, {values} AS value FROM {fold.columns_sql(table)}"
    after = compiler.of_the_state(root)
    kept = fold.field(1, "[]::DOUBLE[]")
    now = fold.after(f"({after})::DOUBLE", "a")
    fold.fields[kept].update = f"CASE WHEN i > 1 THEN list_append({{o{kept}}}, {now}) ELSE {{o{kept}}} END"
    values = fold.after(f"list_append({{n{kept}}}, ({after})::DOUBLE)", "s")
    return (
        f"SELECT sequence, turn, {values} AS value FROM "
        f"(SELECT sequence, turn, {fold.sql()} AS s FROM {fold.columns_sql(table)})"
    )


class _Compiler:
    """Terms by node: what occurs twice in a pattern is worked out once."""

    def __init__(self, columns: Columns) -> None:
        self.fold = SqlFold()
        self._columns = columns
        self._values: dict[Expression, Term] = {}
        self._holds: dict[Expression, Term] = {}

    def of_the_state(self, term: Term) -> str:
        """Write a term with fields alone, so that it can be read from a state."""
        sql = term.sql
        for name in placeholders(sql):
            if name.startswith("x"):
                sql = sql.replace(f"{{{name}}}", self.fold.kept(1, f"{{{name}}}"))
        return sql

    def value(self, node: Expression) -> Term:
        """The value of an expression; NULL where it is undefined, or can't be told."""
        if node not in self._values:
            self._values[node] = self._value(node)
        return self._values[node]

    def holds(self, node: Expression) -> Term:
        """Whether a condition outside of functions holds: always true or false."""
        if node not in self._holds:
            self._holds[node] = self._hold(node)
        return self._holds[node]

    def _value(self, node: Expression) -> Term:  # noqa: PLR0911 - one case a node
        match node:
            case Named():
                return self.value(node.body)
            case Number(value):
                return number(value)
            case Series():
                return self._columns.series(node)
            case OtherRun():
                return self._columns.other(node)
            case TurnNumber():
                return _TURN
            case Length():
                return self._columns.length(node)
            case Negative(operand):
                term = self.value(operand)
                return Term(f"(-{term.sql})", term.level, False, -term.high, -term.low)
            case Arithmetic(sign, left, right):
                return self._reckoned(sign, self.value(left), self.value(right))
            case Comparison(sign, left, right):
                return self._compared(sign, self.value(left), self.value(right))
            case Not() | And() | Or() | KOf():
                return self._joined(node, self.value)
            case Call(_, argument):
                return self._called(node, argument)
            case _:
                raise AssertionError(f"this expression has no SQL form: {node!r}")

    def _hold(self, node: Expression) -> Term:
        match node:
            case Named():
                return self.holds(node.body)
            case Not() | And() | Or() | KOf():
                return self._joined(node, self.holds)
            case Comparison():
                term = self.value(node)
                return term._replace(sql=f"coalesce({term.sql}, FALSE)")
            case _:  # a function that gives a condition is always true or false
                return self.value(node)

    def _reckoned(self, sign: str, left: Term, right: Term) -> Term:
        low, high = interval(sign, left, right)
        check = needs_check(low, high)
        divides = sign == "/" and right.low <= 0 <= right.high
        if check:
            left = self._short(left)
        if check or divides:
            right = self._short(right)
        level, [x, y] = self._together([left, right])
        sql = f"({x} {sign} {y})"
        if check:
            sql = f"({checked(sql)})"
        if divides:
            sql = f"(CASE WHEN {y} <> 0 THEN {sql} END)"
        return Term(sql, level, False, low, high)

    def _compared(self, sign: str, left: Term, right: Term) -> Term:
        level, [x, y] = self._together([left, right])
        return Term(f"({x} {'=' if sign == '==' else sign} {y})", level, True)

    def _joined(self, node: Not | And | Or | KOf, of: Callable[[Expression], Term]) -> Term:
        """A condition over conditions, of which `of` gives the term."""
        if isinstance(node, KOf):
            return self._k_of(node.k, list(map(of, node.operands)))
        if isinstance(node, Not):
            level, [sql] = self._together([of(node.operand)])
            return Term(f"(NOT {sql})", level, True)
        level, parts = self._together(list(map(of, node.operands)))
        word = f" {node.word.upper()} "
        return Term(f"({word.join(parts)})", level, True)

    def _k_of(self, k: int, parts: Sequence[Term]) -> Term:
        level, conditions = self._together([self._short(part) for part in parts])
        true = " + ".join(f"CASE WHEN {c} THEN 1 ELSE 0 END" for c in conditions)
        possible = " + ".join(f"CASE WHEN NOT {c} THEN 0 ELSE 1 END" for c in conditions)
        return Term(f"(CASE WHEN {true} >= {k} THEN TRUE WHEN {possible} < {k} THEN FALSE END)", level, True)

    def _called(self, call: Call, argument: Expression) -> Term:
        function, parameters = FUNCTIONS[call.function], dict(call.parameters)
        if function.pointwise:
            return function.sql(self.fold, self.value(argument), "", **parameters)
        inside = self._inside(self._short(self.fold.inlined(self._inside(self.value(argument)))))
        turn = self.fold.input(_TURN).sql
        term = function.sql(self.fold, inside, turn, **parameters)
        if term.condition or not needs_check(term.low, term.high):
            return term
        term = self._short(term)
        return term._replace(sql=f"({checked(term.sql)})")

    def _together(self, terms: Sequence[Term]) -> tuple[int, list[str]]:
        """Terms as they can be written into one piece of SQL, and its level."""
        level = max(term.level for term in terms)
        if level >= 1:
            terms = [self._inside(term) if term.level == 0 else term for term in terms]
        return level, [term.sql for term in terms]

    def _inside(self, term: Term) -> Term:
        return self.fold.input(term) if term.level == 0 else term._replace(level=max(term.level, 1))

    def _short(self, term: Term) -> Term:
        """A term that may stand several times in SQL: a long one is worked out once and kept."""
        if len(term.sql) <= SHORT or term.level < 0:
            return term
        if term.level == 0:
            return term._replace(sql=self.fold.column(term.sql))
        return term._replace(sql=self.fold.kept(term.level, term.sql), level=term.level + 1)
