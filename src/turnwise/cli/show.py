"""``turnwise show``: one sequence turn by turn, with its scores, and what each score rests on.

`check` and `detect` print trajectories and verdicts with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import check_turn, opened_store, read_run
from turnwise.cli.output import dollars, note, print_json, print_table, say, say_paragraphs, sparkline
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.conversation import Label, Turn
    from turnwise.detectors import Verdict
    from turnwise.runs.why import Explanation
    from turnwise.scoring import Call, Evaluation, Failure, Trajectory, TurnScores, Unread
    from turnwise.store import Review, SequenceHead


SHOWN = 50
"""Turns that are shown where nobody says how many."""

_REASON_SHOWN = 160
"""Characters of a reasoning in the table; --why prints the whole."""

_TEXT_SHOWN = 60
"""Characters of a prompt or reply in the table."""


def show(
    sequence_id: Annotated[str, typer.Argument(help="Id of the sequence.", show_default=False)],
    run: options.Run = None,
    first: Annotated[int, typer.Option("--from", min=1, help="Turn to begin with.")] = 1,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"Turns to show at most. Default: {SHOWN}, with --json all.", show_default=False),
    ] = None,
    turn: Annotated[int | None, typer.Option(min=1, help="Only this turn.", show_default=False)] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Print everything that each score rests on, and what moved the highest.")
    ] = False,
    paid: Annotated[
        bool, typer.Option("--paid", help="With --why: ask a language model again, which costs money.")
    ] = False,
    plot: Annotated[
        str | None, typer.Option(help="Draw these turns as well: .html (texts on hover), .svg, .png or .pdf.")
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Show a sequence: prompts, replies, and T, I and F of every principle with the reasoning."""
    from turnwise.conversation import Label
    from turnwise.plots import check_target, save, trajectory_chart
    from turnwise.runs import detect
    from turnwise.runs.why import explain_flag
    from turnwise.sessions import outcomes_of

    if plot is not None:
        check_target(plot)
    if turn is not None:
        if limit is not None or first != 1:
            raise UsageError("--turn shows a single turn: leave out --from and --limit")
        first, limit = turn, 1
    with opened_store(store) as opened:
        name = read_run(opened, run)
        head = next(opened.heads(ids=[sequence_id]))
        check_turn("--from" if turn is None else "--turn", first, sequence_id, head.turns)
        most = limit or (head.turns if json else SHOWN)
        part = range(first, min(first + most, head.turns + 1))
        said = opened.turns(sequence_id, part)
        trajectory = opened.trajectory(name, sequence_id, turns=part, replies=True)
        said_of = opened.people.corrections(ids=[sequence_id])
        reviews = opened.people.reviews(ids=[sequence_id])
        judged = detect(opened, name, ids=[sequence_id]) if len(part) == head.turns else ()
        verdicts = [one.verdict for one in judged if one.verdict]
        tried = opened.failures(name, ids=[sequence_id], turns=part, replies=True)
        unread = opened.unread(name, ids=[sequence_id], turns=part)
        asked = why and bool(trajectory.evaluations)
        explained = explain_flag(opened, sequence_id, name, turn=turn, paid=paid) if asked else None
    labels = {one.author: one.label for one in said_of if one.label is not None}
    scored = {evaluation.key for evaluation in trajectory.evaluations}
    failures = [failure for failure in tried if failure.key not in scored]  # no later score made up for them
    if plot is not None:
        subtitle = f"{_label_words(head, labels)}, {head.source}; run {name}"
        save(trajectory_chart(tuple(trajectory), said, title=sequence_id, subtitle=subtitle), plot)
        note(f"{plot} written")
    # Of a part nobody can say where the model gave way first.
    outcomes = outcomes_of(said, trajectory) if len(part) == head.turns else None
    benign, alarm = head.label is Label.BENIGN, min((one.turn for one in verdicts if one.turn), default=None)
    if json:
        more = {
            "verdicts": [one.to_dict() for one in verdicts],
            "review": reviews[0].to_dict() if reviews else None,
            "explanation": None if explained is None else explained.to_dict(),
            "outcomes": None if outcomes is None else outcomes.to_dict(benign=benign, alarm=alarm),
        }
        print_json(_as_json(head, labels, said, trajectory, failures, unread, why) | more)
    else:
        _print(head, labels, said, trajectory, failures, why)
        _say_verdicts(verdicts, reviews, explained)
        if outcomes is not None:
            say("", outcomes.in_words(benign=benign, alarm=alarm))
        _note_gaps(name, trajectory, unread)
        if turn is None and len(part) < head.turns:
            rest = f"; --from {part.stop} shows the next, --limit more of them" if part.stop <= head.turns else ""
            note(f"turns {first} to {part.stop - 1} of {head.turns}{rest}")


def _say_verdicts(verdicts: Sequence[Verdict], reviews: Sequence[Review], explained: Explanation | None) -> None:
    say("")
    say_paragraphs(*map(str, verdicts), *map(review_words, reviews))
    if explained is not None:
        say(f"Why turn {explained.turn} ({explained.principle}):")
        say_paragraphs(*explained.sentences())


def _note_gaps(run: str, trajectory: Trajectory, unread: Sequence[Unread]) -> None:
    for turn, side, language in dict.fromkeys((one.key.turn, one.key.side, one.language) for one in unread):
        note(f"turn {turn}, {side}: not read, its language is {language}")
    if not (trajectory or unread):
        note(f"run {run!r} has no evaluation of these turns; turnwise evaluate makes them")


def review_words(one: Review) -> str:
    """Where a conversation stands in the inbox, in a line."""
    who = f", assigned to {one.assignee}" if one.assignee else ""
    note = f": {_cut(one.note, _REASON_SHOWN)}" if one.note else ""
    return f"{one.status}{who}; {one.author}, {one.created_at:%Y-%m-%d %H:%M} UTC{note}"


def _label_words(head: SequenceHead, labels: Mapping[str, Label]) -> str:
    """The label of a sequence: what people agree on, and the imported one where it differs; `labels` by author."""
    given = set(labels.values())
    if given <= {head.label}:
        return str(head.label)
    if len(given) == 1:
        return f"{given.pop()} by {', '.join(labels)}, imported as {head.label}"
    disputed = ", ".join(f"{author} says {label}" for author, label in labels.items())
    return f"disputed: {disputed}; imported as {head.label}"


def _as_json(
    head: SequenceHead,
    labels: Mapping[str, Label],
    said: Sequence[Turn],
    trajectory: Trajectory,
    failures: Sequence[Failure],
    unread: Sequence[Unread],
    why: bool,
) -> dict[str, Any]:
    value = {
        **{name: item for name, item in head.to_dict().items() if name != "turns"},
        "corrected_labels": {author: str(label) for author, label in labels.items()},
        "run": trajectory.run,
        "turns": [
            {"prompt": turn.prompt, "response": turn.response, **scores.to_dict()}
            for turn, scores in zip(said, trajectory, strict=True)
        ],
        "reasoning": [
            {**_about(one), "reasoning": one.reasoning}
            for one in trajectory.evaluations
            if one.reasoning is not None
        ],
        "spread": [
            {**_about(one), "calls": len(one.calls), **one.spread._asdict()}
            for one in trajectory.evaluations
            if one.spread
        ],
        "failures": [{**one.key._asdict(), "reason": one.reason, "message": one.message} for one in failures],
        "unread": [{**_about(one), "language": one.language} for one in unread],
    }
    if why:
        value["why"] = [*map(_why, trajectory.evaluations), *map(_why, failures)]
    return value


def _about(one: Evaluation | Failure | Unread) -> dict[str, Any]:
    return {"turn": one.key.turn, "side": str(one.key.side), "principle": one.key.principle}


def _why(one: Evaluation | Failure) -> dict[str, Any]:
    """All that a score, or a failure to score, rests on."""
    from turnwise._support.notebook import plain

    value = plain(one)
    score = value.pop("score", None)
    return {**value.pop("key"), **(score or {}), **value}


def _print(
    head: SequenceHead,
    labels: Mapping[str, Label],
    said: Sequence[Turn],
    trajectory: Trajectory,
    failures: Sequence[Failure],
    why: bool,
) -> None:
    say(f"{head.sequence_id}  ({_label_words(head, labels)}, {head.source})  run {trajectory.run}")
    print_trajectory(tuple(trajectory), said)
    if why:
        for lines in (*map(_why_lines, trajectory.evaluations), *map(_why_lines, failures)):
            say("", *lines)
        return
    reasons = [(one.key, one.reasoning) for one in trajectory.evaluations if one.reasoning]
    if reasons:
        print_table(
            ("turn", "side", "principle", "reasoning"),
            [(key.turn, key.side, key.principle, _cut(why, _REASON_SHOWN)) for key, why in reasons],
            numeric=("turn",),
            title="Reasoning (whole: --why)",
        )
    apart = [(one, one.spread) for one in trajectory.evaluations if one.spread]
    if apart:
        columns = "turn", "side", "principle", "calls", "T", "I", "F"
        rows = [
            (*_about(one).values(), len(one.calls), *(f"{value:.3f}" for value in spread)) for one, spread in apart
        ]
        print_table(columns, rows, numeric=columns[3:], title="Standard deviation over repeated calls")
    for failure in failures:
        key = failure.key
        note(f"turn {key.turn}, {key.principle}, {key.side}: {failure.reason}: {failure.message}")


def _why_lines(one: Evaluation | Failure) -> Iterator[str]:
    from turnwise.scoring import Failure

    key, made = one.key, one.provenance
    failed = f": not scored ({one.reason})" if isinstance(one, Failure) else ""
    yield f"turn {key.turn}, {key.side}, {key.principle}{failed}"
    if isinstance(one, Failure):
        yield from _field("message", one.message)
    else:
        yield from _field("score", f"T {one.score.T:.3f}  I {one.score.I:.3f}  F {one.score.F:.3f}")
        yield from _field("reasoning", one.reasoning)
    yield from _field("raw reply", one.raw_reply)
    yield from _field("principle", f"{key.principle}, version {made.principle_version}")
    yield from _field("observer", f"{made.observer}, version {made.observer_version}, context {made.context}")
    settings = ", ".join(f"{name}={value}" for name, value in made.parameters.items() if value not in ({}, None))
    yield from _field("settings", settings)
    yield from _field("turnwise", made.code_version)
    seconds = "" if one.latency_s is None else f", took {one.latency_s:.2f} s"
    cost = "" if one.cost_usd is None else f", {dollars(one.cost_usd)}"
    yield from _field("made", f"{one.created_at:%Y-%m-%d %H:%M:%S} UTC{seconds}{cost}")
    for call in one.calls:
        yield from _field(f"call {call.repeat}", "\n".join(_call_lines(call, one.raw_reply)))


def _call_lines(call: Call, raw_reply: str | None) -> Iterator[str]:
    if call.score is not None:
        yield f"T {call.score.T:.3f}  I {call.score.I:.3f}  F {call.score.F:.3f}"
    else:
        yield f"no score ({call.reason}): {call.message}"
    reply = call.reply
    if reply is None:
        yield f"no reply after {call.attempts} requests"
        return
    yield f"model {reply.model}, finished by {reply.finish_reason or 'nothing that it says'}"
    asked = f", asked for with {reply.structured}" if reply.structured else ""
    yield f"request {reply.request_key}, nonce {reply.nonce}{asked}"
    sent, received = ("not counted" if n is None else n for n in (reply.prompt_tokens, reply.completion_tokens))
    paid = "paid for before" if call.cached else dollars(reply.cost_usd)
    yield f"tokens sent {sent}, received {received}; {paid}; {reply.latency_s:.2f} s, {call.attempts} requests"
    yield f"received {reply.received_at:%Y-%m-%d %H:%M:%S} UTC"
    if reply.text != raw_reply:
        yield from reply.text.split("\n")


def _field(name: str, text: str | None) -> Iterator[str]:
    if text:
        first, *others = text.split("\n")
        yield f"  {name:<10} {first}"
        yield from (f"  {'':<10} {line}" for line in others)


def _cut(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[:most] + "…"


def print_trajectory(turns: Sequence[TurnScores], said: Iterable[Turn]) -> None:
    """Print T, I and F of every principle, a row for each turn, and a small graph of F for each principle."""
    principles = sorted({principle for scores in turns for principle in (*scores.scores, *scores.response_scores)})
    rows: list[tuple[object, ...]] = []
    for scores, turn in zip(turns, said, strict=True):
        texts = [_cut(turn.prompt, _TEXT_SHOWN)]
        if turn.response is not None:
            texts.append(f"> {_cut(turn.response, _TEXT_SHOWN)}")
        rows.append((scores.turn, *(_scores_cell(scores, principle) for principle in principles), texts))
    headings = (f"{principle}\nT    I    F" for principle in principles)
    print_table(("turn", *headings, "prompt, > reply"), rows, numeric=("turn",))
    graphs = []
    for principle in principles:
        values = [scores.scores[principle].F if principle in scores.scores else None for scores in turns]
        known = [value for value in values if value is not None]
        graphs.append((principle, sparkline(values), f"{max(known):.2f}" if known else ""))
    print_table(("principle", "F over turns", "peak F"), graphs, numeric=("peak F",))


def _scores_cell(scores: TurnScores, principle: str) -> list[str]:
    prompt, response = scores.scores.get(principle), scores.response_scores.get(principle)
    lines = [f"{prompt.T:.2f} {prompt.I:.2f} {prompt.F:.2f}" if prompt else "-"]
    if response:
        lines.append(f"{response.T:.2f} {response.I:.2f} {response.F:.2f} (response)")
    return lines
