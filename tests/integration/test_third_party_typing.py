"""tests/typing as mypy and pyright see it: right plug-ins pass, and each mistake gets the error that it should.

A line with a mistake says ``# type: ignore[...]``, and one that the type checker has no use for is an error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = [ROOT / "tests/typing", ROOT / "examples/plugins/example_plugins"]

pytestmark = pytest.mark.integration


def run(*command: object) -> None:
    done = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_strict(tmp_path: Path) -> None:
    run("mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", PARTS[0])


def test_pyright(tmp_path: Path) -> None:
    settings = {
        "include": list(map(str, PARTS)),
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    run("basedpyright", "--pythonpath", sys.executable, "--project", project)
