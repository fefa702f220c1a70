"""``turnwise`` without a command: what is in this folder, and which command comes next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from turnwise.cli.project import find_project
from turnwise.errors import TurnwiseError

_DATA = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".jsonl.zst")
_MOST = 200
"""Files of a folder that are looked at."""

_SQLITE = b"SQLite format 3\0"


def next_steps() -> list[str]:
    """Lines that say what there is here and what to run next."""
    files = _files(Path())
    told: list[str] = []
    project = os.environ.get("TURNWISE_STORE") or find_project().values.get("store")
    stores = [project] if project else [str(path) for path in files if _is_store(path)]
    for store in stores[:3]:
        told += _of_store(store)
    findings = [path for path in files if path.is_dir() and (path / "manifest.json").is_file()]
    for path in findings[:3]:
        told += [
            f"{path} has findings of a scan. Read what matters first:",
            f"  turnwise judgements inbox --store {path}",
        ]
    data = [path for path in files if path.is_file() and path.name.endswith(_DATA)]
    if data and not stores:
        told += [
            f"{data[0]} may hold conversations. Put them into a store, then score them:",
            f"  turnwise import {data[0]} --store work.db",
            "  turnwise evaluate --store work.db --run first",
        ]
    if not told:
        told = [
            "There is nothing of turnwise in this folder. See it work on the conversations that ship:",
            "  turnwise demo",
            "Check one text with the guard:",
            "  turnwise guard check 'My SSN is 123-45-6789'",
        ]
    return [*told, "All commands: turnwise --help"]


def _files(folder: Path) -> list[Path]:
    """What is in a folder, by name, without what is hidden; a folder that is gone has nothing."""
    try:
        return sorted(path for path in _some(folder) if not path.name.startswith("."))
    except OSError:
        return []


def _some(folder: Path) -> Iterator[Path]:
    for count, path in enumerate(folder.iterdir()):
        if count == _MOST:
            return
        yield path


def _is_store(path: Path) -> bool:
    import sqlite3
    from contextlib import closing

    try:
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                return False
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            names = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (OSError, sqlite3.Error):
        return False
    return {"sequences", "runs"} <= names


def _of_store(name: str) -> list[str]:
    from turnwise.store import Store

    try:
        with Store(name) as store:
            counts, runs = store.counts(), [run.name for run in store.runs()]
    except TurnwiseError as error:
        return [f"{name} can't be read: {error}", f"  turnwise doctor --store {name}"]
    holds = f"{name} has {counts['sequences']} conversations"
    if not runs:
        return [f"{holds}, and no score yet. Score them:", f"  turnwise evaluate --store {name} --run first"]
    parts = {run for run in runs for other in runs if run.startswith(f"{other}.")}  # of a second look
    run = next(run for run in reversed(runs) if run not in parts)
    return [
        f"{holds}, scored in the run {run}. Read what matters first, ask, or look at it in a browser:",
        f"  turnwise judgements inbox --store {name} --run {run}",
        f"  turnwise query 'slope(reciprocity.F) > 0.1' --store {name} --run {run}",
        f"  turnwise explore --store {name}",
    ]
