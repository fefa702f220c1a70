"""``python -m turnwise``: the command line without the script."""

from __future__ import annotations

import subprocess
import sys

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
