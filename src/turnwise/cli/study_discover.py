"""``turnwise study discover``: patterns that nobody wrote down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import CountedLabels, opened_store, read_people, read_run
from turnwise.cli.output import note, print_json, print_table, rate_json, say
from turnwise.cli.study import load_labelled

if TYPE_CHECKING:
    from turnwise.study.discovery import Baseline, Discovery, HalfSize, MatchCounts, PatternGain, Tested


def discover(
    run: options.Run = None,
    out: Annotated[
        Path | None, typer.Option(help="YAML file to write what was confirmed to, for --patterns of query.")
    ] = None,
    max_fpr: Annotated[
        float, typer.Option(help="Highest false-positive rate of a pattern where it is searched, in (0, 1).")
    ] = 0.01,
    level: Annotated[
        float, typer.Option(help="Probability of any false finding among the patterns tested, in (0, 1).")
    ] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the split in two halves.")] = 0,
    corrected_by: options.CorrectedBy = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Search half of the labelled conversations for patterns of attacks, and test them on the other half."""
    import time

    from turnwise.cli.files import check_file
    from turnwise.study.discovery import discover as search

    if out is not None:
        check_file(out)
    begun = time.perf_counter()
    with opened_store(store) as opened:
        used = opened.run(read_run(opened, run))
        loaded, labels = load_labelled(opened, used, read_people(corrected_by))
    if loaded.unlabelled:
        note(f"{loaded.unlabelled} evaluated conversations are left out: they have no label")
    if loaded.not_evaluated:
        note(f"{loaded.not_evaluated} labelled conversations are left out: the run has no score of them")
    found = search(loaded.examples, max_fpr=max_fpr, level=level, seed=seed, tell=note)
    observer = f"{used.observer} {used.observer_version}".strip()
    written = None if out is None else _write(found, out, used.name, observer, labels)
    if json:
        about = {"run": used.name, "observer": used.observer, "observer_version": used.observer_version}
        left_out = {"unlabelled": loaded.unlabelled, "not_evaluated": loaded.not_evaluated}
        seconds = round(time.perf_counter() - begun, 3)
        written_to = None if written is None else str(written)
        rest = {"left_out": left_out, **labels._asdict(), "seconds": seconds, "out": written_to}
        print_json({**about, **as_json(found), **rest})
        return
    _print(found)
    if written is not None:
        question = f"turnwise query found_1 --patterns {written} --store {opened.location} --run {used.name}"
        note(f"wrote {written}: {question}")


def as_json(found: Discovery) -> dict[str, Any]:
    """A discovery in the shape of ``--json``."""
    from turnwise.study.discovery import names_of

    names = {id(pattern): name for name, pattern in names_of(found).items()}

    def size(half: HalfSize) -> dict[str, int]:
        return {"attacks": half.attacks, "benign": half.benign, "groups": half.groups}

    def pattern(tested: Tested) -> dict[str, Any]:
        return {
            "name": names.get(id(tested)),
            "expression": str(tested.expression),
            "found": tested.found,
            "gain": _gain(tested.gain),
            "p": tested.p,
            "p_holm": tested.p_holm,
            "above_max_fpr": tested.held_out.above(found.max_fpr),
            "discovery": _counts(tested.discovery),
            "held_out": _counts(tested.held_out),
        }

    return {
        "seed": found.seed,
        "max_fpr": found.max_fpr,
        "level": found.level,
        "discovery": {**size(found.discovery), "searched": found.searched},
        "held_out": size(found.held_out),
        "conditions": found.conditions,
        "conjunctions": found.conjunctions,
        "patterns": list(map(pattern, found.patterns)),
        "baselines": list(map(_baseline, found.baselines)),
    }


def _baseline(baseline: Baseline) -> dict[str, Any]:
    return {
        "name": baseline.name,
        "expression": None if baseline.expression is None else str(baseline.expression),
        "discovery": None if baseline.discovery is None else _counts(baseline.discovery),
        "held_out": None if baseline.held_out is None else _counts(baseline.held_out),
    }


def _counts(counts: MatchCounts) -> dict[str, Any]:
    return {
        "attacks": rate_json(counts.attacks),
        "benign": rate_json(counts.benign),
        "at_first_turn": counts.at_first_turn,
    }


def _gain(gain: PatternGain) -> dict[str, Any]:
    return {
        "together": rate_json(gain.together),
        "alone": rate_json(gain.alone),
        "benign": rate_json(gain.benign),
        "recall": gain.recall.value,
        "interval": [gain.recall.low, gain.recall.high],
        "p": gain.p,
    }


def _write(found: Discovery, out: Path, run: str, observer: str, labels: CountedLabels) -> Path | None:
    """Write what was confirmed and return the path; None where there is nothing to write."""
    from turnwise.cli.files import write_text
    from turnwise.study.discovery import to_yaml

    if not found.found:
        note(f"{out} was not written: no pattern adds to the best rule on single turns")
        return None
    write_text(out, labels.as_heading() + to_yaml(found, run, observer))
    return out


def _print(found: Discovery) -> None:
    from turnwise.study.discovery import names_of

    half = found.held_out
    columns = "name", "pattern", "of attacks", "at turn 1", "of benign", "adds, points", "p"
    title = f"Held-out half: {half.attacks} attacks, {half.benign} benign conversations, 95 % intervals"
    numeric = "at turn 1", "adds, points", "p"
    if found.found:
        rows = [(name, *_cells(tested)) for name, tested in names_of(found).items()]
        print_table(columns, rows, numeric=numeric, title=title)
    else:
        say("no pattern adds to the best rule on single turns")
    if refuted := [_cells(tested) for tested in found.patterns if not tested.found]:
        print_table(columns[1:], refuted, numeric=numeric, title="Not confirmed on the held-out half")
    baselines: list[tuple[object, ...]] = []
    for baseline in found.baselines:
        if baseline.held_out is None:
            baselines.append((baseline.name, f"none within {100 * found.max_fpr:g} %", "", ""))
        else:
            rates = baseline.held_out.attacks, baseline.held_out.benign
            baselines.append((baseline.name, baseline.expression, *rates))
    print_table(("looks at", "best rule", "of attacks", "of benign"), baselines, title="To compare with")
    _remarks(found)


def _cells(tested: Tested) -> tuple[object, ...]:
    from turnwise.study.discovery import gain_words

    held_out = tested.held_out
    return (
        tested.expression,
        held_out.attacks,
        held_out.at_first_turn,
        held_out.benign,
        gain_words(tested.gain),
        f"{tested.p_holm:.2g}",
    )


def _remarks(found: Discovery) -> None:
    from turnwise.rates import Rate
    from turnwise.study.discovery import names_of

    allowed = f"{100 * found.max_fpr:g} %"
    above = [name for name, tested in names_of(found).items() if tested.held_out.above(found.max_fpr)]
    if above:
        note(
            f"more false positives than {allowed} on the held-out half: {', '.join(above)}; try a lower --max-fpr"
        )
    least = Rate(0, found.held_out.benign).interval[1]
    if least > found.max_fpr:
        note(
            f"{found.held_out.benign} held-out benign conversations can't show a rate of {allowed}: even none "
            f"matched would allow {100 * least:.1f} %"
        )
    if found.searched < found.discovery.attacks + found.discovery.benign:
        total = found.discovery.attacks + found.discovery.benign
        note(f"the search looked at {found.searched} of {total} conversations of its half; more would not fit")
