"""``turnwise query``: which stored trajectories match a pattern, or the answer to a question in SQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import CountedLabels, opened_store, read_people, read_run
from turnwise.cli.output import note, print_json, print_table, say, sparkline
from turnwise.errors import UsageError

if TYPE_CHECKING:
    import pyarrow

    from turnwise.patterns import Expression
    from turnwise.store import Store
    from turnwise.store.query import QueryMatch, QueryResult


SECONDS = 60.0
"""How long a question in SQL may take by default."""

SHOWN = 20
"""Matches that are printed by default."""

ROWS_SHOWN = 100
"""Rows of an answer to SQL that are printed by default."""

DRAWN = 60
"""Matches that are drawn by default; more lines can't be told apart."""

_PANELS = 6
"""Panels of a chart at most."""


def query(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPR|NAME]",
            help="Pattern, such as 'slope(F) > 0.1', or the name of one; see turnwise list patterns.",
            show_default=False,
        ),
    ] = None,
    run: options.Run = None,
    when: Annotated[
        str, typer.Option(help="When the pattern must hold: ever, or final for the last turn.")
    ] = "ever",
    label: options.Label = None,
    source: options.Source = None,
    where: options.Where = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, max=options.MOST, help=f"Matches to show at most. Default: {SHOWN}, with --json all."),
    ] = None,
    csv: Annotated[str | None, typer.Option(help="Write all matches to this CSV file.")] = None,
    export: Annotated[
        str | None, typer.Option(help="Write all matches to this file: .csv, .parquet or .arrow.")
    ] = None,
    plot: Annotated[str | None, typer.Option(help="Draw the matches: .html, .svg, .png or .pdf.")] = None,
    sql: Annotated[
        str | None, typer.Option(help="Ask in SQL (DuckDB) instead; docs/sql.md lists the tables.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, help=f"Seconds that --sql may take. Default: {SECONDS:g}.", show_default=False),
    ] = None,
    patterns: options.PatternsFile = None,
    corrected_by: options.CorrectedBy = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Find the stored trajectories that match a pattern, and the turn from which they do."""
    from turnwise.cli.files import ARROW_FILES, check_export
    from turnwise.plots import check_target
    from turnwise.store.query import COLUMNS, need

    if (pattern is None) == (sql is None):
        raise UsageError("give a pattern, such as 'peak(F) > 0.5', or --sql with a statement")
    if sql is not None and (label or source or where or corrected_by or plot or options.given("run", context)):
        raise UsageError(
            "--sql works only with --csv, --export, --json, --limit, --timeout and --store: put conditions into "
            "the statement"
        )
    if sql is None and timeout is not None:
        raise UsageError("--timeout needs --sql")
    if plot is not None:
        check_target(plot)
    if export is not None:
        check_export(export, ARROW_FILES)
        if not export.lower().endswith(".csv"):
            need("pyarrow", "--export")
    wanted = options.read_label(label)
    library = options.read_library(patterns)
    with opened_store(store) as opened:
        if sql is not None:
            _answer_sql(opened, sql, timeout or SECONDS, limit=limit, csv=csv, export=export, json=json)
            return
        assert pattern is not None  # one of the two was given
        name = read_run(opened, run)
        people = read_people(corrected_by)
        result = opened.query(
            pattern,
            name,
            when=when,
            label=wanted,
            source=source,
            where=where,
            patterns=library,
            corrected_by=people,
        )
        labels = CountedLabels(people, result.corrected, result.disputed)
        labels.tell(opened)
        for path in filter(None, (csv, export)):
            table = result.to_arrow if path == export else None
            _write(path, COLUMNS, (match.to_dict().values() for match in result), table)
        if plot is not None:
            _draw(opened, result, list(result), DRAWN if limit is None else limit, plot)
        if json:
            _print_json(result, list(result) if limit is None else result.first(limit), labels)
        else:
            _print(opened, result, result.first(SHOWN if limit is None else limit))


def _write(
    path: str, columns: Sequence[str], rows: Iterable[Iterable[Any]], table: Callable[[], pyarrow.Table] | None
) -> int:
    """Write an answer as CSV from its rows; as Parquet or Arrow from its table where the path ends so."""
    from turnwise.cli.files import write_arrow, write_csv

    if table is not None and PurePath(path).suffix.lower() != ".csv":
        return write_arrow(path, table())
    return write_csv(path, columns, rows)


def _print_json(result: QueryResult, matches: Sequence[QueryMatch], labels: CountedLabels) -> None:
    print_json(
        {
            "count": result.rate.count,
            "of": result.rate.of,
            "not_scored": result.not_scored,
            **labels._asdict(),
            "seconds": result.seconds,
            "matches": [match.to_dict() for match in matches],
        }
    )


def _print(store: Store, result: QueryResult, matches: Sequence[QueryMatch]) -> None:
    say(
        f"{result.rate.count} of {result.rate.of} evaluated sequences of run {result.run} match "
        f"{'at some turn' if result.when == 'ever' else 'at their last turn'}: {result.pattern}"
    )
    rates: list[tuple[object, ...]] = []
    for label, rate in result.by_label.items():
        rates.append((label, "", rate))
        sources = [(source, some) for (one, source), some in result.rates.items() if one is label]
        for source, some in sources if len(sources) > 1 else ():
            rates.append(("", source, some))
    print_table(("label", "source", "matched, with 95 % interval"), rates)
    if matches:
        series = _all_series(result.pattern)[0]
        values = _over_turns(store, result.run, [match.sequence_id for match in matches], [series])
        columns = "sequence", "label", "source", "first turn", "last turn", f"{series} over turns"
        rows = []
        for match in matches:
            graph = sparkline(values[match.sequence_id][str(series)])
            held = "still holds" if match.final else ""
            rows.append((match.sequence_id, match.label, match.source, match.turn, held, graph))
        print_table(columns, rows, numeric=("first turn",))
    if result.not_scored:
        note(f"{result.not_scored} of the {result.rate.of} are not scored on all that the pattern reads")
    if len(matches) < result.rate.count:
        note(f"{len(matches)} of {result.rate.count} matches shown; --limit shows more, --csv and --json have all")


def _draw(store: Store, result: QueryResult, matches: Sequence[QueryMatch], most: int, plot: str) -> None:
    from turnwise.plots import MatchedLine, matches_chart, save

    drawn = matches if len(matches) <= most else _strongest(store, result, matches, most)
    found = _over_turns(store, result.run, [match.sequence_id for match in drawn], _all_series(result.pattern))
    lines = [
        MatchedLine(match.sequence_id, str(match.label), match.turn, found[match.sequence_id]) for match in drawn
    ]
    which = "all" if len(lines) == len(matches) else "the strongest"
    told = f"{len(lines)} of {len(matches)} matches drawn, {which}"
    subtitle = f"run {result.run}: {result.rate} match; {told}, each marked at its first turn"
    save(matches_chart(lines, title=str(result.pattern), subtitle=subtitle), plot)
    note(f"{plot} written: {told}")


def _strongest(
    store: Store, result: QueryResult, matches: Sequence[QueryMatch], most: int
) -> Sequence[QueryMatch]:
    """The matches in which the pattern holds by the greatest margin at some turn, greatest first."""
    from turnwise.patterns import Evaluator

    evaluator = Evaluator(result.pattern)
    ids = [match.sequence_id for match in matches]
    others = {
        run: {head.sequence_id: trajectory for head, trajectory in store.trajectories(run, ids=ids)}
        for run in evaluator.other_runs
    }
    margins: dict[str, float] = {}
    for head, trajectory in store.trajectories(result.run, ids=ids):
        beside = {run: theirs.get(head.sequence_id, ()) for run, theirs in others.items()}
        said = evaluator.run(trajectory, beside)
        held = (value.margin for value in said if value.holds and value.margin is not None)
        margins[head.sequence_id] = max(held, default=0.0)
    return sorted(matches, key=lambda match: -margins[match.sequence_id])[:most]


def _answer_sql(
    store: Store,
    statement: str,
    seconds: float,
    *,
    limit: int | None,
    csv: str | None,
    export: str | None,
    json: bool,
) -> None:
    """Ask and print; rows are taken from the database as they are written."""
    from turnwise.store.query import ask

    answer = ask(store.mirror, statement, seconds)
    if csv is not None and export is not None:
        raise UsageError("--sql can write its answer once: give --csv or --export, not both")
    if csv is not None or export is not None:
        path = csv or str(export)
        count = _write(
            path, answer.columns, islice(answer.rows, limit), None if csv else lambda: answer.to_arrow(limit)
        )
        note(f"{count} rows written to {path}")
        if json:
            print_json({"columns": answer.columns, "count": count, "csv" if csv else "export": path})
        return
    if json:
        print_json([dict(zip(answer.columns, map(plain, row), strict=True)) for row in islice(answer.rows, limit)])
        return
    most = ROWS_SHOWN if limit is None else limit
    shown = (["" if value is None else str(value) for value in row] for row in islice(answer.rows, most))
    print_table(answer.columns, shown)
    if next(answer.rows, None) is not None:
        note(f"only the first {most} rows are shown; --limit shows more, --csv and --json have all")


def plain(value: Any) -> Any:
    """A value of DuckDB as JSON has it: what JSON lacks as text, what is not finite as None.

    >>> from datetime import date
    >>> plain({"day": date(2025, 1, 2), "rates": [0.5, float("nan")]})
    {'day': '2025-01-02', 'rates': [0.5, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _all_series(pattern: Expression) -> list[Expression]:
    """The series that a pattern reads, in their order, a few at most; F where it reads none."""
    from turnwise.patterns import series
    from turnwise.patterns.series import Series

    found: list[Expression] = list(dict.fromkeys(node for node in pattern.walk() if isinstance(node, Series)))
    return found[:_PANELS] or [series().F]


def _over_turns(
    store: Store, run: str, ids: Sequence[str], series: Sequence[Expression]
) -> dict[str, dict[str, list[float | None]]]:
    """The values of series turn by turn, None at gaps, by sequence and the text of the series."""
    from turnwise.patterns import Evaluator

    evaluators = {str(one): Evaluator(one) for one in series}
    return {
        head.sequence_id: {
            name: [value.value for value in evaluator.run(trajectory)] for name, evaluator in evaluators.items()
        }
        for head, trajectory in (store.trajectories(run, ids=ids) if ids else ())
    }
