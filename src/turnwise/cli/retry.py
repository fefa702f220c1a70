"""``turnwise retry``: score again only what failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import llm_options, options
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.principles import Principle


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
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Parallel workers.", min=1)] = 1,
    max_retries: llm_options.MaxRetries = None,
    timeout: llm_options.Timeout = None,
    budget: llm_options.Budget = None,
    no_cache: llm_options.NoCache = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Score again what a run tried and failed, with the run's own observer, settings and context; nothing else."""
    from turnwise.cli.arguments import read_run
    from turnwise.cli.llm_options import LlmOptions, refuse_without_llm
    from turnwise.cli.output import note, print_json
    from turnwise.cli.scoring import print_summary, score
    from turnwise.conversation import Side
    from turnwise.evaluation import Aim, Summary
    from turnwise.observers import Context
    from turnwise.store import Store

    with Store(store) as opened:
        name = read_run(opened, run)
        known = opened.run(name)
        asked = LlmOptions(max_retries=max_retries, timeout=timeout, budget=budget, no_cache=no_cache)
        refuse_without_llm([known.observer], asked)
        failed = opened.failed(name, ids=sequence or None)
        if failed:
            aim = Aim(
                principles=_principles({key.principle for key in failed}, principle or []),
                context=Context.parse(known.context),
                sides=[side for side in Side if any(key.side is side for key in failed)],
                ids={key.sequence_id for key in failed},
                only=failed,
            )
            summary = score(opened, name, known.observer, aim, asked, jobs=jobs)
        else:
            summary = Summary(name, 0, 0, 0, 0, 0, 0.0)
    if json:
        print_json(dataclasses.asdict(summary))
    elif failed:
        print_summary(summary)
    else:
        note(f"run {name} has nothing that failed and was not scored since")


def _principles(failed: Collection[str], given: Sequence[str]) -> tuple[Principle, ...]:
    from turnwise.principles import load_principle

    own = {principle.name: principle for principle in map(load_principle, given)}
    for name in own:
        if name not in failed:
            raise UsageError(
                f"--principle {name}: nothing failed of it; of these something did: {', '.join(failed)}"
            )
    return tuple(own[name] if name in own else _shipped(name) for name in sorted(failed))


def _shipped(name: str) -> Principle:
    from turnwise.principles import is_named, load_principle

    if not is_named(name):  # a folder of that name here may be another one
        raise UsageError(f"principle {name!r} is your own: name its folder with --principle")
    return load_principle(name)
