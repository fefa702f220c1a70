"""``turnwise cost``: what missing evaluations would cost, before any is paid for."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import observer_options, options
from turnwise.cli.output import say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.evaluation.plan import Forecast


def cost(
    run: Annotated[str | None, typer.Option(help="Name of the run. [default: observer-context]")] = None,
    observer: Annotated[
        str | None, typer.Option(help="The model, such as llm:openai/gpt-4.1-mini. [default: that of the run]")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="What it may see. [default: that of the run, else history]")
    ] = None,
    principle: options.Principles = None,
    sides: options.Sides = "prompt",
    sequence: options.Sequences = None,
    label: options.Label = None,
    observer_setting: observer_options.ObserverSettings = None,
    base_url: observer_options.BaseUrl = None,
    temperature: observer_options.Temperature = None,
    max_tokens: observer_options.MaxTokens = None,
    structured: observer_options.Structured = None,
    repeats: observer_options.Repeats = None,
    no_cache: observer_options.NoCache = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Say what the evaluations that a run lacks would cost with a language model. Sends nothing, needs no key."""
    from turnwise.cli.arguments import read_label, read_principles, read_sides
    from turnwise.cli.observer_options import GivenSettings
    from turnwise.cli.output import print_json
    from turnwise.evaluation import Plan
    from turnwise.evaluation.plan import forecast
    from turnwise.observers import Context, build_cost_estimator
    from turnwise.store import Store

    asked = GivenSettings(
        observer_setting,
        base_url=base_url,
        temperature=temperature,
        max_tokens=max_tokens,
        structured=structured,
        repeats=repeats,
        cache=False if no_cache else None,
    )
    with Store(store) as opened:
        known = {stored.name: stored for stored in opened.runs()}
        named = known.get(run or "")
        spec = observer or (named.observer if named else "")
        if not spec:
            raise UsageError("name the model with --observer, such as --observer llm:openai/gpt-4.1-mini")
        seen = context or (named.context if named else "history")
        name = run or f"{spec}-{seen}"
        plan = Plan(
            read_principles(principle),
            Context.parse(seen),
            read_sides(sides),
            sequence or None,
            read_label(label),
        )
        estimator = build_cost_estimator(spec, **asked.of(spec, known.get(name)))
        asked.check([spec])
        found = forecast(opened, name, estimator, plan)
    as_of = estimator.price_as_of.isoformat() if estimator.price_as_of else None
    if json:
        print_json({"run": name, "observer": spec, **dataclasses.asdict(found), "price_as_of": as_of})
        return
    _print(name, found, as_of)


def _print(run: str, found: Forecast, as_of: str | None) -> None:
    from turnwise.cli.output import dollars

    say(f"run {run} lacks {found.scores} evaluations: {found.calls} calls, {found.cached} more are free")
    say(f"about {found.prompt_tokens} tokens to send and {found.completion_tokens} to receive")
    if found.cost_usd is None or found.most_usd is None:
        say("price unknown: add the model to prices.toml, as docs/llm-observers.md says")
    else:
        say(
            f"about {dollars(found.cost_usd)}, at most {dollars(found.most_usd)} if every reply were as long as "
            f"it may be (prices of {as_of})"
        )
