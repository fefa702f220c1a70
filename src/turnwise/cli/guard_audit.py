"""``turnwise guard audit``, ``verify`` and ``alert``: what an audit holds, whether its chain does, who is told."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.errors import UsageError, nearest

if TYPE_CHECKING:
    from turnwise.guard.audit import AuditAnswer
    from turnwise.operations import AlertSettings


SHOWN = 50
"""Events that a table shows by default."""


def audit(
    location: options.AuditLocation,
    conversation: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    person: Annotated[
        str | None,
        typer.Option(help="Only what this person began, by the initiator's name; also where it is hashed."),
    ] = None,
    guardrail: Annotated[
        str | None, typer.Option(help="Only where this guardrail found something, failed, or did not read.")
    ] = None,
    blocked: Annotated[bool, typer.Option("--blocked", help="Only what was blocked.")] = False,
    since: Annotated[
        str | None,
        typer.Option(help="From this time on, such as 2025-01-31 or 2025-01-31T12:00+02:00; UTC by default."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST,
            help=f"Most checks to list, the latest ones. Default: {SHOWN}, with --json and --csv all.",
        ),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option(
            help="Write them to this CSV file; a cell that a spreadsheet would take for a formula begins with an "
            "apostrophe."
        ),
    ] = None,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence",
            help="Show how evidence grew instead, over all conversations: what was found, the turns that it came "
            "from, and where the session stood then.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """List the checks in an audit, in the order in which they were written, or write them to a file."""
    from turnwise.guard.audit import AuditQuestion, export_csv, read_audit

    question = AuditQuestion(
        conversation_id=conversation,
        session_id=session,
        person=person,
        guardrail=guardrail,
        blocked=True if blocked else None,
        since=read_time("--since", since),
        until=read_time("--until", until),
        limit=limit if limit is not None or json or csv is not None else SHOWN,
    )
    if evidence and csv is not None:
        raise UsageError("--evidence needs --json, not --csv")
    answer = read_audit(location, question)
    if evidence:
        _print_evidence(answer, json=json)
    elif csv is not None:
        count = export_csv(answer.events, csv)
        if json:
            print_json({"csv": csv, "count": count, "unreadable": list(answer.unreadable)})
        else:
            say(f"{count} checks written to {csv}")
    elif json:
        print_json(
            {
                "count": len(answer.events),
                "events": list(answer.events),
                "gaps": list(answer.gaps),
                "unreadable": list(answer.unreadable),
            }
        )
    else:
        columns = "time", "conversation", "turn", "side", "verdict", "reasons and warnings", "text"
        print_table(columns, map(_cells, answer.events))
        if limit is None and len(answer.events) == SHOWN:
            note(f"the latest {SHOWN}; --limit shows more")
        if not answer.events:
            _note_nothing(guardrail)
    _tell(location, answer)


def _print_evidence(answer: AuditAnswer, *, json: bool) -> None:
    from turnwise.forensics import evidence, piece_in_words, stands_in_words

    entries = evidence(answer.events)
    if json:
        print_json({"count": len(entries), "evidence": entries, "gaps": list(answer.gaps)})
        return
    rows = []
    for entry in entries:
        added = "; ".join(map(piece_in_words, entry["pieces"])) or "nothing found"
        place = [entry[name] for name in ("conversation_id", "turn", "side")]
        rows.append([str(entry["time"])[:19], *place, added, stands_in_words(entry)])
    print_table(("time", "conversation", "turn", "side", "what was added", "then"), rows)
    if not entries:
        note("nothing was found, and no session moved")


def _note_nothing(guardrail: str | None) -> None:
    from turnwise.guard import guardrail_names

    note("no check is what was asked for")
    near = nearest(guardrail or "", guardrail_names())
    if near not in (None, guardrail):
        note(f"did you mean --guardrail {near}?")


def verify(
    location: options.AuditLocation,
    head: Annotated[
        str | None,
        typer.Option(
            help="Hash of an event that has to be in it, as an earlier verify printed it.", show_default=False
        ),
    ] = None,
    first: Annotated[
        int, typer.Option(min=1, help="Number of the first event, where older files were deleted.")
    ] = 1,
    json: options.Json = False,
) -> None:
    """Verify the chain of hashes of an audit, and say where it breaks; the exit code is then 1.

    Files that rotation moved away are part of it: beside the file, with its name and more. The key of the
    environment variable TURNWISE_AUDIT_KEY is used where there is one.
    """
    from turnwise.guard.audit import verify_audit

    found = verify_audit(location, expected=head, first=first)
    if json:
        print_json(found.to_dict())
    else:
        say(*(f"{place}: {what}" for place, what in found.damage))
        for one in found.notes:
            note(one)
        what = (
            "the chain holds" if found.intact else "the chain is broken" if found.events else "there is no chain"
        )
        say(f"{what}: {found.events} events, {found.erased} of them with their texts erased")
        if found.events:
            say(f"head: event {found.head.n}, {found.head.hash}; keep it elsewhere for --head")
    if not found.intact:
        raise typer.Exit(1)


def read_time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} is {text!r}; use a date or time such as 2025-01-31T12:00") from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _cells(event: dict[str, Any]) -> list[object]:
    verdict = event.get("outcome") or (
        "blocked" if event.get("blocked") else "warned" if event.get("warned") else "passed"
    )
    erased = [f"erased {str(event['erased'])[:19]}"] if "erased" in event else []
    later = event.get("guardrails", {}) if event.get("kind") == "correction" else {}
    looks = [f"{name}: {one.get('reason', '')}" for name, one in later.items()]
    said = "; ".join([*erased, *event.get("reasons", ()), *event.get("warnings", ()), *looks])
    text = event.get("text")
    return [
        str(event.get("time", ""))[:19],
        event.get("conversation_id"),
        "refused" if event.get("turn") is None else event["turn"],
        event.get("side"),
        verdict,
        said,
        " ".join(text.split())[:60] if isinstance(text, str) else "",
    ]


def _tell(location: str, answer: AuditAnswer) -> None:
    for line in answer.unreadable:
        note(f"{location}: {line}; left out")
    dropped = sum(gap.get("dropped", 0) for gap in answer.gaps)
    unwritten = sum(gap.get("unwritten", 0) for gap in answer.gaps)
    if dropped or unwritten:
        note(
            f"{location}: {dropped + unwritten} checks are missing: {dropped} were dropped because the queue was "
            f"full, {unwritten} could not be written"
        )


def alert(
    location: options.AuditLocation,
    config: Annotated[
        str, typer.Option("--config", help="YAML file with receivers and rules.", show_default=False)
    ],
    since: Annotated[
        str | None,
        typer.Option(
            help="Report events from this time on. By default those of the last day that nobody was told of; "
            "the first time, only new ones."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Report what is there, and end; for use with a timer.")
    ] = False,
    test: Annotated[bool, typer.Option("--test", help="Send each receiver a test alert, and end.")] = False,
) -> None:
    """Follow an audit and send alerts to webhooks, chats and a SIEM by your rules, until stopped.

    It runs beside the guard and only reads, so a receiver that is dead or slow holds up no check. What was sent or
    given up is written into the audit.
    """
    from turnwise.operations import Alerts, AlertSettings

    settings = AlertSettings.read(config)
    if test:
        _test_receivers(settings, location)
        return
    alerts = Alerts(location, settings, since=read_time("--since", since))
    stop = threading.Event()
    try:
        if once:
            alerts.step()
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            note(f"following {location}: {len(settings.rules)} rules, {len(settings.receivers)} receivers")
            alerts.run(stop)
        left = alerts.finish()
    finally:
        alerts.close()
    if left:
        note(f"{left} alerts wait still; the next start tells them")
        raise typer.Exit(1)


def _test_receivers(settings: AlertSettings, location: str) -> None:
    from turnwise.clock import utc_now
    from turnwise.operations import Alert, DeliveryError

    failed = False
    for one in settings.receivers:
        now = utc_now()
        finding = {
            "time": now.isoformat(),
            "conversation_id": "test",
            "turn": 1,
            "reasons": ["a test"],
            "guardrails": [],
        }
        made = Alert("tw_test", "test", location, now.isoformat(), "A test of turnwise's alerts", (finding,))
        try:
            one.deliver(made, now)
            say(f"{one.name}: arrived")
        except DeliveryError as error:
            failed = True
            say(f"{one.name}: {error}")
    if failed:
        raise typer.Exit(1)
