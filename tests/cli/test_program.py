"""The program as a whole: run as a module, its summaries, and its way from a file to a verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.file_to_verdict import Passed, check, stored

import turnwise


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


def test_summaries_are_whole() -> None:
    page = Path(__file__).parents[2] / "docs" / "cli.md"  # which tests/test_contributing.py keeps current
    summaries = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("* `")]
    assert summaries and not [line for line in summaries if line.endswith("...")]


@pytest.mark.parametrize(("count", "files"), [(check, 40), (stored, 96)])
def test_a_verdict_takes_few_files(count, files, monkeypatch):
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    found: Passed = count()
    assert len(found.files) <= files, sorted(found.files)
