"""``turnwise runs``: what every run has come to, and with which settings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from turnwise.cli import options

if TYPE_CHECKING:
    from turnwise.store import Run, RunTally


def runs(store: options.Store = options.DEFAULT_STORE, json: options.Json = False) -> None:
    """List the runs of a store: counts, failures, tokens, cost, time and settings."""
    from turnwise.cli.output import note, print_json
    from turnwise.store import Store

    with Store(store) as opened:
        found = opened.tallies()
    if json:
        print_json([_as_json(run, tally) for run, tally in found])
    elif found:
        _print(found)
    else:
        note(f"{store} has no run yet; turnwise evaluate --store {store} makes one")


def _as_json(run: Run, tally: RunTally) -> dict[str, Any]:
    figures = dataclasses.asdict(tally)
    first, last = figures.pop("first"), figures.pop("last")
    return {
        **figures,
        "observer": run.observer,
        "observer_version": run.observer_version,
        "context": run.context,
        "parameters": dict(run.parameters),
        "code_version": run.code_version,
        "created_at": run.created_at.isoformat(),
        "first": first.isoformat() if first else None,
        "last": last.isoformat() if last else None,
    }


def _print(found: tuple[tuple[Run, RunTally], ...]) -> None:
    from turnwise.cli.output import Table, dollars, print_table

    numeric = (
        "sequences",
        "evaluations",
        "failed",
        "calls",
        "cached",
        "tokens sent",
        "received",
        "cost",
        "seconds",
    )
    figures = Table("run", *numeric, "last score", numeric=numeric)
    settings = Table("run", "started", "observer", "context", "settings", title="Settings")
    for run, tally in found:
        asks = tally.calls > 0
        figures.add_row(
            run.name,
            *map(str, (tally.sequences, tally.evaluations, tally.failed)),
            *(str(n) if asks else "" for n in (tally.calls, tally.cached, tally.prompt_tokens)),
            str(tally.completion_tokens) if asks else "",
            dollars(tally.cost_usd) if asks or tally.cost_usd is not None else "",
            f"{tally.seconds:.1f}" if tally.seconds else "",
            f"{tally.last:%Y-%m-%d %H:%M}" if tally.last else "",
        )
        values = ", ".join(f"{name}={value}" for name, value in run.parameters.items() if value not in ({}, None))
        settings.add_row(run.name, f"{run.created_at:%Y-%m-%d %H:%M}", run.observer, run.context, values)
    print_table(figures)
    print_table(settings)
