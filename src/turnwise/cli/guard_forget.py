"""``turnwise guard forget`` and ``expire``: erase a person or what is old from a state store and an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from turnwise.cli import options
from turnwise.cli.guard_sessions import Tenant, open_store
from turnwise.cli.output import note, say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.sessions import StateStore

State: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="The state store: a file or redis:// URL, as state: of a configuration names it.",
        show_default=False,
    ),
]
Audits: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--audit",
        metavar="FILE_OR_STORE",
        help="An audit, with the files that rotation moved away; may be repeated.",
        show_default=False,
    ),
]


def forget(
    name: Annotated[
        str,
        typer.Argument(
            help="The person, in any spelling, or the digest of a session as sessions list shows it.",
            show_default=False,
        ),
    ],
    conversation: Annotated[
        bool, typer.Option("--conversation", help="The name is the id of one conversation, to the letter.")
    ] = False,
    state: State = None,
    audit: Audits = None,
    tenant: Tenant = None,
    json: options.Json = False,
) -> None:
    """Forget a person, or one conversation: in a state store, and their texts in audits; print the receipt."""
    from contextlib import ExitStack

    from turnwise.cli.output import print_json
    from turnwise.clock import utc_now
    from turnwise.guard.forgetting import forget_in

    _check_places(state, audit)
    with ExitStack() as opened:
        stores: list[StateStore] = []
        if state is not None:
            store = open_store(state)
            opened.callback(store.close)
            stores = _parts(store, tenant)
        receipt = forget_in(
            stores,
            audit or (),
            person=None if conversation else name,
            conversation_id=name if conversation else None,
            tenant=tenant,
            now=utc_now(),
        )
    if json:
        print_json(receipt.to_dict())
        return
    if not receipt:
        say(f"nothing is known of {name!r}")
    else:
        counted = ", and the prompts that were counted" if receipt.limits else ""
        say(f"forgot {receipt.sessions} session memories and {receipt.conversations} conversations{counted}")
        say(*(f"erased the texts of {count} events in {place}" for place, count in receipt.audit.items()))
    say("not reached:", *(f"  {place}" for place in receipt.unreached))


def expire(
    days: Annotated[float, typer.Option(min=0, max=36_500, help="What is older goes.", show_default=False)],
    state: State = None,
    audit: Audits = None,
    json: options.Json = False,
) -> None:
    """Erase what is old: states not used for so many days, and personal parts of events of audits.

    A pipeline with keep_days under state: or audit: does the same by itself: states that are past their time count
    as unknown at once, and go as others come; events are erased with the first one after the start, and then once
    a day. That a session was terminated, and what was forgotten, stays known.
    """
    from datetime import timedelta

    from turnwise.cli.output import print_json
    from turnwise.clock import utc_now
    from turnwise.guard.audit.file import older_than
    from turnwise.guard.audit.table import erase_audit

    _check_places(state, audit)
    before, states = utc_now() - timedelta(days=days), 0
    unreached: list[str] = []
    events: dict[str, int] = {}
    if state is not None:
        with open_store(state) as store:
            states = store.purge(before)
            unreached += store.scrub()
    for location in audit or ():
        erased = erase_audit(location, older_than(before), "age")
        events |= erased.events
        unreached += erased.unreached
    if json:
        print_json({"before": before.isoformat(), "states": states, "audit": events, "unreached": unreached})
        return
    say(f"{states} states of before {before:%Y-%m-%d %H:%M} UTC are gone")
    say(*(f"erased the texts of {count} events in {place}" for place, count in events.items()))
    for place in unreached:
        note(f"not reached: {place}")


def _check_places(state: str | None, audit: list[str] | None) -> None:
    if state is None and not audit:
        raise UsageError("say where: --state, --audit, or both")


def _parts(store: StateStore, tenant: str | None) -> list[StateStore]:
    """The part of a tenant; without one the parts of all tenants, and what is nobody's."""
    from turnwise.guard.state.payloads import STORED
    from turnwise.guard.state.tenant_store import APART, TenantStore
    from turnwise.sessions import SESSION

    if tenant is not None:
        return [TenantStore(store, tenant)]
    keys = [*store.keys(STORED), *store.keys(SESSION)]
    tenants = {name for name, apart, _ in (key.partition(APART) for key in keys) if apart}
    return [*(TenantStore(store, name) for name in sorted(tenants)), store]
