"""The same scan under every engine: identical bytes, and for a language model one budget and one pace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, scores_by_text

from turnwise.errors import ObserverError
from turnwise.runs import Engine, make_engine, plan_scan

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default::ResourceWarning")]

WORKERS = 2

INPUT, OUTPUT = 0.4, 1.6
"""US dollars for a million tokens of gpt-4.1-mini."""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Have one Ray for all tests, whose workers find the key of the server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-of-a-test")
        with make_engine("ray", WORKERS).cluster():
            yield


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of forty conversations, some of which begin alike, with a line that is none."""
    file = tmp_path_factory.mktemp("logs") / "chats.jsonl"
    lines = []
    for number in range(40):
        said = [
            "Hello there",
            "Hi!",
            f"Tell me about bridge {number % 7}",
            "It is long. " * (number % 5),
            "Thanks",
        ]
        roles = ["user", "assistant"] * 3
        messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
        lines.append(json.dumps({"id": f"chat {number}", "messages": messages}))
    lines.insert(11, "no conversation")
    file.write_text("\n".join(lines))
    return file


def engines() -> dict[str, Engine]:
    return {name: make_engine(name, WORKERS) for name in ("inline", "process", "ray")}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_engine_writes_the_same_bytes(logs: Path, tmp_path: Path) -> None:
    written = {}
    for name, engine in engines().items():
        result = plan_scan(logs, tmp_path / name, observer="local-small", part_rows=10).run(engine)
        assert (result.counts.conversations, result.counts.failures) == (40, 1)
        written[name] = contents(tmp_path / name)
    assert written["inline"] == written["process"] == written["ray"]


@pytest.mark.parametrize("name", ["inline", "process", "ray"])
def test_workers_spend_at_most_the_budget_together(name: str, logs: Path, tmp_path: Path) -> None:
    budget, paid = 0.02, []

    def answer(body: dict[str, Any]) -> str:
        text = scores_by_text(body)
        prompt = sum(len(one["content"]) for one in body["messages"]) // 4
        paid.append((prompt * INPUT + len(text) // 4 * OUTPUT) / 1e6)
        return text

    with ChatServer(answer, key="sk-of-a-test") as server:
        settings = {"base_url": server.url, "budget_usd": budget, "max_failures_in_row": 0}
        with pytest.raises(ObserverError, match=r"the budget of \$0\.02 is used up"):
            plan_scan(
                logs,
                tmp_path / "found",
                observer="llm:openai/gpt-4.1-mini",
                settings=settings,
                part_rows=10,
                threads=2,
            ).run(engines()[name])
    assert 0.5 * budget < sum(paid) <= budget


@pytest.mark.parametrize("name", ["process", "ray"])
def test_workers_keep_to_one_pace(name: str, tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    lines = [json.dumps({"messages": [{"role": "user", "content": f"number {n}"}]}) for n in range(4)]
    file.write_text("\n".join(lines))
    times: list[float] = []

    def answer(body: dict[str, Any]) -> str:
        times.append(time.monotonic())
        return scores_by_text(body)

    with ChatServer(answer, key="sk-of-a-test") as server:
        plan_scan(
            file,
            tmp_path / "found",
            observer="llm:openai/gpt-4.1-mini",
            settings={"base_url": server.url, "requests_per_minute": 120},
            part_rows=1,
            threads=3,
        ).run(engines()[name])
    assert len(times) == 12
    # Eleven distances of half a second. Two workers that kept to it each by itself would need half of that.
    assert max(times) - min(times) >= 4
