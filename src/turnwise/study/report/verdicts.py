"""What every arm said of every conversation, as a table for one's own questions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from turnwise._support.spreadsheets import write_parquet
from turnwise.study.compare import Fold, Study
from turnwise.study.compare.settings import PARTS
from turnwise.study.stats.judged_conversations import judge_all

COLUMNS = {
    "arm": "VARCHAR",
    "sequence": "VARCHAR",
    "source": "VARCHAR",
    "label": "VARCHAR",
    "part": "VARCHAR",
    "fold": "INTEGER",
    "score": "DOUBLE",
    "threshold": "DOUBLE",
    "fired": "BOOLEAN",
    "turn": "INTEGER",
    "reader_turn": "INTEGER",
}
"""Columns with their types in DuckDB's words."""


def verdict_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Yield a row for each arm and conversation, by arm, then by id.

    With one split ``part`` is train, calibrate or test; what an arm says of the parts that fitted it and set its
    threshold flatters it. With folds every conversation is there once, as its fold tested it. A benign one of a
    data set that an observer was trained on is there only where it trained.

    ``fold`` counts from 1, in the order of the folds in ``results.json``: what was fitted on its train part and
    calibrated on its calibrate part gave the score and the threshold.

    ``fired`` is None where the run has no score of the conversation, ``threshold`` where the arm never fires, and
    ``reader_turn`` where the reader flags no turn or did not judge it.
    """
    known = {one.sequence_id: one for one in study.data.known}
    runs = {one.run.name: one for one in study.data.runs}
    parts = PARTS if len(study.folds) == 1 else ("test",)
    for judgement in study.judgements:
        examples = runs[judgement.arm.run].examples
        rows: dict[str, dict[str, Any]] = {}
        for number, (fold, calibrated) in enumerate(zip(study.folds, judgement.folds, strict=True), start=1):
            part_of = _parts(fold, parts)
            chosen = [example for example in examples if example.sequence_id in part_of]
            for one in judge_all(calibrated.detector, chosen):
                rows[one.sequence_id] = {
                    "arm": judgement.arm.name,
                    "sequence": one.sequence_id,
                    "source": known[one.sequence_id].strata["source"],
                    "label": "attack" if one.attack else "benign",
                    "part": part_of[one.sequence_id],
                    "fold": number,
                    "score": None if one.score == -math.inf else one.score,
                    "threshold": calibrated.threshold if math.isfinite(calibrated.threshold) else None,
                    "fired": one.fired if one.evaluated else None,
                    "turn": one.turn,
                    "reader_turn": None if study.truth is None else study.truth.reader.first(one.sequence_id),
                }
        yield from (rows[name] for name in sorted(rows))


def _parts(fold: Fold, names: tuple[str, ...]) -> dict[str, str]:
    return {sequence_id: name for name in names for sequence_id in getattr(fold, name)}


def verdicts_as_parquet(study: Study) -> bytes:
    """All rows as a Parquet file; the same study gives the same bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "verdicts.parquet")
        write_parquet(path, COLUMNS, verdict_rows(study))
        return path.read_bytes()
