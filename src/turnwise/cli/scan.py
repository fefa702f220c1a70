"""``turnwise scan``: score logs of any size, part by part, or as they are received, and leave findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import opened_store
from turnwise.cli.options import Budget, ObserverOptions
from turnwise.cli.output import dollars, note, print_json, print_table, say, share_done
from turnwise.cli.study_rates import print_label_sample, print_prevalence
from turnwise.errors import UsageError

if TYPE_CHECKING:
    import threading

    from turnwise.operations.spool import Spool
    from turnwise.runs import Progress, ScanPlan, ScanResult
    from turnwise.runs.forecast import Forecast
    from turnwise.runs.scanning import FlaggedSequence, SecondLooks
    from turnwise.study.prevalence import LabelSample, Prevalence


QUIET = 300.0


def refuse_files(given: Sequence[str]) -> None:
    """Refuse options that need files, or an end."""
    if given:
        raise UsageError(
            f"--listen reads no files, and goes on until it is interrupted: leave out {', '.join(given)}"
        )


def receive_at(listen: str, place: str, work: Callable[[Spool, threading.Event], None]) -> None:
    """Receive until a signal comes, while `work` takes on what has finished; `place` is where that goes."""
    from turnwise.operations.otlp_receiver import receive

    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen is {listen!r}; use an address and a port, such as 127.0.0.1:4318")
    if "://" in place:
        raise UsageError(f"--listen keeps what it receives beside {place}: use a local path")
    try:
        receive(
            f"{place.rstrip('/')}-otlp", host.strip("[]"), int(port), work,
            lambda address: note(f"receiving OTLP on {address}/v1/traces into {place}"),
        )  # fmt: skip
    except ImportError as error:
        raise UsageError(f"--listen needs {error.name}: pip install 'turnwise[otlp,serve]'") from None


_REQUESTS = 4
"""Conversations that a worker process has under way where its observer waits for answers."""

_SHOWN = 10
"""Flagged conversations that a table names."""


@dataclass(frozen=True)
class _ScanSettings(ObserverOptions):
    """Settings of the observer of a scan."""

    budget: Budget = None
    device: Annotated[
        str | None,
        typer.Option(
            help="Setting device: where the observer's network runs, such as cpu or cuda. [default: cpu]"
        ),
    ] = None


@options.grouped
def scan(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, patterns, folders or URLs: logs/*.parquet, chats.jsonl.zst, s3://bucket/chats/*.parquet.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out", help="Folder or URL of the findings; the same command continues.", show_default=False
        ),
    ],
    file_format: options.FileFormat,
    source: Annotated[str | None, typer.Option(help="Name of the data set, in place of the files' own.")] = None,
    observer: Annotated[str, typer.Option(help="Observer that scores; see turnwise list observers.")] = "local",
    context: options.Context = "history",
    detector: Annotated[
        str, typer.Option(help="What judges the scores: a detector such as cusum:limit=0.4, or a YAML file.")
    ] = "cusum",
    patterns: options.PatternsFile = None,
    principle: options.Principles = None,
    sides: options.Sides = "prompt",
    where: Annotated[
        str | None, typer.Option(help='Only conversations for which this holds, such as "turns >= 3".')
    ] = None,
    sample: Annotated[
        int | None, typer.Option(help="Most conversations to score, drawn at random.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    engine: Annotated[
        str | None,
        typer.Option(
            help="How parts get to workers: inline, process, ray. [default: process where -j is above 1 and the "
            "observer computes, else inline]"
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", help="Parallel workers. [default: 1; of ray one a processor]", min=1),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to use: its address, or auto. [default: a Ray of its own]")
    ] = None,
    listen: options.Listen = None,
    quiet: options.Quiet = QUIET,
    part_rows: Annotated[
        int | None,
        typer.Option(help="Conversations of a part. [default: 2000, fewer where there is little]", min=1),
    ] = None,
    no_texts: Annotated[
        bool, typer.Option("--no-texts", help="Keep only scores, and no text of a conversation.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what there is and what scoring would take; write nothing.")
    ] = False,
    settings: _ScanSettings,
    rates: options.Rates = None,
    label_sample: Annotated[
        int | None,
        typer.Option(
            help="Draw that many conversations for people to label; see turnwise study prevalence.", min=1
        ),
    ] = None,
    fail_on_findings: options.FailOnFindings = False,
    json: options.Json = False,
) -> None:
    """Score conversations in files of any size, part by part; started again, it continues where it stopped.

    What can't be read or scored is listed in OUT/failures and the rest completes; the exit code is then 1.
    turnwise query, study and explore read the findings: --store OUT. With --listen there are no files:
    conversations are scored as they come, at most a minute after they have finished.
    """
    from turnwise.observers import describe_observer
    from turnwise.runs import ReadOptions, flagged, make_engine, plan_scan
    from turnwise.runs.forecast import forecast_scan
    from turnwise.runs.scanning import LIVE, second_looks
    from turnwise.study.prevalence import read_rates, summarise, write_label_sample

    if label_sample is not None and no_texts:
        raise UsageError("--label-sample needs the texts that --no-texts leaves out")
    observer = settings.spec(observer)
    settings.check([observer])
    waits = describe_observer(observer).costs
    if listen is not None:
        of_files = {
            "INPUTS": inputs, "--source": source, "--sample": sample, "--engine": engine, "--address": address,
            "--jobs": None if waits else jobs,
            "--dry-run": dry_run, "--rates": rates, "--label-sample": label_sample,
            "--fail-on-findings": fail_on_findings, "--json": json,
            **{f"--{name.replace('_', '-')}": value for name, value in file_format.to_dict().items()},
        }  # fmt: skip
        refuse_files([name for name, value in of_files.items() if value])
    engine_name = engine or ("process" if (jobs or 1) > 1 and not waits else "inline")
    given = settings.of(observer, None)
    chosen = make_engine(engine_name, jobs, address, given.get("device"))
    prepared = plan_scan(
        LIVE if listen is not None else inputs or [],
        out,
        read=ReadOptions(**file_format.to_dict(), source=source),
        observer=observer,
        settings=given,
        context=context,
        principles=options.read_principles(principle),
        sides=options.read_sides(sides),
        detector=detector,
        patterns=patterns,
        where=where,
        sample=sample,
        seed=seed,
        part_rows=part_rows,
        texts=not no_texts,
        threads=(jobs or 1) if engine_name == "inline" else _REQUESTS if waits else 1,
        priced_only=dry_run,
    )
    if listen is not None:
        _receive(prepared, listen, out, quiet)
        return
    if dry_run:
        _tell_forecast(forecast_scan(prepared), prepared, jobs or 1, json=json)
        return
    known = None if rates is None else read_rates(rates, prepared.manifest)
    try:
        with share_done("scan") as tell:
            result = prepared.run(chosen, lambda now: tell(now.done / max(now.total, 1), _pace(now)))
    except KeyboardInterrupt:
        note("interrupted: the parts that were done are kept; the same command continues")
        raise typer.Exit(130) from None
    if not result.findings.folder.is_url:
        with opened_store(out) as opened:  # which makes the index, so that no question waits for it
            flagged(opened, opened.only_run())
    looks = second_looks(result.findings)
    found = summarise(result.findings, known)
    drawn = None if label_sample is None else write_label_sample(result.findings, label_sample, seed)
    _tell_all(result, looks, found, drawn, json=json)
    if result.counts.failures:
        note(f"{result.counts.failures} rows or scores failed; {out}/failures says which and why")
        raise typer.Exit(1)
    if fail_on_findings and result.counts.fired:
        raise typer.Exit(3)


def _receive(prepared: ScanPlan, listen: str, out: str, quiet: float) -> None:
    """Score what is received until a signal comes, and say of each part what came of it."""
    from turnwise.operations import scan_received

    def tell(now: Progress) -> None:
        counts = now.counts
        failed = f", {counts.failures} rows or scores failed" if counts.failures else ""
        note(f"{counts.conversations} conversations, {counts.fired} fired{failed}")

    receive_at(listen, out, partial(scan_received, prepared, quiet, progress=tell, patience=min(quiet, 60.0)))


def _tell_all(
    result: ScanResult, looks: SecondLooks | None, found: Prevalence, drawn: LabelSample | None, *, json: bool
) -> None:
    if json:
        sampled = {} if drawn is None else {"label_sample": drawn.to_dict()}
        print_json(_as_json(result, looks) | {"prevalence": found.to_dict()} | sampled)
    else:
        _tell_looks(looks)
        _tell(result)
        print_prevalence(found)
        if drawn is not None:
            print_label_sample(drawn, result.findings)
        say(f"next: turnwise query gradual_drift --store {result.findings.folder}")


def _as_json(result: ScanResult, looks: SecondLooks | None) -> dict[str, Any]:
    manifest = result.findings.manifest
    second = {} if looks is None else {"second_look": looks.to_dict()}
    return {
        "findings": str(result.findings.folder),
        "detector": {key: manifest.detector[key] for key in ("spec", "threshold", "threshold_source")},
        "observer": manifest.run["observer"],
        "counts": dataclasses.asdict(result.counts),
        "parts": len(manifest.parts),
        "done_before": result.resumed,
        "seconds": round(result.seconds, 3),
        "cost_usd": result.cost_usd,
        "complete": manifest.complete,
        **second,
    }


def _tell_looks(looks: SecondLooks | None) -> None:
    if looks is None:
        return
    share = looks.asked / looks.turns if looks.turns else 0.0
    failed = ", ".join(f"{count} {reason}" for reason, count in looks.unanswered.items())
    cost = dollars(looks.replies.get("cost_usd")) if looks.replies else "nothing paid"
    say(
        f"second look: asked about {looks.asked} of {looks.turns} turns ({share:.1%}), {looks.answered} answered, "
        f"{looks.asked - looks.answered} failed{f' ({failed})' if failed else ''}; "
        f"{looks.replies.get('calls', 0)} calls, {cost}"
    )
    _tell_flagged(looks.confirmed, "flagged, and the judge confirms it", "judge's F", ())
    _tell_flagged(looks.screen_alone, "flagged by the screen alone", "screen's F", ("why not judged",))


def _tell_flagged(flagged: Sequence[FlaggedSequence], title: str, name: str, why: tuple[str, ...]) -> None:
    say(f"{title}: {len(flagged) or 'none'}")
    if flagged:
        columns = "conversation", "turn", name
        print_table(
            (*columns, *why),
            ([one.sequence, one.turn, f"{one.F:.2f}", *([one.why] if why else [])] for one in flagged[:_SHOWN]),
            numeric=columns[1:],
        )
    if len(flagged) > _SHOWN:
        say(f"and {len(flagged) - _SHOWN} more, which --json names")


def _tell(result: ScanResult) -> None:
    from turnwise.scoring import unread_in_words

    counts, manifest = result.counts, result.findings.manifest
    rows = f" of {counts.rows} rows" if counts.rows != counts.conversations else ""
    before = f", {result.resumed} parts were done before" if result.resumed else ""
    say(
        f"{counts.conversations} conversations{rows} with {counts.turns} turns: {counts.scores} scores "
        f"in {result.seconds:.1f} s{before}"
    )
    if counts.unread:
        say(f"{unread_in_words(counts.unread)}: texts in languages that the observer does not read")
    if counts.left_out:
        say(f"{counts.left_out} rows were left out by --where")
    threshold = manifest.detector["threshold"]
    rule = "never fires" if threshold is None else f"threshold {threshold:.3f}"
    say(
        f"{manifest.detector['spec']} ({rule}, {manifest.detector['threshold_source']}) fired at {counts.fired} "
        f"of {counts.scored} scored conversations"
    )
    if result.cost_usd:
        say(f"cost: {dollars(result.cost_usd)}")


def _tell_forecast(found: Forecast, prepared: ScanPlan, jobs: int, *, json: bool) -> None:
    if json:
        print_json(dataclasses.asdict(found))
        return
    say(
        f"{found.files} files, {_bytes(found.bytes)}: {found.rows} rows in {found.parts} parts; about "
        f"{found.conversations} conversations would be scored ({found.share:.0%} of those looked at)"
    )
    if found.seconds is not None:
        jobs = jobs if found.asked is None else 1  # threads: they wait for the judge, and share one screen
        say(
            f"about {_time(found.seconds / jobs)} with {jobs} worker{'s' if jobs > 1 else ''}"
            f"{', without waiting for the judge' if found.asked else ''}, by "
            f"{found.timed} conversations that were scored and timed"
        )
    if found.asked is not None:
        say(f"the judge is asked about {found.asked[0]:.1%} of the turns, by {found.asked[1]} that were screened")
    if found.calls:
        say(f"about {found.calls} calls of {prepared.manifest.run['observer']}")
        if found.cost_usd is None or found.most_usd is None:
            say("price unknown: add the model to prices.toml, as docs/llm-observers.md says")
        else:
            say(f"about {dollars(found.cost_usd)}, at most {dollars(found.most_usd)}")


def _bytes(size: int) -> str:
    amount, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _time(seconds: float) -> str:
    """A time in words.

    >>> _time(40), _time(4_000), _time(400_000)
    ('40 s', '1 h 07 min', '4 d 15 h')
    """
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60:02d} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def _pace(progress: Progress) -> str:
    rate = progress.here / progress.seconds if progress.seconds else 0.0
    left = "" if progress.left is None else f", {_time(progress.left)} left"
    failed = f", {progress.counts.failures} failed" if progress.counts.failures else ""
    return (
        f"{progress.counts.conversations} conversations, {progress.counts.fired} fired{failed}, {rate:.1f}/s{left}"
    )
