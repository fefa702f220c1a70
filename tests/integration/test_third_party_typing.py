"""tests/typing as pyright sees it: right plug-ins pass, and each mistake gets the error that it should.

mypy reads the same files, strictly, wherever it reads the source (pyproject.toml). A line with a mistake says
``# type: ignore[...]``, and one that the type checker has no use for is an error.
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


def test_pyright(tmp_path: Path) -> None:
    settings = {
        "include": list(map(str, PARTS)),
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--project", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
