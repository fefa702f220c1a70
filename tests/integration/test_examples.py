"""The examples of other people's packages, with the real ones."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[2] / "examples"
SHOWN = {
    "openai_client.py": ("You said: I am [EMAIL].", "blocked: prompt_injection", "You said: And when"),
    "langchain_agent.py": ("-> Ask [EMAIL], he knows.", "-> We open at nine."),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_script_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    told = capsys.readouterr().out
    assert [line for line in SHOWN[name] if line not in told] == [], told
