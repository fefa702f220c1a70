"""The command ``turnwise``: one file for each command, each a thin layer over the library."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from turnwise.cli.demo_run import demo_observer, run_demo

__all__ = ["demo_observer", "main", "run_demo"]

_NAME_SHOWN = 80
"""Characters of a file name that an error shows."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code.

    Exit codes: 0 all is well, 1 an error, 2 wrong use, 3 ran fine and found something (only where asked for
    with ``--fail-on-findings``), 130 interrupted.
    """
    _give_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["hook"]:  # asked at every call of a coding agent: without the other commands
        from turnwise.integrations.hook_client import HookSettings, run

        settings = HookSettings.read(given[1:])
        if settings is not None:
            sys.exit(run(settings))
    from turnwise.cli.app import app
    from turnwise.cli.output import keep_quiet, print_error
    from turnwise.errors import TurnwiseError, UsageError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal or file can't encode is shown as an escape
            stream.reconfigure(errors="backslashreplace")
    keep_quiet(False)
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="turnwise")
    except TurnwiseError as error:
        print_error(f"error: {error}")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:  # a full disk, a name that is too long: what is found only where the file is used
        _let_go_of_output()
        about = "" if error.filename is None else f": {str(error.filename)[:_NAME_SHOWN]!r}"
        print_error(f"error: {error.strerror or error}{about}")
        sys.exit(1)


def _give_streams() -> None:
    """Replace standard streams that are closed, as those of a service may be.

    Results that nobody can read are an error: a command that says 0 has told what it found.
    """
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stderr = sys.stderr or _nowhere("w")
    if sys.stdout is None:
        sys.stdout = _nowhere("w")
        sys.stderr.write("error: standard output is closed: there is nowhere to print results to\n")
        sys.exit(1)


def _nowhere(mode: str) -> TextIO:
    return cast("TextIO", Path(os.devnull).open(mode, encoding="utf-8"))


def _let_go_of_output() -> None:
    """Discard what could not be written, so that the process can end without trying again."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def __getattr__(name: str) -> object:
    if name in ("demo_observer", "run_demo"):  # which bring the observers with them
        from turnwise.cli import demo_run

        return getattr(demo_run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
