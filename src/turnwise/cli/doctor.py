"""``turnwise doctor``: what is installed, whether it is whole, and what commands use here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import print_json, print_table, say, say_paragraphs
from turnwise.cli.project import settings_here
from turnwise.errors import TurnwiseError

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
        bool,
        typer.Option("--report", help="Print what a bug report needs: no path, name or text is in it."),
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
            ((name, row["value"] or "each command's own", str(row["from"])) for name, row in rows),
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
