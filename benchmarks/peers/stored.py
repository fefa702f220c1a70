"""Verdicts of `turnwise.check` from a store in which `local` has scored the same conversations before."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from turnwise.observers import build_observer
from turnwise.runs import detect
from turnwise.store import Store

RUN = "local-history"
"""Run of the embedded observer, as benchmarks/judged.py makes it."""


def write_stored(store: Path, wanted: Collection[str], target: Path) -> int:
    """Write the verdicts of conversations that a run has scored whole, unless there are any; return how many.

    Args:
        store: made by ``benchmarks/judged.py --store``, with the observer whose weights ship. The same detectors
            as in `turnwise.check` judge its scores.
        wanted: ids of conversations.
        target: JSON lines as measuring.py writes them, without times.

    Raises:
        SystemExit: the run was made with other weights.
    """
    if target.exists():
        return 0
    with Store(str(store)) as opened:
        made, ships = opened.run(RUN).observer_version, build_observer("local").info.version
        if made != ships:
            raise SystemExit(f"{store}: run {RUN} is by local {made}, and {ships} ships: make it anew")
        known = {head.sequence_id for head in opened.heads()} & set(wanted)
        fired: dict[str, list[tuple[int, str]]] = {}
        for one in detect(opened, RUN, ids=sorted(known)):
            if one.verdict is not None and not one.missing:
                told = fired.setdefault(one.head.sequence_id, [])
                if one.verdict.turn is not None:
                    told.append((one.verdict.turn, one.verdict.detector))
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as out:
        for name, told in fired.items():
            at = min((turn for turn, _ in told), default=None)
            row = {"id": name, "blocked_at": at, "warned_at": None, "by": [by for _, by in told], "failed": None}
            out.write(json.dumps({**row, "ms": []}) + "\n")
    return len(fired)
