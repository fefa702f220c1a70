"""``turnwise runs``: runs listed, published, renamed and deleted; two of them compared; one followed by week."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import CountedLabels, opened_store, read_people, read_run
from turnwise.cli.output import confirm, dollars, note, print_json, print_table, say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.runs.flips import ArmVerdicts, Flip
    from turnwise.scoring import FailureReason
    from turnwise.store import Run, RunTally
    from turnwise.study.facets_and_trends import FacetRate, TrendWeek


_DIGEST = 64
"""Characters of a SHA-256 in hexadecimal digits."""


def list_runs(store: options.Store = options.DEFAULT_STORE, json: options.Json = False) -> None:
    """List the runs of a store: counts, failures, tokens, cost, time and settings."""
    with opened_store(store, prepared=False) as opened:
        found = opened.tallies()
    if json:
        print_json([run.to_dict() | _clean(tally).to_dict() for run, tally in found])
    elif found:
        _print(found)
    else:
        note(f"{opened.location} has no run yet; turnwise evaluate --store {opened.location} makes one")


def delete_run(
    name: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    yes: options.Yes = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Delete a run with its scores, failures and calls; sequences and replies that were paid for stay."""
    from turnwise.store import Store

    with Store(store) as opened:
        tally = opened.tally(name)
        scores = f"{tally.evaluations} scores and {tally.failures} failures of {tally.sequences} sequences"
        what = f"run {name!r}: {scores}, {tally.calls} calls"
        confirm(f"Delete {what}?", yes)
        deleted = opened.delete_run(name)
    if json:
        print_json({"deleted": deleted.to_dict()})
    else:
        say(f"deleted {what}")


def rename_run(
    old: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
    yes: options.Yes = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Give a run another name."""
    from turnwise.store import Store

    with Store(store) as opened:
        opened.run(old)
        confirm(f"Rename run {old!r} to {new!r}?", yes)
        renamed = opened.rename_run(old, new)
    if json:
        print_json({"renamed": old, "run": renamed.to_dict()})
    else:
        say(f"run {old!r} is now {new!r}")


def _print(found: tuple[tuple[Run, RunTally], ...]) -> None:
    from turnwise.scoring import unread_in_words

    rows = [_figures(run, tally) for run, tally in found]
    columns = [column for column in rows[0] if any(row[column] != "" for row in rows)]  # --json has the others
    print_table(columns, ([row[column] for column in columns] for row in rows), numeric=columns[1:-1])
    print_table(
        ("run", "started", "observer", "context", "settings"),
        [
            (run.name, f"{run.created_at:%Y-%m-%d %H:%M}", run.observer, run.context, _settings(run))
            for run, _ in found
        ],
        title="Settings",
    )
    for run, tally in found:
        if tally.unread:
            say(f"run {run.name}: {unread_in_words(tally.unread)}")
        told = notes(tally.structured, run.parameters.get("structured"), tally.commonest_failure)
        say(*(f"run {run.name}: {line}" for line in told))


def _settings(run: Run) -> str:
    return ", ".join(
        f"{name}={_short(value)}" for name, value in run.parameters.items() if value not in ({}, None)
    )


def _clean(tally: RunTally) -> RunTally:
    return dataclasses.replace(tally, commonest_failure=without_secrets(tally.commonest_failure))


def _figures(run: Run, tally: RunTally) -> dict[str, object]:
    """What a run has come to, by column; what a run without a language model can't have is empty."""
    calls = (tally.calls, tally.cached, tally.prompt_tokens, tally.completion_tokens) if tally.calls else ("",) * 4
    return {
        "run": run.name,
        "sequences": tally.sequences,
        "evaluations": tally.evaluations,
        "failed": tally.failed,
        "not read": sum(tally.unread.values()) if tally.unread else "",
        **dict(zip(("calls", "cached", "tokens sent", "received"), calls, strict=True)),
        "cost": dollars(tally.cost_usd) if tally.calls or tally.cost_usd is not None else "",
        "seconds": f"{tally.seconds:.1f}" if tally.seconds else "",
        "last score": f"{tally.last:%Y-%m-%d %H:%M}" if tally.last else "",
    }


def _short(value: object) -> str:
    """The value of a setting; of a digest its beginning."""
    text = str(value)
    is_digest = len(text) == _DIGEST and set(text) <= set("0123456789abcdef")
    return f"{text[:12]}…" if is_digest else text


def without_secrets(reason: FailureReason | None) -> FailureReason | None:
    """A reason whose example shows no key, token or password; it may quote what a model repeats."""
    if reason is None:
        return None
    from turnwise.guard.guardrails.secrets import Secrets
    from turnwise.guard.kit import finding_of
    from turnwise.guard.results import Detail, GuardrailStatus
    from turnwise.guard.step import redacted

    found = finding_of(Secrets(), reason.example).redactions
    clean = redacted(reason.example, Detail(GuardrailStatus.EVALUATED, redactions=found))
    return dataclasses.replace(reason, example=clean)


def notes(structured: Mapping[str, int], wanted: object, commonest: FailureReason | None) -> Iterator[str]:
    """Yield what to say of a run; `structured` counts replies by how JSON was asked for, `wanted` was set."""
    others = {name: count for name, count in structured.items() if name != wanted}
    if wanted is not None and others:
        came = ", ".join(f"{count} replies came with {name}" for name, count in others.items())
        what = wanted if wanted == "logprobs" else f"the structure {wanted}"
        yield f"the server did not take {what}: {came}"
    shown = without_secrets(commonest)
    if shown is not None:
        yield f"commonest failure: {shown.reason}, {shown.count} times, such as: {shown.example}"


def publish(
    run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    to: Annotated[str, typer.Option(help="langfuse, langsmith, phoenix or otel.", show_default=False)],
    url: Annotated[
        str | None,
        typer.Option(
            help="Address of the service, such as https://cloud.langfuse.com; keys come from the environment."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the scores to this file instead of sending them.")
    ] = None,
    sent: Annotated[
        Path | None,
        typer.Option(help="File that keeps what was sent, so that nothing is sent twice. [default: STORE-sent]"),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
) -> None:
    """Send scores and verdicts back to the traces that conversations were imported from.

    F of each turn and principle goes to the turn's last span, as turnwise.PRINCIPLE; turnwise.flagged marks the
    turn at which the run's detectors fired. Keys: LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, LANGSMITH_API_KEY,
    PHOENIX_API_KEY, or OTEL_EXPORTER_OTLP_HEADERS.
    """
    from turnwise.operations import send_scores, trace_scores, write_scores

    if (url is None) == (out is None):
        raise UsageError("give the address with --url, or a file with --out")
    with opened_store(store) as opened:
        scores = trace_scores(opened, opened.run(run).name)
        if out is not None:
            count, before = write_scores(scores, to, out), 0
        else:
            if sent is None and "://" in opened.location:
                raise UsageError(
                    f"name the file that keeps what was sent: --sent, since {opened.location} is no file"
                )
            done = send_scores(scores, to, url or "", sent or f"{opened.location}-sent")
            count, before = done.sent, done.before
    say(f"{count} scores {'written' if out else 'sent'}" + (f", {before} were sent before" if before else ""))
    if not count + before:
        note("no conversation of this run came from a trace: import traces first, with --format otel for one")


FLIP_COLUMNS = {
    **dict.fromkeys(("sequence_id", "source", "label", "model", "category", "language", "flagged_by"), "VARCHAR"),
    "turn": "BIGINT",
    **dict.fromkeys(("score_a", "score_b", "F_a", "F_b", "F_difference"), "DOUBLE"),
}
"""Columns of the export of ``compare``, with their types in DuckDB's words."""

TREND_COLUMNS = {
    **dict.fromkeys(("value", "week"), "VARCHAR"),
    **dict.fromkeys(("conversations", "flagged"), "BIGINT"),
    **dict.fromkeys(("low", "high", "median_F"), "DOUBLE"),
    "reference": "BOOLEAN",
    **dict.fromkeys(("p_share", "p_F"), "DOUBLE"),
    "drift": "VARCHAR",
}
"""Columns of the export of ``trends``."""

Facet = Annotated[
    str, typer.Option("--by", help="Break rates down by source, label, model, category or language.")
]
Export = Annotated[
    str | None, typer.Option(help="Write the rows with all columns to this file: .csv, .parquet or .json.")
]


def compare_runs(
    a: Annotated[str, typer.Argument(help="Name of the first run.", show_default=False)],
    b: Annotated[str, typer.Argument(help="Name of the second run; may be the first.", show_default=False)],
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector", help="Detector for both runs; given twice, for the first and the second. [any_turn]"
        ),
    ] = None,
    patterns: options.PatternsFile = None,
    by: Facet = "source",
    corrected_by: options.CorrectedBy = None,
    limit: Annotated[
        int, typer.Option(min=0, max=options.MOST, help="Flips to list; --json and --export have all.")
    ] = 20,
    export: Export = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """List what one run flags and the other does not, with the rates of both by source, model or label."""
    from turnwise.cli.files import ROW_FILES, check_export, write_rows
    from turnwise.runs.flips import arm_verdicts, compare_arms
    from turnwise.study.facets_and_trends import facet_rates

    specs: list[str | None] = [*detector] if detector else [None]
    if len(specs) > 2:
        raise UsageError(f"two runs have at most two detectors, not {len(specs)}")
    if a == b and len(set(specs)) < 2:
        raise UsageError(f"{a} against itself: name two detectors, such as --detector any_turn --detector cusum")
    if export is not None:
        check_export(export, ROW_FILES)
    with opened_store(store) as opened:
        first, second = arm_verdicts(opened, a, specs[0], patterns), arm_verdicts(opened, b, specs[-1], patterns)
        compared = compare_arms(opened, first, second, people := read_people(corrected_by))
        if not people:
            CountedLabels((), 0, 0).tell(opened)
        rates = facet_rates(compared, by)
        places = compared.flipped()
        wanted = places if json or export is not None else places[:limit]
        flips = compared.flips(opened, wanted)
    if export is not None:
        note(f"{write_rows(export, FLIP_COLUMNS, (one.to_dict() for one in flips))} flips written to {export}")
    if json:
        print_json({
            "a": _arm(compared.a), "b": _arm(compared.b), "judged_by_both": len(compared),
            "judged_by_a_alone": compared.only_a, "judged_by_b_alone": compared.only_b,
            "by": by, "rates": [one.to_dict() for one in rates], "flips": [one.to_dict() for one in flips],
        })  # fmt: skip
        return
    say(f"A: {compared.a.name}", f"B: {compared.b.name}")
    say(f"{len(places)} of {len(compared)} conversations that both judged are flagged by one alone")
    for rows, title in (
        (flips[:limit], "Flips, the clearest first"),
        (rates, f"By {by}, with exact 95 % intervals and McNemar's test"),
    ):
        if rows:
            _print_rows(rows, title)
    for name, count in (("A", compared.only_a), ("B", compared.only_b)):
        if count:
            note(f"{count} conversations were judged by {name} alone; they are no flips")


def run_trends(
    run: options.Run = None,
    detector: Annotated[str | None, typer.Option(help="Detector that flags. [any_turn]")] = None,
    patterns: options.PatternsFile = None,
    by: Facet = "source",
    reference: Annotated[
        int, typer.Option(min=1, max=520, help="How many first weeks later weeks are tested against.")
    ] = 4,
    time: Annotated[str, typer.Option(help="Time of a conversation: said (its first turn) or imported.")] = "said",
    corrected_by: options.CorrectedBy = None,
    export: Export = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Print what a run flags week by week, and which weeks have drifted from the first ones."""
    from turnwise.cli.files import ROW_FILES, check_export, write_rows
    from turnwise.runs.flips import arm_verdicts
    from turnwise.study.facets_and_trends import trends

    if export is not None:
        check_export(export, ROW_FILES)
    with opened_store(store) as opened:
        arm = arm_verdicts(opened, read_run(opened, run), detector, patterns)
        people = read_people(corrected_by)
        found = trends(opened, arm, by, reference=reference, time=time, corrected_by=people)
    rows = [week.to_dict() for week in found.weeks]
    if export is not None:
        note(f"{write_rows(export, TREND_COLUMNS, rows)} weeks written to {export}")
    if json:
        summary = dataclasses.asdict(found) | {
            "weeks": rows, "reference": [week.isoformat() for week in found.reference]
        }  # fmt: skip
        print_json({"arm": _arm(arm), "by": by, "time": time, **summary})
        return
    say(arm.name)
    if rows:
        _print_rows(found.weeks, "Flagged by week, with exact 95 % intervals")
    else:
        note("no conversation has a known time; --time imported takes when they came into the store")
    if str(found):
        note(str(found))


def _print_rows(rows: Sequence[Flip | FacetRate | TrendWeek], title: str) -> None:
    cells = [one.cells() for one in rows]
    numeric = [name for name in cells[0] if name.startswith(("turn", "score", "F ", "A ", "B ", "p ", "median"))]
    print_table(list(cells[0]), [list(row.values()) for row in cells], numeric=numeric, title=title)


def _arm(arm: ArmVerdicts) -> dict[str, Any]:
    limit = arm.detector.threshold
    return {
        "run": arm.run.name,
        "observer": arm.run.observer,
        "started": arm.run.created_at.isoformat(),
        "detector": arm.spec,
        "threshold": limit if math.isfinite(limit) else None,
        "threshold_source": str(arm.threshold_source),
        "flagged": int(arm.flagged().sum()),
        "judged": len(arm.sequences),
    }
