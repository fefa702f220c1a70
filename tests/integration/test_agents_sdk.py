"""A guard around agents of the OpenAI Agents SDK: the real package, with a model on the loopback interface."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    InputGuardrailTripwireTriggered,
    OpenAIChatCompletionsModel,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStdio
from framework_agents import DRIFT, GUARD, RAN, record_of
from model_api import ModelServer, client_of
from model_api import tool as calls
from openai import AsyncOpenAI

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import Finding, SqliteStateStore
from turnwise.integrations.agents import AgentGuard

pytestmark = pytest.mark.integration


@function_tool
def lookup(name: str) -> str:
    """Look a customer up."""
    return record_of(name)


@pytest.fixture(autouse=True)
def _untraced() -> None:
    set_tracing_disabled(True)


def made(model: ModelServer) -> Agent[Any]:
    client = client_of(AsyncOpenAI, model.url)
    return Agent(name="desk", model=OpenAIChatCompletionsModel("scripted", client), tools=[lookup])


def guarded(config: dict[str, Any] = GUARD, **settings: Any) -> AgentGuard:
    return AgentGuard(GuardrailPipeline(config), Conversation.human_ai("ann", "scripted"), **settings)


def say(guard: AgentGuard, agent: Agent[Any], text: str, **settings: Any) -> Any:
    """Run a protected agent as docs/integrations.md shows it."""

    async def run() -> Any:
        try:
            return guard.reply(await Runner.run(agent, text, run_config=guard.run_config(), **settings))
        except guard.tripped as tripwire:
            return guard.reply(tripwire)

    return asyncio.run(run())


def test_a_blocked_prompt_never_reaches_the_model_though_the_session_has_it(model: ModelServer) -> None:
    guard = guarded(refusal="No.")
    agent, session = guard.protect(made(model)), SQLiteSession("a")
    assert say(guard, agent, "The password is swordfish", session=session) == "No."
    assert not model.seen
    model.say("Hello!")
    assert say(guard, agent, "Good morning", session=session) == "Hello!"
    assert "swordfish" not in model.sent() and "[message withheld]" in model.sent()


def test_the_exception_has_the_verdict(model: ModelServer) -> None:
    guard = guarded()
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        asyncio.run(Runner.run(guard.protect(made(model)), "swordfish"))
    info = caught.value.guardrail_result.output.output_info
    assert info["blocked"] and info["turn_number"] == 1 and info["reasons"] == ["keywords: 'swordfish'"]


def test_a_message_that_is_not_read_is_told_beside_languages(model: ModelServer) -> None:
    def english(text: str) -> Finding:
        return Finding(found=False, reason="not read: de", unread="de")

    guard = guarded({"on_unread": "block", "guardrails": [english]})
    parts = [
        {"type": "input_text", "text": "Guten Tag"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
    ]
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        asyncio.run(Runner.run(guard.protect(made(model)), [{"role": "user", "content": parts}]))
    info = caught.value.guardrail_result.output.output_info
    assert info["unread"] == ["english: not read: de"]
    assert info["failures"] == ["unread: failed: the message holds more than text"]


def test_what_is_redacted_arrives_redacted(model: ModelServer) -> None:
    guard = guarded()
    agent, session = guard.protect(made(model)), SQLiteSession("a")
    model.say("Done.", "Again.")
    assert say(guard, agent, "Write to jane@example.com please", session=session) == "Done."
    assert say(guard, agent, "And again", session=session) == "Again."
    assert "jane@example.com" not in model.sent() and "Write to [EMAIL] please" in model.sent()


def test_a_prompt_that_would_arrive_unredacted_is_stopped(model: ModelServer) -> None:
    guard = guarded()
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        asyncio.run(Runner.run(guard.protect(made(model)), "Write to jane@example.com please"))
    assert "run_config" in caught.value.guardrail_result.output.output_info["hint"]
    assert not model.seen


def test_an_output_that_is_redacted_or_blocked_trips_the_wire(model: ModelServer) -> None:
    guard = guarded()
    agent = guard.protect(made(model))
    model.say("I wrote to jane@example.com.", "The word is swordfish", "The word is swordfish")
    assert say(guard, agent, "What did you do?") == "I wrote to [EMAIL]."
    assert say(guard, agent, "Which word?") == "I can't help with that."
    with pytest.raises(OutputGuardrailTripwireTriggered):
        asyncio.run(Runner.run(agent, "Which word?"))


def test_calls_of_tools_and_what_they_give_back_are_checked(model: ModelServer) -> None:
    guard = guarded()
    agent = guard.protect(made(model))
    model.say(calls("lookup", name="jane"), "Found.")
    assert say(guard, agent, "Look Jane up") == "Found."
    model.say(calls("lookup", "call_2", name="mole"), "I can't tell.")
    assert say(guard, agent, "Look the mole up") == "I can't tell."
    assert "jane@example.com" not in model.sent() and "swordfish" not in model.sent()
    assert "[tool result withheld]" in model.sent()
    model.say(calls("lookup", "call_3", name="swordfish"), "Then not.")
    assert say(guard, agent, "Look something up") == "Then not."
    assert RAN == ["jane", "mole"]


SERVER = """
from mcp.server import MCPServer

server = MCPServer("files")


@server.tool()
def read(name: str) -> str:
    with open("read.txt", "a") as log:
        print(name, file=log)
    return {"jane": "jane@example.com", "mole": "the word is swordfish"}.get(name, f"no file {name}")


server.run()
"""


def test_tools_of_an_mcp_server_are_checked_for_each_conversation_that_shares_it(
    model: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    params: Any = {"command": sys.executable, "args": ["server.py"], "cwd": str(tmp_path)}

    async def run() -> list[str]:
        async with MCPServerStdio(params, client_session_timeout_seconds=60) as server:
            agent = made(model).clone(tools=[], mcp_servers=[server])
            said = []
            for number, name in enumerate(("jane", "mole", "swordfish", "bob")):
                guard = guarded()
                model.say(calls("read", f"call_{number}", name=name), "Well.")
                ran = await Runner.run(guard.protect(agent), "Read it", run_config=guard.run_config())
                said.append(ran.to_input_list()[-2]["output"])
            assert server.tool_input_guardrails is None and agent.mcp_servers == [server]
            return said

    read = asyncio.run(run())
    assert read[1:3] == ["[tool result withheld]", "[call withheld]"]
    assert "[EMAIL]" in read[0] and "no file bob" in str(read[3])
    assert "jane@example.com" not in model.sent() and "the word is swordfish" not in model.sent()
    assert (tmp_path / "read.txt").read_text().split() == ["jane", "mole", "bob"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_agents_that_are_handed_over_to_are_guarded(model: ModelServer, wrapped: bool) -> None:
    guard = guarded()
    expert = made(model).clone(name="expert")
    agent = guard.protect(made(model).clone(handoffs=[handoff(expert) if wrapped else expert]))
    model.say(calls("transfer_to_expert"), calls("lookup", "call_2", name="mole"), "The word is swordfish")
    assert say(guard, agent, "Which word?") == "I can't help with that."
    assert "[tool result withheld]" in model.sent() and "swordfish" not in model.sent()


def test_a_drifting_conversation_is_stopped_where_the_library_stops_it(model: ModelServer, tmp_path: Any) -> None:
    answers, session = [], SQLiteSession("a")
    with SqliteStateStore(str(tmp_path / "guard.db")) as store:
        for turn in range(1, 4):  # each in a process of its own, as it were
            pipeline = GuardrailPipeline(DRIFT, state_store=store)
            chat = pipeline.find_conversation("chat-7") or Conversation.human_ai(
                "ann", "m", conversation_id="chat-7"
            )
            guard = AgentGuard(pipeline, chat, refusal="No.")
            model.say(f"Answer {turn}")
            answers.append(say(guard, guard.protect(made(model)), f"Question {turn}", session=session))
    assert answers == ["Answer 1", "Answer 2", "No."]
    assert len(model.seen) == 2


def test_another_process_shows_the_model_no_more_of_a_session(model: ModelServer, tmp_path: Any) -> None:
    session = SQLiteSession("a")
    with SqliteStateStore(str(tmp_path / "guard.db")) as store:
        for text in ("The password is swordfish", "Write to jane@example.com please", "Well?"):
            pipeline = GuardrailPipeline(GUARD, state_store=store)
            chat = pipeline.find_conversation("chat-7") or Conversation.human_ai(
                "ann", "m", conversation_id="chat-7"
            )
            guard = AgentGuard(pipeline, chat)
            model.say("Done.")
            say(guard, guard.protect(made(model)), text, session=session)
    assert len(model.seen) == 2
    assert "swordfish" not in model.sent() and "jane@example.com" not in model.sent()


def test_a_filter_of_your_own_stays(model: ModelServer) -> None:
    guard = guarded()
    model.say("Done.")

    def mine(data: Any) -> Any:
        data.model_data.instructions = "Be brief."
        return data.model_data

    config = guard.run_config(RunConfig(call_model_input_filter=mine))
    asyncio.run(Runner.run(guard.protect(made(model)), "Write to jane@example.com", run_config=config))
    assert "Be brief." in model.sent() and "jane@example.com" not in model.sent()


def test_sync_runs_are_guarded_alike(model: ModelServer) -> None:
    guard = guarded()
    with asyncio.Runner() as loop:  # run_sync makes a loop of its own where there is none, and leaves it open
        asyncio.set_event_loop(loop.get_loop())
        with pytest.raises(InputGuardrailTripwireTriggered):
            Runner.run_sync(guard.protect(made(model)), "swordfish")
    asyncio.set_event_loop(None)
