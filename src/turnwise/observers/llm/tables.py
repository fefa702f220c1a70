"""Reading the two tables, of providers and of prices: what ships, and what a user's file adds."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from turnwise.errors import ObserverError


def user_file(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where a user's own table would be: a file in the folder of turnwise's configuration.

    Args:
        name: such as ``"prices.toml"``.
        environ: the environment; ``XDG_CONFIG_HOME`` moves the folder away from ``~/.config``.
    """
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(home) / "turnwise" / name


def read_tables(name: str, file: Path | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the table that ships and the user's, each with where it is from, for messages.

    Args:
        name: such as ``"prices.toml"``.
        file: the user's file; None for `user_file`, which may be absent.

    Raises:
        ObserverError: the file can't be read, or is no TOML.
    """
    shipped = tomllib.loads(resources.files("turnwise.observers.llm").joinpath(name).read_text("utf-8"))
    own = user_file(name) if file is None else file
    if file is None and not own.exists():
        return [(name, shipped)]
    try:
        return [(name, shipped), (str(own), tomllib.loads(own.read_text("utf-8")))]
    except OSError as error:
        raise ObserverError(f"can't read {own}: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ObserverError(f"{own}: no valid TOML: {error}") from error


def entry(where: str, name: str, value: object, known: Collection[str]) -> dict[str, Any]:
    """Return an entry of a table after checking that it is one and has no unknown key.

    Raises:
        ObserverError: it is no table, or has a key that nobody reads.
    """
    if not isinstance(value, dict):
        raise ObserverError(f"{where}: [{name}] must be a table with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise ObserverError(f"{where}: [{name}] has no key {key!r}; known: {', '.join(known)}")
    return value
