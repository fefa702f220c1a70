"""``turnwise cache``: the replies that were paid for and answer the same request again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from turnwise.cli import options
from turnwise.cli.output import say

if TYPE_CHECKING:
    from turnwise.store import KeptReplies

cache = typer.Typer(
    help="Look at the replies of language models that are kept, or forget them.", no_args_is_help=True
)


@cache.command()
def stats(store: options.Store = options.DEFAULT_STORE, json: options.Json = False) -> None:
    """Say how many replies of which model are kept, and what they cost. All that were ever bought are counted."""
    from turnwise.cli.output import note, print_json
    from turnwise.store import Store

    with Store(store) as opened:
        found = opened.journal.stats()
    if json:
        print_json([kept.to_dict() for kept in found])
    elif found:
        _print(found)
    else:
        note(f"{store} keeps no reply of a language model")


@cache.command()
def clear(store: options.Store = options.DEFAULT_STORE, json: options.Json = False) -> None:
    """Let no kept reply answer a request again; those that scores rest on stay in the record, as evidence."""
    from turnwise.cli.output import print_json
    from turnwise.store import Store

    with Store(store) as opened:
        forgotten = opened.journal.clear()
    if json:
        print_json({"forgotten": forgotten})
    else:
        say(f"{forgotten} replies answer no request any more")


def _print(found: tuple[KeptReplies, ...]) -> None:
    from turnwise.cli.output import Table, dollars, print_table

    numeric = ("replies", "reusable", "tokens sent", "received", "cost")
    table = Table("model", *numeric, "oldest", "newest", numeric=numeric)
    for kept in found:
        counts = kept.replies, kept.reusable, kept.prompt_tokens, kept.completion_tokens
        times = (f"{at:%Y-%m-%d %H:%M}" for at in (kept.oldest, kept.newest))
        table.add_row(kept.model, *map(str, counts), dollars(kept.cost_usd), *times)
    print_table(table)
