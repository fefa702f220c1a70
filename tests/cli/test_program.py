"""The program as a whole: run as a module, its documented options, and its way from a file to a verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from benchmarks.file_to_verdict import Passed, check, stored

import turnwise
from turnwise.cli.app import app


def test_the_package_runs_as_the_command_does() -> None:
    run = [sys.executable, "-m", "turnwise"]
    told = subprocess.run([*run, "--version"], capture_output=True, text=True, check=True)
    assert turnwise.__version__ in told.stdout
    shown = subprocess.run([*run, "import", "--help"], capture_output=True, text=True, check=True)
    assert "turnwise import" in shown.stdout
    refused = subprocess.run(
        [*run, "show", "x", "--store", "none.db"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stderr[:7]) == (1, "error: ")


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


@pytest.mark.parametrize(("count", "files"), [(check, 40), (stored, 96)])
def test_a_verdict_takes_few_files(count, files, monkeypatch):
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    found: Passed = count()
    assert len(found.files) <= files, sorted(found.files)
