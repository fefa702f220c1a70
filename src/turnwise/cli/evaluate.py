"""``turnwise evaluate`` and ``retry``: score what a run lacks, or only what failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import dollars, note, progress, say
from turnwise.errors import ObserverError, UsageError

if TYPE_CHECKING:
    from turnwise.cli.options import GivenSettings
    from turnwise.principles import Principle
    from turnwise.runs import Plan, Summary
    from turnwise.store import Store

Jobs = Annotated[int, typer.Option("-j", "--jobs", help="Parallel workers.", min=1)]


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
    jobs: Jobs = 1,
    observer_setting: options.ObserverSettings = None,
    base_url: options.BaseUrl = None,
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
    structured: options.Structured = None,
    repeats: options.Repeats = None,
    max_retries: options.MaxRetries = None,
    timeout: options.Timeout = None,
    budget: options.Budget = None,
    no_cache: options.NoCache = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Score the turns that have no score yet in a run. The same command again continues, and repeats nothing.

    Exits with 1 where evaluations failed; turnwise retry tries them again.
    """
    from turnwise.cli.options import GivenSettings, read_label, read_principles, read_sides, read_source
    from turnwise.observers import DEFAULT_OBSERVER, Context
    from turnwise.runs import Plan
    from turnwise.store import Store

    principles = read_principles(principle)
    given: dict[str, Any] = {
        "base_url": base_url,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "structured": structured,
        "repeats": repeats,
        "max_retries": max_retries,
        "timeout": timeout,
        "cache": False if no_cache else None,
    }
    halves, truth = read_sides(sides), read_label(label)
    summaries: list[Summary] = []
    structures: dict[str, object] = {}
    with Store(store) as opened:
        ids = read_source(opened, source, sequence)
        known = {stored.name: stored for stored in opened.runs()}
        named = known.get(run or "")
        specs = list(dict.fromkeys(observer or [named.observer if named else DEFAULT_OBSERVER]))
        GivenSettings(observer_setting, **given, budget_usd=budget).check(specs)
        for spec in specs:
            whole = run if len(specs) == 1 else f"{run}-{spec}" if run else None
            seen = context or (known[whole].context if whole in known else "history")
            name = whole or f"{spec}-{seen}"
            plan = Plan(principles, Context.parse(seen), halves, ids, truth)
            settings = GivenSettings(observer_setting, **given, budget_usd=budget)
            summary = _score(opened, name, spec, plan, settings, jobs=jobs)
            summaries.append(summary)
            structures[name] = opened.run(name).parameters.get("structured")
            if budget is not None:  # one budget for the whole panel
                budget = max(0.0, budget - (summary.cost_usd or 0.0))
    _tell(summaries, structures, json=json, several=len(specs) > 1)
    if not json:
        chosen = summaries[-1].run
        say(f"next: turnwise detect --store {opened.location} --run {chosen} --detector any_turn --detector cusum")
    _exit(summaries)


def retry(
    run: options.Run = None,
    principle: Annotated[
        list[str] | None,
        typer.Option(
            "--principle",
            help="Folder of a principle of your own that is among the failures; may be given several times.",
        ),
    ] = None,
    sequence: options.Sequences = None,
    jobs: Jobs = 1,
    observer_setting: options.ObserverSettings = None,
    max_retries: options.MaxRetries = None,
    timeout: options.Timeout = None,
    budget: options.Budget = None,
    no_cache: options.NoCache = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Score again only what failed in a run, with the run's own observer, settings and context.

    Exits with 1 where evaluations failed again.
    """
    from turnwise.cli.options import GivenSettings, read_run
    from turnwise.conversation import Side
    from turnwise.observers import Context
    from turnwise.runs import Plan, Summary
    from turnwise.store import Store

    with Store(store) as opened:
        name = read_run(opened, run)
        known = opened.run(name)
        cache = False if no_cache else None
        asked = GivenSettings(
            observer_setting, max_retries=max_retries, timeout=timeout, budget_usd=budget, cache=cache
        )
        asked.check([known.observer])
        failed = opened.failed(name, ids=sequence or None)
        if failed:
            plan = Plan(
                principles=_failed_principles({key.principle for key in failed}, principle or []),
                context=Context.parse(known.context),
                sides=[side for side in Side if any(key.side is side for key in failed)],
                ids={key.sequence_id for key in failed},
                only=failed,
            )
            summary = _score(opened, name, known.observer, plan, asked, jobs=jobs)
        else:
            summary = Summary(name, 0, 0, 0, 0, 0, 0.0)
    if failed or json:
        _tell([summary], {name: known.parameters.get("structured")}, json=json)
    else:
        note(f"run {name} has no failed evaluations left to score")
    _exit([summary])


def _score(store: Store, run: str, spec: str, plan: Plan, given: GivenSettings, *, jobs: int) -> Summary:
    """Score what a run lacks, with progress; where it is interrupted or fails, what was scored is kept."""
    from turnwise.runs import count_missing
    from turnwise.runs import evaluate as score

    known = {stored.name: stored for stored in store.runs()}.get(run)
    settings = given.of(spec, known)
    try:
        with progress(f"run {run}") as tell:
            return score(
                store,
                run,
                spec,
                principles=plan.principles,
                context=plan.context,
                sides=plan.sides,
                ids=plan.ids,
                label=plan.label,
                only=plan.only,
                jobs=jobs,
                progress=lambda reached: tell(reached.done, reached.total),
                settings=settings,
            )
    except KeyboardInterrupt:
        note("interrupted: what was scored is stored; the same command continues")
        raise typer.Exit(130) from None
    except ObserverError:
        missing = count_missing(store, run, plan)
        note(
            f"run {run} stopped early: what was scored is stored, {missing} evaluations are missing; "
            "the same command continues"
        )
        raise


def _tell(
    summaries: Sequence[Summary], structures: Mapping[str, object], *, json: bool, several: bool = False
) -> None:
    """Print what was done, and where a language model was asked what that cost.

    `structures` says how each run is set to ask a language model for JSON.
    """
    from turnwise.cli.output import print_json
    from turnwise.cli.run_notes import notes, without_secrets
    from turnwise.scoring import unread_in_words

    if json:
        clean = [
            dataclasses.replace(summary, commonest_failure=without_secrets(summary.commonest_failure))
            for summary in summaries
        ]
        shown = [dataclasses.asdict(summary) for summary in clean]
        print_json(shown if several else shown[0])
        return
    for summary in summaries:
        say(
            f"run {summary.run}: {summary.evaluations} evaluations of {summary.sequences} sequences "
            f"in {summary.seconds:.1f} s; {summary.skipped} already stored, {summary.failures} failed"
            + (f", {summary.gaps} gaps" if summary.gaps else "")
            + (f", {unread_in_words(summary.unread)}" if summary.unread else "")
        )
        if summary.calls:
            say(
                f"{summary.calls} calls, {summary.cached} of them answered by kept replies; "
                f"{summary.prompt_tokens} tokens sent, {summary.completion_tokens} received, "
                f"{dollars(summary.cost_usd)}"
            )
        say(*notes(summary.structured, structures[summary.run], summary.commonest_failure))


def _exit(summaries: Sequence[Summary]) -> None:
    """Say which runs have evaluations that failed, and leave with 1 where there are any."""
    failed = [summary for summary in summaries if summary.failures]
    for summary in failed:
        note(f"{summary.failures} evaluations failed; turnwise retry --run {summary.run} tries them again")
    if failed:
        raise typer.Exit(1)


def _failed_principles(failed: Collection[str], given: Sequence[str]) -> tuple[Principle, ...]:
    from turnwise.principles import is_named, load_principle

    own = {principle.name: principle for principle in map(load_principle, given)}
    for name in own:
        if name not in failed:
            raise UsageError(f"--principle {name}: no failed score of it; scores failed for: {', '.join(failed)}")
    for name in sorted(failed):
        if name not in own and not is_named(name):  # a folder of that name here may be another one
            raise UsageError(f"principle {name!r} does not ship with turnwise: name its folder with --principle")
    return tuple(own[name] if name in own else load_principle(name) for name in sorted(failed))
