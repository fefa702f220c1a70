"""``turnwise study compare``, ``power`` and ``map``; what studies share: what they need, whose labels count."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.files import CountedLabels, opened_store, read_people
from turnwise.cli.output import note, print_json, print_table, say, say_paragraphs
from turnwise.errors import TurnwiseError, UsageError

if TYPE_CHECKING:
    from turnwise.observers import Observer
    from turnwise.stats import Dependence
    from turnwise.store import Run, Store
    from turnwise.study import Loaded
    from turnwise.study.compare import Rescore, Study


PRINTED = ("two_by_two", "gains", "runs", "reader", "outcomes", "detectors", "tests")
"""Tables of a comparison that the terminal shows; the report has all."""

EXTRA = 'python -m pip install "turnwise[study]"'
"""What installs the libraries that a study needs."""

FOR_A_REPORT = ("scipy", "altair", "vl_convert")
"""Packages that a report rests on."""


def require_study(*packages: str) -> None:
    """Check that the statistics library and these packages are there, before any work is done."""
    lacking = [package for package in ("scipy", *packages) if not is_installed(package)]
    if lacking:
        raise UsageError(f"a study needs {', '.join(lacking)}: {EXTRA}")


def is_installed(*packages: str) -> bool:
    """Whether packages can be imported, without importing them."""
    return all(find_spec(package) is not None for package in packages)


def rescorer() -> Rescore:
    """What scores a conversation again by the observer that made the run, where that computes its scores."""
    from turnwise.conversation import Conversation
    from turnwise.front_door import score
    from turnwise.scoring import TurnScores

    observers: dict[str, Observer | None] = {}

    def rescore(run: Run, conversation: Conversation) -> tuple[TurnScores, ...] | None:
        if run.observer not in observers:
            observers[run.observer] = _built_again(run.observer)
        observer = observers[run.observer]
        if observer is None or observer.info.version != run.observer_version:
            return None
        return score(conversation, observer, context=run.context).turns

    return rescore


def _built_again(spec: str) -> Observer | None:
    """An observer that computes its scores from the texts alone; None for any other."""
    from turnwise.observers import Workers, build_observer, describe_observer

    try:
        if describe_observer(spec).workers is Workers.PROCESSES:
            return build_observer(spec)
    except TurnwiseError:
        return None
    return None


def load_labelled(store: Store, run: Run, corrected_by: tuple[str, ...]) -> tuple[Loaded, CountedLabels]:
    """The labelled conversations of a run, and whose labels these are, which is said on standard error."""
    from turnwise.study import load_examples

    loaded = load_examples(store, run.name, corrected_by)
    labels = CountedLabels(corrected_by, loaded.corrected, loaded.disputed)
    labels.tell(store)
    return loaded, labels


def compare(
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Run to compare; may be given several times: two observers are two runs of the same --context. "
            "[default: all that are scored by turn]"
        ),
    ] = None,
    detector: options.Detectors = None,
    patterns: options.PatternsFile = None,
    target_fpr: Annotated[
        float, typer.Option(help="Share of benign conversations that may be flagged, the same for all.")
    ] = 0.01,
    thresholds: Annotated[
        str, typer.Option(help="calibrated on conversations of their own, or given: those of --detector and run.")
    ] = "calibrated",
    guarantee: Annotated[
        str, typer.Option(help="The rate holds in expectation, or with confidence (needs more conversations).")
    ] = "expectation",
    folds: Annotated[
        int,
        typer.Option(help="0: one split into train, calibrate, test. From 2: every conversation is tested once."),
    ] = 0,
    splits: Annotated[
        int, typer.Option(help="Splits that two runs of one context are compared on. 1 says nothing about others.")
    ] = 50,
    seeds: Annotated[
        int, typer.Option(help="Seeds of the folds that the gains of context and trajectory must be stable over.")
    ] = 6,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the bootstrap.")] = 0,
    replicates: Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)] = 2000,
    truth: Annotated[
        str | None,
        typer.Option(
            help="Run whose F says at which turns a reader flags something (from 0.5), such as judged-history."
        ),
    ] = None,
    keep_trained: Annotated[
        bool,
        typer.Option(
            "--keep-trained", help="Test false positives on data sets that an observer was trained on, too."
        ),
    ] = False,
    corrected_by: options.CorrectedBy = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Explain in the report why ten conversations were flagged; it then quotes words of their texts.",
        ),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Folder to write report.html, tables, figures and results.json to.")
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Compare detectors, and runs, at the same rate of false positives, with baselines, intervals and tests.

    Runs of different contexts separate the gain of context from that of trajectory. Runs that all have the same
    context, by two observers, also ask which of them finds more, detector by detector.
    """
    from turnwise.study.compare import Settings, why_flagged
    from turnwise.study.compare import compare as run_study
    from turnwise.study.report import check_folder, summary, write_report

    require_study()
    if report is not None:
        check_folder(report)
    elif why:
        raise UsageError("--why goes into a report: name its folder with --report")
    with opened_store(store) as opened:
        runs = tuple(run or _runs_by_turn(opened))
        settings = Settings(
            runs=runs,
            detectors=tuple(detector or ("cusum", "trust_ema", "slope")),
            target_fpr=target_fpr,
            thresholds=thresholds,  # type: ignore[arg-type]  # checked by Settings
            guarantee=guarantee,  # type: ignore[arg-type]
            folds=folds,
            splits=splits,
            seeds=seeds,
            seed=seed,
            replicates=replicates,
            patterns=patterns,
            truth=truth,
            keep_trained=keep_trained,
            corrected_by=read_people(corrected_by),
        )
        if not corrected_by:
            CountedLabels((), 0, 0).tell(opened)
        study = run_study(opened, settings, rescore=rescorer(), tell=note)
        if why:
            study = replace(study, why_flagged=why_flagged(opened, study, note))
    if report is not None:
        note("writing the report")
        write_report(study, report, tell=note)
    if json:
        print_json(summary(study))
    else:
        _print(study)
    if report is not None:
        note(f"wrote {report / 'report.html'}")


def _runs_by_turn(store: Store) -> list[str]:
    from turnwise.observers.protocol import Context, ContextMode

    modes = (ContextMode.TURN, ContextMode.HISTORY)
    names = [known.name for known in store.runs() if Context.parse(known.context).mode in modes]
    if not names:
        raise UsageError(
            f"{store.location} has no run with context turn or history: make one with turnwise evaluate"
        )
    return names


def _print(study: Study) -> None:
    from turnwise.study.report import all_tables, answer, verdict

    for line in (answer(study), *verdict(study)):
        say(line, "")
    for table in all_tables(study):
        if table.name in PRINTED:
            print_table(table.columns, table.rows, numeric=table.columns[table.left :], title=table.title)
    for warning in study.warnings:
        note(f"warning: {warning}")


def power(
    stateless: Annotated[float, typer.Option(help="Recall expected of looking at single turns, in [0, 1].")],
    temporal: Annotated[float, typer.Option(help="Recall expected of looking over time, in [0, 1].")],
    power: Annotated[float, typer.Option(help="Wanted probability of finding the difference.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Level of the two-sided test.")] = 0.05,
    target_fpr: Annotated[float, typer.Option(help="False-positive rate of the thresholds.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Confidence with which that rate is to be kept.")] = 0.95,
    attacks: Annotated[
        int | None,
        typer.Option(
            help="Attacks that you have: print how probably they show the difference.", min=1, max=20_000
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compute how many attacks and benign conversations a comparison needs, by the exact power of its tests.

    The two recalls may also be those of two observers.
    """
    from turnwise.stats import MOST_UNPAIRED, check_rate
    from turnwise.study import needed_benign, paired_power, study_size, unpaired_power

    require_study()
    check_rate("target fpr", target_fpr)
    check_rate("confidence", confidence)
    size = study_size(stateless, temporal, power, alpha)
    benign = needed_benign(target_fpr, confidence)
    paired: dict[Dependence, float] = {}
    unpaired = None
    if attacks is not None:
        paired = {how: paired_power(attacks, stateless, temporal, how, alpha) for how in size.paired}
        unpaired = unpaired_power(attacks, stateless, temporal, alpha) if attacks <= MOST_UNPAIRED else None
    if json:
        print_json(
            {
                "stateless": stateless,
                "temporal": temporal,
                "power": power,
                "alpha": alpha,
                "paired": size.paired,
                "unpaired": size.unpaired,
                "target_fpr": target_fpr,
                "confidence": confidence,
                "benign": benign,
                "attacks": attacks,
                "power_of_attacks": None if attacks is None else {"paired": paired, "unpaired": unpaired},
            }
        )
        return
    columns = ("attacks needed",) if attacks is None else ("attacks needed", f"probability with {attacks}")
    meanings = {
        "independent": "they catch the same ones by chance",
        "most favourable": "one catches all that the other does",
        "least favourable": "they catch different ones as far as can be",
    }
    rows = [
        (meanings[dependence], _count(needed), *([] if attacks is None else [f"{paired[dependence]:.3f}"]))
        for dependence, needed in size.paired.items()
    ]
    print_table(("both arms judge the same attacks", *columns), rows, numeric=columns)
    say_paragraphs(
        f"For a difference of {100 * stateless:g} % and {100 * temporal:g} % recall, found with probability "
        f"{power:g} by the exact McNemar test at level {alpha:g}.",
        f"Where each arm judges attacks of its own: {_count(size.unpaired)} an arm (Fisher's exact test)"
        + ("." if unpaired is None else f"; with {attacks} an arm the probability is {unpaired:.3f}."),
        f"Benign conversations, for {100 * target_fpr:g} % false positives with {100 * confidence:g} % "
        f"confidence: {benign} to set the threshold, and others to test it.",
    )
    note(
        "count groups, not conversations, where attacks share a goal: they are not independent of each other; "
        "of several detectors under Holm's correction, divide the level by their number"
    )


def _count(needed: int | None) -> str:
    return "too many to compute" if needed is None else str(needed)


def map_(
    out: Annotated[
        Path | None, typer.Option(help="File for the map as a figure: .html, .svg, .png or .pdf.")
    ] = None,
    conversations: Annotated[int, typer.Option(help="Simulated attacks of each kind.", min=50)] = 300,
    seed: Annotated[int, typer.Option(help="Seed; the same one gives the same map.", min=0)] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes.", min=1)] = 1,
    json: options.Json = False,
) -> None:
    """Show when an accumulator beats the highest F: by noise, shape, length and share of bad turns."""
    require_study()
    from turnwise.plots.render import check_target, save
    from turnwise.study import gain_map

    if out is not None:
        check_target(out)
    found = gain_map(conversations=conversations, seed=seed, jobs=jobs)
    if out is not None:
        save(found.spec(), out)
    if json:
        print_json(found.to_dict())
        return
    heads = ("shape", "share of bad turns", "mean gain in recall", "gain and loss shown", "best accumulator")
    print_table(heads, found.summary(), title="The best accumulator against the highest F, at 5 % false positives")
    longest = max(one.turns for one in found.lengths)
    rows = [
        (f"{one.noise:g}", one.decision, f"{100 * one.rate:.0f} %")
        for one in found.lengths
        if one.turns == longest
    ]
    print_table(("noise", "decision", f"of {longest} turns flagged"), rows, title="Long harmless conversations")
    say_paragraphs(
        "Thresholds of the second table flag 5 % of harmless conversations of 10 turns. The simulation is "
        "described in docs/when-watching-helps.md."
    )
    if out is not None:
        say(f"wrote {out}")
