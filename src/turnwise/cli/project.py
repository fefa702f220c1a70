"""``turnwise.toml``: the store, run and observer of a project, and ``turnwise status``, which says what holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from turnwise.cli import options
from turnwise.cli.output import print_json, print_table, say
from turnwise.errors import UsageError

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


def _source(option: str, context: typer.Context) -> str:
    source = context.get_parameter_source(option)
    return "DEFAULT" if source is None else source.name


def status(
    context: typer.Context,
    store: options.Store = options.DEFAULT_STORE,
    run: options.Run = None,
    observer: options.ObserverName = None,
    json: options.Json = False,
) -> None:
    """Show which store, run and observer commands use here, and where each setting comes from."""
    from turnwise.store import shown_location

    told = {
        "COMMANDLINE": "command line",
        "ENVIRONMENT": "TURNWISE_STORE",
        "DEFAULT_MAP": str(find_project().path),
        "DEFAULT": "default",
    }
    values = {"store": shown_location(store), "run": run, "observer": observer}
    rows = {
        name: {"value": value, "from": told.get(_source(name, context), "default")}
        for name, value in values.items()
    }
    if json:
        print_json(rows)
        return
    shown = ((name, row["value"] or "each command's own", str(row["from"])) for name, row in rows.items())
    print_table(("setting", "value", "from"), shown)
    if not Path(store).exists() and "://" not in store:
        say(f"There is no store {store} yet: turnwise import makes one.")
