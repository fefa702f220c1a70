"""``turnwise guard report``: what a guard blocked, or would have, and what another threshold would do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.guard_audit import read_time
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.operations import AuditReport, WhatIf
    from turnwise.store import Store

SHOWN = 8
"""Rows of a table of counts."""


def report(
    location: options.AuditLocation,
    since: Annotated[
        str | None, typer.Option(help="From this time on, such as 2025-01-31; UTC by default.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    guardrail: Annotated[str, typer.Option(help="Guardrail whose scores the thresholds are for.")] = "drift",
    threshold: Annotated[
        float | None, typer.Option(help="Show what this threshold would have done.", show_default=False)
    ] = None,
    alarms: Annotated[
        float | None,
        typer.Option(
            help="Find the threshold that flags at most this share of the conversations, such as 0.01: true "
            "and false alarms.",
            show_default=False,
        ),
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(
            help="Find the threshold that keeps this rate of false alarms, from the blind labels in --labels.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Store for the conversations: they are added, to be labelled blind in turnwise explore; their "
            "labels are read.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence with which --false-alarms holds.")] = 0.95,
    json: options.Json = False,
) -> None:
    """Report from its audit what a guard did, or in mode log would have done: counts, drift, thresholds.

    Conversations count once. What would have been blocked is listed apart from what was.
    """
    from contextlib import ExitStack

    from turnwise.operations import report_audit
    from turnwise.store import Store

    if false_alarms is not None and labels is None:
        raise UsageError("--false-alarms needs labels of a random sample: name a store for them with --labels")
    with ExitStack() as stack:
        store = None
        if labels is not None:
            store = stack.enter_context(Store(labels, create=True))
            _add(store, location)
        found = report_audit(
            location,
            since=read_time("--since", since),
            until=read_time("--until", until),
            guardrail=guardrail,
            threshold=threshold,
            alarms=alarms,
            labels=store if false_alarms is not None else None,
            false_alarms=false_alarms,
            confidence=confidence,
        )
    if json:
        print_json(found.to_dict())
    else:
        _print(found, alarms, false_alarms, confidence)
    if labels is not None and false_alarms is None:
        note(f"label a random sample blind: turnwise explore --store {labels}, Label, all at random")


def _add(store: Store, location: str) -> None:
    """Add the conversations of an audit to a store, but for those that it has."""
    from turnwise.datasets import BadRecord
    from turnwise.forensics import recorded

    known = {head.sequence_id for head in store.heads()}
    records = recorded(location)
    if records is None:
        raise UsageError(f"--labels needs an audit in a file, which {location} is not")
    good = [one for one in records if not isinstance(one, BadRecord) and one.sequence_id not in known]
    store.add_sequences(good)
    note(f"{len(good)} conversations added to {store.location}")


def _print(found: AuditReport, alarms: float | None, false_alarms: float | None, confidence: float) -> None:
    from turnwise.operations import KINDS

    if not found.checks:
        say("no check in this time")
        return
    chats = found.blocked.of
    say(f"{found.begin[:16]} to {found.end[:16]}: {found.checks:,} texts of {chats:,} conversations checked")
    rows = {"blocked": found.blocked, "would have been blocked": found.would_block, "warned of only": found.warned}
    print_table(("conversations", "share, 95 % interval"), rows.items())
    for kind, title in KINDS.items():
        some = found.counts[kind]
        if some and kind != "day":
            print_table(
                (kind, "texts", "conversations"),
                ((one.name, f"{one.texts:,}", one.conversations) for one in some[:SHOWN]),
                title=f"{title}: blocked, or would have been"
                + (f" ({len(some) - SHOWN} more)" if len(some) > SHOWN else ""),
            )
    print_table(
        ("day", "texts", "conversations"),
        ((one.name, f"{one.texts:,}", one.conversations) for one in found.counts["day"][-14:]),
        title=KINDS["day"],
    )
    _print_scores(found)
    _print_drift(found)
    for words, one in (
        ("this threshold", found.what_if),
        (f"alarms on at most {100 * (alarms or 0):g} % of the conversations", found.alarms),
        (
            f"false alarms on at most {100 * (false_alarms or 0):g} %, {100 * confidence:g} % sure, by "
            f"{found.benign} benign conversations of a random sample",
            found.bounded,
        ),
    ):
        if one is not None:
            say("", *_what_if(found.guardrail, words, one))
    if found.to_read:
        rows_to_read = (
            (one.conversation_id, one.turn or "–", one.guardrail, one.reason, (one.text or "")[:80])
            for one in found.to_read[:SHOWN]
        )
        print_table(("conversation", "turn", "guardrail", "why", "text"), rows_to_read, title="To read first")
    _tell(found)


def _what_if(guardrail: str, words: str, one: WhatIf) -> list[str]:
    setting = "block_at" if guardrail == "drift" else "block_above"
    return [
        f"{guardrail} at {one.threshold:.3f} ({words}): flags {one.flagged} conversations;",
        f"  {one.added} that it let pass, and of {one.now} that it blocked or would have, {one.spared} no longer",
        f"  to switch on: - {guardrail}: {{{setting}: {one.threshold:.3f}}} in the configuration, and mode on",
    ]


def _print_scores(found: AuditReport) -> None:
    most = max(found.histogram)
    if most:
        width = len(found.histogram)
        rows = (
            (f"{number / width:.2f}", f"{count:,}", "█" * math.ceil(40 * count / most))
            for number, count in enumerate(
                found.histogram[: 1 + max(at for at, n in enumerate(found.histogram) if n)]
            )
        )
        print_table(("from", "conversations", ""), rows, title=f"Highest score of {found.guardrail}")


def _print_drift(found: AuditReport) -> None:
    for what, trend in (("scores", found.weeks), ("languages", found.languages)):
        drifted = [one for one in trend.weeks if one.drift]
        if trend.tests:
            print_table(
                ("week of", "of", "flagged" if what == "scores" else "share", "drifted"),
                ((one.week, one.value or "all", one.flagged, one.drift) for one in drifted[:SHOWN]),
                title=f"Drift of {what}: {len(drifted)} of {len(trend.weeks)} weeks",
            )


def _tell(found: AuditReport) -> None:
    for count, words in (
        (found.missing, "checks were lost before they were written"),
        (found.unreadable, "lines are no event of an audit; left out"),
        (found.erased, "checks have no personal part any more: why they were blocked is not known"),
        (found.limited, "prompts were refused by a rate limit; they count as no conversation"),
    ):
        if count:
            note(f"{found.location}: {count:,} {words}")
    for name, count in found.failed.items():
        if count:
            note(f"{name} failed to check {count:,} texts; not checked is not clean")
    for name, count in found.not_read.items():
        if count:
            note(f"{name} met {count:,} texts in languages that it does not read; not checked is not clean")
