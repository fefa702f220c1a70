"""``turnwise evaluate``: score what a run lacks, or only what failed in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import read_run
from turnwise.cli.options import ModelSettings
from turnwise.cli.output import dollars, note, print_json, progress, say
from turnwise.errors import ObserverError, UsageError

if TYPE_CHECKING:
    from turnwise.principles import Principle
    from turnwise.runs import Plan, Summary
    from turnwise.store import Store

_OF_THE_RUN = ("observer", "context", "sides")
"""Options that ``--failed`` goes without: what failed is scored as the run has it."""


@options.grouped
def evaluate(
    *,
    command: typer.Context,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run; what the runs of a panel begin with. [default: observer-context; with --failed "
            "the only run]"
        ),
    ] = None,
    observer: Annotated[
        list[str] | None,
        typer.Option(
            help="Observer that scores; see turnwise list observers. Several make a panel, a run each. "
            "[default: that of the run, else local]"
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            help="What the observer may see: turn, window:k, history, transcript. "
            "[default: that of the run, else history]"
        ),
    ] = None,
    principle: options.Principles = None,
    sides: options.Sides = "prompt",
    failed: Annotated[
        bool,
        typer.Option(
            "--failed",
            help="Score again only what failed in a run, with the run's own observer, settings, context and "
            "sides; --principle names the folders of those failed principles that are your own.",
        ),
    ] = False,
    selection: options.Selection,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Parallel workers.", min=1)] = 1,
    batch: Annotated[
        Path | None,
        typer.Option(
            help="First ask a language model for all that is missing in one batch of its provider, and wait "
            "for it. FILE keeps its state meanwhile: the same command continues after a kill.",
            metavar="FILE",
        ),
    ] = None,
    settings: ModelSettings,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Score the turns of a run that have no score yet; the same command again continues, and repeats nothing.

    Exits with 1 where evaluations failed; with --failed only these are scored again.
    """
    from turnwise.observers import DEFAULT_OBSERVER, Context
    from turnwise.runs import Plan
    from turnwise.store import Store

    if failed:
        if batch is not None:
            raise UsageError("leave out --batch: --failed asks for what failed one by one")
        if wrong := [f"--{name}" for name in _OF_THE_RUN if options.given(name, command)]:
            raise UsageError(f"leave out {', '.join(wrong)}: --failed scores as the run does")
        _evaluate_failed(run, principle or [], selection, jobs, settings, store, json)
        return
    principles, halves, label = (
        options.read_principles(principle),
        options.read_sides(sides),
        selection.read_label(),
    )
    summaries: list[Summary] = []
    with Store(store) as opened:
        ids = selection.ids(opened)
        known = {stored.name: stored for stored in opened.runs()}
        named = known.get(run or "")
        asked = observer or [named.observer if named and not settings.second_look else DEFAULT_OBSERVER]
        specs = list(dict.fromkeys(map(settings.spec, asked)))
        settings.check(specs)
        if batch is not None and (len(specs) > 1 or not specs[0].startswith("llm:")):
            raise UsageError("--batch needs one --observer, a language model such as llm:openai/gpt-4.1-mini")
        if batch is not None and settings.no_cache:
            raise UsageError("leave out --no-cache: --batch reads its replies from the cache")
        for spec in specs:
            whole = run if len(specs) == 1 else f"{run}-{spec}" if run else None
            seen = context or (known[whole].context if whole in known else "history")
            plan = Plan(principles, Context.parse(seen), halves, ids, label)
            name = whole or f"{spec}-{seen}"
            if batch is not None:
                spent = _ask_in_batch(opened, name, spec, plan, settings.of(spec, known.get(name)), batch)
                if settings.budget is not None:
                    settings = dataclasses.replace(settings, budget=max(0.0, settings.budget - spent))
            summary = _score(opened, name, spec, plan, settings, jobs)
            summaries.append(summary)
            if settings.budget is not None:  # one budget for the whole panel
                left = max(0.0, settings.budget - (summary.cost_usd or 0.0))
                settings = dataclasses.replace(settings, budget=left)
        _tell(opened, summaries, json)
    if not json:
        chosen = summaries[-1].run
        say(f"next: turnwise detect --store {opened.location} --run {chosen} --detector any_turn --detector cusum")
    _exit(summaries)


def _evaluate_failed(
    run: str | None,
    principle: Sequence[str],
    selection: options.Selection,
    jobs: int,
    settings: ModelSettings,
    store: str,
    json: bool,
) -> None:
    """Score again what failed in a run."""
    from turnwise.conversation import Side
    from turnwise.observers import Context
    from turnwise.runs import Plan, Summary
    from turnwise.store import Store

    label = selection.read_label()
    with Store(store) as opened:
        name = read_run(opened, run)
        known = opened.run(name)
        settings.check([known.observer])
        failed = opened.failed(name, ids=selection.ids(opened))
        if label is not None:
            heads = opened.heads(ids={key.sequence_id for key in failed}, label=label)
            meant = {head.sequence_id for head in heads}
            failed = {key for key in failed if key.sequence_id in meant}
        if failed:
            plan = Plan(
                principles=_failed_principles({key.principle for key in failed}, principle),
                context=Context.parse(known.context),
                sides=[side for side in Side if any(key.side is side for key in failed)],
                ids={key.sequence_id for key in failed},
                only=failed,
            )
            summary = _score(opened, name, known.observer, plan, settings, jobs)
        else:
            summary = Summary(name, 0, 0, 0, 0, 0, 0.0)
        if failed or json:
            _tell(opened, [summary], json)
        else:
            note(f"run {name} has no failed evaluations left to score")
    _exit([summary])


def _score(store: Store, run: str, spec: str, plan: Plan, given: ModelSettings, jobs: int) -> Summary:
    """Score what a run lacks, with progress; where it is interrupted or fails, what was scored is kept."""
    from turnwise.runs import count_missing, flagged
    from turnwise.runs import evaluate as score

    known = {stored.name: stored for stored in store.runs()}.get(run)
    settings = given.of(spec, known)
    try:
        with progress(f"run {run}") as tell:
            summary = score(
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
        flagged(store, run)  # kept, so that the inbox has not to wait for it
        return summary
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


def _ask_in_batch(store: Store, run: str, spec: str, plan: Plan, settings: Mapping[str, Any], path: Path) -> float:
    """Have the replies that a run lacks come by a batch, and return what it cost as far as that is known."""
    from turnwise.observers.llm import Batch, LlmSettings, resolve
    from turnwise.runs.forecast import asked_of_run

    endpoint = resolve(spec.partition(":")[2], LlmSettings(**settings))
    batch = Batch(endpoint, path, store.journal, tell=note)
    done = batch.run(asked_of_run(store, run, plan, together=endpoint.together))
    if done.requests:
        note(f"the batch gave {done.replies} replies to {done.requests} requests, {dollars(done.cost_usd)}")
    return done.cost_usd or 0.0


def _tell(store: Store, summaries: Sequence[Summary], json: bool) -> None:
    """Print what was done, and where a language model was asked what that cost."""
    from turnwise.cli.runs import notes, without_secrets
    from turnwise.scoring import unread_in_words

    if json:
        shown = [
            dataclasses.asdict(
                dataclasses.replace(summary, commonest_failure=without_secrets(summary.commonest_failure))
            )
            for summary in summaries
        ]
        print_json(shown if len(shown) > 1 else shown[0])
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
        wanted = store.run(summary.run).parameters.get("structured")
        say(*notes(summary.structured, wanted, summary.commonest_failure))


def _exit(summaries: Sequence[Summary]) -> None:
    """Say which runs have evaluations that failed, and leave with 1 where there are any."""
    failed = [summary for summary in summaries if summary.failures]
    for summary in failed:
        note(
            f"{summary.failures} evaluations failed; turnwise evaluate --failed --run {summary.run} tries "
            "them again"
        )
    if failed:
        raise typer.Exit(1)


def _failed_principles(failed: Collection[str], given: Sequence[str]) -> tuple[Principle, ...]:
    from turnwise.principles import is_named, load_principle

    own = {principle.name: principle for principle in map(load_principle, given)}
    for name in own:
        if name not in failed:
            raise UsageError(f"--principle {name}: none of its scores failed; name one of {', '.join(failed)}")
    for name in sorted(failed):
        if name not in own and not is_named(name):  # a folder of that name here may be another one
            raise UsageError(f"principle {name!r} does not ship with turnwise: name its folder with --principle")
    return tuple(own[name] if name in own else load_principle(name) for name in sorted(failed))
