"""``turnwise runs``: what every run has come to, and with which settings; runs renamed and deleted."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise._support.visible import visible
from turnwise.cli import options
from turnwise.cli.output import dollars, note, print_json, print_table, say
from turnwise.cli.stores import opened_store
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.scoring import FailureReason
    from turnwise.store import Run, RunTally


_DIGEST = 64
"""Characters of a SHA-256 in hexadecimal digits."""

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")
]


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
    yes: Yes = False,
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
    yes: Yes = False,
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


def confirm(question: str, yes: bool) -> None:
    """Ask whether to go on, and end the command where the answer is no; UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} No terminal to ask on: add --yes")
    if not typer.confirm(visible(question), err=True):
        raise typer.Exit(1)


def _print(found: tuple[tuple[Run, RunTally], ...]) -> None:
    from turnwise.scoring import unread_in_words

    rows = [_figures(run, tally) for run, tally in found]
    columns = [column for column in rows[0] if any(row[column] for row in rows)]  # --json has the others
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


def _figures(run: Run, tally: RunTally) -> dict[str, str]:
    """What a run has come to, by column; what a run without a language model can't have is empty."""
    calls = (tally.calls, tally.cached, tally.prompt_tokens, tally.completion_tokens) if tally.calls else ("",) * 4
    return {
        "run": run.name,
        "sequences": str(tally.sequences),
        "evaluations": str(tally.evaluations),
        "failed": str(tally.failed),
        "not read": str(sum(tally.unread.values())) if tally.unread else "",
        **dict(zip(("calls", "cached", "tokens sent", "received"), map(str, calls), strict=True)),
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
    from turnwise.guard.results import Detail, Status
    from turnwise.guard.step import redacted

    found = finding_of(Secrets(), reason.example).redactions
    clean = redacted(reason.example, Detail(Status.EVALUATED, redactions=found))
    return dataclasses.replace(reason, example=clean)


def notes(structured: Mapping[str, int], wanted: object, commonest: FailureReason | None) -> Iterator[str]:
    """Yield what is to be told of a run, in a line each.

    `structured` counts replies by how they were asked for as JSON, `wanted` is how the run is set to ask.
    """
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
