"""Small findings of a scan, written as the scan writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnwise._support.locations import Location
from turnwise.findings import COLUMNS, MANIFEST, PLACES, Counts, DeadLetter, Input, Manifest
from turnwise.runs.findings_sink import PartFiles

ANY_TURN = {"detector": "any_turn"}
PRINCIPLES = ("context_integrity", "reciprocity")

Scores = Sequence[float | None]
"""F of the prompt turn by turn against each principle; None where nothing was scored."""


def conversation(
    sequence: str,
    *falsities: float | None,
    label: str = "unlabelled",
    source: str = "logs",
    replies: bool = False,
    prompts: bool = True,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a conversation with F of its prompts (None: not scored), of the second principle half as high."""
    return {
        "sequence": sequence,
        "falsities": falsities,
        "label": label,
        "source": source,
        "replies": replies,
        "prompts": prompts,
        "metadata": metadata or {},
    }


def texts(sequence: str, turn: int) -> tuple[str, str]:
    """Return prompt and response of a turn."""
    return f"{sequence}: what about part {turn}?" + " please" * turn, f"this is part {turn}"


def make_findings(
    folder: str | Path,
    *parts: Sequence[dict[str, Any]],
    texts_kept: bool = True,
    complete: bool = True,
    failures: Sequence[DeadLetter] = (),
    points: Mapping[str, float] | None = None,
) -> str:
    """Write findings of a scan to a path or URL, with the conversations of each part; return where they are."""
    made = []
    for number, conversations in enumerate(parts):
        scores, sequences, turns = _columns(number, conversations)
        counts = Counts(
            rows=len(conversations),
            conversations=len(conversations),
            turns=len(turns["key"]),
            scored=sum(sequences["scored"]),
            scores=len(scores["key"]),
            fired=sum(sequences["fired"]),
            failures=len(failures) if number == 0 else 0,
        )
        made.append(
            {
                "scores": _arrays("scores", scores),
                "sequences": _arrays("sequences", sequences),
                "turns": _arrays("turns", turns) if texts_kept else None,
                "failures": failures if number == 0 else (),
                "counts": counts,
                "first_row": 1 + 2_000 * number,
            }
        )
    manifest = Manifest(
        versions={"turnwise": "1.0", "code": "1.0+abc"},
        run={
            "name": "scan",
            "observer": "scripted:words",
            "observer_version": "1",
            "context": "history",
            "parameters": {},
            "operating_points": dict(points or {"any_turn": 0.5}),
        },
        principles=tuple({"name": name, "revision": "2"} for name in PRINCIPLES),
        detector={"spec": "any_turn", "threshold": 0.5, "threshold_source": "given", "mapping": ANY_TURN},
        reading={"format": "openai"},
        selection={"sides": ["prompt"]},
        part_rows=2_000,
        inputs=(Input("logs.jsonl", 1_000, "sha256:00"),),
    )
    return write_findings(folder, PRINCIPLES, made, manifest, complete=complete)


def write_findings(
    folder: str | Path,
    principles: Sequence[str],
    parts: Sequence[Mapping[str, Any]],
    manifest: Manifest,
    *,
    complete: bool,
) -> str:
    """Write the tables of parts and the manifest as a scan writes them; return where they are."""
    place = Location(str(folder))
    writer = PartFiles(place, principles)
    entries = {number: writer.write(number, **part) for number, part in enumerate(parts)}
    (place / MANIFEST).write(manifest.with_parts(entries, complete=complete).to_json())
    return str(place)


_TYPES: Mapping[str, Any] = {"BIGINT": np.int64, "INTEGER": np.int32, "DOUBLE": np.float64, "BOOLEAN": np.bool_}

_CODES = {"side", "principle"}
"""Columns of scores that the writer takes as numbers."""


def _arrays(table: str, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    kinds = {name: "BIGINT" if name in _CODES else kind for name, kind in COLUMNS[table].items()}
    return {name: np.array(values, _TYPES.get(kinds[name], object)) for name, values in columns.items()}


def _columns(number: int, conversations: Sequence[dict[str, Any]]) -> tuple[dict[str, list[Any]], ...]:
    scores: dict[str, list[Any]] = {name: [] for name in COLUMNS["scores"]}
    sequences: dict[str, list[Any]] = {name: [] for name in COLUMNS["sequences"]}
    turns: dict[str, list[Any]] = {name: [] for name in ("key", "sequence", "turn", "prompt", "response")}

    def add(table: dict[str, list[Any]], *row: Any) -> None:
        for column, value in zip(table.values(), row, strict=True):
            column.append(value)

    for at, one in enumerate(conversations):
        key, name, falsities = number * PLACES + at, one["sequence"], one["falsities"]
        scored = [F for F in falsities if F is not None]
        flag = next((turn for turn, F in enumerate(falsities, 1) if F is not None and F >= 0.5), 0)
        about = (name, one["label"], one["source"], "logs.jsonl", at + 1, len(falsities), bool(scored), flag > 0)
        peak = max(scored, default=float("nan"))
        add(sequences, key, *about, flag, peak, f"digest of {name}", json.dumps(one["metadata"]))
        for turn, F in enumerate(falsities, 1):
            prompt, response = texts(name, turn)
            add(turns, key, name, turn, prompt, response)
            if F is None:
                continue
            sides = ((0, F, len(prompt)), (1, 1 - F, len(response)))
            wanted = one["prompts"], one["replies"]
            for side, value, chars in (some for some, scored in zip(sides, wanted, strict=True) if scored):
                for principle in range(len(PRINCIPLES)):
                    f = value / (principle + 1)
                    add(scores, key, name, turn, side, principle, 1 - f, 0.25, f, F, flag > 0, flag, chars)
    return scores, sequences, turns
