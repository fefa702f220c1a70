"""The folder in which turnwise runs: ``turnwise.toml``, what comes next, and ``turnwise doctor``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import print_json, print_table, say, say_paragraphs
from turnwise.errors import TurnwiseError, UsageError

FILE = "turnwise.toml"
"""Its name; the nearest one counts, in the working directory or above it."""

KEYS = ("store", "run", "observer")
"""What it may say, a text each: the same as the options of these names where they are not given."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says, by key; `path` is None where there is no file."""

    path: Path | None
    values: Mapping[str, str]


def find_project() -> Project:
    """What the nearest project file says. A store in it that is a relative path lies beside the file."""
    try:
        folder = Path.cwd()
        path = next((one / FILE for one in (folder, *folder.parents) if (one / FILE).is_file()), None)
    except OSError:  # a working directory that is gone or closed has no project
        path = None
    if path is None:
        return Project(None, {})
    import tomllib

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be read as TOML: {error}") from error
    for key, value in values.items():
        if key not in KEYS:
            raise UsageError(f"{path}: unknown key {key!r}; the keys are {', '.join(KEYS)}")
        if not isinstance(value, str) or not value:
            raise UsageError(f'{path}: {key} must be text, such as {key} = "work", not {value!r}')
    if "store" in values and "://" not in values["store"]:
        values["store"] = str(path.parent / values["store"])
    return Project(path, values)


def defaults_of(command: Any, values: Mapping[str, str]) -> dict[str, Any]:
    """The defaults that a project file gives the options of a command and of those below it."""
    defaults: dict[str, Any] = {
        option.name: [values[option.name]] if getattr(option, "multiple", False) else values[option.name]
        for option in command.params
        if option.name in values and f"--{option.name}" in option.opts
    }
    for name, below in getattr(command, "commands", {}).items():
        defaults[name] = defaults_of(below, values)
    return defaults


def settings_here(context: typer.Context) -> dict[str, dict[str, str | None]]:
    """Store, run and observer that commands use here, by name: the value, and where it comes from."""
    from turnwise.store import shown_location

    told = {
        "COMMANDLINE": "command line",
        "ENVIRONMENT": "TURNWISE_STORE",
        "DEFAULT_MAP": str(find_project().path),
    }
    rows: dict[str, dict[str, str | None]] = {}
    for name in KEYS:
        value, source = context.params[name], context.get_parameter_source(name)
        rows[name] = {
            "value": shown_location(value) if name == "store" else value,
            "from": told.get("" if source is None else source.name, "default"),
        }
    return rows


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
        return sorted(path for path in islice(folder.iterdir(), _MOST) if not path.name.startswith("."))
    except OSError:
        return []


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


_OBSERVERS = "local", "local-small"


@dataclass(frozen=True, slots=True)
class Health:
    """What was looked at, what was found, and whether it is as it should be."""

    about: str
    found: str
    well: bool = True


def doctor(
    context: typer.Context,
    store: options.Store = options.DEFAULT_STORE,
    run: options.Run = None,
    observer: options.ObserverName = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print what a bug report needs: no path, name or text is in it.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Check the installation, weights and store, and show which settings commands use here.

    Exits with 1 where something is broken.
    """
    installed, health = _installed(), [*map(_weights, _OBSERVERS), _store(store)]
    extras = _extras()
    if json or report:
        told: dict[str, Any] = {
            "installed": installed,
            "extras": {name: lacking or "installed" for name, lacking in extras.items()},
            "health": {one.about: {"found": one.found, "well": one.well} for one in health},
        }
        if not report:
            told["settings"] = settings_here(context)
        print_json(told)
    else:
        print_table(("installed", "version"), installed.items())
        ready = [name for name, lacking in extras.items() if not lacking]
        say_paragraphs(f"Extras that are installed: {', '.join(ready) or 'none'}")
        print_table(
            ("checked", "found", ""), ((one.about, one.found, "well" if one.well else "BROKEN") for one in health)
        )
        rows = settings_here(context).items()
        print_table(
            ("setting", "value", "from"),
            ((name, row["value"] or "each command's own", row["from"]) for name, row in rows),
        )
        say("For a bug report, turnwise doctor --report prints this without paths and names.")
    if not all(one.well for one in health):
        raise typer.Exit(1)


def _installed() -> dict[str, str]:
    """Versions of turnwise, its code, Python, the system and the libraries of the core."""
    import platform

    from turnwise._support.revision import versions

    system = f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} processors"
    core = [name for name, extra in _requirements() if not extra]
    return {**versions(sorted(core)), "system": system}


def _requirements() -> list[tuple[str, str]]:
    """Names of the packages that turnwise requires, each with its extra, or with nothing for the core."""
    from importlib.metadata import requires

    found: list[tuple[str, str]] = []
    for text in requires("turnwise") or ():
        name = "".join(takewhile(lambda sign: sign.isalnum() or sign in "-_.", text))
        found.append((name, text.partition("extra == ")[2].strip("\"')")))
    return found


def _extras() -> dict[str, list[str]]:
    """What each extra lacks, by name."""
    from importlib.metadata import PackageNotFoundError, version

    lacking: dict[str, list[str]] = {}
    for name, extra in _requirements():
        if extra and name != "turnwise":
            missing = lacking.setdefault(extra, [])
            try:
                version(name)
            except PackageNotFoundError:
                missing.append(name)
    return dict(sorted(lacking.items()))


def _weights(name: str) -> Health:
    from turnwise.observers.local.weights import load_weights, shipped

    try:
        return Health(f"weights of {name}", f"sha256 {load_weights(shipped(name)).sha256[:16]}")
    except TurnwiseError as error:
        return Health(f"weights of {name}", type(error).__name__ + ": reinstall turnwise", well=False)


def _store(location: str) -> Health:
    """Whether the store opens and holds what it says; nothing of what is in it."""
    import sqlite3
    from contextlib import closing

    from turnwise.store import Store

    kind = location.partition("://")[0] if "://" in location else "file"
    if kind == "file" and not Path(location).exists():
        return Health("store", "none here yet: turnwise import makes one")
    try:
        if kind == "file" and Path(location).is_file():
            with closing(sqlite3.connect(f"file:{Path(location).resolve()}?mode=ro", uri=True)) as file:
                (said,) = file.execute("PRAGMA quick_check(1)").fetchone()
            if said != "ok":
                return Health("store", "SQLite finds the file damaged: restore a copy", well=False)
        with Store(location) as opened:
            counts = opened.counts()
            for _ in opened.sequences():
                pass
            for one in opened.runs():
                for _ in opened.trajectories(one.name):
                    pass
    except (TurnwiseError, sqlite3.Error) as error:
        why = f"{type(error).__name__}: turnwise runs list tells more"
        return Health("store", f"{kind}, can't be read ({why})", well=False)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Health("store", f"{kind}, {told}")
