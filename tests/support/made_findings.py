"""Findings of a scan that never was: conversations of given scores, written as a scan writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from found import write_findings

from turnwise.findings import PLACES, Counts, Findings, Input, Manifest, open_findings
from turnwise.observers import OBSERVERS


def make_findings(
    folder: str,
    parts: Sequence[Sequence[float | None]],
    *,
    threshold: float = 0.5,
    texts: bool = True,
    complete: bool = True,
    ids: Sequence[str] | None = None,
    observer: str = "local",
    **detector: Any,
) -> Findings:
    """Write findings and open them; parts have the highest score of each conversation, None for not scored."""
    made = []
    begun = 0
    for number, peaks in enumerate(parts):
        n = len(peaks)
        names = [f"chat-{begun + place}" if ids is None else ids[begun + place] for place in range(n)]
        begun += n
        columns = _columns(number, names, peaks, threshold)
        scored, fired = int(columns["scored"].sum()), int(columns["fired"].sum())
        counts = Counts(rows=n, conversations=n, turns=2 * n, scored=scored, scores=2 * scored, fired=fired)
        kept = _turns(columns) if texts else None
        made.append({"scores": _scores(columns), "sequences": columns, "turns": kept, "counts": counts})
    manifest = Manifest(
        versions={},
        run={
            "name": "scan",
            "observer": observer,
            "observer_version": OBSERVERS.get("local").describe().version,
            "context": "history",
            "parameters": {},
            "operating_points": {},
        },
        principles=({"name": "reciprocity", "revision": "1"},),
        detector={
            "spec": "any_turn",
            "threshold": threshold,
            "threshold_source": "operating point",
            "mapping": {"detector": "any_turn"},
            **detector,
        },
        reading={},
        selection={"sides": ["prompt"]},
        part_rows=max(map(len, parts), default=1),
        inputs=(Input("logs.jsonl", 1, "sha256:0"),),
    )
    return open_findings(write_findings(folder, ["reciprocity"], made, manifest, complete=complete))


def with_counts(findings: Findings, scored: int, fired: int) -> Findings:
    """Return findings as if the scan had come to these totals."""
    totals = replace(findings.manifest.totals, conversations=scored, scored=scored, fired=fired)
    return replace(findings, manifest=replace(findings.manifest, totals=totals))


def _columns(
    number: int, names: Sequence[str], peaks: Sequence[float | None], threshold: float
) -> dict[str, np.ndarray[Any, Any]]:
    n = len(names)
    peak = np.array([np.nan if one is None else one for one in peaks])
    fired = np.nan_to_num(peak, nan=-1.0) >= threshold
    return {
        "key": number * PLACES + np.arange(n),
        "sequence": np.array(names, dtype=object),
        "label": np.array(["unlabelled"] * n, dtype=object),
        "source": np.array(["logs"] * n, dtype=object),
        "file": np.array(["logs.jsonl"] * n, dtype=object),
        "row": np.arange(1, n + 1),
        "turns": np.full(n, 2),
        "scored": ~np.isnan(peak),
        "fired": fired,
        "flag_turn": np.where(fired, 2, 0),
        "peak": peak,
        "digest": np.array(["sha256:0"] * n, dtype=object),
        "metadata": np.array(["{}"] * n, dtype=object),
    }


def _twice(columns: dict[str, np.ndarray[Any, Any]], name: str) -> np.ndarray[Any, Any]:
    return np.repeat(columns[name], 2)


def _turns(columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    n = len(columns["key"])
    return {
        "key": _twice(columns, "key"),
        "sequence": _twice(columns, "sequence"),
        "turn": np.tile([1, 2], n),
        "prompt": np.tile(np.array(["How do tides work?", "And neap tides?"], dtype=object), n),
        "response": np.tile(np.array(["The moon pulls.", None], dtype=object), n),
    }


def _scores(columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    kept = columns["scored"]
    columns = {name: values[kept] for name, values in columns.items()}
    n = len(columns["key"])
    falsity = np.clip(_twice(columns, "peak"), 0, 1)
    return {
        "key": _twice(columns, "key"),
        "sequence": _twice(columns, "sequence"),
        "turn": np.tile([1, 2], n),
        "side": np.zeros(2 * n, dtype=int),
        "principle": np.zeros(2 * n, dtype=int),
        "T": 1 - falsity,
        "I": np.zeros(2 * n),
        "F": falsity,
        "detector_score": falsity,
        "fired": _twice(columns, "fired"),
        "flag_turn": _twice(columns, "flag_turn"),
        "chars": np.full(2 * n, 18),
    }
