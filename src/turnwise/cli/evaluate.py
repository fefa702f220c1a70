"""``turnwise evaluate``: score what a run lacks."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import llm_options, options
from turnwise.cli.output import say

if TYPE_CHECKING:
    from turnwise.evaluation import Summary


def evaluate(
    run: Annotated[
        str | None,
        typer.Option(help="Name of the run; what the runs of a panel begin with. [default: observer-context]"),
    ] = None,
    observer: Annotated[
        list[str] | None,
        typer.Option(
            help="What scores; see turnwise observers. Several make a panel, a run each. "
            "[default: that of the run, else local]"
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            help="What it may see: turn, window:k, history, transcript. [default: that of the run, else history]"
        ),
    ] = None,
    principle: options.Principles = None,
    sides: options.Sides = "prompt",
    sequence: options.Sequences = None,
    label: options.Label = None,
    source: options.Source = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Parallel workers.", min=1)] = 1,
    base_url: llm_options.BaseUrl = None,
    temperature: llm_options.Temperature = None,
    max_tokens: llm_options.MaxTokens = None,
    structured: llm_options.Structured = None,
    repeats: llm_options.Repeats = None,
    max_retries: llm_options.MaxRetries = None,
    timeout: llm_options.Timeout = None,
    budget: llm_options.Budget = None,
    no_cache: llm_options.NoCache = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Score every turn that a run lacks. The same command again continues, and repeats nothing."""
    from turnwise.cli.arguments import read_label, read_principles, read_sides, read_source
    from turnwise.cli.llm_options import LlmOptions, refuse_without_llm
    from turnwise.cli.output import print_json
    from turnwise.cli.scoring import print_summary, score
    from turnwise.evaluation import Aim
    from turnwise.observers import Context
    from turnwise.store import Store

    principles = read_principles(principle)
    asked = LlmOptions(
        base_url, temperature, max_tokens, structured, repeats, max_retries, timeout, budget, no_cache
    )
    halves, truth = read_sides(sides), read_label(label)
    summaries: list[Summary] = []
    with Store(store) as opened:
        ids = read_source(opened, source, sequence)
        known = {stored.name: stored for stored in opened.runs()}
        named = known.get(run or "")
        specs = list(dict.fromkeys(observer or [named.observer if named else "local"]))
        refuse_without_llm(specs, asked)
        for spec in specs:
            whole = run if len(specs) == 1 else f"{run}-{spec}" if run else None
            seen = context or (known[whole].context if whole in known else "history")
            name = whole or f"{spec}-{seen}"
            aim = Aim(principles, Context.parse(seen), halves, ids, truth)
            summary = score(opened, name, spec, aim, asked, jobs=jobs)
            summaries.append(summary)
            if asked.budget is not None:  # one budget for the whole panel
                asked = dataclasses.replace(asked, budget=max(0.0, asked.budget - (summary.cost_usd or 0.0)))
    if json:
        shown = [dataclasses.asdict(summary) for summary in summaries]
        print_json(shown if len(specs) > 1 else shown[0])
        return
    for summary in summaries:
        print_summary(summary)
    chosen = summaries[-1].run
    say(f"next: turnwise detect --store {store} --run {chosen} --detector any_turn --detector cusum")
