"""``turnwise hook``: what coding agents ask before and after they act."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli.guard import ConfigFile, Preset
from turnwise.errors import UsageError


def hook(
    preset: Preset = None,
    config: ConfigFile = None,
    on_error: Annotated[
        str, typer.Option(metavar="ask|allow|deny", help="The answer where an event can't be checked.")
    ] = "ask",
    agent: Annotated[
        str, typer.Option(metavar="auto|claude|codex", help="Whose hook it is; auto tells by the event.")
    ] = "auto",
) -> None:
    """Answer a hook event of Claude Code or Codex on standard input, by default with the preset agent.

    A helper stays in the background after the first event, and ends when none came for half an hour.
    """
    from turnwise.integrations.hook_client import AGENTS, ON_ERROR, HookSettings, run

    if preset is not None and config is not None:
        raise UsageError("--preset and --config name a configuration each: give one of them")
    if on_error not in ON_ERROR or agent not in AGENTS:
        raise UsageError(f"--on-error must be one of {', '.join(ON_ERROR)}; --agent one of {', '.join(AGENTS)}")
    raise typer.Exit(run(HookSettings(preset, config, on_error, agent)))
