"""Erasure everywhere: conversations or a person leave a store, audits and the guard's state, with one receipt."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from turnwise.clock import Clock, utc_now
from turnwise.errors import UsageError
from turnwise.guard.forgetting import BEYOND_REACH, Forgotten, forget_in, people_in
from turnwise.guard.identity.names import canonical_name, checked_name
from turnwise.sessions import StateStore
from turnwise.store import Erasure, Store


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased.

    Args:
        erased_at: when, in UTC.
        store: the store's receipt; None where it had nothing.
        forgotten: what audits and states forgot; None where there are none.
        unreached: where texts may still be, in words.
    """

    erased_at: datetime
    store: Erasure | None
    forgotten: Forgotten | None = None
    unreached: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.store is not None or bool(self.forgotten)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "erased_at": self.erased_at.isoformat(),
            "store": None if self.store is None else self.store.to_dict(),
            "forgotten": None if self.forgotten is None else self.forgotten.to_dict(),
            "unreached": list(self.unreached),
        }


def conversations_of(store: Store, *persons: str) -> tuple[str, ...]:
    """Return the conversations in which one of some people speaks, in any spelling, in the order of import.

    Raises:
        GuardError: a name with nothing visible.
    """
    for person in persons:
        checked_name(person, "the name")
    wanted = frozenset(map(canonical_name, persons))
    known: dict[str, bool] = {}
    found = []
    for sequence_id, participants in store.source.participants() if wanted else ():
        sides = json.dumps(participants, sort_keys=True)
        if sides not in known:
            known[sides] = not wanted.isdisjoint(people_in(participants))
        if known[sides]:
            found.append(sequence_id)
    return tuple(found)


def erase(
    store: Store,
    ids: Collection[str] = (),
    *,
    persons: Sequence[str] = (),
    audits: Iterable[str] = (),
    states: Sequence[StateStore] = (),
    author: str = "",
    reason: str = "",
    clock: Clock = utc_now,
) -> Receipt:
    """Erase conversations, or all of a person, from a store, its audit, further audits and state stores.

    In an audit events lose their personal parts and keep their hashes, so that its chain still holds.

    Args:
        store: the record, or the findings of a scan.
        ids: the conversations.
        persons: people; all conversations in which they speak are erased as well.
        audits: files or stores with further audits.
        states: state stores of guards.
        author: who does it, for the receipt.
        reason: why, for the receipt.
        clock: gives the time.

    Returns:
        The receipt.

    Raises:
        UnknownNameError: the store has no conversation of one of the ids. Nothing was erased then.
        UsageError: neither a conversation nor a person.
        StoreError, StateError, GuardError: something can't be read or written.
    """
    if not ids and not persons:
        raise UsageError("name a conversation, or a person with --person")
    found = [*dict.fromkeys([*ids, *conversations_of(store, *persons)])]
    made = store.erase(found, author=author, reason=reason) if found else None
    places = [*dict.fromkeys(audits)]
    if not store.is_findings and store.location not in places and next(iter(store.audit.rows()), None) is not None:
        places.append(store.location)
    forgotten = None
    if states or places:
        forgotten = forget_in(
            states, places, persons=persons, conversations=found, tenant=None, now=clock(), why=reason or "erased"
        )
    left = [*(forgotten.unreached if forgotten else ()), *(made.unreached if made else ())]
    order = [one for one in dict.fromkeys(left) if one not in BEYOND_REACH]
    beyond = [one for one in dict.fromkeys(left) if one in BEYOND_REACH]
    return Receipt(clock(), made, forgotten, (*order, *beyond))
