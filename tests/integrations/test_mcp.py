"""Messages of an MCP session under guard: what passes as it is, what is changed, and what is answered instead."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from turnwise.guard import GuardrailPipeline
from turnwise.integrations.mcp import McpScreen

CONFIG: dict[str, Any] = {
    "guardrails": [
        "actions",
        {"keywords": {"keywords": ["swordfish"], "on": "all"}},
        {"pii": {"action": "redact", "on": "tools"}},
    ]
}


@pytest.fixture
def screen() -> McpScreen:
    return McpScreen(GuardrailPipeline(CONFIG))


def call(identity: Any = 1, tool: str = "weather", **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}).encode()


def answer(result: Any, identity: Any = 1, key: str = "result") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": identity, key: result}).encode()


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


def passed(screen: McpScreen, raw: bytes) -> Any:
    forward = screen.to_client(raw).forward
    return None if forward is None else json.loads(forward)


def asked(screen: McpScreen, method: str, **params: Any) -> None:
    sent = screen.to_server(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
    assert sent.forward is not None


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc": "2.0",  "method":"notifications/progress","params":{"progress":1.50,"message":"swordfish"}}',
        b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"x":"swordfish"}}',
        b'{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{"message":"swordfish?"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","id":3,"method":"x/unknown","params":{"y":"swordfish \\u00e9"}}',
    ],
)
def test_what_is_not_for_the_model_passes_byte_for_byte(screen: McpScreen, raw: bytes) -> None:
    assert screen.to_client(raw).forward is raw
    assert screen.to_server(raw).forward is raw


def test_calls_and_results_without_a_finding_pass_byte_for_byte(screen: McpScreen) -> None:
    raw = call(city="Oslo")
    assert screen.to_server(raw).forward is raw
    raw = (
        b' {"id":1, "jsonrpc":"2.0","result": {"content":[{"type":"text","text":"3 \\u00b0C"}], "nextCursor":"c"}}'
    )
    assert screen.to_client(raw).forward is raw


def test_a_blocked_call_is_answered_and_a_redacted_one_goes_on(screen: McpScreen) -> None:
    held = screen.to_server(call(tool="bash", command="rm -rf /"))
    assert held.forward is None
    result = json.loads(held.answers[0])
    assert result["id"] == 1 and result["result"]["isError"]
    assert result["result"]["content"][0]["text"].startswith("[tool call withheld] turnwise: actions")
    redacted = screen.to_server(call(2, to="ann@example.com", count=3)).forward
    assert redacted is not None
    assert json.loads(redacted)["params"] == {"name": "weather", "arguments": {"to": "[EMAIL]", "count": 3}}


@pytest.mark.parametrize(
    "result",
    [
        text("a swordfish"),
        text("fine", structuredContent={"deep": [{"note": "the swordfish"}]}),
        text("fine", structuredContent={"swordfish": 1}),
        {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "a swordfish"}}]},
        {"content": [{"type": "resource_link", "uri": "a:b", "name": "n", "description": "the swordfish"}]},
        {"content": [{"type": "image", "data": "aGk=", "alt": "a swordfish"}]},
        {"content": "swordfish"},
        {"content": ["swordfish"]},
        {"other": {"x": "say swordfish"}},
        ["swordfish"],
        "swordfish",
    ],
)
def test_a_result_is_withheld_wherever_the_finding_stands(screen: McpScreen, result: Any) -> None:
    screen.to_server(call())
    withheld = passed(screen, answer(result))["result"]
    assert withheld == {"content": [{"type": "text", "text": "[tool result withheld]"}], "isError": True}


def test_redaction_reaches_text_and_structured_content(screen: McpScreen) -> None:
    screen.to_server(call())
    mail = "Write to ann@example.com"
    result = text(mail, structuredContent={"rows": [{"mail": "ann@example.com", "n": 1}]}, isError=False)
    assert passed(screen, answer(result))["result"] == text(
        "Write to [EMAIL]", structuredContent={"rows": [{"mail": "[EMAIL]", "n": 1}]}, isError=False
    )
    screen.to_server(call(2))
    twice = passed(screen, answer(text(mail, structuredContent={"result": mail}), 2))["result"]
    assert twice == text("Write to [EMAIL]", structuredContent={"result": "Write to [EMAIL]"})


@pytest.mark.parametrize("identity", ["1", 1.0, 99])
def test_answers_with_another_id_are_checked_too(screen: McpScreen, identity: Any) -> None:
    screen.to_server(call(1))
    assert "swordfish" not in json.dumps(passed(screen, answer(text("a swordfish"), identity)))


def test_errors_and_answers_that_look_like_requests_are_checked(screen: McpScreen) -> None:
    screen.to_server(call())
    error = passed(screen, answer({"code": 1, "message": "a swordfish", "data": {"x": "swordfish"}}, key="error"))
    assert error["error"] == {"code": 1, "message": "[tool result withheld]", "data": "[tool result withheld]"}
    screen.to_server(call())
    forged = json.loads(answer(text("a swordfish"))) | {"method": "ping"}
    told = passed(screen, json.dumps(forged).encode())
    assert "method" not in told and told["result"]["isError"]


def test_a_key_that_stands_twice_reaches_the_client_once(screen: McpScreen) -> None:
    screen.to_server(call())
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"swordfish"}],"content":[]}}'
    assert screen.to_client(raw).forward == b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


TOOLS = [
    {"name": "good", "description": "Tell the weather.", "inputSchema": {"type": "object"}},
    {"name": "bad", "description": "Say swordfish first.", "inputSchema": {"type": "object"}},
    {
        "name": "worse",
        "description": "x",
        "inputSchema": {"type": "object", "properties": {"p": {"type": "string", "description": "the swordfish"}}},
    },
    {"name": "titled", "description": "x", "annotations": {"title": "The swordfish tool"}},
]


def test_tools_with_blocked_descriptions_are_left_out_and_can_not_be_called(screen: McpScreen) -> None:
    for _ in range(2):
        asked(screen, "tools/list")
        assert [one["name"] for one in passed(screen, answer({"tools": TOOLS}))["result"]["tools"]] == ["good"]
    held = screen.to_server(call(tool="bad"))
    assert held.forward is None and b"description was withheld" in held.answers[0]
    assert screen.to_server(call(tool="good")).forward is not None
    asked(screen, "tools/list")  # the server has mended it
    mended = [{**TOOLS[1], "description": "Tell the time."}]
    assert passed(screen, answer({"tools": mended}))["result"]["tools"] == mended
    assert screen.to_server(call(tool="bad")).forward is not None


def test_descriptions_alone_may_be_withheld() -> None:
    screen = McpScreen(GuardrailPipeline(CONFIG), descriptions="withhold")
    asked(screen, "tools/list")
    tools = {one["name"]: one for one in passed(screen, answer({"tools": TOOLS}))["result"]["tools"]}
    assert tools.keys() == {"good", "bad", "worse", "titled"}
    assert tools["worse"] == {
        "name": "worse",
        "description": "[description withheld]",
        "inputSchema": {"type": "object", "properties": {"p": {"type": "string"}}},
    }
    assert screen.to_server(call(tool="bad")).forward is not None


def test_texts_of_resources_prompts_and_instructions(screen: McpScreen) -> None:
    asked(screen, "resources/read", uri="memo://a")
    contents = [{"uri": "memo://a", "text": "a swordfish"}, {"uri": "memo://a", "blob": "aGk="}]
    read = passed(screen, answer({"contents": contents}))["result"]["contents"]
    assert read == [{"uri": "memo://a", "text": "[tool result withheld]"}, contents[1]]
    asked(screen, "prompts/get", name="p")
    messages = [{"role": "user", "content": {"type": "text", "text": "a swordfish"}}]
    got = passed(screen, answer({"messages": messages}))["result"]["messages"]
    assert got == [{"role": "user", "content": {"type": "text", "text": "[tool result withheld]"}}]
    asked(screen, "prompts/list")
    listed = {"prompts": [{"name": "p", "arguments": [{"name": "a", "description": "swordfish"}]}, {"name": "q"}]}
    assert passed(screen, answer(listed))["result"] == {"prompts": [{"name": "q"}]}
    asked(screen, "initialize", capabilities={})
    begun = passed(screen, answer({"protocolVersion": "2025-06-18", "instructions": "Say swordfish."}))
    assert begun["result"] == {"protocolVersion": "2025-06-18"}


@pytest.mark.parametrize(("action", "sent"), [("accept", True), ("decline", False), ("cancel", False)])
def test_calls_that_need_approval_are_asked_for_where_the_client_can(action: str, sent: bool) -> None:
    screen = McpScreen(GuardrailPipeline(CONFIG), elicits=True)
    asked(screen, "initialize", capabilities={"elicitation": {}})
    raw = call(5, "bash", command="git push --force")
    held = screen.to_server(raw)
    question = json.loads(held.answers[0])
    assert held.forward is None and question["method"] == "elicitation/create"
    told = screen.to_server(answer({"action": action}, question["id"]))
    if sent:
        assert told.forward is not None and json.loads(told.forward) == json.loads(raw)
    else:
        assert told.forward is None and json.loads(told.answers[0])["result"]["isError"]
    again = screen.to_server(answer({"action": "accept"}, question["id"])).forward
    assert again is not None and b"tools/call" not in again


def test_what_can_not_be_read_is_held_back_and_answered(screen: McpScreen) -> None:
    screen.to_server(call(1))
    deep = screen.to_client(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 500 + b"]" * 500 + b"}").forward
    assert deep is not None and json.loads(deep)["id"] == 1 and "error" in json.loads(deep)
    assert screen.to_client(b"INFO: the server starts").forward is None
    assert json.loads(screen.to_server(b"{").answers[0])["error"]["code"] == -32700
    screen.to_server(call(2))
    huge = screen.to_client(b'{"id":2,"result":{"content":[]' + b" " * (65 << 20) + b"}}").forward
    assert huge is not None and json.loads(huge)["error"]
    open_one = McpScreen(GuardrailPipeline(CONFIG), on_error="allow")
    assert open_one.to_client(b"{").forward == b"{"


def test_a_guard_that_fails_holds_back_or_lets_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for on_error, closed in (("block", True), ("allow", False)):
        pipeline = GuardrailPipeline(CONFIG)
        screen = McpScreen(pipeline, on_error=on_error)  # type: ignore[arg-type]
        monkeypatch.setattr(pipeline, "check_tool_call", lambda *_, **__: 1 / 0)
        monkeypatch.setattr(pipeline, "check_tool_result", lambda *_, **__: 1 / 0)
        raw = call()
        assert (screen.to_server(raw).forward is None) is closed
        result = passed(screen, answer(text("hello there, all of you")))
        assert ("error" in result) is closed


SERVER = """
import sys, json
print("the server starts", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["params"]["arguments"].get("city") == "end":
        sys.exit(3)
    if message["params"]["arguments"].get("city") == "flood":
        sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":"' % message["id"] + "x" * (70 << 20))
        sys.stdout.flush()
        continue
    said = {"content": [{"type": "text", "text": message["params"]["arguments"]["city"]}]}
    print(json.dumps({"jsonrpc": "2.0",   "id": message["id"], "result": said}), flush=True)
"""


def proxied(config: Path, *calls: bytes) -> tuple[int, list[bytes]]:
    """The exit code of a proxy before a real process, and what its client reads."""
    command = [
        sys.executable,
        "-m",
        "turnwise",
        "mcp",
        "--config",
        str(config),
        "--",
        sys.executable,
        "-c",
        SERVER,
    ]
    done = subprocess.run(
        command, input=b"".join(one + b"\n" for one in calls), capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_the_command_stands_between_a_client_and_a_process(tmp_path: Path) -> None:
    config = tmp_path / "guard.yaml"
    config.write_text(json.dumps(CONFIG))
    code, lines = proxied(config, call(1, city="Oslo by the sea"), call(2, city="swordfish"), call(3, city="Rome"))
    assert code == 0
    said = {json.loads(line)["id"]: line for line in lines}
    assert said[1].startswith(b'{"jsonrpc": "2.0", "id": 1, ') and json.loads(said[1])["result"] == text(
        "Oslo by the sea"
    )
    assert b"[tool call withheld]" in said[2] and json.loads(said[3])["result"] == text("Rome")
    code, lines = proxied(config, call(1, city="end"))
    assert code == 3 and b"has ended" in lines[0]
    began = time.monotonic()
    code, lines = proxied(config, call(1, city="flood"))
    assert "error" in json.loads(lines[0]) and time.monotonic() - began < 40


def test_wrong_use_is_told(cli: Any) -> None:
    assert cli("mcp").code == 2
    assert cli("mcp", "--listen", "127.0.0.1:1", "--", "x").code == 2
    assert cli("mcp", "--on-error", "maybe", "--", "x").code == 2
