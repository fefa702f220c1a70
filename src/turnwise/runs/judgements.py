"""Judgements as runs, so that they are asked, compared and shown like any other scores.

They are those of careful readers, in a folder such as ``corpus/judged``, or what people said of conversations in a
store. The latter are first written in the same shape, a folder for each author::

    ann/history.jsonl   scores of prompts, read with the prompts before them
    ann/turn.jsonl      scores of prompts, each read alone
    ann/replies.jsonl   scores of replies, read with all before them
    ann/turned.jsonl    turns where it turned, as scores against the principle ``turned``
    ann/corrections.jsonl   labels and turned turns as they were given, with time and note
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turnwise._support.locations import to_path
from turnwise.conversation import Side
from turnwise.datasets import judgement_files, read_judgements
from turnwise.datasets.annotated import MODES, SECOND
from turnwise.errors import UnknownNameError, UsageError
from turnwise.observers import build_observer
from turnwise.principles import Principle, builtin_principles, load_principle
from turnwise.runs.evaluation import Summary, evaluate
from turnwise.store import HumanScore, LabelCorrection, Store


def judged_ids(folder: str | Path) -> dict[str, frozenset[str]]:
    """Return the ids of the conversations of which some turn was judged, by file, such as ``history``.

    Args:
        folder: a folder of judgements, such as ``corpus/judged``.

    Raises:
        DatasetError: no judgements there, or a line that is none.
    """
    files = judgement_files(folder)
    return {name: frozenset(one.sequence_id for one in read_judgements(path)) for name, path in files.items()}


def record_judgements(
    store: Store, folder: str | Path, ids: Collection[str], judged: Mapping[str, frozenset[str]]
) -> list[Summary]:
    """Store the judgements of conversations as runs ``judged-history``, ``judged-turn``, ``judged-replies``.

    Second readings become runs of their own, such as ``judged-history-second``. A judgement of another text than
    the stored one is stored as a failure with the reason ``text_changed``.

    Args:
        store: where the conversations are.
        folder: a folder of judgements.
        ids: ids of stored conversations; those without judgements are left alone.
        judged: what `judged_ids` gave for the folder.

    Returns:
        What was stored, run by run; runs without a judgement of these conversations are left out.

    Raises:
        DatasetError: no judgements there, or a line that is none.
        UsageError: a run of that name holds scores of another file.
    """
    summaries = []
    for name, path in judgement_files(folder).items():
        chosen = judged[name] & set(ids)
        if not chosen:
            continue
        mode = name.removesuffix(SECOND)
        summaries.append(_record(store, f"judged-{name}", path, builtin_principles(), mode, chosen))
    return summaries


def _record(
    store: Store, run: str, path: Path, principles: Sequence[Principle], mode: str, ids: Collection[str]
) -> Summary:
    """Store what a file says of some conversations as a run; `mode` is what was read, as in `MODES`."""
    return evaluate(
        store,
        run,
        build_observer(f"replay:{path}"),
        principles=principles,
        context="turn" if mode == "turn" else "history",
        sides=(MODES[mode][0],),
        ids=ids,
    )


TURNED: Final = Principle(
    name="turned",
    version="1",
    summary="Whether the conversation has turned by this turn, as a person marked it.",
    truth="1 before the marked turn, 0 from it on.",
    indeterminacy="Always 0: the person was sure enough to mark a turn.",
    falsity="0 before the marked turn, 1 from it on; 0 throughout where the person says that it never turned.",
    prompt="",
)
"""What a marked turn is a score of. No observer is asked about it."""

CORRECTIONS: Final = "corrections.jsonl"
"""File of what an author said of whole conversations."""

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def folder_of(author: str) -> str:
    """The name of an author's folder; no two authors have the same.

    >>> folder_of("ann"), folder_of("../Änn")
    ('ann', '%2E%2E%2F%C3%84nn')
    """
    return "".join(one if one in _PLAIN else "".join(f"%{byte:02X}" for byte in one.encode()) for one in author)


def lines_of(
    scores: Iterable[HumanScore], corrections: Iterable[LabelCorrection], turns: Mapping[str, int]
) -> dict[str, str]:
    """The files of one author, by name; what would be empty is absent. `turns` are those of each conversation."""
    files: dict[str, list[dict[str, Any]]] = defaultdict(list)
    names = {reading: f"{name}.jsonl" for name, reading in MODES.items()}
    together: dict[tuple[str, int, Side, str], list[HumanScore]] = defaultdict(list)
    for one in scores:
        together[one.sequence_id, one.turn, one.side, str(one.seen)].append(one)
    for some in together.values():
        first, last = some[0], max(some, key=lambda one: one.created_at)
        notes = dict.fromkeys(one.note for one in some if one.note)
        files[names[first.side, first.seen]].append(
            {
                "sequence_id": first.sequence_id,
                "turn": first.turn,
                "side": str(first.side),
                "scores": {one.principle: [one.score.T, one.score.I, one.score.F] for one in some},
                "seen": str(first.seen),
                "digest": last.digest,
                "reading": first.author,
                "round": 1,
                "reasoning": "\n".join(notes) or None,
                "time": last.created_at.isoformat(),
                "versions": {one.principle: one.principle_version for one in some},
            }
        )
    for said in corrections:
        files[CORRECTIONS].append({name: value for name, value in said.to_dict().items() if value is not None})
        if said.turn is not None:
            files["turned.jsonl"] += _turned(said, turns[said.sequence_id])
    return {
        name: "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        for name, lines in files.items()
    }


def _turned(said: LabelCorrection, turns: int) -> list[dict[str, Any]]:
    about = {"reasoning": said.note or None, "author": said.author, "time": said.created_at.isoformat()}
    first = said.turn or turns + 1
    return [
        {"sequence_id": said.sequence_id, "turn": turn, "principle": TURNED.name, **score, **about}
        for turn in range(1, turns + 1)
        for score in [{"T": float(turn < first), "I": 0.0, "F": float(turn >= first)}]
    ]


def export_people(store: Store, folder: str | Path, authors: Collection[str] = ()) -> dict[str, int]:
    """Write what people said (by default all of them) into a folder; return how many lines each file has, by path.

    The folder is made if its parent exists. Files of the same authors are written over.
    """
    counts: dict[str, int] = {}
    target = to_path(folder)
    for author in _chosen(store, authors):
        scores, corrections = store.people.scores(author=author), store.people.corrections(author=author)
        ids = {one.sequence_id for one in corrections}
        turns = {head.sequence_id: head.turns for head in store.heads(ids=ids)}
        try:
            inside = target / folder_of(author)
            target.mkdir(exist_ok=True)
            inside.mkdir(exist_ok=True)
            made = lines_of(scores, corrections, turns)
            for name in (*(f"{mode}.jsonl" for mode in MODES), "turned.jsonl", CORRECTIONS):
                if name in made:
                    (inside / name).write_text(made[name], encoding="utf-8", newline="\n")
                    counts[f"{inside.name}/{name}"] = made[name].count("\n")
                else:
                    (inside / name).unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"can't write {folder}: {error.strerror or error}") from error
    return counts


def record_people(store: Store, folder: str | Path, authors: Collection[str] = ()) -> list[Summary]:
    """Store what `export_people` wrote as runs, which ``turnwise study compare --truth`` takes.

    The runs are ``judged-by-ANN`` and ``turned-by-ANN``; readings of prompts alone and of replies are
    ``judged-by-ANN-turn`` and ``judged-by-ANN-replies``. A run that holds what a person said at another time is
    refused until it is renamed or deleted.
    """
    summaries = []
    for author in _chosen(store, authors):
        scores = store.people.scores(author=author)
        for mode, reading in MODES.items():
            some = [one for one in scores if (one.side, one.seen) == reading]
            if some:
                end = "" if mode == "history" else f"-{mode}"
                names = dict.fromkeys(one.principle for one in some)
                principles = [load_principle(name) for name in names]
                ids = {one.sequence_id for one in some}
                path = to_path(folder) / folder_of(author) / f"{mode}.jsonl"
                summaries.append(_record(store, f"judged-by-{author}{end}", path, principles, mode, ids))
        marked = {one.sequence_id for one in store.people.corrections(author=author) if one.turn is not None}
        if marked:
            path = to_path(folder) / folder_of(author) / "turned.jsonl"
            summaries.append(_record(store, f"turned-by-{author}", path, [TURNED], "history", marked))
    return summaries


def _chosen(store: Store, authors: Collection[str]) -> tuple[str, ...]:
    known = store.people.authors()
    for author in authors:
        if author not in known:
            raise UnknownNameError("author", author, known)
    if not known:
        raise UsageError(f"{store.location} has no corrections or judgements yet; make some in turnwise explore")
    return tuple(authors) or known
