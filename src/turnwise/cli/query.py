"""``turnwise query``: which stored trajectories match a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say
from turnwise.cli.patterns import PatternsFile

if TYPE_CHECKING:
    from turnwise.store import Store
    from turnwise.store.query import QueryMatch, QueryResult

SHOWN = 20
"""Matches that are printed by default."""

DRAWN = 60
"""Matches that are drawn by default; more lines can't be told apart."""


def query(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPR|NAME]",
            help="Pattern, such as 'slope(F) > 0.1', or the name of one; see turnwise patterns.",
            show_default=False,
        ),
    ] = None,
    run: options.Run = None,
    when: Annotated[str, typer.Option(help="When it has to hold: ever, or final for the last turn.")] = "ever",
    label: options.Label = None,
    source: Annotated[str | None, typer.Option(help="Only sequences of this data set.")] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only sequences for which this holds, such as 'turns >= 5 and metadata.tactic = \"x\"'. "
            "Fields: id, label, source, turns, chars, response_chars, cost, metadata.KEY."
        ),
    ] = None,
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
        str | None, typer.Option(help="Ask in DuckDB's SQL instead; docs/sql.md lists the tables.")
    ] = None,
    patterns: PatternsFile = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Ask which stored trajectories match a pattern, and from which turn on."""
    from turnwise.cli.arguments import read_label, read_run
    from turnwise.cli.patterns import read_library
    from turnwise.cli.project import given
    from turnwise.cli.sql import answer_sql
    from turnwise.cli.tables import check_export, export_table, write_csv
    from turnwise.errors import UsageError
    from turnwise.plots import check_target
    from turnwise.store import Store
    from turnwise.store.query import COLUMNS

    if (pattern is None) == (sql is None):
        raise UsageError("give a pattern, such as 'peak(F) > 0.5', or --sql with a statement")
    asked_of = [name for name, value in (("label", label), ("source", source), ("where", where)) if value]
    if sql is not None and (asked_of or plot or given("run", context)):
        raise UsageError(
            "--sql says itself what it asks of: it goes with --csv, --export, --json, --limit and --store only"
        )
    if plot is not None:
        check_target(plot)
    if export is not None:
        check_export(export)
    wanted = read_label(label)
    library = read_library(patterns)
    with Store(store) as opened:
        if sql is not None:
            answer_sql(opened, sql, limit=limit, csv=csv, export=export, json=json)
            return
        assert pattern is not None  # one of the two was given
        name = read_run(opened, run)
        result = opened.query(pattern, name, when=when, label=wanted, source=source, where=where, patterns=library)
        matches = list(result)
        if csv is not None:
            write_csv(csv, COLUMNS, (list(match.to_dict().values()) for match in matches))
        if export is not None:
            export_table(export, COLUMNS, (list(match.to_dict().values()) for match in matches), result.to_arrow)
        if plot is not None:
            _draw(opened, result, matches, DRAWN if limit is None else limit, plot)
        if json:
            _print_json(result, matches if limit is None else matches[:limit])
        else:
            _print(opened, result, matches[: SHOWN if limit is None else limit])


def _print_json(result: QueryResult, matches: Sequence[QueryMatch]) -> None:
    from turnwise.cli.output import print_json

    print_json(
        {
            "count": result.rate.count,
            "of": result.rate.of,
            "not_scored": result.not_scored,
            "seconds": result.seconds,
            "matches": [match.to_dict() for match in matches],
        }
    )


def _print(store: Store, result: QueryResult, matches: Sequence[QueryMatch]) -> None:
    from turnwise.cli.output import Table, note, print_table, sparkline
    from turnwise.cli.series import main_series, over_turns

    say(
        f"{result.rate.count} of {result.rate.of} evaluated sequences of run {result.run} match "
        f"{'at some turn' if result.when == 'ever' else 'at their last turn'}: {result.pattern}"
    )
    rates = Table("label", "source", "matched, with 95 % interval")
    for label, rate in result.by_label.items():
        rates.add_row(str(label), "", str(rate))
        sources = [(source, some) for (one, source), some in result.rates.items() if one is label]
        for source, some in sources if len(sources) > 1 else ():
            rates.add_row("", source, str(some))
    print_table(rates)
    if matches:
        series = main_series(result.pattern)
        values = over_turns(store, result.run, [match.sequence_id for match in matches], [series])
        columns = "sequence", "label", "source", "first turn", "last turn", f"{series} over turns"
        table = Table(*columns, numeric=("first turn",))
        for match in matches:
            graph = sparkline(values[match.sequence_id][str(series)])
            held = "still holds" if match.final else ""
            table.add_row(match.sequence_id, str(match.label), match.source, str(match.turn), held, graph)
        print_table(table)
    if result.not_scored:
        note(f"{result.not_scored} of the {result.rate.of} are not scored on all that the pattern reads")
    if len(matches) < result.rate.count:
        note(f"{len(matches)} of {result.rate.count} matches shown; --limit shows more, --csv and --json have all")


def _draw(store: Store, result: QueryResult, matches: Sequence[QueryMatch], most: int, plot: str) -> None:
    from turnwise.cli.output import note
    from turnwise.cli.series import all_series, over_turns
    from turnwise.plots import MatchedLine, matches_chart, save

    drawn = matches if len(matches) <= most else _strongest(store, result, matches, most)
    found = over_turns(store, result.run, [match.sequence_id for match in drawn], all_series(result.pattern))
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
    """Return the matches in which the pattern holds by the greatest margin at some turn, greatest first."""
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
