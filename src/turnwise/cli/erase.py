"""``turnwise erase``: conversations, or all of a person, leave a store, audits and the guard's state."""

from __future__ import annotations

from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise._support.visible import visible
from turnwise.cli import options
from turnwise.cli.guard_state import Audits, State, open_state_store, parts_of
from turnwise.cli.output import note, print_json, say
from turnwise.cli.runs import Yes, confirm
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.sessions import StateStore


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
    yes: Yes = False,
    state: State = None,
    audit: Audits = None,
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
        stores: list[StateStore] = []
        if state is not None:
            kept = open_state_store(state)
            opened.callback(kept.close)
            stores = parts_of(kept, None)
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
