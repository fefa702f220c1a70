"""``turnwise judgements``: what people said of conversations, how far they agree, and files that studies take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise._support.visible import visible
from turnwise.cli import options
from turnwise.cli.files import opened_store, read_run
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.cli.show import review_words
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.store import LabelCorrection, Store
    from turnwise.study.annotation import Agreement

Sequence = Annotated[str, typer.Argument(help="Id of the conversation.", show_default=False)]
Author = Annotated[
    str, typer.Option(help="Your name, which is kept with the judgement.", envvar="TURNWISE_AUTHOR")
]
Authors = Annotated[
    list[str] | None, typer.Option("--author", help="Only this person; may be given several times.")
]
Note = Annotated[str, typer.Option(help="Why, in your words.")]


def list_inbox(
    *,
    run: options.Run = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Only of this status; may be given several times.")
    ] = None,
    assignee: Annotated[
        str | None, typer.Option(help="Only what is assigned to this person; nobody for what is unassigned.")
    ] = None,
    source: options.Source = None,
    principle: Annotated[str | None, typer.Option(help="Only where this principle counted most.")] = None,
    detector: options.Detectors = None,
    patterns: options.PatternsFile = None,
    limit: Annotated[int, typer.Option(min=1, max=options.MOST, help="Conversations to list at most.")] = 20,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """List the conversations that detectors flagged, the most serious first."""
    from turnwise.runs import inbox

    with opened_store(store) as opened:
        found = inbox(
            opened,
            read_run(opened, run),
            detectors=detector or (),
            patterns=patterns,
            status=status,
            assignee=assignee,
            source=source,
            principle=principle,
            limit=limit,
        )
    counts = {str(name): count for name, count in found.counts.items()}
    if json:
        judges = [
            {"detector": one.spec, "threshold": one.detector.threshold, "threshold_source": str(one.source)}
            for one in found.detectors
        ]
        told = {"run": found.run, "detectors": judges, "total": found.total, "counts": counts}
        print_json({**told, "items": [one.to_dict() for one in found.items]})
        return
    judged = [f"{one.spec} (threshold {one.detector.threshold:.3f}, {one.source})" for one in found.detectors]
    of = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
    say(f"run {found.run}, flagged by {' or '.join(judged)}: {of}")
    if found.items:
        columns = ("conversation", "turn", "principle", "F", "detector", "score", "status", "assignee")
        rows = [
            (
                *(one.sequence_id, one.turn, one.principle, f"{one.F:.2f}", one.detector, f"{one.score:.2f}"),
                *(one.status, one.assignee),
            )
            for one in found.items
        ]
        print_table(columns, rows, numeric=("turn", "F", "score"))
    if len(found.items) < found.total:
        note(f"{len(found.items)} of {found.total} listed; --limit lists more")


def review(
    sequences: Annotated[list[str], typer.Argument(metavar="ID...", help="Conversations.", show_default=False)],
    status: Annotated[
        str, typer.Argument(help="new, read, confirmed, dismissed or unsure; same keeps it.", show_default=False)
    ],
    author: Author,
    assignee: Annotated[str | None, typer.Option(help="Who is to read them; nobody to unassign them.")] = None,
    because: Annotated[str, typer.Option("--note", help="Why, in your words.")] = "",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Set the status of flagged conversations; it is not a label, as labels are given blind."""
    from turnwise.store import Store

    with Store(store) as opened:
        wanted = None if status == "same" else status
        said = opened.people.review(sequences, wanted, author=author, assignee=assignee, note=because)
    if json:
        print_json([one.to_dict() for one in said])
        return
    for one in said:
        say(f"{visible(one.sequence_id)}: {review_words(one)}")


def list_judgements(store: options.Store = options.DEFAULT_STORE, json: options.Json = False) -> None:
    """List the judgements of people: corrected labels, turns where a conversation turned, scores of turns."""
    with opened_store(store, prepared=False) as opened:
        corrections, scores = opened.people.corrections(), opened.people.scores()
    if json:
        print_json(
            {"corrections": [one.to_dict() for one in corrections], "scores": [one.to_dict() for one in scores]}
        )
        return
    if not (corrections or scores):
        note(f"{opened.location} holds no correction and no judgement of a person yet")
        return
    rows = []
    for author in sorted({one.author for one in corrections} | {one.author for one in scores}):
        mine = [one for one in corrections if one.author == author]
        turns = {(one.sequence_id, one.turn, one.side) for one in scores if one.author == author}
        labels = sum(one.label is not None for one in mine)
        rows.append((author, labels, len(mine) - labels, len(turns)))
    numeric = ("labels", "turned", "scored turns")
    print_table(("author", *numeric), rows, numeric=numeric)


def label(
    sequence: Sequence,
    label: Annotated[str, typer.Argument(help="attack, benign or unlabelled; none takes it back.")],
    author: Author,
    because: Note = "",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Correct the label of a conversation; the one that it was imported with is kept."""
    from turnwise.store import Store

    with Store(store) as opened:
        wanted = None if label == "none" else label
        _tell(opened, opened.people.correct_label(sequence, wanted, author, because), json)


def turn(
    sequence: Sequence,
    turn: Annotated[
        str, typer.Argument(help="The first turn that is suspicious; 0 for none; none takes it back.")
    ],
    author: Author,
    because: Note = "",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Record at which turn a conversation turned."""
    from turnwise.store import Store

    if turn != "none" and not (turn.isascii() and turn.isdecimal() and len(turn) < 10):
        raise UsageError(f"{turn!r} is no turn: give its number, 0 for a conversation that never turned, or none")
    with Store(store) as opened:
        number = None if turn == "none" else int(turn)
        _tell(opened, opened.people.mark_turn(sequence, number, author, because), json)


def _tell(store: Store, said: LabelCorrection, json: bool) -> None:
    if json:
        print_json(said.to_dict())
        return
    what = "took back what was said" if said.taken_back else f"{said.kind} {said.label or said.turn or 'never'}"
    say(f"{visible(said.sequence_id)}: {what}, by {said.author}; kept in {store.location}")


def agreement(store: options.Store = options.DEFAULT_STORE, json: options.Json = False) -> None:
    """Measure how far people agree: Krippendorff's alpha with its interval, by principle, label and turn."""
    from turnwise.store import Store
    from turnwise.study.annotation import agreement as agreement_of

    with Store(store) as opened:
        people = opened.people
        scores, corrections = people.scores(), people.corrections()
        turns = {
            head.sequence_id: head.turns for head in opened.heads(ids={one.sequence_id for one in corrections})
        }
    found = agreement_of(scores, corrections, turns)
    if json:
        print_json([one.to_dict() for one in found])
    elif found:
        _print(found)
    else:
        note(f"{opened.location} holds no correction and no judgement of a person yet")


def _print(found: tuple[Agreement, ...]) -> None:
    rows = []
    for one in found:
        alpha = one.alpha
        told = one.reason if alpha is None else f"{alpha.value:.2f} [{alpha.low:.2f}, {alpha.high:.2f}]"
        rows.append((f"{one.what} {one.component}".strip(), told, one.units, ", ".join(one.authors) or "–"))
    print_table(("what", "alpha", "units", "people"), rows, numeric=("units",))
    for told in dict.fromkeys(one.alpha.note for one in found if one.alpha is not None and one.alpha.note):
        note(told)


def export_judgements(
    out: Annotated[Path, typer.Option(help="Folder to write to: one folder for each author.")],
    author: Authors = None,
    as_runs: Annotated[
        bool, typer.Option("--as-runs", help="Store them as runs too, for turnwise study compare --truth.")
    ] = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Write the judgements of people in the format of the replay observer, with corrections beside them."""
    from turnwise.runs import export_people, record_people
    from turnwise.store import Store

    with Store(store) as opened:
        counts = export_people(opened, out, author or ())
        runs = [summary.run for summary in record_people(opened, out, author or ())] if as_runs else []
    if json:
        print_json({"folder": str(out), "files": counts, "runs": runs})
        return
    for name, lines in counts.items():
        say(f"{out / name}: {lines} lines")
    for run in runs:
        say(f"run {run}")


def hand_out_sheets(
    out: Annotated[Path, typer.Option(help="Folder to make for the kit.")],
    annotator: Annotated[
        list[str], typer.Option(help="Name or pseudonym of who gets a sheet; may be given several times.")
    ],
    mode: Annotated[
        str,
        typer.Option(
            help="What is judged: history (prompts, with the prompts before them), turn (prompts, each alone), "
            "replies (with all before them), label (whole conversations: attack, benign or unlabelled)."
        ),
    ] = "history",
    only_f: Annotated[bool, typer.Option("--only-f", help="Ask for F alone, not for T and I.")] = False,
    twice: Annotated[float, typer.Option(help="Share of the conversations that two people judge.")] = 0.2,
    most: Annotated[int | None, typer.Option(help="Draw this many conversations.", show_default="all")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    guideline: Annotated[
        Path | None, typer.Option(help="Markdown file of your own guideline.", show_default="the one that ships")
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Write sheets for people to judge conversations blind, with a guideline to print."""
    from turnwise.store import Store
    from turnwise.study.annotation import hand_out

    how: dict[str, Any] = {"mode": mode, "only_f": only_f, "twice": twice, "most": most, "seed": seed}
    with Store(store) as opened:
        kit = hand_out(opened, out, annotator, guideline=guideline, **how)
    rows = {name: len(ids) for name, ids in kit.sheets.items()}
    if json:
        print_json({"folder": str(out), "rows": len(kit.items), "sheets": rows})
        return
    print_table(("annotator", "rows"), rows.items(), numeric=("rows",))
    say(f"{out}: send each person their file of sheets and guideline.html; keep manifest.json to yourself")


def take_in_sheets(
    kit: Annotated[Path, typer.Argument(help="Folder of judgements hand-out.", show_default=False)],
    sheets: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SHEET...", help="Filled sheets; those in the kit by default.", show_default=False),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder in which the set gets a folder of its own.")],
    name: Annotated[str, typer.Option(help="Name of the set.")] = "people",
    distance: Annotated[float, typer.Option(help="Largest difference in F that nobody has to settle.")] = 0.3,
    adjudicated: Annotated[Path | None, typer.Option(help="The sheet of disagreements, filled.")] = None,
    adjudicator: Annotated[str, typer.Option(help="Who filled it.")] = "",
    who: Annotated[str, typer.Option(help="Who judged: their language, trade, relation to you.")] = "",
    trained: Annotated[str, typer.Option(help="How they were trained.")] = "",
    paid: Annotated[str, typer.Option(help="How they were paid.")] = "",
    when: Annotated[str, typer.Option(help="When they judged.")] = "",
    guideline: Annotated[
        str, typer.Option(help="Version of your own guideline.", show_default="that of the one that ships")
    ] = "",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Read filled sheets: report agreement, list what to settle, and write a set that studies take for truth."""
    from turnwise.store import Store
    from turnwise.study.annotation import take_in

    told = {"who": who, "trained": trained, "paid": paid, "when": when, "guideline": guideline}
    settled: dict[str, Any] = {"distance": distance, "adjudicated": adjudicated, "adjudicator": adjudicator}
    with Store(store) as opened:
        done = take_in(opened, kit, sheets or (), out=out, name=name, provenance=told, **settled)
    if json:
        print_json(done.to_dict())
        return
    say(f"{done.rows} rows by {len(done.annotators)} people, {done.twice} of them by two")
    _print(done.agreement)
    if done.to_settle is not None:
        say(
            f"{done.to_settle}: {done.disagreements} rows on which people disagree; let "
            "somebody fill it, then add --adjudicated and --adjudicator. The set is made then"
        )
    for file in done.files:
        say(file)
    if done.truth is not None:
        option = "--truth" if done.truth.startswith("judged-by-") else "--corrected-by"
        say(f"turnwise study compare {option} {done.truth} takes it for truth")
