"""``turnwise guard alert``: tell people what happens, from the audit of a guard."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.guard_audit import Location, read_time
from turnwise.cli.output import note, say

if TYPE_CHECKING:
    from turnwise.operations import AlertSettings


def alert(
    location: Location,
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
        _test(settings, location)
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


def _test(settings: AlertSettings, location: str) -> None:
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
