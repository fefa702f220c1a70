"""What ``evaluate`` and ``retry`` share: scoring with progress, a clean stop, and what is said at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from turnwise.cli.llm_options import LlmOptions, is_llm, read_observer
from turnwise.cli.output import dollars, note, progress, say
from turnwise.errors import ObserverError

if TYPE_CHECKING:
    from turnwise.evaluation import Aim, Summary
    from turnwise.store import Store


def score(store: Store, run: str, spec: str, aim: Aim, options: LlmOptions, *, jobs: int) -> Summary:
    """Score what a run lacks.

    Args:
        store: the record.
        run: name of the run, made where it does not exist.
        spec: specification of the observer.
        aim: what the run is to have.
        options: what was given of the options of language models; they go to those alone.
        jobs: parallel workers.

    Raises:
        typer.Exit: it was interrupted; what was scored is stored.
        TurnwiseError: it can't be done, or the observer can't go on; then what is missing was noted.
    """
    from turnwise.evaluation import count_missing, evaluate

    known = {stored.name: stored for stored in store.runs()}.get(run)
    observer = read_observer(spec, known, options if is_llm(spec) else LlmOptions())
    total = sum(1 for _ in store.heads(ids=aim.ids, label=aim.label))
    try:
        with progress(f"run {run}", total) as tell:
            return evaluate(
                store,
                run,
                observer,
                principles=aim.principles,
                context=aim.context,
                sides=aim.sides,
                ids=aim.ids,
                label=aim.label,
                only=aim.only,
                jobs=jobs,
                progress=tell,
                named=spec,
            )
    except KeyboardInterrupt:
        note("interrupted: what was scored is stored; the same command continues")
        raise typer.Exit(130) from None
    except ObserverError:
        missing = count_missing(store, run, aim)
        note(
            f"run {run} stopped early: what was scored is stored, {missing} evaluations are missing; "
            "the same command continues"
        )
        raise


def print_summary(summary: Summary) -> None:
    """Print what was done, in a line, and where a language model was asked what that cost in another."""
    say(
        f"run {summary.run}: {summary.evaluations} evaluations of {summary.sequences} sequences "
        f"in {summary.seconds:.1f} s; {summary.skipped} were there, {summary.failures} failed"
        + (f", {summary.gaps} gaps" if summary.gaps else "")
    )
    if summary.calls:
        say(
            f"{summary.calls} calls, {summary.cached} of them answered by kept replies; "
            f"{summary.prompt_tokens} tokens sent, {summary.completion_tokens} received, "
            f"{dollars(summary.cost_usd)}"
        )
    if summary.failures:
        note(f"{summary.failures} evaluations failed; turnwise retry --run {summary.run} tries them again")
