"""Server and client of the official MCP SDK run unchanged through the guard, over stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

from mcp import Client, StdioServerParameters  # noqa: E402
from mcp_types import ElicitResult  # noqa: E402

SERVER = str(Path(__file__).parents[1] / "support" / "mcp_server.py")
PROXY = [sys.executable, "-m", "turnwise", "mcp"]
CONFIG = """
guardrails:
  - actions
  - keywords: {keywords: [swordfish], on: all}
  - secrets: {action: redact, on: all}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, env=os.environ.copy(), stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(20)


class Servers:
    """Servers of the SDK over HTTP, that answer with streams or with JSON, started once; and what each ran."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._ports: dict[bool, int] = {}
        self.ran: Counter[bool] = Counter()

    def port(self, json: bool) -> int:
        if json not in self._ports:
            port = self._ports[json] = free_port()
            command = [sys.executable, SERVER, str(port), *(["--json"] if json else [])]
            self._stack.enter_context(running(command, port))
        return self._ports[json]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


@contextmanager
def reached(servers: Servers, transport: str, *options: str) -> Iterator[Any]:
    """What a client connects to: the server behind the guard."""
    if transport == "stdio":
        yield stdio([*PROXY, *options, "--", sys.executable, SERVER, "stdio"])
        return
    url = f"http://127.0.0.1:{servers.port('json' in transport)}/mcp"
    if transport.startswith("url"):
        yield stdio([*PROXY, *options, "--url", url])
        return
    own = free_port()
    with running([*PROXY, *options, "--url", url, "--listen", f"127.0.0.1:{own}"], own):
        yield f"http://127.0.0.1:{own}/mcp"


def stdio(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))


def talk(target: Any, say: Callable[[Any], Awaitable[Any]], mode: str, **more: Any) -> Any:
    async def whole() -> Any:
        async with asyncio.timeout(90), Client(target, mode=mode, **more) as client:
            return await say(client)

    return asyncio.run(whole())


def text(result: Any) -> str:
    return "".join(block.text for block in result.content)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "guard.yaml"
    path.write_text(CONFIG)
    return str(path)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "url", "url-json", "listen", "listen-json"])
def test_the_sdk_runs_through_the_guard(
    servers: Servers, transport: str, mode: str, config: str, tmp_path: Path
) -> None:
    steps: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, message))

    async def say(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert {one.name for one in tools} == {
            "weather",
            "forecast",
            "bash",
            "read_key",
            "read_page",
            "slow",
            "ask",
            "fail",
        }
        assert text(await client.call_tool("weather", {"city": "Oslo"})) == "Oslo: 3 degrees"
        many = await asyncio.gather(*(client.call_tool("weather", {"city": f"c{at}"}) for at in range(20)))
        assert [text(one) for one in many] == [f"c{at}: 3 degrees" for at in range(20)]
        forecast = await client.call_tool("forecast", {"city": "Oslo", "days": 3})
        assert forecast.structured_content == {"Oslo": [0, 1, 2]}
        denied = await client.call_tool("bash", {"command": "sudo rm -rf /"})
        assert denied.is_error and text(denied).startswith("[tool call withheld] turnwise: actions: destroy")
        asked = await client.call_tool("bash", {"command": "git push --force"})
        assert asked.is_error and "needs the user's approval" in text(asked)
        gone = await client.call_tool("poisoned", {"path": "x"})
        assert gone.is_error and "description" in text(gone)
        first = await client.call_tool("bash", {"command": "ls"})
        ran = 1
        if transport != "stdio":
            servers.ran["json" in transport] += 1
            ran = servers.ran["json" in transport]
        assert text(first) == f"ran {ran}: ls"  # what was denied never ran
        key = await client.call_tool("read_key", {})
        assert (
            "AKIA" not in text(key)
            and "and more" in text(key)
            and "AKIA" not in json.dumps(key.structured_content)
        )
        page = await client.call_tool("read_page", {})
        assert text(page) == "[tool result withheld]" and page.structured_content is None
        assert text(await client.call_tool("fail", {})) == "[tool result withheld]"
        await client.call_tool("slow", {}, progress_callback=progress)
        assert "sailors" in (await client.read_resource("memo://plain")).contents[0].text
        assert (await client.read_resource("memo://bad")).contents[0].text == "[tool result withheld]"
        assert "hello" in (await client.get_prompt("review", {"text": "hello"})).messages[0].content.text
        hidden = await client.get_prompt("review", {"text": "swordfish"})
        assert hidden.messages[0].content.text == "[tool result withheld]"
        if mode == "legacy":
            await client.send_ping()

    audit = tmp_path / "audit.jsonl"
    with reached(servers, transport, "--config", config, "--audit", str(audit)) as target:
        talk(target, say, mode)
    if "json" not in transport and (mode == "legacy" or transport == "stdio"):
        assert steps == [(step, f"step {step} of the swordfish") for step in range(3)]
    assert "AKIA" not in audit.read_text() and '"outcome":"blocked"' in audit.read_text().replace(" ", "")


@pytest.mark.parametrize("transport", ["stdio", "url", "listen"])
def test_questions_of_a_server_reach_the_user(servers: Servers, transport: str, config: str) -> None:
    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"colour": "green"})

    async def say(client: Any) -> str:
        return text(await client.call_tool("ask", {}))

    with reached(servers, transport, "--config", config) as target:
        assert talk(target, say, "legacy", elicitation_callback=answer) == "accept: colour='green'"


@pytest.mark.parametrize(("action", "ran"), [("accept", True), ("decline", False)])
def test_calls_that_need_approval_are_put_to_the_user(
    servers: Servers, action: str, ran: bool, config: str
) -> None:
    questions: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    async def say(client: Any) -> Any:
        return await client.call_tool("bash", {"command": "git push --force"})

    with reached(servers, "stdio", "--config", config) as target:
        result = talk(target, say, "legacy", elicitation_callback=answer)
    assert len(questions) == 1 and "git history" in questions[0]
    assert text(result).startswith("ran 1") is ran and bool(result.is_error) is not ran


def test_descriptions_may_be_withheld_alone(servers: Servers, config: str) -> None:
    async def say(client: Any) -> Any:
        tool = next(one for one in (await client.list_tools()).tools if one.name == "poisoned")
        return tool.description, text(await client.call_tool("poisoned", {"path": "x"}))

    with reached(servers, "stdio", "--config", config, "--descriptions", "withhold") as target:
        assert talk(target, say, "legacy") == ("[description withheld]", "x")
