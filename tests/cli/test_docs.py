"""docs/cli.md names every command and option with its help."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from turnwise.cli.app import app

DOCS = Path(__file__).parent.parent.parent / "docs" / "cli.md"
COMMANDS = typer.main.get_group(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    _, _, section = DOCS.read_text(encoding="utf-8").partition(f"## `turnwise {name}`")
    section = section.partition("\n## ")[0]
    assert (COMMANDS[name].help or "").split("\n")[0] in section
    for parameter in COMMANDS[name].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert option.strip("-") in section, f"{option} of turnwise {name}; see the top of docs/cli.md"
        explained = getattr(parameter, "help", None)
        assert not explained or explained in section, f"{parameter.name} of turnwise {name}"


def test_nothing_is_documented_that_is_not_there() -> None:
    headings = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("## `turnwise ")]
    assert headings == [f"## `turnwise {name}`" for name in COMMANDS]


def test_summaries_are_whole() -> None:
    cut = [
        line
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if line.startswith("* `") and line.endswith("...")
    ]
    assert not cut
