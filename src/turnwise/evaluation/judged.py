"""Recorded judgements as runs, so that they are asked, compared and shown like any other scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from turnwise.datasets.judged import MODES, SECOND, judgement_files, read_judgements
from turnwise.evaluation.run import Summary, evaluate
from turnwise.observers import build_observer
from turnwise.principles import builtin_principles
from turnwise.store import Store

PREFIX = "judged-"
"""How the names of such runs begin."""


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
        side, _ = MODES[mode]
        summaries.append(
            evaluate(
                store,
                f"{PREFIX}{name}",
                build_observer(f"replay:{path}"),
                principles=builtin_principles(),
                context="turn" if mode == "turn" else "history",
                sides=(side,),
                ids=chosen,
            )
        )
    return summaries
