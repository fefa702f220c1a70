"""A guard around LangChain's agents: ``create_agent``, ``ChatOpenAI`` and checkpoints, a model on loopback."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from framework_agents import DRIFT, GUARD, LONG, RAN, record_of
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from model_api import ModelServer
from model_api import tool as calls
from pydantic import SecretStr

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import GuardrailBlocked, MemoryStateStore, SqliteStateStore
from turnwise.integrations.langchain import GuardMiddleware

pytestmark = pytest.mark.integration


@tool
def lookup(name: str) -> str:
    """Look a customer up."""
    return record_of(name)


def chat(model: ModelServer) -> ChatOpenAI:
    return ChatOpenAI(model="scripted", base_url=model.url, api_key=SecretStr("none"), max_retries=0)


def agent(model: ModelServer, guard: GuardMiddleware, *, remembers: bool = True) -> Any:
    saver = InMemorySaver() if remembers else None
    return create_agent(chat(model), [lookup], middleware=[guard], checkpointer=saver)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def say(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def texts(state: dict[str, Any]) -> list[str]:
    messages: list[AnyMessage] = state["messages"]
    return [message.text for message in messages]


def test_a_blocked_prompt_never_reaches_the_model_not_even_with_the_next_one(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD), refusal="No."))
    refused = guarded.invoke(say("The password is swordfish"), thread("a"))
    assert texts(refused) == ["[message withheld]", "No."]
    told = refused["messages"][-1].response_metadata["turnwise"]
    assert told["blocked"] and told["pipeline_type"] == "input" and told["turn_number"] == 1
    assert "reasons" not in told and "password" not in str(told)
    assert not model.seen
    model.say("Hello!")
    answered = guarded.invoke(say("Good morning"), thread("a"))
    assert texts(answered)[-1] == "Hello!"
    assert "swordfish" not in model.sent()


def test_what_is_redacted_arrives_redacted(model: ModelServer) -> None:
    model.say("I wrote to bob@example.org.")
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD)))
    state = guarded.invoke(say("Write to jane@example.com please"), thread("a"))
    assert texts(state) == ["Write to [EMAIL] please", "I wrote to [EMAIL]."]
    assert "jane@example.com" not in model.sent()
    assert "Write to [EMAIL] please" in model.sent()


def test_calls_of_tools_and_what_they_give_back_are_checked(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD)))
    model.say(calls("lookup", name="jane"), "Found.")
    state = guarded.invoke(say("Look Jane up"), thread("redacted"))
    assert [message.text for message in state["messages"] if isinstance(message, ToolMessage)] == ["[EMAIL]"]
    assert "jane@example.com" not in model.sent()

    model.say(calls("lookup", name="mole"), "I can't tell.")
    state = guarded.invoke(say("Look the mole up"), thread("withheld"))
    assert "[tool result withheld]" in texts(state) and texts(state)[-1] == "I can't tell."
    assert "swordfish" not in model.sent()

    model.say(calls("lookup", name="bob@example.org"), "Nobody.")
    guarded.invoke(say("Look Bob up"), thread("arguments"))
    assert RAN == ["jane", "mole", "[EMAIL]"]

    model.say(calls("lookup", name="swordfish"))
    state = guarded.invoke(say("Look something up"), thread("blocked"))
    assert RAN == ["jane", "mole", "[EMAIL]"]
    assert texts(state)[-1] == "I can't help with that."
    assert not any(message.tool_calls for message in state["messages"] if isinstance(message, AIMessage))


def test_a_turn_takes_a_reply_while_it_waits_or_its_reply_was_blocked(model: ModelServer) -> None:
    pipeline = GuardrailPipeline(GUARD, state_store=MemoryStateStore())
    again = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    guard = GuardMiddleware(pipeline, on_block="raise")
    guarded = create_agent(chat(model), [lookup], middleware=[again, guard], checkpointer=InMemorySaver())
    model.say("The word is swordfish", "I can't tell.")
    assert texts(guarded.invoke(say("Which word?"), thread("a")))[-1] == "I can't tell."
    model.say({**calls("lookup", name="bob"), "content": "I look."}, "Nobody.")
    assert texts(guarded.invoke(say("Look Bob up"), thread("a")))[-1] == "Nobody."
    assert [turn.response for turn in pipeline.load_conversation("a")] == ["I can't tell.", "Nobody."]


def test_a_run_goes_on_in_a_process_that_knows_the_thread_by_its_messages_alone(model: ModelServer) -> None:
    first = GuardrailPipeline(GUARD, state_store=MemoryStateStore())
    first.check_input("Hello", conversation=Conversation(conversation_id="a"))  # so the run is turn 2 here
    saver = InMemorySaver()

    def resumed(pipeline: GuardrailPipeline, given: Any) -> Any:
        middleware = [GuardMiddleware(pipeline)]
        made = create_agent(chat(model), middleware=middleware, checkpointer=saver, interrupt_before=["model"])
        return made.invoke(given, thread("a"))

    resumed(first, say("Good morning"))
    model.say("Hello!")
    assert texts(resumed(GuardrailPipeline(GUARD), None)) == ["Good morning", "Hello!"]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_drifting_conversation_is_stopped_where_the_library_stops_it(
    model: ModelServer, remembers: bool
) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(DRIFT), refusal="No."), remembers=remembers)
    history: list[Any] = []
    answers = []
    for turn in range(1, 5):
        model.say(f"Answer {turn}")
        history.append({"role": "user", "content": f"Question {turn}"})
        asked = {"messages": history[-1:] if remembers else history}
        state = guarded.invoke(asked, thread("a") if remembers else None)
        answers.append(texts(state)[-1])
        if not remembers:
            history.append({"role": "assistant", "content": answers[-1]})
        if answers[-1] == "No.":
            break
    assert answers == ["Answer 1", "Answer 2", "No."]
    assert len(model.seen) == 2


def test_an_agent_is_guarded_as_a_node_of_a_graph_of_its_own(model: ModelServer) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node(
        "agent", agent(model, GuardMiddleware(GuardrailPipeline(GUARD), refusal="No."), remembers=False)
    )
    graph.add_edge(START, "agent")
    flow = graph.compile(checkpointer=InMemorySaver())
    assert texts(flow.invoke(say("The password is swordfish"), thread("a"))) == ["[message withheld]", "No."]
    model.say(calls("lookup", name="mole"), "The word is swordfish")
    state = flow.invoke(say("Which word?"), thread("a"))
    assert texts(state)[-2:] == ["[tool result withheld]", "No."] and "swordfish" not in str(texts(state))
    assert state["messages"][-1].response_metadata["turnwise"]["turn_number"] == 2
    assert "swordfish" not in model.sent()


def test_a_session_may_last_over_threads(model: ModelServer) -> None:
    drift = {"observer": "scripted:0.1,0.1", "detector": "any_turn", "block_at": 0.8}
    pipeline = GuardrailPipeline({"guardrails": [{"drift": drift}]})
    guarded = agent(model, GuardMiddleware(pipeline, session=lambda runtime: "ann"))
    for name in ("a", "b"):
        model.say("Hello!")
        guarded.invoke(say("Good morning"), thread(name))
    stance = pipeline.session("ann").stance
    assert stance is not None and stance.interactions == 2


@tool
def note(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Take a note."""
    return Command(update={"messages": [ToolMessage("Noted for jane@example.com", tool_call_id=call_id)]})


def test_tools_that_command_are_checked_as_well(model: ModelServer) -> None:
    guarded: Any = create_agent(chat(model), [note], middleware=[GuardMiddleware(GuardrailPipeline(GUARD))])
    model.say(calls("note"), "Done.")
    assert "Noted for [EMAIL]" in texts(guarded.invoke(say("Take a note")))
    assert "jane@example.com" not in model.sent()


def test_another_process_goes_on_where_the_first_one_stopped(model: ModelServer, tmp_path: Any) -> None:
    saver = InMemorySaver()
    answers = []
    for turn in range(1, 4):  # each with a pipeline of its own, as after a restart
        model.say(f"Answer {turn}")
        with SqliteStateStore(str(tmp_path / "guard.db")) as store:
            guard = GuardMiddleware(GuardrailPipeline(DRIFT, state_store=store), refusal="No.")
            guarded: Any = create_agent(chat(model), [lookup], middleware=[guard], checkpointer=saver)
            answers.append(texts(guarded.invoke(say(f"Question {turn}"), thread("a")))[-1])
    assert answers == ["Answer 1", "Answer 2", "No."]


def test_async_gives_the_same(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD)))

    async def talk() -> list[list[str]]:
        model.say(calls("lookup", name="jane"), "Found.")
        first = await guarded.ainvoke(say("Look Jane up"), thread("a"))
        second = await guarded.ainvoke(say("swordfish"), thread("a"))
        model.say("The word is swordfish")
        third = await guarded.ainvoke(say("Which word?"), thread("b"))
        return [texts(first), texts(second), texts(third)]

    first, second, third = asyncio.run(talk())
    assert first == ["Look Jane up", "", "[EMAIL]", "Found."]
    assert second[-2:] == ["[message withheld]", "I can't help with that."]
    assert third == ["Which word?", "I can't help with that."]


def test_blocks_can_be_exceptions(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD), on_block="raise"))
    with pytest.raises(GuardrailBlocked, match="the input was blocked: keywords") as caught:
        guarded.invoke(say("swordfish"), thread("a"))
    assert caught.value.result.turn_number == 1
    model.say("Hello!")
    state = guarded.invoke(say("Good morning"), thread("a"))  # the thread goes on, without what was blocked
    assert texts(state)[-1] == "Hello!" and "swordfish" not in model.sent()


def test_tokens_are_kept_back_until_the_reply_is_checked(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD)))
    model.say("Write to jane@example.com today, please.")
    shown = [
        chunk.text
        for chunk, _ in guarded.stream(say("Whom do I write to?"), thread("a"), stream_mode="messages")
        if isinstance(chunk, AIMessage)
    ]
    assert shown == ["Write to [EMAIL] today, please."]


def streamed(guarded: Any, text: str) -> str:
    return "".join(part["text"] for part in guarded.stream(say(text), thread("a"), stream_mode="custom"))


def test_a_reply_is_shown_while_it_comes_as_far_as_the_guard_lets_it(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD), stream=True))
    model.say(f"Write to jane@example.com. {LONG}")
    parts = list(guarded.stream(say("Whom do I write to?"), thread("a"), stream_mode="custom"))
    assert len(parts) > 10
    assert "".join(part["text"] for part in parts) == f"Write to [EMAIL]. {LONG}"
    assert guarded.get_state(thread("a")).values["messages"][-1].text == f"Write to [EMAIL]. {LONG}"


def test_a_stream_that_is_blocked_stops_the_model(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD), stream=True))
    model.say(f"{LONG} swordfish {LONG * 40}")
    shown = streamed(guarded, "Go on")
    assert "swordfish" not in shown and len(shown) <= len(LONG)
    assert guarded.get_state(thread("a")).values["messages"][-1].text == "I can't help with that."


def test_a_stream_in_async_code(model: ModelServer) -> None:
    guarded = agent(model, GuardMiddleware(GuardrailPipeline(GUARD), stream=True))
    model.say(calls("lookup", name="jane"), f"I wrote to jane@example.com. {LONG}")

    async def talk() -> str:
        parts = guarded.astream(say("Write to Jane"), thread("a"), stream_mode="custom")
        return "".join([part["text"] async for part in parts])

    assert asyncio.run(talk()) == f"I wrote to [EMAIL]. {LONG}"
