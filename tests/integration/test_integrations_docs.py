"""What docs/integrations.md shows works, with a model on the loopback interface in place of OpenAI's."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from pathlib import Path

import agents
import pytest
from model_api import ModelServer
from model_api import tool as calls

pytestmark = [
    pytest.mark.integration,
    # The pieces are short, and leave clients and loops for the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")


def pieces(title: str) -> list[str]:
    """Return the pieces of Python of one part of the page."""
    part = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found: list[str] = re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)
    return found


def run(*titles: str) -> None:
    names: dict[str, object] = {}
    for title in titles:
        for piece in pieces(title):
            exec(compile(piece, "docs/integrations.md", "exec"), names)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelServer]:
    monkeypatch.chdir(tmp_path)
    with ModelServer() as served:
        for provider in ("OPENAI", "SCRIPTED"):
            monkeypatch.setenv(f"{provider}_BASE_URL", served.url)
            monkeypatch.setenv(f"{provider}_API_KEY", "none")
        monkeypatch.setenv("INSPECT_EVAL_MODEL", "openai-api/scripted/scripted")
        monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
        yield served
    gc.collect()


def test_langchain_and_langgraph(model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model.say(calls("weather", city="Oslo"), "It is.", "Oslo lies on a fjord.", "No.")
    run("LangChain", "LangGraph")
    assert capsys.readouterr().out == "It is.\nOslo lies on a fjord.No.\n"


def test_agents_sdk(model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    agents.set_tracing_disabled(True)
    agents.set_default_openai_api("chat_completions")
    model.say(calls("temperature", city="Oslo"), "It is.")
    run("OpenAI Agents SDK")
    assert capsys.readouterr().out == "It is.\n"


def test_pydantic_ai(model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model.say(calls("temperature", city="Oslo"), "It is.", "No.")
    run("Pydantic AI")
    assert capsys.readouterr().out == "It is.\nNo.\n"


def test_opentelemetry(model: ModelServer, tmp_path: Path) -> None:
    run("OpenTelemetry")
    assert (tmp_path / "audit.jsonl").is_file()


def test_inspect_ai(model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model.say("I can't.")
    run("inspect_ai")
    shown = capsys.readouterr().out
    assert "any_turn" in shown and "inspect_evals/strong_reject" in shown
