"""``turnwise guard sessions``: the sessions of a state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise.cli import options
from turnwise.cli.output import say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.guard import RedisStateStore, SqliteStateStore
    from turnwise.sessions import SessionState, StateStore

sessions = typer.Typer(
    help="The sessions that a guard keeps in a state store: list, show.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StateFile: TypeAlias = Annotated[
    str,
    typer.Option(
        "--state",
        help="The file or the redis:// URL, as state: {sqlite: FILE} or {redis: URL} of a configuration.",
    ),
]
Session: TypeAlias = Annotated[
    str,
    typer.Argument(help="Name of the session, or its digest as list shows it.", show_default=False),
]
Tenant: TypeAlias = Annotated[
    str | None,
    typer.Option("--tenant", help="Name of an API key of the service, whose sessions count alone; else all do."),
]


@sessions.command("list")
def list_(
    state: StateFile,
    terminated: Annotated[bool, typer.Option("--terminated", help="Those that were ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=options.MOST, help="So many, the latest first.")] = 100,
    json: options.Json = False,
) -> None:
    """List sessions by digest: their names are not in the store."""
    from turnwise.cli.output import Table, print_json, print_table
    from turnwise.errors import StateError
    from turnwise.sessions import SESSION

    rows, broken = [], []
    with open_store(state) as store:
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
        table = Table("session", "guardrail", "turns", "trust", "phase", "last turn", numeric=("turns", "trust"))
        for row in rows:
            trust, turns = f"{row['trust']:.3f}", str(row["turns"])
            table.add_row(row["session"], row["guardrail"], turns, trust, row["phase"], row["last_at"])
        print_table(table)
    if broken:
        raise StateError("; ".join(broken[:3]) + (f"; and {len(broken) - 3} more" if len(broken) > 3 else ""))


@sessions.command()
def show(session: Session, state: StateFile, tenant: Tenant = None, json: options.Json = False) -> None:
    """Show what is known of a session, and which conversations belong to it."""
    from turnwise.cli.output import print_json
    from turnwise.guard.state.payloads import STORED
    from turnwise.sessions import SESSION

    with open_store(state) as whole:
        store = _of(whole, tenant)
        digest = _digest(store, session, whole.path)
        states = {key: store.get(SESSION, key) for key in store.keys(SESSION, owner=digest)}
        conversations = store.keys(STORED, owner=digest)
    rows = [_row(key, found) for key, found in states.items() if found is not None]
    if json:
        print_json({"session": digest, "memories": rows, "conversations": conversations})
        return
    say(f"session {digest}")
    for row in rows:
        memory = f"  {row['guardrail']}: trust {row['trust']:.3f} after {row['turns']} turns"
        breaker = f"circuit breaker {row['phase']}, {row['violations']} violations, {row['refusals']} refusals"
        say(f"{memory}, {breaker}, last turn {row['last_at']}")
    say(f"  conversations: {', '.join(conversations) or 'none'}")


def open_store(state: str) -> RedisStateStore | SqliteStateStore:
    """A state store that is there: an SQLite file is not made."""
    from turnwise._support.paths import to_path
    from turnwise.guard import open_state_store
    from turnwise.guard.state.settings import store_of

    kind, place = store_of(state)
    if kind == "sqlite" and not to_path(place, home=True).exists():
        raise UsageError(f"there is no file {place}; name the one of state: {{sqlite: FILE}}")
    return open_state_store(state)


def _of(store: StateStore, tenant: str | None) -> StateStore:
    from turnwise.guard.state.tenant_store import TenantStore

    return store if tenant is None else TenantStore(store, tenant)


def _digest(store: StateStore, session: str, path: str) -> str:
    """The digest of a session that is known, given by name or by digest."""
    from turnwise.guard.identity.names import canonical_name
    from turnwise.guard.limits import LIMIT
    from turnwise.guard.request import digest_of, short_id
    from turnwise.guard.state.payloads import STORED
    from turnwise.sessions import SESSION

    names = (canonical_name(session), session)
    for digest in (*(digest_of(one) for name in names for one in (short_id(name), name)), session):
        if (
            any(store.keys(kind, owner=digest) for kind in (SESSION, STORED))
            or store.get(LIMIT, digest) is not None
        ):
            return digest
    raise UsageError(f"no session {session!r} in {path}; turnwise guard sessions list shows their digests")


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
