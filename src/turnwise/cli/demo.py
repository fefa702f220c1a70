"""``turnwise demo``: the whole path on the examples that ship, without key or network."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import say

if TYPE_CHECKING:
    from turnwise.conversation import Sequence as Chat
    from turnwise.evaluation import Detection
    from turnwise.observers import Observer
    from turnwise.rates import Rate
    from turnwise.scoring import TurnScores
    from turnwise.store import Store

READER, LOCAL = "reader", "local"
WAYS = {"turn": "any_turn", "history": "any_turn"}
"""Context modes that are compared, and the detector that decides on each."""

_SAID = {"turn": "each turn alone", "history": "turns so far"}
_TEXT_SHOWN, _QUOTED = 44, 400
"""Characters of a prompt in the conversation that is shown whole, and of the turn that is quoted below it."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One observer in one context mode, with the verdicts of its detector.

    Args:
        observer: ``reader``, ``local`` or what was asked for.
        context: the context mode.
        run: the run that holds the scores.
        found: the verdicts by conversation; one of which nothing was scored is absent.
        turns: the scores of every turn, by conversation.
        threshold: at which the detector fires.
    """

    observer: str
    context: str
    run: str
    found: Mapping[str, Detection]
    turns: Mapping[str, Sequence[TurnScores]]
    threshold: float


def demo(
    store: Annotated[str, typer.Option(help="File that keeps the conversations and scores.")] = "turnwise-demo.db",
    observer: Annotated[
        list[str] | None,
        typer.Option(
            help="Whose scores to show: reader (recorded), local (embedded), or another observer such as "
            "llm:provider/model; may be given several times. By default reader and local."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show a conversation turn, and compare single turns with trajectories on the conversations that ship."""
    from turnwise.cli.output import note, print_json
    from turnwise.cli.study import EXTRA, FOR_A_REPORT, is_installed
    from turnwise.datasets import examples
    from turnwise.errors import UsageError
    from turnwise.store import Store

    began = time.perf_counter()
    sequences = examples()
    names = list(dict.fromkeys(observer or [READER, LOCAL]))
    scorers = {name: _scorers(name) for name in names}
    with Store(store, create=True) as opened:
        try:
            opened.add_sequences(sequences)
            for name in names:
                _score(opened, name, scorers[name], sequences)
        except UsageError as error:
            raise UsageError(
                f"{store} holds a demo of another version ({error}); remove the file, or name another with --store"
            ) from error
        arms = [_arm(opened, name, context, sequences) for name in names for context in WAYS]
        seconds = time.perf_counter() - began
        if not json:
            _print(store, sequences, arms, seconds)
        able = is_installed(*FOR_A_REPORT)
        report = None
        if able:
            try:
                report = _write_report(opened, arms)
            except UsageError as error:
                note(f"no report: {error}")
    if json:
        print_json(_as_json(store, arms, seconds, report))
    told = (
        f"A study of these examples, with tables and figures: {report}"
        if report
        else f"The demo ends with the report of a study once this is installed:\n  {EXTRA}"
    )
    if json:
        note(told)
    else:
        say("", *told.split("\n"))


def _scorers(name: str) -> dict[str, Observer]:
    """Return the observer of each context mode."""
    from turnwise.datasets.judged import example_judgements
    from turnwise.observers import build_observer

    if name == READER:
        return {context: build_observer(f"replay:{example_judgements(context)}") for context in WAYS}
    return dict.fromkeys(WAYS, build_observer(name))


def _score(store: Store, name: str, scorers: Mapping[str, Observer], sequences: Sequence[Chat]) -> None:
    """Score the examples with an observer in both context modes."""
    from turnwise.evaluation import evaluate
    from turnwise.principles import builtin_principles

    ids = [sequence.sequence_id for sequence in sequences]
    for context, scorer in scorers.items():
        evaluate(store, f"{name}-{context}", scorer, principles=builtin_principles(), context=context, ids=ids)


def _arm(store: Store, name: str, context: str, sequences: Sequence[Chat]) -> Arm:
    """Let the detector of a context mode decide on the scores of an observer."""
    from turnwise.detectors import load_detector
    from turnwise.evaluation import detect

    ids = [sequence.sequence_id for sequence in sequences]
    run, detector = f"{name}-{context}", WAYS[context]
    return Arm(
        observer=name,
        context=context,
        run=run,
        found={found.head.sequence_id: found for found in detect(store, run, [detector], ids=ids)},
        turns={head.sequence_id: list(turns) for head, turns in store.trajectories(run, ids=ids)},
        threshold=load_detector(detector, store.run(run).operating_points).threshold,
    )


def _write_report(store: Store, arms: Sequence[Arm]) -> Path:
    """Write the report of a study on the examples into a folder beside the store, and return its page."""
    from turnwise.cli.output import note
    from turnwise.cli.study import rescorer
    from turnwise.study.compare import Settings, compare
    from turnwise.study.report import write_report

    note("writing the report of a study on these examples")
    runs = tuple(arm.run for arm in arms if arm.observer == arms[0].observer)
    settings = Settings(runs=runs, detectors=("cusum",), thresholds="given")
    study = compare(store, settings, rescore=rescorer())
    place = Path(store.path)
    return write_report(study, place.with_name(f"{place.stem}-report"), tell=note)[0]


def _as_json(store: str, arms: Sequence[Arm], seconds: float, report: Path | None) -> dict[str, Any]:
    from turnwise.cli.detect import as_json, shares
    from turnwise.cli.trajectories import peak_f

    return {
        "store": store,
        "report": None if report is None else str(report),
        "arms": [
            {
                "observer": arm.observer,
                "context": arm.context,
                "run": arm.run,
                "threshold": arm.threshold,
                "summary": {
                    label: {"fired": rate.count, "of": rate.of, "interval": list(rate.interval)}
                    for label, rate in shares([*arm.found.values()]).items()
                },
                "conversations": [
                    {**as_json(found), "F": list(map(peak_f, arm.turns[found.head.sequence_id]))}
                    for found in arm.found.values()
                ],
            }
            for arm in arms
        ],
        "seconds": seconds,
    }


def _print(store: str, sequences: Sequence[Chat], arms: Sequence[Arm], seconds: float) -> None:
    from turnwise.cli.detect import shares
    from turnwise.cli.output import Table, print_table, sparkline
    from turnwise.cli.trajectories import peak_f

    shown = _telling(arms)
    if shown is not None:
        _print_story(next(chat for chat in sequences if chat.sequence_id == shown), arms)
    names = list(dict.fromkeys(arm.observer for arm in arms))
    headings = [_heading(arm) for arm in arms]
    table = Table("conversation", "label", "F so far", *headings, title="Every example")
    graphs = next(arm.turns for arm in arms if arm.context == "history")
    for sequence in sequences:
        cells = (_says(arm.found.get(sequence.sequence_id)) for arm in arms)
        graph = sparkline(map(peak_f, graphs[sequence.sequence_id]))
        table.add_row(sequence.sequence_id, str(sequence.label), graph, *cells)
    print_table(table)
    summary = Table("scores of", "attacks caught", "benign flagged", title="With 95 % intervals")
    for arm in arms:
        rates = shares([*arm.found.values()])
        summary.add_row(
            f"{arm.observer}, {_SAID[arm.context]}",
            *(str(rates.get(label, "–")) for label in ("attack", "benign")),
        )
    for arm in arms:
        if arm.observer == READER:
            attack, benign = _second_reader(arm, sequences)
            summary.add_row(f"a second reader, {_SAID[arm.context]}", str(attack), str(benign))
    print_table(summary)
    told = [
        "F so far: highest F over the principles, turn by turn, by the first of these observers. Then the turn at",
        "which each way of looking fires, and whether that is right (✓) or wrong (✗) by the label.",
        "",
    ]
    if READER in names:
        told += [
            "reader: a large language model that read these conversations blind, turn by turn, before they",
            "shipped; its scores are replayed, nothing is called. Its thresholds flag at most 1 % of ordinary",
            "chats of other people, read in the same way.",
        ]
    if LOCAL in names:
        told += [
            "local: the embedded observer, run here and now, without a key; it learned from such readers, not on",
            "these conversations. With a model of your own: turnwise demo --observer llm:PROVIDER/MODEL",
        ]
    run = arms[1].run
    told += [
        "",
        f"{len(sequences)} conversations in {seconds:.1f} s. They are few and our own: they show how turnwise",
        "works, not how well. docs/results.md has figures on other people's data.",
        "",
        f"Everything is in {store}. Next:",
        f"  turnwise show {shown or sequences[0].sequence_id} --store {store} --run {run}",
        f"  turnwise detect --store {store} --run {run} --detector trust_ema --detector slope",
        "  turnwise import YOUR_FILE.jsonl --store work.db && turnwise evaluate --store work.db",
    ]
    say(*told)


def _second_reader(arm: Arm, sequences: Sequence[Chat]) -> tuple[Rate, Rate]:
    """Return how many attacks and benign conversations another reader flags at the same threshold."""
    from turnwise.conversation import Label
    from turnwise.datasets.judged import example_judgements, peaks_of, read_judgements
    from turnwise.rates import Rate

    peaks = peaks_of(read_judgements(example_judgements(arm.context, second=True)))
    flags = {
        label: [peaks[chat.sequence_id] >= arm.threshold for chat in sequences if chat.label is label]
        for label in (Label.ATTACK, Label.BENIGN)
    }
    attack, benign = (Rate(sum(flags[label]), len(flags[label])) for label in (Label.ATTACK, Label.BENIGN))
    return attack, benign


def _telling(arms: Sequence[Arm]) -> str | None:
    """Return the attack that its history alone gives away, most clearly by the first observer, or None."""
    alone, so_far = arms[0], arms[1]
    gaps = {}
    for name, one in alone.found.items():
        other = so_far.found.get(name)
        if one.head.label != "attack" or not one.verdict or not other or not other.verdict:
            continue
        if other.verdict.fired and not one.verdict.fired:
            gaps[name] = other.verdict.score - one.verdict.score
    return max(gaps, key=lambda name: gaps[name], default=None)


def _print_story(chat: Chat, arms: Sequence[Arm]) -> None:
    """Print a conversation turn by turn, with the scores of every arm, and say what turned."""
    from turnwise.cli.output import Table, print_table
    from turnwise.cli.trajectories import peak_f

    name = chat.sequence_id
    headings = [_heading(arm) for arm in arms]
    verdicts = [found.verdict if (found := arm.found.get(name)) else None for arm in arms]
    table = Table("turn", "the user says", *headings, numeric=("turn", *headings), title=f"How {name} turns")
    for place, turn in enumerate(chat.conversation):
        text = " ".join(turn.prompt.split())
        cells = []
        for arm, verdict in zip(arms, verdicts, strict=True):
            value = peak_f(arm.turns[name][place])
            fires = verdict is not None and verdict.turn == turn.number
            cells.append("–" if value is None else f"{'►' if fires else ' '}{value:.2f}")
        table.add_row(
            str(turn.number), text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 1]}…", *cells
        )
    print_table(table)
    alone, so_far, *others = arms
    at = verdicts[1].turn if verdicts[1] else None
    if at is None:
        return
    scores = so_far.turns[name][at - 1].scores
    principle = max(scores, key=lambda key: scores[key].F)
    highest = max(filter(None, map(peak_f, alone.turns[name])), default=0.0)
    broken = principle.replace("_", " ")
    text = " ".join(chat.conversation.turn(at).prompt.split())
    told = [
        f"“{text if len(text) <= _QUOTED else text[: _QUOTED - 1] + '…'}”",
        "",
        f"Turn {at} breaks {broken}: F {scores[principle].F:.2f} with the turns so far in view "
        f"(threshold {so_far.threshold:.2f}),",
        f"{peak_f(alone.turns[name][at - 1]) or 0.0:.2f} for that message alone ({alone.threshold:.2f}).",
        f"No message by itself passes {highest:.2f}: what came before gives it away.",
    ]
    for arm, verdict in zip(others, verdicts[2:], strict=True):
        if arm.context == "history":
            at_turn = "stays quiet" if verdict is None or verdict.turn is None else f"fires at turn {verdict.turn}"
            value = peak_f(arm.turns[name][at - 1])
            said = "no score" if value is None else f"{value:.2f}"
            told.append(
                f"Observer {arm.observer} gives turn {at} {said} and {at_turn} (threshold {arm.threshold:.2f})."
            )
    say(*told, "")


def _heading(arm: Arm) -> str:
    """Return observer and way of looking, one above the other."""
    return f"{arm.observer}\n{'alone' if arm.context == 'turn' else 'so far'}"


def _says(found: Detection | None) -> str:
    """Return the turn that fired, if any, and whether that is right."""
    if found is None or found.verdict is None:
        return "not checked"
    right = found.verdict.fired == (found.head.label == "attack")
    return f"{f'turn {found.verdict.turn}' if found.verdict.fired else 'quiet'} {'✓' if right else '✗'}"
