"""``turnwise llm``: what a language model costs, is asked, and has answered."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import dollars, note, print_json, print_table, say, say_text
from turnwise.cli.stores import check_turn
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.runs.forecast import Cost
    from turnwise.store import KeptReplies


@options.grouped
def cost(
    *,
    run: Annotated[str | None, typer.Option(help="Name of the run. [default: observer-context]")] = None,
    observer: Annotated[
        str | None, typer.Option(help="The model, such as llm:openai/gpt-4.1-mini. [default: that of the run]")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="What it may see. [default: that of the run, else history]")
    ] = None,
    principle: options.Principles = None,
    sides: options.Sides = "prompt",
    selection: options.Selection,
    settings: options.PromptSettings,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Estimate what a run's missing scores cost with a language model; sends nothing, needs no key."""
    from turnwise.observers import DEFAULT_OBSERVER, Context, build_cost_estimator
    from turnwise.runs import Plan
    from turnwise.runs.forecast import forecast_evaluation
    from turnwise.store import Store

    with Store(store) as opened:
        known = {stored.name: stored for stored in opened.runs()}
        named = known.get(run or "")
        spec = settings.spec(
            observer or (named.observer if named else DEFAULT_OBSERVER if settings.second_look else "")
        )
        if not spec:
            raise UsageError("name the model with --observer, such as --observer llm:openai/gpt-4.1-mini")
        seen = context or (named.context if named else "history")
        name = run or f"{spec}-{seen}"
        plan = Plan(
            options.read_principles(principle),
            Context.parse(seen),
            options.read_sides(sides),
            selection.ids(opened),
            selection.read_label(),
        )
        estimator = build_cost_estimator(spec, **settings.of(spec, known.get(name)))
        settings.check([spec])
        found = forecast_evaluation(opened, name, estimator, plan)
    as_of = estimator.price_as_of.isoformat() if estimator.price_as_of else None
    if json:
        print_json({"run": name, "observer": spec, **dataclasses.asdict(found), "price_as_of": as_of})
    else:
        _print_cost(name, found, as_of)


def _print_cost(run: str, found: Cost, as_of: str | None) -> None:
    say(f"run {run} lacks {found.scores} evaluations: {found.calls} calls, {found.cached} more are free")
    say(f"about {found.prompt_tokens} tokens to send and {found.completion_tokens} to receive")
    if found.cost_usd is None or found.most_usd is None:
        say("price unknown: add the model to prices.toml, as docs/llm-observers.md says")
    else:
        say(
            f"about {dollars(found.cost_usd)}, at most {dollars(found.most_usd)} if every reply were as long as "
            f"it may be (prices of {as_of})"
        )


def prompt(
    principle: Annotated[
        str, typer.Argument(help="Principle by name, or the folder of your own.", show_default=False)
    ],
    sequence: Annotated[str, typer.Option("--sequence", help="Id of the sequence.", show_default=False)],
    turn: Annotated[int, typer.Option(help="Number of the turn that is judged.", min=1, show_default=False)],
    side: Annotated[str, typer.Option(help="Side of the turn that is judged: prompt or response.")] = "prompt",
    context: options.Context = "history",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Print the exact messages that a language model would be sent for one score; sends nothing."""
    from turnwise.observers import Context
    from turnwise.observers.llm import fresh_nonce, prompt_version, render
    from turnwise.principles import load_principle
    from turnwise.store import Store

    judged = load_principle(principle)
    half, seen = options.read_side(side), Context.parse(context)
    with Store(store) as opened:
        turns = list(opened.sequence(sequence).conversation)
    check_turn("--turn", turn, sequence, len(turns))
    texts = (text for one in turns for text in (one.prompt, one.response) if text is not None)
    nonce = fresh_nonce(texts)
    messages = render(judged, turns, turn, half, seen, nonce)
    if json:
        print_json(
            {
                "principle": judged.name,
                "prompt_version": prompt_version(judged),
                "context": str(seen),
                "nonce": nonce,
                "messages": [message._asdict() for message in messages],
            }
        )
        return
    for message in messages:
        say(f"--- {message.role} ---")
        say_text(message.content)
        say("")


def cache(
    clear: Annotated[
        bool,
        typer.Option(
            "--clear",
            help="Stop reusing stored replies. Replies that scores rest on stay in the record, as evidence.",
        ),
    ] = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Count the stored replies by model, with their cost; every reply that was ever paid for is counted."""
    from turnwise.store import Store

    with Store(store) as opened:
        forgotten = opened.journal.clear() if clear else 0
        found = () if clear else opened.journal.stats()
    if clear:
        if json:
            print_json({"forgotten": forgotten})
        else:
            say(f"{forgotten} replies will no longer be reused")
    elif json:
        print_json([kept.to_dict() for kept in found])
    elif found:
        _print_replies(found)
    else:
        note(f"{opened.location} has no replies of a language model")


def _print_replies(found: tuple[KeptReplies, ...]) -> None:
    numeric = ("replies", "reusable", "tokens sent", "received", "cost")
    rows = []
    for kept in found:
        counts = kept.replies, kept.reusable, kept.prompt_tokens, kept.completion_tokens
        times = (f"{at:%Y-%m-%d %H:%M}" for at in (kept.oldest, kept.newest))
        rows.append((kept.model, *map(str, counts), dollars(kept.cost_usd), *times))
    print_table(("model", *numeric, "oldest", "newest"), rows, numeric=numeric)
