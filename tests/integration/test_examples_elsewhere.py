"""The examples in other people's tools, each in an environment that has the real package."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[2] / "examples"
COMMAND = "import sys; from turnwise.cli import main; sys.exit(main())"


def run(package: str, example: str, *arguments: str, **environment: str) -> list[str]:
    """Run an example with the interpreter that ``TURNWISE_<PACKAGE>_PYTHON`` names, or with this one."""
    variable = f"TURNWISE_{package.upper()}_PYTHON"
    python = os.environ.get(variable, sys.executable)
    if python == sys.executable and find_spec(package) is None:
        pytest.skip(
            f"{package} is not installed; {variable} may name the interpreter of an environment that has it"
        )
    done = subprocess.run(
        [python, str(FOLDER / example), *arguments],
        env={**os.environ, "INSPECT_LOG_DIR": "logs", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nemo_guardrails_keep_state_over_turns() -> None:
    first, second, third = run("nemoguardrails", "nemo/chat.py")
    assert first == "modified: My address is [EMAIL]. How do I split bills with my sister fairly?"
    assert second.startswith("passed: ") and third == "blocked: I can't help with that."


def test_pyrit_scores_a_conversation() -> None:
    before, after = run("pyrit", "pyrit_scorer.py")
    assert before.startswith("False: ") and after.startswith("True: ") and "turn 2" in after


def test_inspect_scores_an_evaluation_and_scout_scans_its_log(tmp_path: Path) -> None:
    assert run("inspect_ai", "inspect_scorer.py")[-1] == "fired: 0.5"
    command = tmp_path / "turnwise"
    command.write_text(f"#!{sys.executable}\n{COMMAND}\n")
    command.chmod(0o700)
    found = run("inspect_scout", "inspect_scout_scanner.py", "logs", TURNWISE=str(command))
    assert sorted(line.split(maxsplit=1)[1] for line in found) == ["False", "True"]
