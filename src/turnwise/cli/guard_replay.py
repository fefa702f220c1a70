"""``turnwise guard replay`` and ``forensics``: recorded conversations under a guard, and what happened in one."""

from __future__ import annotations

import atexit
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise._support.visible import shown
from turnwise.cli import options
from turnwise.cli.guard import WIDTH, read_config, wrapped
from turnwise.cli.output import note, print_json, print_table, rate_json, say, sparkline

if TYPE_CHECKING:
    from turnwise.conversation import Sequence as Chat
    from turnwise.datasets import BadRecord
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.guard.config import Config
    from turnwise.guard.results import Detail
    from turnwise.rates import Rate


@options.grouped
def replay(
    file: Annotated[
        str,
        typer.Argument(
            help="An audit, conversations as Conversation.to_dict gives them, or a file in any format that import "
            "reads."
        ),
    ],
    *,
    preset: options.Preset = None,
    config: options.ConfigFile = None,
    file_format: options.FileFormat,
    limit: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="Most conversations to replay, from the first on.")
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            help="Block nothing (mode log), and write what would have been done to this audit, for guard report.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Processes that check.")] = 1,
    fail_on_findings: options.BlockedOrWarned = False,
    json: options.Json = False,
) -> None:
    """Put recorded conversations through a pipeline, turn by turn, and say what it would have blocked.

    Calls of tools and what they gave back are checked as well.

    Rate limits and the audit of the configuration are left out: they are for live conversations.
    """
    from turnwise.datasets import BadRecord, open_dataset
    from turnwise.forensics import recorded

    read = read_config(preset, config)
    told = file_format != options.FileFormat()
    records = (None if told else recorded(file)) or open_dataset(file, **file_format.to_dict())
    bad: list[BadRecord] = []

    def good() -> Iterator[Chat]:
        for record in records:
            if isinstance(record, BadRecord):
                bad.append(record)
            else:
                yield record

    rows: list[dict[str, Any]] = []
    with _replaying(read, audit, jobs) as replayed:
        began = time.perf_counter()
        for row in replayed(islice(good(), limit)):
            rows.append(row)
            if not json:
                # At once: a model reads every turn, so a file of conversations takes minutes.
                say(*_lines(row))
        seconds = time.perf_counter() - began
    checks = sum(row["checks"] for row in rows)
    pace = (
        f"{checks} checks in {seconds:.2f} s: {checks / seconds:,.0f} a second" if checks else "nothing to check"
    )
    if json:
        print_json(
            {
                "pipeline": read.name,
                "conversations": rows,
                "summary": {
                    group: {what: rate_json(rate) for what, rate in rates.items()}
                    for group, rates in _summary(rows).items()
                },
                "checks": checks,
                "seconds": seconds,
                "checks_per_second": checks / seconds if seconds else None,
                "bad_lines": [{"line": one.line, "reason": one.reason} for one in bad],
            }
        )
        note(pace)
    else:
        _print_summary(rows)
        say(pace)
    for one in bad:
        note(f"{file}, line {one.line}: {one.reason}; left out")
    if (bad and not rows) or any(one.ends for one in bad):
        raise typer.Exit(1)
    if fail_on_findings and any(row["blocked_at"] or row["warned_at"] for row in rows):
        raise typer.Exit(3)


@contextmanager
def _replaying(
    config: Config, audit: str | None, jobs: int
) -> Iterator[Callable[[Iterable[Chat]], Iterator[dict[str, Any]]]]:
    """What says of conversations, in order, what a pipeline does; each of several processes has one of its own."""
    from turnwise.forensics import replay_pipeline

    if jobs == 1:
        with closing(replay_pipeline(config, audit)) as pipeline:
            yield partial(map, partial(_row, pipeline))
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn"), _open_replay, (config, audit)) as pool:
            yield partial(pool.map, _replayed, chunksize=4)


_REPLAYING: list[GuardrailPipeline] = []
"""The pipeline of a process that replays for another one."""


def _open_replay(config: Config, audit: str | None) -> None:
    from turnwise.forensics import replay_pipeline

    _REPLAYING.append(replay_pipeline(config, audit))
    atexit.register(_REPLAYING[-1].close)


def _replayed(sequence: Chat) -> dict[str, Any]:
    return _row(_REPLAYING[-1], sequence)


def _row(pipeline: GuardrailPipeline, sequence: Chat) -> dict[str, Any]:
    from turnwise.forensics import check_again

    _, results = check_again(pipeline, sequence.conversation, session_id=sequence.sequence_id)
    blocked = [result.turn_number for result in results if result.blocked]
    warned = [result.turn_number for result in results if result.warnings]
    return {
        "sequence_id": sequence.sequence_id,
        "label": str(sequence.label),
        "turns": sequence.conversation.get_turn_count(),
        "checks": len(results),
        "blocked_at": blocked[0] if blocked else None,
        "warned_at": warned[0] if warned else None,
        "failures": sum(len(result.failures) for result in results),
        "unread": sum(len(result.unread) for result in results),
        "findings": [finding for result in results for finding in _findings_of(result)],
    }


def _findings_of(result: PipelineResult) -> list[dict[str, Any]]:
    """What guardrails found, failed at or did not read in a text, as JSON values."""
    return [
        {
            "turn": result.turn_number,
            "side": str(result.pipeline_type),
            **({} if result.call_id is None else {"tool": result.tool, "call_id": result.call_id}),
            "guardrail": name,
            "action": _action(detail),
            "reason": detail.reason,
        }
        for name, detail in result.details.items()
        if detail.found or detail.status in ("failed", "not_read")
    ]


def _action(detail: Detail) -> str:
    if detail.status == "failed":
        return f"failed {detail.path}"
    if detail.status == "not_read" and detail.action is None:
        return "not read"
    return str(detail.action)


def _summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Rate]]:
    """By label the share of conversations in which something was blocked, and blocked or warned of."""
    from turnwise.rates import Rate

    found = {}
    for group in ("attack", "benign", "unlabelled"):
        some = [row for row in rows if row["label"] == group]
        if some:
            found[group] = {
                "blocked": Rate(sum(row["blocked_at"] is not None for row in some), len(some)),
                "blocked_or_warned": Rate(
                    sum(row["blocked_at"] is not None or row["warned_at"] is not None for row in some), len(some)
                ),
            }
    return found


_DONE = {"block": "blocked", "redact": "redacted", "warn": "warned of", "log": "logged"}


def _lines(row: dict[str, Any]) -> list[str]:
    clean = "" if row["findings"] else ": nothing found"
    lines = [f"{row['sequence_id']} ({row['label']}, {row['turns']} turns){clean}"]
    for one in row["findings"]:
        done = _DONE.get(one["action"], one["action"])
        side = f"{one['side']} of {shown(one['tool'])}" if one.get("tool") else one["side"]
        what = f"  turn {one['turn']}, {side}: {done} by {one['guardrail']}: {one['reason']}"
        lines += wrapped(what, hanging=" " * 6)
    return lines


def _print_summary(rows: list[dict[str, Any]]) -> None:
    summary = ((group, *rates.values()) for group, rates in _summary(rows).items())
    columns = "label", "blocked", "blocked or warned of"
    print_table(columns, summary, title="Conversations, with 95 % intervals")
    failures = sum(row["failures"] for row in rows)
    if failures:
        note(f"{failures} checks of guardrails failed; not checked is not clean")
    unread = sum(row["unread"] for row in rows)
    if unread:
        note(f"{unread} checks of guardrails met a language that they do not read; not checked is not clean")


_GRAPH = 20
"""Characters of a small graph at most."""

_BESIDE = 40
"""Columns that time, turn and side take beside what was found."""


def forensics(
    file: Annotated[
        str,
        typer.Argument(
            help="JSON file of one conversation, as Conversation.to_dict gives it, or in any form that check "
            "reads; - for standard input.",
            show_default=False,
        ),
    ],
    html: Annotated[str | None, typer.Option(help="Also write a page, which opens offline.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="Check it first with this preset, where no guard looked at it.")
    ] = None,
    config: options.ConfigFile = None,
    audit: Annotated[
        str | None, typer.Option(metavar="FILE_OR_STORE", help="Also show where the chain of this audit breaks.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what the guard saw in a conversation: what was blocked, by which guardrail, and where drift began."""
    from turnwise.cli.files import read_conversation, write_text
    from turnwise.forensics import analyze_conversation_forensics, forensics_page, replay, replay_pipeline

    conversation = read_conversation(file)
    analysis = analyze_conversation_forensics(conversation)
    if preset is not None or config is not None:
        if analysis["totals"]["checks"]:
            note(f"{file} has its checks already; it is not checked again")
        else:
            conversation, _ = replay(replay_pipeline(read_config(preset, config)), conversation)
            analysis = analyze_conversation_forensics(conversation)
    if html is not None:
        write_text(html, forensics_page(conversation, analysis))
        note(f"{html} written{_without_charts()}")
    if audit is not None:
        from turnwise.guard.audit import verify_audit

        found = verify_audit(audit)
        analysis["audit"] = found.to_dict()
        for line in (*(f"{place}: {what}" for place, what in found.damage), *found.notes):
            note(line)
        note(f"{audit}: the chain {'holds' if found.intact else 'does not hold'}, {found.events} events")
    if json:
        print_json(analysis)
    else:
        print_analysis(analysis)
    if not analysis["totals"]["checks"]:
        note("check it first: --preset NAME, or --config FILE")


def print_analysis(analysis: Mapping[str, Any]) -> None:
    """Print an analysis by `analyze_conversation_forensics` as a person reads it."""
    from turnwise.forensics import in_words

    sides, times, totals = analysis["participants"], analysis["times"], analysis["totals"]
    say(f"Conversation {analysis['conversation_id']}: {sides['initiator']} and {sides['responder']}")
    span = f", {times['first'][:19]} to {times['last'][:19]} UTC" if times["first"] else ""
    say(f"{analysis['total_turns']} turns, {totals['checks']} checks{span}", "")
    say(*(part for line in in_words(analysis) for part in wrapped(f"- {line}", hanging="  ")), "")
    _print_graphs(analysis)
    _print_guardrails(analysis)
    _print_timeline(analysis)


def _print_graphs(analysis: Mapping[str, Any]) -> None:
    rows = []
    points = [point for point in analysis["trajectory"] if point["side"] == "input"]
    names = sorted({name for point in points for name in point["scores"]})
    series = {f"F of {name}": [point["scores"].get(name, {}).get("F") for point in points] for name in names}
    series["trust"] = [one.get("trust") for one in analysis["stance"] if one["side"] == "input"]
    for name, values in series.items():
        known = [value for value in values if value is not None]
        if known:
            edges = (f"{value:.2f}" for value in (min(known), max(known), known[-1]))
            rows.append((name, sparkline(_narrowed(values, min if name == "trust" else max)), *edges))
    if rows:
        numeric = "lowest", "highest", "last"
        print_table(("over turns", "", *numeric), rows, numeric=numeric)


def _narrowed(values: Sequence[float | None], worst: Callable[[Iterable[float]], float]) -> list[float | None]:
    """As many values as fit into a line: of neighbours the worst, since that is what one looks for."""
    size = -(-len(values) // _GRAPH)
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    known = [[value for value in part if value is not None] for part in parts]
    return [worst(part) if part else None for part in known]


def _print_guardrails(analysis: Mapping[str, Any]) -> None:
    guardrails = analysis["guardrail_summary"]
    always = {"ran": "evaluated", "found": "total_firings", "blocked": "blocks", "warned": "warnings"}
    seldom = {key: key for key in ("skipped", "failed") if any(counts[key] for counts in guardrails.values())}
    columns = {**always, **seldom}
    rows: list[tuple[object, ...]] = []
    for name, counts in guardrails.items():
        first = counts["first_firing"]
        kinds = [f"{count} {kind}" for kind, count in counts["redactions"].items()]
        rows.append((name, *(counts[key] for key in columns.values()), first, kinds))
    if rows:
        print_table(("guardrail", *columns, "first turn", "redacted"), rows, numeric=(*columns, "first turn"))


def _print_timeline(analysis: Mapping[str, Any]) -> None:
    """Print what was found, and what failed; every check is in --json and on the page."""
    from turnwise.forensics import piece_in_words, stands_in_words
    from turnwise.forensics.page import told_side

    rows: list[tuple[object, ...]] = []
    grew = {(one["time"], one["turn"], one["side"]): one for one in analysis["evidence"]}
    for entry in analysis["timeline"]:
        time = [(entry["time"] or "")[:10], (entry["time"] or "")[11:19]]
        if entry["kind"] == "rate_limit":
            turn = f"after {entry.get('after_turn', '?')}"
            rows.append((time, turn, "input", f"rate limit: {entry.get('reason')}"))
            continue
        added = grew.get((entry["time"], entry["turn_number"], entry["pipeline_type"]))
        told = [] if added is None else [piece_in_words(piece) for piece in added["pieces"]]
        told += [f"failed: {failure}" for failure in entry["failures"]]
        told += [] if added is None or not stands_in_words(added) else [f"→ {stands_in_words(added)}"]
        if told:
            lines = [line for one in told for line in textwrap.wrap(one, WIDTH - _BESIDE)]
            rows.append((time, entry["turn_number"], told_side(entry), lines))
    if rows:
        print_table(
            ("time (UTC)", "turn", "side", "what"),
            rows,
            title="How evidence grew: what was found, what failed, and where the session stood then (→)",
        )


def _without_charts() -> str:
    from turnwise.forensics.page import NO_CHARTS, can_draw

    return "" if can_draw() else f", without charts. {NO_CHARTS}"
