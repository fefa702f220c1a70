"""``turnwise.toml``: the store, run and observer of a project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

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
