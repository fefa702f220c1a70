"""``turnwise guard replay``: what a pipeline would have done to recorded conversations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise._support.visible import shown
from turnwise.cli import options
from turnwise.cli.guard_options import ConfigFile, Findings, Preset
from turnwise.cli.output import say

if TYPE_CHECKING:
    from turnwise.conversation import Sequence
    from turnwise.datasets import BadRecord
    from turnwise.guard import GuardrailPipeline
    from turnwise.rates import Rate


def replay(
    file: Annotated[
        str,
        typer.Argument(
            help="An audit, conversations as Conversation.to_dict gives them, or a file in any format that import "
            "reads."
        ),
    ],
    preset: Preset = None,
    config: ConfigFile = None,
    format: options.Format = None,
    columns: options.Columns = None,
    label: options.DefaultLabel = None,
    role_map: options.RoleMap = None,
    encoding: options.Encoding = None,
    limit: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="The first so many conversations.")
    ] = None,
    fail_on_findings: Findings = False,
    json: options.Json = False,
) -> None:
    """Put recorded conversations through a pipeline, turn by turn, and say what it would have blocked.

    Calls of tools and what they gave back are checked as well.

    Rate limits and audit are left out: they are about live conversations.
    """
    from turnwise.cli.guard_options import read_config
    from turnwise.cli.output import note, print_json
    from turnwise.datasets import BadRecord, open_dataset
    from turnwise.guard.forensics import recorded, replay_pipeline

    pipeline = replay_pipeline(read_config(preset, config))
    told = any(option is not None for option in (format, columns, label, role_map, encoding))
    records = (None if told else recorded(file)) or open_dataset(
        file, format=format, columns=columns, label=label, role_map=role_map, encoding=encoding
    )
    bad: list[BadRecord] = []

    def good() -> Iterator[Sequence]:
        for record in records:
            if isinstance(record, BadRecord):
                bad.append(record)
            else:
                yield record

    rows: list[dict[str, Any]] = []
    seconds = 0.0
    for sequence in islice(good(), limit):
        began = time.perf_counter()
        rows.append(_row(pipeline, sequence))
        seconds += time.perf_counter() - began
        if not json:
            # At once: a model reads every turn, so a file of conversations takes minutes.
            say(*_lines(rows[-1]))
    checks = sum(row["checks"] for row in rows)
    pace = (
        f"{checks} checks in {seconds:.2f} s: {checks / seconds:,.0f} a second" if checks else "nothing to check"
    )
    if json:
        print_json(
            {
                "pipeline": pipeline.config.name,
                "conversations": rows,
                "summary": {
                    group: {what: _rate_json(rate) for what, rate in rates.items()}
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


def _row(pipeline: GuardrailPipeline, sequence: Sequence) -> dict[str, Any]:
    from turnwise.cli.guard_options import findings_of
    from turnwise.guard.forensics import check_again

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
        "findings": [finding for result in results for finding in findings_of(result)],
    }


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


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"count": rate.count, "of": rate.of, "interval": list(rate.interval)}


_DONE = {"block": "blocked", "redact": "redacted", "warn": "warned of", "log": "logged"}


def _lines(row: dict[str, Any]) -> list[str]:
    from turnwise.cli.guard_options import wrapped

    clean = "" if row["findings"] else ": nothing found"
    lines = [f"{row['sequence_id']} ({row['label']}, {row['turns']} turns){clean}"]
    for one in row["findings"]:
        done = _DONE.get(one["action"], one["action"])
        side = f"{one['side']} of {shown(one['tool'])}" if one.get("tool") else one["side"]
        what = f"  turn {one['turn']}, {side}: {done} by {one['guardrail']}: {one['reason']}"
        lines += wrapped(what, hanging=" " * 6)
    return lines


def _print_summary(rows: list[dict[str, Any]]) -> None:
    from turnwise.cli.output import Table, note, print_table

    summary = Table("label", "blocked", "blocked or warned of", title="Conversations, with 95 % intervals")
    for group, rates in _summary(rows).items():
        summary.add_row(group, *map(str, rates.values()))
    print_table(summary)
    failures = sum(row["failures"] for row in rows)
    if failures:
        note(f"{failures} checks of guardrails failed; not checked is not clean")
    unread = sum(row["unread"] for row in rows)
    if unread:
        note(f"{unread} checks of guardrails met a language that they do not read; not checked is not clean")
