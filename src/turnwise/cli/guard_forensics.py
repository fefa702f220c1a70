"""``turnwise guard forensics``: what happened in a conversation under guard."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.guard import WIDTH, ConfigFile, read_config, wrapped
from turnwise.cli.output import note, print_json, print_table, say, sparkline

_WIDTH = 20
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
    config: ConfigFile = None,
    audit: Annotated[
        str | None, typer.Option(metavar="FILE_OR_STORE", help="Also show where the chain of this audit breaks.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what the guard saw in a conversation: what was blocked, by which guardrail, and where drift began."""
    from turnwise.cli.files import read_conversation, write_text
    from turnwise.guard.forensics import (
        analyze_conversation_forensics,
        forensics_page,
        replay,
        replay_pipeline,
    )

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
    from turnwise.guard.forensics import in_words

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
    size = -(-len(values) // _WIDTH)
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    known = [[value for value in part if value is not None] for part in parts]
    return [worst(part) if part else None for part in known]


def _print_guardrails(analysis: Mapping[str, Any]) -> None:
    guardrails = analysis["guardrail_summary"]
    always = {"ran": "evaluated", "found": "total_firings", "blocked": "blocks", "warned": "warnings"}
    seldom = {key: key for key in ("skipped", "failed") if any(counts[key] for counts in guardrails.values())}
    columns = {**always, **seldom}
    rows: list[tuple[str | list[str], ...]] = []
    for name, counts in guardrails.items():
        first = counts["first_firing"]
        kinds = [f"{count} {kind}" for kind, count in counts["redactions"].items()]
        cells = [str(counts[key]) for key in columns.values()]
        rows.append((name, *cells, "" if first is None else str(first), kinds))
    if rows:
        print_table(("guardrail", *columns, "first turn", "redacted"), rows, numeric=(*columns, "first turn"))


def _print_timeline(analysis: Mapping[str, Any]) -> None:
    """Print what was found, and what failed; every check is in --json and on the page."""
    from turnwise.guard.forensics import piece_in_words, stands_in_words
    from turnwise.guard.forensics.page import told_side

    rows: list[tuple[str | list[str], ...]] = []
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
            rows.append((time, str(entry["turn_number"]), told_side(entry), lines))
    if rows:
        print_table(
            ("time (UTC)", "turn", "side", "what"),
            rows,
            title="How evidence grew: what was found, what failed, and where the session stood then (→)",
        )


def _without_charts() -> str:
    from turnwise.guard.forensics.page import NO_CHARTS, can_draw

    return "" if can_draw() else f", without charts. {NO_CHARTS}"
