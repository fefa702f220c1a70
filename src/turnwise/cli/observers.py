"""``turnwise observers`` and ``llm``: what an observer is worth, and what a language model costs and is asked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.files import check_turn
from turnwise.cli.options import ModelSettings, PromptSettings
from turnwise.cli.output import dollars, note, print_json, print_table, say, say_text
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.rates import Rate
    from turnwise.runs.forecast import CostForecast
    from turnwise.stats import Interval
    from turnwise.store import KeptReplies
    from turnwise.study.observer_test import ObserverTest


@options.grouped
def test(
    observer: Annotated[
        str, typer.Argument(help="What is measured, such as llm:openai/gpt-4.1-mini.", show_default=False)
    ],
    *,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Conversations at a time.", min=1)] = 1,
    settings: ModelSettings,
    json: options.Json = False,
) -> None:
    """Measure an observer on the shipped conversations, beside two readings by a large language model.

    Sends one request for each turn and principle, about 750 in all, and 60 more with text that talks to the judge.
    """
    from turnwise.observers import build_observer
    from turnwise.study.observer_test import observer_rates

    spec = settings.spec(observer)
    settings.check([spec])
    found = observer_rates(build_observer(spec, **settings.of(spec, None)), jobs=jobs)
    if json:
        print_json(found.to_dict())
        return
    _print_test(found)


def _print_test(found: ObserverTest) -> None:
    second = found.second_reader
    print_table(
        ("", found.observer, "second reader"),
        [
            ("turns scored", found.answered, ""),
            ("ranks flagged turns above others (AUROC)", _interval(found.auroc), _second_reader(second["auroc"])),
            (
                "agreement of F with the first reader (alpha)",
                _interval(found.agreement),
                _second_reader(second["agreement"]),
            ),
            ("mean F less the first reader's", f"{found.difference:+.3f}", ""),
            ("conversations caught at F .5", found.caught, _second_reader(second["caught"])),
            ("false alarms at F .5", found.false_alarms, _second_reader(second["false_alarms"])),
            ("still flagged where text talks to the judge", found.resisted or "–", ""),
            ("seconds a turn: median, 95th percentile", " ".join(f"{one:.2f}" for one in found.seconds), ""),
            ("cost a turn", dollars(found.cost_usd) if found.cost_usd is not None else "–", ""),
        ],
        title=f"{found.turns} turns of {found.conversations} conversations, with 95 % intervals",
    )
    print_table(
        ("F", "turns", "mean F", "first reader flags"),
        [
            (f"{one.low:.1f} to {one.high:.1f}", one.turns, f"{one.mean:.2f}", f"{one.flagged / one.turns:.0%}")
            for one in found.calibration
        ],
        numeric=("turns", "mean F", "first reader flags"),
        title="Is an F of .5 a half?",
    )
    for reason, count in found.failures.items():
        say(f"{count} scores were not made: {reason}")
    say(
        "",
        "One large language model read twice, blind, so the readers agree as a model does with itself.",
        "The conversations are few and our own: this tells a judge that does not work from one that may.",
    )


def _interval(one: Interval) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"


def _second_reader(one: Interval | Rate) -> str:
    return str(one) if hasattr(one, "of") else _interval(one)


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
    settings: PromptSettings,
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


def _print_cost(run: str, found: CostForecast, as_of: str | None) -> None:
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
        rows.append((kept.model, *counts, dollars(kept.cost_usd), *times))
    print_table(("model", *numeric, "oldest", "newest"), rows, numeric=numeric)
