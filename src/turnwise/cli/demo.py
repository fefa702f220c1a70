"""``turnwise demo``: the whole path on the examples that ship, without key or network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say, say_paragraphs, sparkline
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.cli.demo_run import Demo, DemoRun
    from turnwise.conversation import Sequence as Chat
    from turnwise.store import Store

_WIDTH = 80
"""Columns of tables and paragraphs."""

_NAME_SHOWN, _GRAPH_SHOWN, _QUOTED = 12, 12, 400
"""Characters of the name of an observer, of a small graph, and of the turn that is quoted."""

_WHO = {
    "reader": "reader: a large language model that read these conversations blind, turn by turn, before they "
    "shipped; its scores are replayed, nothing is called. Its thresholds flag at most 1 % of ordinary "
    "chats of other people, read in the same way. second reader: another one, at the same thresholds.",
    "local": "local: the embedded observer, run here and now, without a key; it learned from such readers, not "
    "on these conversations. With a model of your own: turnwise demo --observer llm:PROVIDER/MODEL",
}
"""What is said of observers, by name."""

_NARROW = 6
"""Characters of a name of an observer with which the runs of two observers fit beside each other."""


def demo(
    store: Annotated[
        str, typer.Option(help="File, or postgresql://... URL, that keeps the conversations and scores.")
    ] = "turnwise-demo.db",
    observer: Annotated[
        list[str] | None,
        typer.Option(
            help="Whose scores to show: reader (recorded), local (embedded), or another observer such as "
            "llm:provider/model; may be given several times. By default reader and local."
        ),
    ] = None,
    with_report: Annotated[
        bool,
        typer.Option(
            "--report", help="Also write the report of a study on them. Needs the extra turnwise[study]."
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Show how a conversation turns, message by message, and what each observer finds in the shipped ones.

    Needs no key and no network.
    """
    from turnwise.cli.demo_run import OBSERVERS, demo_observer, run_demo
    from turnwise.cli.study import FOR_A_REPORT, require_study
    from turnwise.store import Store

    if with_report:
        require_study(*FOR_A_REPORT)
    observers = {name: demo_observer(name) for name in observer or OBSERVERS}
    report = None
    with Store(store, create=True) as opened:
        try:
            done = run_demo(opened, observers, None if json else _print_turning)
        except UsageError as error:
            raise UsageError(
                f"{opened.location} holds a demo of another version ({error}); remove it, or name another "
                "with --store"
            ) from error
        if not json:
            _print(opened.location, done)
        if with_report:
            report = _write_report(opened, done.runs)
    if json:
        print_json({"store": opened.location, "report": None if report is None else str(report), **done.to_dict()})
    elif report is not None:
        say("", f"A study of these examples, with tables and figures: {report}")


def _write_report(store: Store, runs: Sequence[DemoRun]) -> Path:
    """Write the report of a study beside the store, or here where that is in a server; return its page."""
    from turnwise.cli.study import rescorer
    from turnwise.study.compare import Settings, compare
    from turnwise.study.report import write_report

    note("writing the report of a study on these examples")
    names = tuple(run.run for run in runs if run.observer == runs[0].observer)
    settings = Settings(runs=names, detectors=("cusum",), thresholds="given", target_fpr=0.1)
    study = compare(store, settings, rescore=rescorer())
    path = Path(store.location.rpartition("/")[2] if "://" in store.location else store.location)
    return write_report(study, path.with_name(f"{path.stem}-report"), tell=note)[0]


def _print(store: str, done: Demo) -> None:
    telling = done.telling()
    _print_legend(done)
    for label, title in (("attack", "Attacks"), ("benign", "Benign conversations")):
        chats = [chat for chat in done.sequences if chat.label == label]
        for beside in _side_by_side(done.runs):
            _print_verdicts(title, chats, done.runs, beside)
    _print_rates(done)
    _print_second_look(done)
    shown = (telling or done.sequences[0]).sequence_id
    say_paragraphs(
        f"{len(done.sequences)} conversations in {done.seconds:.1f} s. They are few and our own: they show how "
        "turnwise works, not how well. docs/explanation/which-number.md has figures on other people's data."
    )
    run = done.runs[1].run
    say_paragraphs(
        f"Everything is in {store}. Next, read that conversation, ask which grow worse, let other detectors judge:"
    )
    say(
        f"  turnwise show {shown} --store {store} --run {run}",
        f"  turnwise query 'slope(reciprocity.F) > 0.1' --store {store} --run {run}",
        f"  turnwise detect --store {store} --run {run} --detector trust_ema --detector slope --fired",
        "Your own conversations: docs/tutorials/evaluate-your-data.md",
    )


def _print_legend(done: Demo) -> None:
    """Say how the tables below are read, and who scores."""
    names = {run.observer for run in done.runs}
    unchecked = any(one.verdict is None for run in done.runs for one in run.found.values()) or any(
        len(run.found) < len(done.sequences) for run in done.runs
    )
    say_paragraphs(
        "All conversations: F so far is the highest F over the principles, turn by turn, by the first of these "
        "observers. Then the turn at which each way of looking fires (– for none), and whether that is right (✓) "
        f"or wrong (✗) by the label{'; “?” is not checked' if unchecked else ''}.",
        *(said for name, said in _WHO.items() if name in names),
    )


def _print_verdicts(title: str, chats: Sequence[Chat], runs: Sequence[DemoRun], beside: Sequence[DemoRun]) -> None:
    graphs = next(run for run in runs if run.context == "history")
    rows = [
        (
            chat.sequence_id,
            sparkline(_binned(graphs.peaks(chat.sequence_id))),
            *(_verdict(run, chat) for run in beside),
        )
        for chat in chats
    ]
    print_table(("conversation", "F so far", *map(_heading, beside)), rows, title=title)


def _print_rates(done: Demo) -> None:
    from turnwise.cli.demo_run import READER

    rows = [(_short(run.observer), run.context, run.rates) for run in done.runs]
    rows += [
        ("second reader", run.context, done.second_reader(run)) for run in done.runs if run.observer == READER
    ]
    table = []
    for name, context, rates in rows:
        shown = (str(rates.get(label, "–")).replace(" [", "\n[").split("\n") for label in ("attack", "benign"))
        table.append((name, "each turn alone" if context == "turn" else "turns so far", *shown))
    columns = "scores of", "looking at", "attacks caught", "benign flagged"
    print_table(columns, table, title="With 95 % intervals")


def _print_second_look(done: Demo) -> None:
    """Print what a screen, a screen with a judge, and the judge alone find."""
    pair = done.screen_and_judge()
    if pair is None or done.second_look is None or done.asked is None:
        return
    screen, judge = pair
    columns = screen, done.second_look, judge
    rows = [
        (said, *(str(run.rates.get(label, "–")).split(" = ")[0] for run in columns))
        for label, said in (("attack", "attacks caught"), ("benign", "benign flagged"))
    ]
    rows.append(("turns the reader read", "none", str(done.asked).split(" [")[0], "all"))
    print_table(
        ("turns so far", "local alone", "the reader where\nlocal points", "reader alone"),
        rows,
        title="A second look",
    )
    say_paragraphs(
        "These are hard conversations, so most turns go to the reader; of ordinary talk one in ten does."
    )


def _print_turning(chat: Chat, runs: Sequence[DemoRun]) -> None:
    """Print a conversation turn by turn, with the scores of every run, and say what turned."""
    name = chat.sequence_id
    for beside in _side_by_side(runs):
        headings = list(map(_heading, beside))
        room = _WIDTH - len(" turn   ") - sum(3 + max(map(len, heading.split("\n"))) for heading in headings) - 1
        rows = [
            (turn.number, _cut(turn.prompt, room), *(_score(run, name, turn.number) for run in beside))
            for turn in chat.conversation
        ]
        columns = "turn", "the user says", *headings
        print_table(
            columns,
            rows,
            numeric=("turn", *headings),
            title=f"How {name} turns: highest F; ► where it first fires",
        )
    alone, so_far = runs[:2]
    verdict = so_far.found[name].verdict
    at = verdict.turn if verdict else None
    if at is None:
        return
    scores = so_far.turns[name][at - 1].scores
    principle = max(scores, key=lambda key: scores[key].F)
    peaks = alone.peaks(name)
    told = [
        f"Turn {at} breaks {principle.replace('_', ' ')}: with the turns so far in view F is "
        f"{scores[principle].F:.2f}, above the threshold of {so_far.threshold:.2f}. That message alone gets "
        f"{peaks[at - 1] or 0.0:.2f}, and no message alone more than {max(filter(None, peaks), default=0.0):.2f}, "
        f"where the threshold for messages alone is {alone.threshold:.2f}: "
        "what came before gives it away."
    ]
    for run in runs[2:]:
        if run.context == "history":
            found = run.found.get(name)
            fired_at = found.verdict.turn if found and found.verdict else None
            does = "stays quiet" if fired_at is None else f"fires at turn {fired_at}"
            value = run.peaks(name)[at - 1]
            said = "no score" if value is None else f"{value:.2f}"
            told.append(
                f"Observer {run.observer} gives turn {at} {said} and {does} (threshold {run.threshold:.2f})."
            )
    say_paragraphs(f"“{_cut(chat.conversation.turn(at).prompt, _QUOTED)}”", " ".join(told))


def _side_by_side(runs: Sequence[DemoRun]) -> list[Sequence[DemoRun]]:
    """The runs in parts that fit beside each other in a table."""
    most = 4 if all(len(_short(run.observer)) <= _NARROW for run in runs) else 2
    return [runs[start : start + most] for start in range(0, len(runs), most)]


def _heading(run: DemoRun) -> str:
    return f"{_short(run.observer)}\n{'alone' if run.context == 'turn' else 'so far'}"


def _score(run: DemoRun, name: str, turn: int) -> str:
    """The highest F at a turn, marked where the detector fired."""
    value, found = run.peaks(name)[turn - 1], run.found.get(name)
    fires = found is not None and found.verdict is not None and found.verdict.turn == turn
    return "–" if value is None else f"{'►' if fires else ' '}{value:.2f}"


def _verdict(run: DemoRun, chat: Chat) -> str:
    """The turn that fired, if any, and whether that is right."""
    found = run.found.get(chat.sequence_id)
    if found is None or found.verdict is None:
        return "?"
    right = found.verdict.fired == (chat.label == "attack")
    return f"{found.verdict.turn if found.verdict.fired else '–'} {'✓' if right else '✗'}"


def _binned(values: Sequence[float | None]) -> list[float | None]:
    """The highest values of as many parts as a small graph has room for."""
    size = -(-len(values) // _GRAPH_SHOWN) or 1
    parts = (values[start : start + size] for start in range(0, len(values), size))
    return [max((value for value in part if value is not None), default=None) for part in parts]


def _short(name: str) -> str:
    return _cut(name, _NAME_SHOWN)


def _cut(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
