"""``turnwise erase``; ``guard sessions``, ``forget`` and ``expire``: what is kept of people, shown and erased."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise._support.visible import visible
from turnwise.cli import options
from turnwise.cli.output import confirm, note, print_json, print_table, say
from turnwise.errors import StateError, UsageError

if TYPE_CHECKING:
    from turnwise.guard import RedisStateStore, SqliteStateStore
    from turnwise.sessions import PersonRecord, SessionState, StateStore


Tenant: TypeAlias = Annotated[
    str | None,
    typer.Option("--tenant", help="Name of an API key of the service, whose sessions count alone; else all do."),
]


def sessions(
    session: Annotated[
        str | None,
        typer.Argument(help="Name of a session to show, or its digest as the list has it.", show_default=False),
    ] = None,
    *,
    state: Annotated[str, typer.Option("--state", help=options.STATE, show_default=False)],
    terminated: Annotated[bool, typer.Option("--terminated", help="List those that were ended.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=options.MOST, help="Most sessions to list, the latest first.")
    ] = 100,
    tenant: Tenant = None,
    json: options.Json = False,
) -> None:
    """List the sessions of a state store by digest, as names are not stored, or show what is known of one."""
    if session is None:
        if tenant is not None:
            raise UsageError("--tenant says whose session is meant: give its name too")
        _list(state, terminated, limit, json)
    else:
        _show(session, state, tenant, json)


def _list(state: str, terminated: bool, limit: int, json: bool) -> None:
    from turnwise.sessions import SESSION

    rows, broken = [], []
    with open_state_store(state) as store:
        for key in store.keys(SESSION):
            try:
                found = store.get(SESSION, key)
            except StateError as error:
                broken.append(str(error))
                continue
            if found is not None and (found.terminated or not terminated):
                rows.append(_row(key, found))
    rows = sorted(rows, key=lambda row: row["last_at"], reverse=True)[:limit]
    if json:
        print_json(rows)
    else:
        shown = (
            [row["session"], row["guardrail"], row["turns"], f"{row['trust']:.3f}", row["phase"], row["last_at"]]
            for row in rows
        )
        print_table(
            ("session", "guardrail", "turns", "trust", "phase", "last turn"), shown, numeric=("turns", "trust")
        )
    if broken:
        raise StateError("; ".join(broken[:3]) + (f"; and {len(broken) - 3} more" if len(broken) > 3 else ""))


def _show(session: str, state: str, tenant: str | None, json: bool) -> None:
    from turnwise.guard.state.conversations import STORED
    from turnwise.guard.state.stores import TenantStore
    from turnwise.sessions import PERSON, SESSION

    with open_state_store(state) as whole:
        store = whole if tenant is None else TenantStore(whole, tenant)
        digest = _digest(store, session, whole.path)
        states = {key: store.get(SESSION, key) for key in store.keys(SESSION, owner=digest)}
        conversations = store.keys(STORED, owner=digest)
        persons = {key: store.get(PERSON, key) for key in store.keys(PERSON, owner=digest)}
    records = [_record(key, found) for key, found in persons.items() if found is not None]
    rows = [_row(key, found) for key, found in states.items() if found is not None]
    if json:
        print_json({"session": digest, "memories": rows, "persons": records, "conversations": conversations})
        return
    say(f"session {digest}")
    for row in rows:
        memory = f"  {row['guardrail']}: trust {row['trust']:.3f} after {row['turns']} turns"
        breaker = f"circuit breaker {row['phase']}, {row['violations']} violations, {row['refusals']} refusals"
        say(f"{memory}, {breaker}, last turn {row['last_at']}")
    for one in records:
        said = f"{one['incidents']} incidents since {one['first_at']} against the person"
        say(f"  {one['guardrail']}: {said}, weight {one['weight']:.2f} at {one['at']}")
    say(f"  conversations: {', '.join(conversations) or 'none'}")


def open_state_store(state: str) -> RedisStateStore | SqliteStateStore:
    """A state store that is there: an SQLite file is not made."""
    from turnwise._support.locations import to_path
    from turnwise.guard import open_state_store
    from turnwise.guard.state.settings import store_of

    kind, place = store_of(state)
    if kind == "sqlite" and not to_path(place, home=True).exists():
        raise UsageError(f"there is no file {place}; name the one of state: {{sqlite: FILE}}")
    return open_state_store(state)


def _digest(store: StateStore, session: str, path: str) -> str:
    """The digest of a session that is known, given by name or by digest."""
    from turnwise.guard.names import canonical_name, digest_of, short_id
    from turnwise.guard.rate_limits import LIMIT
    from turnwise.guard.state.conversations import STORED
    from turnwise.sessions import PERSON, SESSION

    names = (canonical_name(session), session)
    for digest in (*(digest_of(one) for name in names for one in (short_id(name), name)), session):
        if (
            any(store.keys(kind, owner=digest) for kind in (SESSION, PERSON, STORED))
            or store.get(LIMIT, digest) is not None
        ):
            return digest
    raise UsageError(f"no session {session!r} in {path}; turnwise guard sessions shows their digests")


def _record(key: str, record: PersonRecord) -> dict[str, Any]:
    return {
        "guardrail": key.rpartition(":")[0],
        "weight": record.weight,
        "incidents": record.incidents,
        "first_at": record.first_at.isoformat(timespec="seconds"),
        "at": record.at.isoformat(timespec="seconds"),
    }


def _row(key: str, state: SessionState) -> dict[str, Any]:
    guardrail, _, digest = key.rpartition(":")
    return {
        "session": digest,
        "guardrail": guardrail,
        "turns": state.interactions,
        "trust": state.trust,
        "phase": str(state.breaker.phase),
        "violations": state.breaker.violations,
        "refusals": state.refusals,
        "started_at": state.started_at.isoformat(timespec="seconds"),
        "last_at": state.last_at.isoformat(timespec="seconds"),
    }


def forget(
    name: Annotated[
        str,
        typer.Argument(
            help="The person, in any spelling, or the digest of a session as guard sessions lists it.",
            show_default=False,
        ),
    ],
    conversation: Annotated[
        bool, typer.Option("--conversation", help="The name is the id of one conversation, to the letter.")
    ] = False,
    state: options.State = None,
    audit: options.Audits = None,
    tenant: Tenant = None,
    json: options.Json = False,
) -> None:
    """Forget a person or a conversation, in a state store and in audits, and print the receipt."""
    from turnwise.clock import utc_now
    from turnwise.guard.forgetting import forget_in

    _check_places(state, audit)
    with ExitStack() as opened:
        stores = _stores(opened, state, tenant)
        receipt = forget_in(
            stores,
            audit or (),
            persons=[] if conversation else [name],
            conversations=[name] if conversation else [],
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
        records = f", {receipt.records} records of the person" if receipt.records else ""
        memories = f"{receipt.sessions} session memories and {receipt.conversations} conversations"
        say(f"forgot {memories}{records}{counted}")
        say(*(f"erased the texts of {count} events in {place}" for place, count in receipt.audit.items()))
    say("not reached:", *(f"  {place}" for place in receipt.unreached))


def expire(
    days: Annotated[
        float, typer.Option(min=0, max=36_500, help="Erase what is older than this.", show_default=False)
    ],
    state: options.State = None,
    audit: options.Audits = None,
    json: options.Json = False,
) -> None:
    """Erase what is old: states that were not used for this many days, and personal parts of audit events.

    A pipeline with keep_days under state: or audit: does the same by itself: states that are past their time count
    as unknown at once, and go as others come; events are erased with the first one after the start, and then once
    a day. That a session was terminated, and what was forgotten, stays known.
    """
    from turnwise.clock import utc_now
    from turnwise.guard.audit.reader import erase_audit
    from turnwise.guard.audit.sinks import older_than

    _check_places(state, audit)
    before, states = utc_now() - timedelta(days=days), 0
    unreached: list[str] = []
    events: dict[str, int] = {}
    if state is not None:
        with open_state_store(state) as store:
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


def _stores(opened: ExitStack, state: str | None, tenant: str | None) -> list[StateStore]:
    """The part of a tenant in a store that `opened` closes; without one those of all, and what is nobody's."""
    from turnwise.guard.state.conversations import STORED
    from turnwise.guard.state.stores import APART, TenantStore
    from turnwise.sessions import PERSON, SESSION

    if state is None:
        return []
    store = open_state_store(state)
    opened.callback(store.close)
    if tenant is not None:
        return [TenantStore(store, tenant)]
    keys = [*store.keys(STORED), *store.keys(SESSION), *store.keys(PERSON)]
    tenants = {name for name, apart, _ in (key.partition(APART) for key in keys) if apart}
    return [*(TenantStore(store, name) for name in sorted(tenants)), store]


def _check_places(state: str | None, audit: list[str] | None) -> None:
    if state is None and not audit:
        raise UsageError("say where: --state, --audit, or both")


def erase(
    ids: Annotated[list[str] | None, typer.Argument(help="The conversations.", show_default=False)] = None,
    person: Annotated[
        list[str] | None,
        typer.Option(help="All conversations in which this person speaks, in any spelling; may be repeated."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the receipt.")] = "",
    author: Annotated[str, typer.Option(help="Your name, for the receipt.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be erased.")] = False,
    receipt: Annotated[Path | None, typer.Option(help="Write the receipt to this JSON file as well.")] = None,
    yes: options.Yes = False,
    state: options.State = None,
    audit: options.Audits = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Erase conversations or a person: texts, scores, notes, cached replies, indexes; a receipt is kept.

    No byte of the texts is left in any file of the store, which is written anew. The audit in the store, and those
    of --audit, keep their chain with the texts gone. Backups and exports that were made before, data sets that are
    imported again and models that were taught are out of reach; the receipt names them.
    """
    from turnwise.guard.forgetting import conversations_of
    from turnwise.guard.forgetting import erase as erase_everywhere
    from turnwise.store import Store

    persons = person or []
    if not ids and not persons:
        raise UsageError("name a conversation, or a person with --person")
    with ExitStack() as opened:
        record = opened.enter_context(Store(store))
        found = [*dict.fromkeys([*(ids or ()), *conversations_of(record, *persons)])]
        what = f"{len(found):,} conversation{'' if len(found) == 1 else 's'} of {record.location}"
        if persons:
            what += f", and what is kept of {', '.join(map(repr, persons))}"
        if dry_run:
            heads = list(record.heads(ids=found)) if found else []
            if json:
                print_json({"would_erase": [head.sequence_id for head in heads]})
                return
            say(f"would erase {what}")
            say(*(f"  {visible(head.sequence_id)}, {head.turns} turns" for head in heads))
            return
        confirm(f"Erase {what}? This can't be undone.", yes)
        stores = _stores(opened, state, None)
        made = erase_everywhere(
            record, found, persons=persons, audits=audit or (), states=stores, author=author, reason=reason
        )
    if receipt is not None:
        receipt.write_text(dumps(made.to_dict(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if json:
        print_json(made.to_dict())
        return
    if not made:
        say("nothing was found")
        return
    if made.store is not None:
        counted = ", ".join(f"{count:,} {table}" for table, count in made.store.counts.items())
        say(f"erased {counted}")
        if not made.store.finished:
            note("another process reads the store at this moment: run the command again to end it")
    if made.forgotten is not None:
        erased = made.forgotten.audit.items()
        say(*(f"erased the texts of {count} events in {place}" for place, count in erased))
        if made.forgotten.sessions or made.forgotten.conversations:
            counts = f"{made.forgotten.sessions} session memories, {made.forgotten.conversations} conversations"
            say(f"forgot {counts} of the guard")
    say("not reached:", *(f"  {place}" for place in made.unreached))
