"""``turnwise presets`` and ``turnwise guardrails``: what a guard may be made of."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

import typer

from turnwise.cli import options
from turnwise.cli.output import say, say_text

presets = typer.Typer(
    help="The configurations of the guard that ship: list, show, copy.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name: TypeAlias = Annotated[str, typer.Argument(help="Name of the preset.", show_default=False)]


@presets.command("list")
def list_(json: options.Json = False) -> None:
    """List the presets."""
    from turnwise.cli.guard_options import wrapped
    from turnwise.cli.output import print_json
    from turnwise.guard.config import preset_names, preset_summary

    if json:
        print_json([{"name": name, "summary": preset_summary(name)} for name in preset_names()])
        return
    for name in preset_names():
        say(*wrapped(f"{name:<20} {preset_summary(name)}", hanging=" " * 21))


@presets.command()
def show(name: Name, json: options.Json = False) -> None:
    """Print the YAML of a preset."""
    from turnwise.cli.output import print_json
    from turnwise.guard.config import preset_text
    from turnwise.guard.yaml_lines import read_yaml

    text = preset_text(name)
    if json:
        print_json(read_yaml(text, f"preset {name}")[0])
    else:
        say_text(text)


@presets.command()
def copy(
    name: Name,
    file: Annotated[str, typer.Argument(help="File to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: options.Json = False,
) -> None:
    """Copy a preset to a file of your own, to be changed and given as --config."""
    from turnwise.cli.files import writing
    from turnwise.cli.output import print_json
    from turnwise.guard.config import preset_text

    text = preset_text(name)
    with writing(file, taken=None if force else "give another name, or --force to write over it") as target:
        target.write(text)
    if json:
        print_json({"preset": name, "file": file})
    else:
        say(f"{file} written; change it, and name it with --config {file}")


def guardrails(json: options.Json = False) -> None:
    """List the guardrails with their settings."""
    from turnwise.cli.listings import print_rows
    from turnwise.guard import describe_guardrails

    rows = [
        {
            "name": info.name,
            "settings": {name: _plain(default) for name, default in info.settings.items()},
            "summary": info.summary,
        }
        for info in describe_guardrails()
    ]
    print_rows(rows, json)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)
