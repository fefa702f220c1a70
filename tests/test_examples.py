"""examples/: every script and notebook runs as it stands and says what it is there to show."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SHOWN = {
    "guard_a_bot.py": ("or on [PHONE]", "turn 3: blocked, prompt_injection"),
    "stream_a_reply.py": ("Write to [EMAIL]", "-> blocked: True keywords: 'Project Heron'"),
    "remember_over_restarts.py": (
        "turn 2 of chat-7, 2 in the session",
        "forgotten on request: 1 session, 1 conversation",
    ),
    "compare_detectors.py": ("693 scores of 38 conversations", "attack: fired on 5/18 = 27.8 % [9.7, 53.5]"),
    "scan_a_log.py": ("38 conversations with 231 turns: 693 scores", "gradual_drift matches 14 of 38"),
    "fastapi_chat.py": ("You asked: I am [EMAIL]", "'blocked': True"),
    "forensics_of_a_chat.py": ("drift began at turn 2", "written: forensics.html"),
}
"""What each script says, in part. Those of other people's packages are tried in tests/integration."""

ELSEWHERE = {
    "inspect_scorer.py",
    "inspect_scout_scanner.py",
    "langchain_agent.py",
    "openai_client.py",
    "pyrit_scorer.py",
}
NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)


def test_no_script_is_left_out() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {*SHOWN, *ELSEWHERE}


def test_the_page_names_every_example() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = [path for path in (*FOLDER.glob("*.py"), *NOTEBOOKS) if f"({path.relative_to(FOLDER)})" not in page]
    assert not named


@pytest.mark.parametrize("name", SHOWN)
def test_the_script_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    told = capsys.readouterr().out
    assert [line for line in SHOWN[name] if line not in told] == [], told


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_stored_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert cell["id"]
        assert cell["metadata"] == {}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_cell_by_cell(path: Path) -> None:
    """What a cell ends in has to show itself as a table or a chart, or as a line of text."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            shown += _shows(_run(path, "".join(cell["source"]), names))
    assert shown >= 3


def _run(path: Path, source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line; None where that is a statement."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(path), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(path), "eval"), names) if last else None


def _shows(value: Any) -> bool:
    if hasattr(value, "_repr_mimebundle_"):
        return bool(value._repr_mimebundle_())
    return hasattr(value, "_repr_html_") and bool(value._repr_html_())
